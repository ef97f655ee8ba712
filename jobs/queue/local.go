package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// maxLocal is how many tasks of one queue are kept in memory.
	maxLocal = 10_000

	// cancelTimeout is how long a stop waits for tasks that it has canceled.
	cancelTimeout = 500 * time.Millisecond
)

// queues are the names of all queues.
var queues = []string{Default, Deliveries}

// local runs tasks in this process: all tasks if no Redis is configured, and the tasks that this
// process submits while Redis is unavailable. Tasks in memory lose no work when the process ends,
// and never repeat what another process does: handlers lease their work in the database, and
// periodic tasks are idempotent.
//
// A goroutine exists only for a task that runs, and a timer only for a failed task, so that an idle
// queue uses no processor time.
type local struct {
	log      *slog.Logger
	handlers map[string]Handler // of the Queue; only read after start
	ctx      context.Context    // of the tasks; ends drainTimeout after the begin of the worker's stop
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu      sync.Mutex
	started bool // tasks may run
	stopped bool // no further task runs
	workers int  // tasks that may run at once
	busy    int
	queues  map[string]*localQueue
	last    int                   // index in queues of the queue that the last task was taken from
	tasks   map[string]*localTask // by ID, in any state
	periods map[string]time.Time  // newest submitted period of each periodic task
}

// localQueue is the tasks of a queue.
type localQueue struct {
	waiting      []*localTask // oldest first
	same         map[work]int // waiting tasks by what they ask for
	busy, failed int
}

// work is what a task asks for.
type work struct {
	taskType string
	payload  any
}

// localTask is a task that waits, runs, or has failed and is retried.
type localTask struct {
	Task
	queue    *localQueue
	failures int
	retry    *time.Timer // of a failed task, else nil
}

func newLocal(log *slog.Logger, handlers map[string]Handler) *local {
	l := &local{
		log: log, handlers: handlers, workers: Concurrency, queues: make(map[string]*localQueue),
		tasks: make(map[string]*localTask), periods: make(map[string]time.Time),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())

	for _, name := range queues {
		l.queues[name] = &localQueue{same: make(map[work]int)}
	}

	return l
}

// start lets the tasks run that wait already.
func (l *local) start() {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.started = true
	l.startWorkers()
}

// submit adds a task. It reports false, and drops the task, if a task with its ID waits, runs or is
// retried, if Task.Parallel tasks with its payload wait, or if its queue is full. The next sweep of
// the database finds the work of a dropped task again.
func (l *local) submit(task Task) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.add(task)
}

// add is submit. The caller holds mu.
func (l *local) add(task Task) bool {
	q := l.queues[task.Queue]
	if l.stopped || l.tasks[task.ID] != nil || q.same[workOf(task)] >= max(1, task.Parallel) || q.size() >= maxLocal {
		return false
	}

	t := &localTask{Task: task, queue: q}
	l.tasks[task.ID] = t
	q.put(t)
	l.startWorkers()
	return true
}

// submitPeriodic submits the tasks that were not submitted in their current periods. A task that
// still waits or runs for an earlier period is submitted by a later call. A new period replaces the
// retry of an earlier one.
func (l *local) submitPeriodic(tasks []Periodic, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()

	for _, task := range tasks {
		period := now.UTC().Truncate(task.Every)
		if last, ok := l.periods[task.Name]; ok && last.Equal(period) {
			continue
		}

		if t := l.tasks[task.Name]; t != nil && t.retry != nil {
			l.forget(t)
		}
		if l.add(Task{Type: task.Name, Queue: Default, ID: task.Name}) {
			l.periods[task.Name] = period
		}
	}
}

// startWorkers starts workers for the tasks that wait. The caller holds mu.
func (l *local) startWorkers() {
	for l.started && l.busy < l.workers {
		first := l.take()
		if first == nil {
			return
		}

		l.busy++
		l.running.Go(func() {
			for t := first; t != nil; {
				t = l.finish(t, l.run(t.Task))
			}
		})
	}
}

