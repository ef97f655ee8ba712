package serve

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// traceLogPeriod is the least time between two log lines about traces.
const traceLogPeriod = time.Minute

// traceFailures counts batches of spans that were not sent, and logs them: the first failure at once, then at most a
// line a minute, also for a receiver that fails now and then. It is safe for concurrent use.
type traceFailures struct {
	log   *slog.Logger
	now   func() time.Time
	count prometheus.Counter

	mu        sync.Mutex
	isFailing bool // since the last line
	unlogged  int
	loggedAt  time.Time
}

func newTraceFailures(log *slog.Logger) *traceFailures {
	return &traceFailures{log: log, now: time.Now, count: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tallygate_trace_export_errors_total",
		Help: "Batches of spans that the receiver of traces did not take, so that they are lost.",
	})}
}

// fail records a failure.
func (f *traceFailures) fail(err error) {
	f.count.Inc()

	f.mu.Lock()
	defer f.mu.Unlock()

	f.isFailing = true
	if !f.mayLog() {
		f.unlogged++
		return
	}
	f.log.Error("traces are not sent", "error", err, "more_since_last", f.unlogged)
	f.unlogged, f.loggedAt = 0, f.now()
}

// sent records a batch that the receiver took.
func (f *traceFailures) sent() {
	f.mu.Lock()
	defer f.mu.Unlock()

	if !f.isFailing || !f.mayLog() {
		return
	}
	f.log.Info("traces are sent again", "failed_since_last", f.unlogged)
	f.isFailing, f.unlogged, f.loggedAt = false, 0, f.now()
}

// mayLog reports whether the last line is long ago. A clock that was set back permits a line.
func (f *traceFailures) mayLog() bool {
	since := f.now().Sub(f.loggedAt)
	return f.loggedAt.IsZero() || since < 0 || since >= traceLogPeriod
}

// traceExporter sends spans, and reports each failure to failures alone: OpenTelemetry's handler of errors would log it
// again.
type traceExporter struct {
	sdktrace.SpanExporter
	failures *traceFailures
}

// ExportSpans implements sdktrace.SpanExporter.
func (e traceExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.failures.fail(err)
		return nil
	}
	e.failures.sent()
	return nil
}
