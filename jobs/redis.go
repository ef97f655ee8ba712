package jobs

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// redisServers is where the queue lives: one of the three forms.
type redisServers struct {
	single   *redis.Options
	sentinel *redis.FailoverOptions
	cluster  *redis.ClusterOptions
}

// CheckRedisURL reports what is wrong with the address of a Redis; see Options.
func CheckRedisURL(rawURL string) error {
	_, err := parseRedisURL(rawURL)
	return err
}

var errRedisURL = errors.New("the Redis URL cannot be read")

// parseRedisURL reads
//
//	redis://[user:password@]host[:port][/number]
//	redis-sentinel://[user:password@]host[:port],…[/number]?master=name[&sentinel_user=…&sentinel_password=…]
//	redis-cluster://[user:password@]host[:port],…
//
// and the same with rediss for TLS. Its errors never repeat the address: it may hold a password.
func parseRedisURL(rawURL string) (*redisServers, error) {
	scheme, rest, _ := strings.Cut(rawURL, "://")
	plain, form, _ := strings.Cut(scheme, "-")
	if plain != "redis" && plain != "rediss" || scheme != plain && form != "sentinel" && form != "cluster" {
		return nil, errors.New("the Redis URL must start with redis://, redis-sentinel:// or redis-cluster://, or with rediss for TLS")
	}
	if rest == "" || rest[0] == '/' || rest[0] == '?' {
		return nil, errRedisURL
	}

	if form == "" {
		o, err := parseSingle(rawURL)
		return &redisServers{single: o}, err
	}

	// What go-redis reads is a URL with one host and without our own parameters.
	hosts, path, query := rest, "", ""
	hosts, query, _ = strings.Cut(hosts, "?")
	hosts, path, _ = strings.Cut(hosts, "/")
	user := ""

	if at := strings.LastIndexByte(hosts, '@'); at >= 0 {
		user, hosts = hosts[:at+1], hosts[at+1:]
	}

	parameters, err := url.ParseQuery(query)
	if err != nil {
		return nil, errRedisURL
	}

	own := map[string]string{}
	for _, name := range []string{"master", "sentinel_user", "sentinel_password"} {
		own[name] = parameters.Get(name)
		parameters.Del(name)
	}

	port := "6379"

	if form == "sentinel" {
		port = "26379"
	}

	var addrs []string
	for host := range strings.SplitSeq(hosts, ",") {
		addr, ok := withPort(host, port)
		if !ok {
			return nil, errRedisURL
		}

		addrs = append(addrs, addr)
	}

	first, _, _ := strings.Cut(hosts, ",")
	o, err := parseSingle(plain + "://" + user + first + "/" + path + "?" + parameters.Encode())
	if err != nil {
		return nil, err
	}

	if form == "cluster" {
		if o.DB != 0 {
			return nil, errors.New("the Redis URL names a database, and a cluster has only one")
		}

		return &redisServers{cluster: clusterOptions(o, addrs)}, nil
	}

	if own["master"] == "" {
		return nil, errors.New("the Redis URL must name the master that the sentinels watch: ?master=name")
	}

	f := failoverOptions(o, addrs, own["master"])
	f.SentinelUsername, f.SentinelPassword = own["sentinel_user"], own["sentinel_password"]
	return &redisServers{sentinel: f}, nil
}

// withPort returns host:port, with the given port unless the host has one.
func withPort(host, port string) (string, bool) {
	if _, own, err := net.SplitHostPort(host); err == nil {
		_, err := strconv.ParseUint(own, 10, 16)
		return host, err == nil && !strings.HasPrefix(host, ":")
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return net.JoinHostPort(host, port), host != ""
}

func parseSingle(rawURL string) (*redis.Options, error) {
	o, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, errRedisURL
	}

	for _, timeout := range []*time.Duration{&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout} {
		// the URL may say otherwise
		if *timeout == 0 {
			*timeout = redisTimeout
		}
	}

	o.ContextTimeoutEnabled = true
	return o, nil
}

func clusterOptions(o *redis.Options, addrs []string) *redis.ClusterOptions {
	return &redis.ClusterOptions{
		Addrs: addrs, Username: o.Username, Password: o.Password, TLSConfig: forAnyHost(o.TLSConfig),
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, ContextTimeoutEnabled: true,
	}
}