// take takes the oldest waiting task, in turns from each queue, or returns nil. The caller holds
// mu.
func (l *local) take() *localTask {
	for range queues {
		l.last = (l.last + 1) % len(queues)
		if q := l.queues[queues[l.last]]; !l.stopped && len(q.waiting) > 0 {
			return q.take()
		}
	}
	return nil
}

// run runs a task as asynq's server does: with a time limit, and with its error or panic logged.
func (l *local) run(task Task) (err error) {
	ctx, cancel := context.WithTimeout(l.ctx, taskTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		if err != nil {
			l.log.ErrorContext(ctx, "task failed", "task", task.Type, "error", err)
		}
	}()

	payload, err := json.Marshal(task.Payload)
	if err != nil {
		return err
	}
	return l.handlers[task.Type](ctx, payload)
}

// finish ends a run of a task, and schedules its retry if it failed. It returns the worker's next
// task, or nil to end the worker.
func (l *local) finish(t *localTask, err error) *localTask {
	l.mu.Lock()
	defer l.mu.Unlock()

	t.queue.busy--
	if t.failures++; err == nil || t.failures > taskRetries || l.stopped {
		delete(l.tasks, t.ID)
	} else {
		t.queue.failed++
		t.retry = time.AfterFunc(retryDelay(t.failures), func() { l.retry(t) })
	}

	next := l.take()
	if next == nil {
		l.busy--
	}
	return next
}

// retryDelay returns the time from a task's nth failure to its retry.
func retryDelay(failures int) time.Duration { return 15 * time.Second << (failures - 1) }

// retry lets a failed task wait for a worker again.
func (l *local) retry(t *localTask) {
	l.mu.Lock()
	defer l.mu.Unlock()

	// The timer may have fired while the task was forgotten.
	if l.stopped || t.retry == nil {
		return
	}

	t.retry = nil
	t.queue.failed--
	t.queue.put(t)
	l.startWorkers()
}

// forget drops a failed task. The caller holds mu.
func (l *local) forget(t *localTask) {
	t.retry.Stop()
	t.retry = nil
	t.queue.failed--
	delete(l.tasks, t.ID)
}

// stop drops the tasks that wait, and waits for the tasks that run. It cancels tasks that take
// longer than drainTimeout, and leaves tasks that ignore that.
func (l *local) stop() {
	l.mu.Lock()
	l.stopped = true
	for _, t := range l.tasks {
		if t.retry != nil {
			l.forget(t)
		}
	}
	l.mu.Unlock()

	ended := make(chan struct{})
	go func() {
		l.running.Wait()
		close(ended)
	}()

	timeout := time.AfterFunc(drainTimeout, l.cancel)
	defer timeout.Stop()
	defer l.cancel()

	select {
	case <-ended:
	case <-l.ctx.Done():
		select {
		case <-ended:
		case <-time.After(cancelTimeout):
		}
	}
}

// states returns the number of tasks of a queue by state, under the names that asynq uses.
func (l *local) states(queue string) map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()

	q := l.queues[queue]
	return map[string]int{"pending": len(q.waiting), "active": q.busy, "scheduled": 0, "retry": q.failed, "archived": 0}
}

func workOf(t Task) work { return work{t.Type, t.Payload} }

// size returns the number of tasks in any state.
func (q *localQueue) size() int { return len(q.waiting) + q.busy + q.failed }

// put adds a task behind the others.
func (q *localQueue) put(t *localTask) {
	q.waiting = append(q.waiting, t)
	q.same[workOf(t.Task)]++
}

// take takes the oldest task, which then counts as running.
func (q *localQueue) take() *localTask {
	t := q.waiting[0]
	q.busy++
	q.waiting[0] = nil
	if q.waiting = q.waiting[1:]; len(q.waiting) == 0 {
		// Release the memory of a burst.
		q.waiting = nil
	}

	asked := workOf(t.Task)
	if q.same[asked]--; q.same[asked] == 0 {
		delete(q.same, asked)
	}
	return t
}
