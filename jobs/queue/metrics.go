package queue

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
)

var (
	upDesc = prometheus.NewDesc("tallygate_queue_up",
		"1 while the job queue works; 0 while it does not and this worker takes due work from the database.", nil, nil)
	tasksDesc = prometheus.NewDesc("tallygate_queue_tasks", "Tasks in the job queue.", []string{"queue", "state"}, nil)
)

// inspectTimeout bounds the wait of a scrape for Redis.
const inspectTimeout = 3 * time.Second

// Measure registers the queue's state as metrics. Numbers that Redis does not return are left out,
// and all of them before Start.
func (q *Queue) Measure(r prometheus.Registerer) error { return r.Register(collector{q}) }

// collector reads the state of a queue when it is scraped.
type collector struct{ *Queue }

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	out <- upDesc
	out <- tasksDesc
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	// Before Start there is no client.
	select {
	case <-c.started:
	default:
		return
	}

	if c.unavailable() {
		out <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, 0)
		return
	}
	out <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, 1)

	if c.servers == nil {
		for _, queue := range queues {
			collectTasks(out, queue, c.local.states(queue))
		}
		return
	}

	infos, err := c.inspect()
	for _, info := range infos {
		collectTasks(out, info.Queue, map[string]int{
			"pending": info.Pending, "active": info.Active, "scheduled": info.Scheduled,
			"retry": info.Retry, "archived": info.Archived,
		})
	}

	if err != nil {
		c.LogError("count the tasks of the queue", err)
	}
}

// collectTasks writes the number of a queue's tasks by state.
func collectTasks(out chan<- prometheus.Metric, queue string, states map[string]int) {
	for state, n := range states {
		out <- prometheus.MustNewConstMetric(tasksDesc, prometheus.GaugeValue, float64(n), queue, state)
	}
}

// inspect returns the state of the queues that have had a task. asynq's inspector takes no context,
// so after the timeout its answer is dropped.
func (q *Queue) inspect() ([]*asynq.QueueInfo, error) {
	type answer struct {
		queues []*asynq.QueueInfo
		err    error
	}

	// The buffer lets the goroutine end after a timeout.
	done := make(chan answer, 1)
	go func() {
		var a answer
		inspector := asynq.NewInspectorFromRedisClient(q.redis)
		for _, queue := range queues {
			info, err := inspector.GetQueueInfo(queue)
			if err == nil {
				a.queues = append(a.queues, info)
			} else if !errors.Is(err, asynq.ErrQueueNotFound) {
				a.err = errors.Join(a.err, err)
			}
		}
		done <- a
	}()

	timeout := time.NewTimer(inspectTimeout)
	defer timeout.Stop()

	select {
	case a := <-done:
		return a.queues, a.err
	case <-timeout.C:
		return nil, context.DeadlineExceeded
	}
}
