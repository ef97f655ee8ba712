package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// direct runs tasks in this process while Redis is unavailable. It never repeats what another
// process does: handlers lease their work in the database, as they do with tasks from Redis, and
// periodic tasks are idempotent.
type direct struct {
	log     *slog.Logger
	ctx     context.Context // ends drainTimeout after the begin of the worker's stop
	cancel  context.CancelFunc
	tasks   sync.WaitGroup
	running map[string]*semaphore.Weighted // by queue

	scheduling atomic.Bool             // a round of periodic tasks is in progress
	periodic   map[string]periodicRuns // by name; only the round in progress uses it
}

// directTasks is how many tasks of each queue run at once.
var directTasks = map[string]int64{Deliveries: Concurrency, Default: 20}

// periodicRuns are the runs of a periodic task in its current period.
type periodicRuns struct {
	period time.Time
	failed int
	done   bool
}

func newDirect(log *slog.Logger) *direct {
	d := &direct{log: log, running: make(map[string]*semaphore.Weighted), periodic: make(map[string]periodicRuns)}
	d.ctx, d.cancel = context.WithCancel(context.Background())

	for queue, n := range directTasks {
		d.running[queue] = semaphore.NewWeighted(n)
	}

	return d
}

// drain waits for the tasks in progress, and cancels tasks that take longer than drainTimeout.
func (d *direct) drain() {
	defer d.cancel()
	timer := time.AfterFunc(drainTimeout, d.cancel)
	defer timer.Stop()
	d.tasks.Wait()
}

// run runs a task as asynq's server does: with a time limit, and with its error or panic logged.
func (d *direct) run(name string, task func(ctx context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(d.ctx, taskTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		if err != nil {
			d.log.ErrorContext(ctx, "task failed", "task", name, "error", err)
		}
	}()

	return task(ctx)
}

// runDirectly starts a task in this process, unless as many of its queue run already.
func (q *Queue) runDirectly(task Task) {
	running := q.direct.running[task.Queue]
	if !running.TryAcquire(1) {
		return
	}

	q.direct.tasks.Go(func() {
		defer running.Release(1)

		// The error is logged already.
		_ = q.direct.run(task.Type, func(ctx context.Context) error {
			payload, err := json.Marshal(task.Payload)
			if err != nil {
				return err
			}
			return q.handlers[task.Type](ctx, payload)
		})
	})
}

// runPeriodicDirectly starts a round of the periodic tasks that this process has not run in their
// current periods, one after another. A failed task is retried with each round, as often as Redis
// would retry it.
func (q *Queue) runPeriodicDirectly(tasks []Periodic) {
	d := q.direct
	if !d.scheduling.CompareAndSwap(false, true) {
		return
	}

	d.tasks.Go(func() {
		defer d.scheduling.Store(false)

		for _, task := range tasks {
			period := q.now().UTC().Truncate(task.Every)
			runs := d.periodic[task.Name]
			if !runs.period.Equal(period) {
				runs = periodicRuns{period: period}
			}
			if runs.done || runs.failed > taskRetries || q.Stopping() {
				continue
			}

			err := d.run(task.Name, task.Run)
			if runs.done = err == nil; err != nil {
				runs.failed++
			}

			d.periodic[task.Name] = runs
		}
	})
}
