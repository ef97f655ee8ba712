package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
)

// Periodic is a task that one of the workers runs once in each period of the UTC clock. Without a
// Redis, every worker runs it. It must be idempotent: a Redis that lost its data may run it again.
type Periodic struct {
	Name  string // the task's type; the same in all versions of the program
	Every time.Duration
	Run   func(context.Context) error
}

// SubmitPeriodic submits the tasks of the current periods. Every worker calls it every few seconds:
// a task's ID contains its period, so that Redis accepts it once. Without a Redis, and while it is
// unavailable, every worker runs the tasks itself. Each task needs a handler, too.
func (q *Queue) SubmitPeriodic(tasks []Periodic) {
	if q.servers == nil {
		q.local.submitPeriodic(tasks, q.now())
		return
	}

	err := q.enqueuePeriodic(tasks)
	q.record(err)

	if err != nil && q.ctx.Err() == nil {
		q.local.submitPeriodic(tasks, q.now())
	}
}

func (q *Queue) enqueuePeriodic(tasks []Periodic) error {
	ctx, cancel := context.WithTimeout(q.ctx, enqueueTimeout)
	defer cancel()

	// asynq's tools list the queues in this set. asynq's client fills it once per process, so it
	// would stay empty after Redis lost its data.
	if err := q.redis.SAdd(ctx, "asynq:queues", Default, Deliveries).Err(); err != nil {
		return fmt.Errorf("name the queues: %w", err)
	}

	now := q.now().UTC()
	for _, task := range tasks {
		period := now.Truncate(task.Every)
		_, err := q.client.EnqueueContext(ctx, asynq.NewTask(task.Name, nil),
			asynq.TaskID(fmt.Sprintf("%s:%d", task.Name, period.Unix())),
			asynq.Retention(task.Every), // Redis keeps the ID while it could be enqueued again
			asynq.MaxRetry(taskRetries),
			asynq.Timeout(taskTimeout),
		)
		if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
			return fmt.Errorf("enqueue %s: %w", task.Name, err)
		}
	}

	return nil
}
