package queue

import (
	"errors"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Measure registers the queue's state as metrics. Numbers that Redis does not return are left out.
// The error is that of Redis; it is nil while tallygate_queue_up is 0, which reports the outage.
func (q *Queue) Measure(r prometheus.Registerer) error {
	select {
	case <-q.started:
	default:
		return errNotStarted
	}

	metrics := promauto.With(r)
	up := metrics.NewGauge(prometheus.GaugeOpts{
		Name: "tallygate_queue_up",
		Help: "1 while the job queue works; 0 while it does not and this worker takes due work from the database.",
	})

	if q.unavailable() {
		return nil
	}

	up.Set(1)
	tasks := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "tallygate_queue_tasks",
		Help: "Tasks in the job queue.",
	}, []string{"queue", "state"})

	inspector := asynq.NewInspectorFromRedisClient(q.redis)
	for _, queue := range []string{Default, Deliveries} {
		info, err := inspector.GetQueueInfo(queue)

		// Redis does not know a queue that never had a task.
		if errors.Is(err, asynq.ErrQueueNotFound) {
			continue
		}
		if err != nil {
			return err
		}

		for state, n := range map[string]int{
			"pending": info.Pending, "active": info.Active, "scheduled": info.Scheduled,
			"retry": info.Retry, "archived": info.Archived,
		} {
			tasks.WithLabelValues(queue, state).Set(float64(n))
		}
	}

	return r.Register(tasks)
}
