package serve

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestTraceFailures: the first failure is logged, then a line a minute with the count of the others, also for a
// receiver that fails every other time; the line about its recovery comes once.
func TestTraceFailures(t *testing.T) {
	var text bytes.Buffer
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	f := newTraceFailures(slog.New(slog.NewTextHandler(&text, nil)))
	f.now = func() time.Time { return now }

	f.sent()
	for range 24 { // two minutes
		f.fail(errors.New("connection refused"))
		f.sent()
		now = now.Add(5 * time.Second)
	}
	if lines := strings.Split(strings.TrimSpace(text.String()), "\n"); len(lines) != 2 ||
		!strings.Contains(lines[0], "connection refused") || !strings.Contains(lines[0], "more_since_last=0") ||
		!strings.Contains(lines[1], "more_since_last=11") {
		t.Errorf("lines %q", lines)
	}

	text.Reset()
	for range 24 {
		now = now.Add(5 * time.Second)
		f.sent()
	}
	if got := text.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "traces are sent again") ||
		!strings.Contains(got, "failed_since_last=11") {
		t.Errorf("after the recovery: %q", got)
	}

	// A new outage is logged at once.
	text.Reset()
	f.fail(errors.New("connection refused"))
	if got := text.String(); !strings.Contains(got, "more_since_last=0") {
		t.Errorf("a new outage: %q", got)
	}

	registry := prometheus.NewRegistry()
	registry.MustRegister(f.count)
	families, err := registry.Gather()
	if err != nil || families[0].GetMetric()[0].GetCounter().GetValue() != 25 {
		t.Errorf("counted %v, %v", families, err)
	}
}