func failoverOptions(o *redis.Options, addrs []string, master string) *redis.FailoverOptions {
	return &redis.FailoverOptions{
		MasterName: master, SentinelAddrs: addrs, Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: forAnyHost(o.TLSConfig),
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, ContextTimeoutEnabled: true,
	}
}

// forAnyHost makes a TLS configuration check each server's own name, not that of the first.
func forAnyHost(c *tls.Config) *tls.Config {
	if c != nil {
		c = c.Clone()
		c.ServerName = ""
	}
	return c
}

// connect returns a client that tells w how Redis does. It connects when it is used.
func connect(s *redisServers, w *watch) redis.UniversalClient {
	// go-redis would print a line to stderr for every failed attempt to connect, dozens in a
	// minute. The watch says it once.
	redis.SetLogger(&logging.VoidLogger{})

	// of one vendor's servers
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	var client redis.UniversalClient

	switch {
	case s.cluster != nil:
		s.cluster.MaintNotificationsConfig = quiet
		client = redis.NewClusterClient(s.cluster)
	case s.sentinel != nil:
		client = redis.NewFailoverClient(s.sentinel)
	default:
		s.single.MaintNotificationsConfig = quiet
		client = redis.NewClient(s.single)
	}

	client.AddHook(w)
	return client
}

// refusalPause is how long a failed command takes at least. asynq asks for the next task as soon as
// the last question was answered, even with an error: without a pause, a Redis that refuses at once
// would keep a core busy.
const refusalPause = 250 * time.Millisecond

// settle is how long Redis must have failed before that is worth a line, and how long after the
// last failure asynq may still complain of it: connections come and go, and when Redis returns the
// client repeats an old error now and then.
const settle = 3 * time.Second

// watch sees the outcome of every command. It logs when Redis stops doing its work and when it does
// it again, once each.
type watch struct {
	log *slog.Logger

	mu     sync.Mutex
	since  time.Time // the first failure after the last success; zero: none
	failed time.Time // the last failure
	said   bool      // that Redis is away
}

// troubled reports whether Redis fails, or did a moment ago.
func (w *watch) troubled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.since.IsZero() || time.Since(w.failed) < settle
}

// failing reports whether the last command failed.
func (w *watch) failing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.since.IsZero()
}

// away reports whether commands have failed for so long that it was logged.
func (w *watch) away() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said
}

// note takes the outcome of a command.
func (w *watch) note(err error) {
	if errors.Is(err, redis.ErrClosed) || errors.Is(err, context.Canceled) {
		// says nothing about Redis; the client also gives the end of one command's attempt to
		// connect to another one
		return
	}

	// not the program's clock: only time that passes matters here
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()

	if !outage(err) {
		if w.said {
			w.log.Info("the queue is back", "after", now.Sub(w.since))
		}

		w.since, w.said = time.Time{}, false
		return
	}

	w.failed = now
	if w.since.IsZero() {
		w.since = now
	}

	if !w.said && now.Sub(w.since) >= settle {
		w.said = true
		w.log.Error("the queue is away; workers take due work from the database", "error", err)
	}
}

// outage reports whether err means that Redis is not there or does not serve us, rather than an
// ordinary answer.
func outage(err error) bool {
	if err == nil || errors.Is(err, redis.Nil) || errors.Is(err, redis.ErrClosed) || errors.Is(err, context.Canceled) {
		return false
	}

	answer, ok := errors.AsType[redis.Error](err)
	if !ok {
		// no answer at all
		return true
	}

	code, _, _ := strings.Cut(answer.Error(), " ")
	switch code {
	case "NOAUTH", "WRONGPASS", "NOPERM",
		// we are not let in
		"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", // it is not ready, or not the one in charge
		"OOM", "MISCONF", "NOREPLICAS": // it takes no writes
		return true
	}

	return strings.HasPrefix(answer.Error(), "ERR max number of clients")
}

// DialHook implements redis.Hook. A failed attempt to connect is none of its business: the client
// makes several.
func (w *watch) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (w *watch) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		began := time.Now()
		err := next(ctx, cmd)
		w.took(ctx, began, err)
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (w *watch) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		began := time.Now()
		err := next(ctx, cmds)
		w.took(ctx, began, err)
		return err
	}
}

// took notes a command's outcome, and makes it take its least time if it failed.
func (w *watch) took(ctx context.Context, began time.Time, err error) {
	w.note(err)

	if !outage(err) {
		return
	}

	select {
	case <-ctx.Done():
	case <-time.After(refusalPause - time.Since(began)):
	}
}
