package jobs

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// While Redis is unavailable, each worker runs in this process what the queue would have brought
// it: the sweeper's deliveries and mails, and the tasks of the schedule. That never repeats
// anything. Deliveries and mails are claimed in the database, as they are by tasks from the queue,
// and the tasks of the schedule are idempotent.

// direct runs tasks without the queue.
type direct struct {
	ctx    context.Context // ends drainTimeout after the worker's Stop
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	lanes, mails chan struct{} // one for each task that runs; mails have places of their own

	scheduling atomic.Bool           // a round of the schedule runs
	ran        map[string]directRuns // of the schedule's tasks; only the round in progress uses it
}

// directRuns are the runs of a scheduled task in its current period.
type directRuns struct {
	period time.Time
	failed int
	done   bool
}

func newDirect() *direct {
	d := &direct{
		lanes: make(chan struct{}, concurrency),
		mails: make(chan struct{}, mailsAtOnce),
		ran:   make(map[string]directRuns),
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// drain waits for the tasks in progress, and cancels those that take longer than drainTimeout.
func (d *direct) drain() {
	defer d.cancel()
	timer := time.AfterFunc(drainTimeout, d.cancel)
	defer timer.Stop()
	d.tasks.Wait()
}

// runDirectly runs a task if one of the places is free. Otherwise the next sweep finds the same
// work again.
func (j *Jobs) runDirectly(places chan struct{}, name string, task func(ctx context.Context) error) {
	select {
	case places <- struct{}{}:
	default:
		return
	}

	j.direct.tasks.Go(func() {
		defer func() { <-places }()
		// is logged
		_ = j.runTask(name, task)
	})
}

// runTask runs a task as the queue's server does: bounded in time, and with its failure, also a
// panic, logged.
func (j *Jobs) runTask(name string, task func(ctx context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(j.direct.ctx, taskTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		if err != nil {
			j.log.ErrorContext(ctx, "task failed", "task", name, "error", err)
		}
	}()

	return task(ctx)
}

// deliverDirectly sends what is due in a lane.
func (j *Jobs) deliverDirectly(lane model.Lane) {
	j.runDirectly(j.direct.lanes, deliverTask, func(ctx context.Context) error {
		j.drainLane(ctx, lane)
		return nil
	})
}

// mailDirectly sends a mail.
func (j *Jobs) mailDirectly(id int64) {
	j.runDirectly(j.direct.mails, mailTask, func(ctx context.Context) error {
		j.deliverMail(ctx, id)
		return nil
	})
}

// runScheduleDirectly runs the schedule's tasks of the current periods that this process has not
// run itself yet, one after another in the background. A task that failed is tried as often as the
// queue would, with each tick.
func (j *Jobs) runScheduleDirectly() {
	if !j.direct.scheduling.CompareAndSwap(false, true) {
		return
	}

	j.direct.tasks.Go(func() {
		defer j.direct.scheduling.Store(false)

		for _, task := range j.schedule {
			period := j.now().UTC().Truncate(task.every)
			runs := j.direct.ran[task.name]
			if !runs.period.Equal(period) {
				runs = directRuns{period: period}
			}
			if runs.done || runs.failed > taskRetries || j.ctx.Err() != nil {
				continue
			}

			err := j.runTask(task.name, func(ctx context.Context) error { return task.run(j, ctx) })
			if runs.done = err == nil; err != nil {
				runs.failed++
			}

			j.direct.ran[task.name] = runs
		}
	})
}

// queued puts work into the queue, and reports whether the queue took it. It does not try while the
// queue is known to fail: a Redis that accepts connections and does not answer would cost each try
// its timeout.
func (j *Jobs) queued(enqueue func() error) bool {
	if j.queueFails() {
		return false
	}
	err := enqueue()
	j.noteQueue(err)
	return err == nil
}

// noteQueue notes how an attempt to put work into the queue ended.
func (j *Jobs) noteQueue(err error) {
	if j.ctx.Err() != nil {
		// says nothing about the queue
		return
	}

	j.refused.Store(err != nil)

	if err != nil {
		j.quiet.Error(err)
	}
}

// queueFails reports whether the last command to Redis, or the last attempt to put work into the
// queue, failed. The schedule tries again every few seconds, and the idle server asks for tasks all
// the time, so that it soon notices when Redis is back.
func (j *Jobs) queueFails() bool { return j.refused.Load() || j.redisWatch.failing() }

// queueAway reports whether the queue is unavailable, and has been for longer than a connection
// takes to come back.
func (j *Jobs) queueAway() bool {
	select {
	case <-j.started:
		return j.refused.Load() || j.redisWatch.away()
	default:
		return false
	}
}

// QueueWarning returns that the job queue is unavailable, for an operator; empty while it works.
func (j *Jobs) QueueWarning() string {
	if !j.queueAway() {
		return ""
	}
	return "the job queue (Redis) is unavailable; this worker takes due work from the database"
}
