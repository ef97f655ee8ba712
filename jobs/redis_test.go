package jobs

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// answer is an error that Redis itself gave.
type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

func TestOutage(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{redis.Nil, false},
		{redis.ErrClosed, false},
		{context.Canceled, false},
		{context.DeadlineExceeded, true},
		{errors.New("dial tcp 127.0.0.1:6379: connect: connection refused"), true},
		{answer("NOSCRIPT No matching script. Please use EVAL."), false},
		{answer("ERR user_script:1: NOT FOUND"), false},
		{answer("WRONGTYPE Operation against a key holding the wrong kind of value"), false},
		{answer("WRONGPASS invalid username-password pair or user is disabled."), true},
		{answer("NOAUTH Authentication required."), true},
		{answer("LOADING Redis is loading the dataset in memory"), true},
		{answer("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."), true},
		{answer("OOM command not allowed when used memory > 'maxmemory'."), true},
		{answer("READONLY You can't write against a read only replica."), true},
		{answer("ERR max number of clients reached"), true},
	} {
		if got := outage(test.err); got != test.want {
			t.Errorf("outage(%v) = %v, want %v", test.err, got, test.want)
		}
	}
}

// TestRefusalsTakeTime: a Redis that refuses at once does not make the worker run in circles.
func TestRefusalsTakeTime(t *testing.T) {
	w := &watch{log: slog.New(slog.DiscardHandler)}
	for _, test := range []struct {
		err  error
		slow bool
	}{{answer("WRONGPASS invalid username-password pair"), true}, {redis.Nil, false}, {nil, false}} {
		command := w.ProcessHook(func(context.Context, redis.Cmder) error { return test.err })
		began := time.Now()

		if err := command(t.Context(), redis.NewCmd(t.Context(), "ping")); !errors.Is(err, test.err) {
			t.Errorf("got error %v, want %v", err, test.err)
		}
		if took := time.Since(began); (took >= refusalPause) != test.slow {
			t.Errorf("a command with outcome %v took %v", test.err, took)
		}
	}
}

// TestOutageIsSaidOnce: a moment without Redis is not worth a line; a longer one is worth two,
// whatever else fails meanwhile.
func TestOutageIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		w := &watch{log: slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))}

		failure := errors.New("connection refused")

		if w.troubled() {
			t.Error("troubled before the first command")
		}

		w.note(failure)
		time.Sleep(settle - time.Millisecond)
		w.note(failure)
		w.note(nil)

		if lines.Len() > 0 {
			t.Errorf("a short outage is logged: %s", &lines)
		}

		for range 10 {
			w.note(failure)

			// not a sign of life
			w.note(context.Canceled)
			time.Sleep(time.Second)
		}

		w.note(nil)

		// an old error once more
		w.note(failure)
		w.note(nil)

		want := `level=ERROR msg="the queue is away; workers take due work from the database" error="connection refused"` + "\n" +
			`level=INFO msg="the queue is back" after=10s` + "\n"
		if got := lines.String(); got != want {
			t.Errorf("logged\n%swant\n%s", got, want)
		}
		if !w.troubled() {
			t.Error("untroubled right after a failure")
		}

		time.Sleep(settle)

		if w.troubled() {
			t.Error("still troubled long after the last failure")
		}
	})
}
