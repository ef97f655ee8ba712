package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// redisOptions reads redis://[user:password@]host[:port][/number], or rediss:// for TLS. Its errors never repeat the address:
// it may hold a password.
func redisOptions(rawURL string) (*redis.Options, error) {
	scheme, _, _ := strings.Cut(rawURL, "://")
	switch scheme {
	case "redis", "rediss":
	case "redis-sentinel", "redis-cluster":
		return nil, fmt.Errorf("the Redis URL must name a single server: %s:// is not supported yet", scheme)
	default:
		return nil, errors.New("the Redis URL must start with redis:// or rediss://")
	}
	o, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, errors.New("the Redis URL cannot be read")
	}
	for _, timeout := range []*time.Duration{&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout} {
		if *timeout == 0 { // the URL may say otherwise
			*timeout = redisTimeout
		}
	}
	o.ContextTimeoutEnabled = true
	return o, nil
}

// connect returns a client that tells w how Redis does. It connects when it is used.
func connect(o *redis.Options, w *watch) *redis.Client {
	// go-redis would print a line to stderr for every failed attempt to connect, dozens in a minute. The watch says it once.
	redis.SetLogger(&logging.VoidLogger{})
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled} // of one vendor's servers
	client := redis.NewClient(o)
	client.AddHook(w)
	return client
}

// refusalPause is how long a failed command takes at least. asynq asks for the next task as soon as the last question was
// answered, even with an error: without a pause, a Redis that refuses at once would keep a core busy.
const refusalPause = 250 * time.Millisecond

// settle is how long Redis must have failed before that is worth a line, and how long after the last failure asynq may still
// complain of it: connections come and go, and when Redis returns the client repeats an old error now and then.
const settle = 3 * time.Second

// watch sees the outcome of every command. It logs when Redis stops doing its work and when it does it again, once each.
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

// note takes the outcome of a command.
func (w *watch) note(err error) {
	now := time.Now() // not the program's clock: only time that passes matters here
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
		w.log.Error("the queue is away; background work waits", "error", err)
	}
}

// outage reports whether err means that Redis is not there or does not serve us, rather than an ordinary answer.
func outage(err error) bool {
	if err == nil || errors.Is(err, redis.Nil) || errors.Is(err, redis.ErrClosed) || errors.Is(err, context.Canceled) {
		return false
	}
	answer, ok := errors.AsType[redis.Error](err)
	if !ok {
		return true // no answer at all
	}
	code, _, _ := strings.Cut(answer.Error(), " ")
	switch code {
	case "NOAUTH", "WRONGPASS", "NOPERM", // we are not let in
		"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", // it is not ready, or not the one in charge
		"OOM", "MISCONF", "NOREPLICAS": // it takes no writes
		return true
	}
	return strings.HasPrefix(answer.Error(), "ERR max number of clients")
}

// DialHook implements redis.Hook. A failed attempt to connect is none of its business: the client makes several.
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
