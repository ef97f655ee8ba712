package queue

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tallygate/tallygate/tools/testkit"
)

// reply is an error that Redis returned.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

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
		{reply("NOSCRIPT No matching script. Please use EVAL."), false},
		{reply("ERR user_script:1: NOT FOUND"), false},
		{reply("WRONGTYPE Operation against a key holding the wrong kind of value"), false},
		{reply("WRONGPASS invalid username-password pair or user is disabled."), true},
		{reply("NOAUTH Authentication required."), true},
		{reply("LOADING Redis is loading the dataset in memory"), true},
		{reply("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."), true},
		{reply("OOM command not allowed when used memory > 'maxmemory'."), true},
		{reply("READONLY You can't write against a read only replica."), true},
		{reply("ERR max number of clients reached"), true},
	} {
		testkit.Equal(t, isOutage(test.err), test.want, "isOutage(%v)", test.err)
	}
}

// TestFailuresTakeTime: a Redis that refuses at once does not make the worker retry without a
// pause.
func TestFailuresTakeTime(t *testing.T) {
	m := &monitor{log: slog.New(slog.DiscardHandler)}
	for _, test := range []struct {
		err  error
		slow bool
	}{{reply("WRONGPASS invalid username-password pair"), true}, {redis.Nil, false}, {nil, false}} {
		command := m.ProcessHook(func(context.Context, redis.Cmder) error { return test.err })
		began := time.Now()

		if err := command(t.Context(), redis.NewCmd(t.Context(), "ping")); !errors.Is(err, test.err) {
			t.Errorf("got error %v, want %v", err, test.err)
		}
		if took := time.Since(began); (took >= failurePause) != test.slow {
			t.Errorf("a command with outcome %v took %v", test.err, took)
		}
	}
}

// TestOutageIsLoggedOnce: a short outage is not logged; a longer outage is logged when it begins
// and when it ends, whatever else fails meanwhile.
func TestOutageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		m := &monitor{
			log: slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}})),
		}

		failure := errors.New("connection refused")

		if m.failedRecently() {
			t.Error("a failure before the first command")
		}

		m.record(failure)
		time.Sleep(settle - time.Millisecond)
		m.record(failure)
		m.record(nil)

		if lines.Len() > 0 {
			t.Errorf("a short outage is logged: %s", &lines)
		}

		for range 10 {
			m.record(failure)

			// No evidence that Redis works.
			m.record(context.Canceled)
			time.Sleep(time.Second)
		}

		m.record(nil)

		// The client repeats an old error.
		m.record(failure)
		m.record(nil)

		want := `level=ERROR msg="the queue is unavailable; workers take due work from the database" error="connection refused"` + "\n" +
			`level=INFO msg="the queue is available again" after=10s` + "\n"
		if got := lines.String(); got != want {
			t.Errorf("logged\n%swant\n%s", got, want)
		}
		if !m.failedRecently() {
			t.Error("no recent failure right after one")
		}

		time.Sleep(settle)

		if m.failedRecently() {
			t.Error("a recent failure long after the last one")
		}
	})
}
