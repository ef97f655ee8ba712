package web_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/web"
)

// TestThrottle checks that one line per second passes, with the number of those before it that did
// not, and that a clock that was set back blocks nothing.
func TestThrottle(t *testing.T) {
	var throttle web.Throttle
	start := time.Unix(1_000, 0)
	for _, step := range []struct {
		after   time.Duration
		skipped int
		ok      bool
	}{
		{0, 0, true}, {time.Millisecond, 0, false}, {time.Second - 1, 0, false}, {time.Second, 2, true}, {time.Second + 1, 0, false},
		{-time.Hour, 1, true}, {-time.Hour + 1, 0, false},
	} {
		if skipped, ok := throttle.Pass(start.Add(step.after)); skipped != step.skipped || ok != step.ok {
			t.Errorf("at %v: %d skipped, passes %v; want %d, %v", step.after, skipped, ok, step.skipped, step.ok)
		}
	}
}

// TestFailureLog checks that failures in quick succession make one line, and that a panic's stack
// is logged.
func TestFailureLog(t *testing.T) {
	var text bytes.Buffer
	log := web.NewFailureLog(slog.New(slog.NewTextHandler(&text, nil)))
	for range 3 {
		log.Error(context.Background(), "request failed", web.NewPanic("wrong"), "path", "/")
	}

	got := text.String()
	for _, want := range []string{`msg="request failed" path=/ error="panic: wrong"`, "TestFailureLog", "more_since_last=0"} {
		if !strings.Contains(got, want) {
			t.Errorf("logged %q, want %q", got, want)
		}
	}

	testkit.Equal(t, strings.Count(got, "\n"), 1, "lines")
}
