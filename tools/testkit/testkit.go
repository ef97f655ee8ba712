// Package testkit holds what tests of all areas share: a clock, a log, a wait for a condition, and
// the reasons to skip a test. It imports nothing of the product.
package testkit

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Clock is a clock that only the test moves. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows a time.
func NewClock(now time.Time) *Clock { return &Clock{now: now} }

// Now returns the time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Set sets the clock, forward or back.
func (c *Clock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// Add moves the clock forward by d, or back if d is negative.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Log collects what a server logs. It is safe for concurrent use.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write adds lines to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String returns the lines so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Reset deletes the lines so far.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf.Reset()
}

const (
	// patience bounds the wait for a condition. A busy machine needs seconds for what takes
	// milliseconds.
	patience = 2 * time.Minute

	pollInterval = 5 * time.Millisecond
)

// Await returns when holds does. After two minutes the test fails and names what it waited for.
func Await(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	AwaitState(tb, what, func() (string, bool) { return "", holds() })
}

// AwaitState is Await with a check that also describes the present state, for the failure.
func AwaitState(tb testing.TB, what string, check func() (state string, holds bool)) {
	tb.Helper()
	for deadline := time.Now().Add(patience); ; {
		began := time.Now()
		state, holds := check()
		if holds {
			return
		}

		now := time.Now()
		if now.After(deadline) {
			tb.Fatalf("waited %v for %s: %s", patience, what, state)
		}
		// A check that reads a database takes no more than half of a processor from the awaited work.
		time.Sleep(max(pollInterval, now.Sub(began)))
	}
}

// Missing skips the test because a program it needs is not installed. In CI it fails the test.
func Missing(tb testing.TB, what string) {
	tb.Helper()
	if os.Getenv("CI") == "true" {
		tb.Fatalf("CI must run every test, but %s", what)
	}
	tb.Skipf("skipped: %s", what)
}

// Long begins the reason of a test that "make test" leaves to "make test-all".
const Long = "left to make test-all: "

// OnCitus begins the reason of a test that only "make test-citus" can run.
const OnCitus = "left to make test-citus: "

// SkipLong skips the test under -short. The reason is what takes long, such as "a browser".
func SkipLong(tb testing.TB, reason string) {
	tb.Helper()
	if testing.Short() {
		tb.Skip(Long + reason)
	}
}

// LeftVariable is the path of a file with the tests that "make test" left, a package and a name on
// each line. It is set in the run of those tests.
const LeftVariable = "TALLYGATE_TEST_LEFT"

// RanBefore reports whether this run is about what "make test" left, and "make test" has run a
// subtest of tb: it left neither the subtest nor a part of it, nor a test around it.
func RanBefore(tb testing.TB, subtest string) bool {
	tb.Helper()
	names, err := left()
	NoError(tb, err)

	full := tb.Name() + "/" + subtest
	return names != nil && !slices.ContainsFunc(names, func(name string) bool {
		return within(name, full) || within(full, name)
	})
}

// within reports whether a test is another one or a subtest of it.
func within(test, other string) bool { return strings.HasPrefix(test+"/", other+"/") }

// left returns the names of the tests that "make test" left, nil in other runs.
var left = sync.OnceValues(func() ([]string, error) {
	file := os.Getenv(LeftVariable)
	if file == "" {
		return nil, nil
	}

	text, err := os.ReadFile(file)
	names := []string{}
	for line := range strings.Lines(string(text)) {
		_, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		names = append(names, name)
	}
	return names, err
})
