package jobs

import (
	"context"
	"errors"
	"io"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// WriteMetrics writes the state of the worker in Prometheus' text format. Numbers that the database
// or Redis does not return are left out. The error is theirs, except that of Redis while
// tallygate_queue_up is 0, which reports the outage.
func (w *Worker) WriteMetrics(ctx context.Context, out io.Writer) error {
	metrics := prometheus.NewRegistry()

	now, err := w.clock.Now(ctx)
	if err == nil {
		err = w.webhooks.MeasureBacklog(ctx, metrics, now)
	}

	w.clock.measure(metrics)
	err = errors.Join(err, w.queue.Measure(metrics), w.webhooks.Measure(metrics), w.mails.Measure(metrics))

	families, gatherErr := metrics.Gather()
	err = errors.Join(err, gatherErr)
	for _, family := range families {
		if _, writeErr := expfmt.MetricFamilyToText(out, family); writeErr != nil {
			return errors.Join(err, writeErr)
		}
	}

	return err
}
