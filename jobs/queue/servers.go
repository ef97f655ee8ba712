package queue

import (
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// redisTimeout bounds one Redis command, unless the URL sets another limit. The client tries four
// times.
const redisTimeout = time.Second

// servers are the options of the Redis servers that hold the queue. Exactly one field is set.
type servers struct {
	single   *redis.Options
	sentinel *redis.FailoverOptions
	cluster  *redis.ClusterOptions
}

var (
	errURL    = errors.New("the Redis URL cannot be read")
	errScheme = errors.New("the Redis URL must start with redis://, redis-sentinel:// or redis-cluster://, " +
		"or with rediss for TLS")
	errDatabase = errors.New("the Redis URL names a database, and a cluster has only one")
	errMaster   = errors.New("the Redis URL must name the master that the sentinels watch: ?master=name")
)

// CheckURL returns an error that describes the fault of a Redis URL; see Options.RedisURL. The
// error never quotes the URL, which may contain a password.
func CheckURL(rawURL string) error {
	_, err := parseURL(rawURL)
	return err
}

// parseURL reads
//
//	redis://[user:password@]host[:port][/number]
//	redis-sentinel://[user:password@]host[:port],…[/number]?master=name[&sentinel_user=…&sentinel_password=…]
//	redis-cluster://[user:password@]host[:port],…
//
// and the same schemes with rediss for TLS. It translates the last two to the URLs that go-redis
// parses, which have one host and list the others as parameters.
func parseURL(rawURL string) (*servers, error) {
	scheme, rest, _ := strings.Cut(rawURL, "://")
	plain, form, _ := strings.Cut(scheme, "-")
	if plain != "redis" && plain != "rediss" || scheme != plain && form != "sentinel" && form != "cluster" {
		return nil, errScheme
	}
	if rest == "" || rest[0] == '/' || rest[0] == '?' {
		return nil, errURL
	}

	switch form {
	case "sentinel":
		return parseSentinel(plain, rest)
	case "cluster":
		return parseCluster(plain, rest)
	}

	o, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, errURL
	}

	setTimeouts(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout)
	o.ContextTimeoutEnabled = true
	o.MaintNotificationsConfig = noMaintenanceNotices()

	return &servers{single: o}, nil
}

func parseSentinel(scheme, rest string) (*servers, error) {
	u, query, err := splitHosts(scheme, rest, "26379")
	if err != nil {
		return nil, err
	}
	if query.Get("master") == "" {
		return nil, errMaster
	}

	// A sentinel URL of go-redis has the sentinels' user before the @, and the Redis servers' user
	// as a parameter. Our URLs have them the other way round.
	query.Set("master_name", query.Get("master"))

	if u.User != nil {
		password, _ := u.User.Password()
		query.Set("username", u.User.Username())
		query.Set("password", password)
	}

	u.User = url.UserPassword(query.Get("sentinel_user"), query.Get("sentinel_password"))

	for _, ours := range []string{"master", "sentinel_user", "sentinel_password"} {
		query.Del(ours)
	}

	u.RawQuery = query.Encode()
	o, err := redis.ParseFailoverURL(u.String())
	if err != nil {
		return nil, errURL
	}

	setTimeouts(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout)
	o.ContextTimeoutEnabled = true
	checkEachName(o.TLSConfig)

	return &servers{sentinel: o}, nil
}

func parseCluster(scheme, rest string) (*servers, error) {
	u, query, err := splitHosts(scheme, rest, "6379")
	if err != nil {
		return nil, err
	}

	// A cluster has database 0 alone.
	switch database := strings.Trim(u.Path, "/"); database {
	case "", "0":
	default:
		if _, err := strconv.Atoi(database); err != nil {
			return nil, errURL
		}

		return nil, errDatabase
	}

	u.RawQuery = query.Encode()
	o, err := redis.ParseClusterURL(u.String())
	if err != nil {
		return nil, errURL
	}

	setTimeouts(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout)
	o.ContextTimeoutEnabled = true
	o.MaintNotificationsConfig = noMaintenanceNotices()
	checkEachName(o.TLSConfig)

	return &servers{cluster: o}, nil
}

// splitHosts reads a URL with several hosts, after its scheme. It returns a URL with the first
// host, and its parameters with the other hosts as addr. A host without a port gets the given port.
func splitHosts(scheme, rest, port string) (*url.URL, url.Values, error) {
	end := strings.IndexAny(rest+"/", "/?")
	authority, tail := rest[:end], rest[end:]
	user, hosts := "", authority

	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, hosts = authority[:at+1], authority[at+1:]
	}

	var addrs []string
	for host := range strings.SplitSeq(hosts, ",") {
		addr, ok := withPort(host, port)
		if !ok {
			return nil, nil, errURL
		}

		addrs = append(addrs, addr)
	}

	u, err := url.Parse(scheme + "://" + user + addrs[0] + tail)
	if err != nil {
		return nil, nil, errURL
	}

	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, nil, errURL
	}

	query["addr"] = addrs[1:]
	return u, query, nil
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

// setTimeouts sets the timeouts that the URL did not set.
func setTimeouts(timeouts ...*time.Duration) {
	for _, timeout := range timeouts {
		if *timeout == 0 {
			*timeout = redisTimeout
		}
	}
}

// checkEachName makes a TLS configuration check the name of the server that is connected to.
// go-redis' parsers set the name of the first one.
func checkEachName(c *tls.Config) {
	if c != nil {
		c.ServerName, c.MinVersion = "", tls.VersionTLS12
	}
}

// noMaintenanceNotices turns off a protocol of one vendor's servers, which others answer with an
// error.
func noMaintenanceNotices() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// connect returns a client that reports the outcome of each command to m. It connects when it is
// used.
func connect(s *servers, m *monitor) redis.UniversalClient {
	// go-redis prints a line to stderr for every failed attempt to connect, dozens in a minute. The
	// monitor logs an outage once.
	redis.SetLogger(&logging.VoidLogger{})

	var client redis.UniversalClient

	switch {
	case s.cluster != nil:
		client = redis.NewClusterClient(s.cluster)
	case s.sentinel != nil:
		client = redis.NewFailoverClient(s.sentinel)
	default:
		client = redis.NewClient(s.single)
	}

	client.AddHook(m)
	return client
}
