package web

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// throttlePeriod is the least time between two lines that a Throttle passes.
const throttlePeriod = time.Second

// Throttle passes at most one log line per second, so that an outage under load does not fill the
// disk. Its zero value is ready for use. It is safe for concurrent use.
type Throttle struct {
	mu      sync.Mutex
	last    time.Time
	skipped int
}

// Pass reports whether a line may be logged now, and how many were skipped since the last one. A
// clock that was set back passes the next line.
func (t *Throttle) Pass(now time.Time) (skipped int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()

	if since := now.Sub(t.last); since >= 0 && since < throttlePeriod {
		t.skipped++
		return 0, false
	}

	skipped = t.skipped
	t.last, t.skipped = now, 0
	return skipped, true
}

// FailureLog logs failed requests, at most one per second. It is safe for concurrent use.
type FailureLog struct {
	log      *slog.Logger
	throttle Throttle
}

// NewFailureLog returns a FailureLog that writes to log.
func NewFailureLog(log *slog.Logger) *FailureLog { return &FailureLog{log: log} }

// Error logs a failure with err, with the stack if err is a *Panic, and with the number of failures
// that were skipped since the last line.
func (l *FailureLog) Error(ctx context.Context, message string, err error, attrs ...any) {
	skipped, ok := l.throttle.Pass(time.Now())
	if !ok {
		return
	}

	attrs = append(attrs, "error", err)

	if p, ok := errors.AsType[*Panic](err); ok {
		attrs = append(attrs, "stack", string(p.Stack))
	}

	l.log.ErrorContext(ctx, message, append(attrs, "more_since_last", skipped)...)
}
