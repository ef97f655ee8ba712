package webhook

import (
	"cmp"
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// metrics count and time the attempts of this process.
type metrics struct {
	attempts  *prometheus.CounterVec
	durations *prometheus.HistogramVec
}

func newMetrics() *metrics {
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tallygate_delivery_attempts_total",
			Help: "Calls of owners' addresses by this process; error is empty for those that were delivered.",
		}, []string{"kind", "error"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "tallygate_delivery_duration_seconds",
			Help:    "Duration of calls of owners' addresses, by outcome: delivered or failed.",
			Buckets: []float64{0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20},
		}, []string{"kind", "outcome"}),
	}

	// Series that exist from the start show the first failure as an increase.
	for _, kind := range append(model.DeliveryKinds(), model.DeliveryAlert) {
		m.attempts.WithLabelValues(kind, "")
		m.attempts.WithLabelValues(kind, model.AttemptInternal)
		m.durations.WithLabelValues(kind, "delivered")
		m.durations.WithLabelValues(kind, "failed")
	}

	return m
}

// observe counts an attempt.
func (m *metrics) observe(kind string, result outbox.AttemptResult) {
	m.attempts.WithLabelValues(kind, cmp.Or(result.Reason, result.Error)).Inc()

	outcome := "delivered"
	if result.Error != "" {
		outcome = "failed"
	}
	m.durations.WithLabelValues(kind, outcome).Observe(result.Duration.Seconds())
}

// Measure registers the metrics of attempts.
func (d *Deliverer) Measure(r prometheus.Registerer) error {
	if err := r.Register(d.metrics.attempts); err != nil {
		return err
	}
	return r.Register(d.metrics.durations)
}

// Backlog counts what waits in the database.
func (d *Deliverer) Backlog(ctx context.Context, now model.Instant) (outbox.Backlog, error) {
	return d.store.DeliveryBacklog(ctx, now)
}
