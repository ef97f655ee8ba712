package queue

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// failurePause is the least time that a failed command takes. asynq asks for the next task as soon
// as the last request was answered, even with an error. Without a pause, a Redis that refuses at
// once would keep a core busy.
const failurePause = 250 * time.Millisecond

// settle is how long Redis must have failed before the outage is logged. It is also how long after
// the last failure asynq's complaints are suppressed: single connections break, and after an outage
// the client repeats an old error now and then.
const settle = 3 * time.Second

// monitor observes the outcome of every Redis command. It logs the begin and the end of an outage,
// once each.
type monitor struct {
	log *slog.Logger

	mu     sync.Mutex
	since  time.Time // of the first failure after the last success, or zero
	failed time.Time // of the last failure
	logged bool      // the outage is logged
}

// failedRecently reports whether the last command failed, or another one within the settle time.
func (m *monitor) failedRecently() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.since.IsZero() || time.Since(m.failed) < settle
}

// failing reports whether the last command failed.
func (m *monitor) failing() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.since.IsZero()
}

// unavailable reports whether commands have failed for longer than the settle time.
func (m *monitor) unavailable() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.logged
}

// record takes the outcome of a command.
func (m *monitor) record(err error) {
	// These errors are no evidence about Redis. The client also returns the cancellation of one
	// command's connection attempt to other commands.
	if errors.Is(err, redis.ErrClosed) || errors.Is(err, context.Canceled) {
		return
	}

	// The monotonic clock: only elapsed time matters here.
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()

	if !isOutage(err) {
		if m.logged {
			m.log.Info("the queue is available again", "after", now.Sub(m.since))
		}

		m.since, m.logged = time.Time{}, false
		return
	}

	m.failed = now
	if m.since.IsZero() {
		m.since = now
	}

	if !m.logged && now.Sub(m.since) >= settle {
		m.logged = true
		m.log.Error("the queue is unavailable; workers take due work from the database", "error", err)
	}
}

// isOutage reports whether err means that Redis is unreachable or does not serve us, rather than an
// ordinary reply.
func isOutage(err error) bool {
	if err == nil || errors.Is(err, redis.Nil) || errors.Is(err, redis.ErrClosed) || errors.Is(err, context.Canceled) {
		return false
	}

	reply, ok := errors.AsType[redis.Error](err)
	if !ok {
		// There was no reply at all.
		return true
	}

	code, _, _ := strings.Cut(reply.Error(), " ")
	switch code {
	case "NOAUTH", "WRONGPASS", "NOPERM": // it refuses the connection's user
		return true
	case "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN": // it is not ready, or not the master
		return true
	case "OOM", "MISCONF", "NOREPLICAS": // it accepts no writes
		return true
	}

	return strings.HasPrefix(reply.Error(), "ERR max number of clients")
}

// DialHook implements redis.Hook. It ignores single connection attempts: a command makes several.
func (m *monitor) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (m *monitor) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		began := time.Now()
		err := next(ctx, cmd)
		m.finish(ctx, began, err)
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (m *monitor) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		began := time.Now()
		err := next(ctx, cmds)
		m.finish(ctx, began, err)
		return err
	}
}

// finish records a command's outcome, and delays the return of a failed command; see failurePause.
func (m *monitor) finish(ctx context.Context, began time.Time, err error) {
	m.record(err)

	if !isOutage(err) {
		return
	}

	select {
	case <-ctx.Done():
	case <-time.After(failurePause - time.Since(began)):
	}
}
