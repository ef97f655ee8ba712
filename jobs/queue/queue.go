// Package queue carries the worker's tasks through Redis, or through the memory of one process. It
// is the only package that knows asynq and go-redis.
//
// The queue only carries tasks: rows in the database and the clock determine the due work. An empty
// queue delays work but loses nothing. Without a Redis, and while it is unavailable, the tasks run
// in the process that submits them. Package jobs starts and stops the queue; jobs/webhook and
// jobs/mail submit their tasks to it. The queue never reads the database, and does not know the
// meaning of its tasks.
package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// The names of the queues in Redis. They are the same in all versions of the program.
const (
	Default    = "default"
	Deliveries = "deliveries"
)

// Concurrency is how many tasks this process runs at once. Nearly all of them wait for another
// server's answer.
const Concurrency = 256

const (
	checkEvery     = 200 * time.Millisecond // interval at which an idle worker asks Redis for a task
	enqueueTimeout = 3 * time.Second        // for a Redis that accepts connections and does not answer
	taskTimeout    = 10 * time.Minute       // for one run of a task
	taskRetries    = 3                      // of a periodic task, and of any task in memory, that failed

	// drainTimeout is how long a stopping worker waits for its tasks before it returns them to the
	// queue.
	drainTimeout = 15 * time.Second

	// neverArchive is more retries than a task can use up. asynq archives a task after its last
	// retry, and keeps its ID.
	neverArchive = 1_000_000

	// stuckAfter is how long a task may be overdue before it is enqueued again under another ID.
	// The time doubles with each further one.
	stuckAfter = 15 * time.Second
)

// Task asks a worker to do something now.
type Task struct {
	Type    string // names the handler; the same in all versions of the program
	Queue   string // Default or Deliveries
	Payload any    // is sent as JSON; must be comparable

	// ID identifies the attempt that the task asks for. Redis accepts each ID once, whichever
	// process submits it. Without Redis, a process has each ID once at a time.
	ID string

	// Overdue is for how long the attempt has been due. A Redis can lose a task and keep its ID, if
	// a worker dies with it. Therefore a task that has been due for long is submitted under further
	// IDs.
	Overdue time.Duration

	// Parallel is how many tasks with this payload can run at once in a process. A Notifier does
	// not enqueue more of them together, and no more wait in memory; 0 is 1.
	Parallel int
}

// Handler runs a task. It gets the task's payload as JSON.
type Handler func(ctx context.Context, payload []byte) error

// Options are the settings of a queue. Now and Log are required.
type Options struct {
	// RedisURL is redis://…, redis-sentinel://…, redis-cluster://…, or any of them with rediss for
	// TLS. If it is empty, the tasks wait in the memory of this process.
	RedisURL string

	Now func() time.Time
	Log *slog.Logger
}

// Queue enqueues tasks and runs them.
type Queue struct {
	log       *slog.Logger
	now       func() time.Time
	throttled *throttledLog
	handlers  map[string]Handler
	notifier  *Notifier // to Redis
	local     *local

	servers *servers              // nil without Redis, as are the next three
	redis   redis.UniversalClient // shared by client and server
	client  *asynq.Client
	server  *asynq.Server

	monitor *monitor    // observes the commands to Redis
	refused atomic.Bool // the last attempt to enqueue failed

	ctx        context.Context // ends when the worker stops; set by Start
	started    chan struct{}   // closed by Start
	background sync.WaitGroup
}

// New returns a queue that does nothing before Start. It returns the error of CheckURL. Redis need
// not be reachable.
func New(o Options) (*Queue, error) {
	q := &Queue{
		log: o.Log, now: o.Now, handlers: make(map[string]Handler), notifier: newNotifier(),
		monitor: &monitor{log: o.Log}, started: make(chan struct{}),
	}

	q.local = newLocal(o.Log, q.handlers)
	q.throttled = &throttledLog{log: o.Log, now: o.Now, outage: q.monitor.failedRecently}

	if o.RedisURL != "" {
		var err error
		if q.servers, err = parseURL(o.RedisURL); err != nil {
			return nil, err
		}
	}

	return q, nil
}

// Handle sets the handler of a type of tasks. It must not be called after Start.
func (q *Queue) Handle(taskType string, handler Handler) { q.handlers[taskType] = handler }

// Start begins to run tasks. They are enqueued until ctx ends; then Stop must be called.
func (q *Queue) Start(ctx context.Context) error {
	q.ctx = ctx
	if q.servers != nil {
		if err := q.startRedis(ctx); err != nil {
			return err
		}
	}

	q.local.start()
	close(q.started)
	return nil
}

// startRedis connects to Redis, and begins to run tasks from there.
func (q *Queue) startRedis(ctx context.Context) error {
	q.redis = connect(q.servers, q.monitor)
	q.client = asynq.NewClientFromRedisClient(q.redis)
	q.server = asynq.NewServerFromRedisClient(q.redis, asynq.Config{
		Concurrency:       Concurrency,
		Queues:            map[string]int{Default: 1, Deliveries: 1},
		TaskCheckInterval: checkEvery,
		Logger:            q.throttled,
		LogLevel:          asynq.WarnLevel,
		ShutdownTimeout:   drainTimeout,
		ErrorHandler: asynq.ErrorHandlerFunc(func(ctx context.Context, task *asynq.Task, err error) {
			q.log.ErrorContext(ctx, "task failed", "task", task.Type(), "error", err)
		}),
	})

	mux := asynq.NewServeMux()
	for taskType, handler := range q.handlers {
		mux.HandleFunc(taskType, func(ctx context.Context, task *asynq.Task) error {
			return handler(ctx, task.Payload())
		})
	}

	if err := q.server.Start(mux); err != nil {
		return err
	}

	q.background.Go(func() { q.notifier.run(ctx, q.client) })
	return nil
}

// Stop waits for the tasks in progress, and closes the connections to Redis. A task that takes
// longer than 15 s is returned to Redis, or canceled if it was submitted without Redis. Start's
// context must have ended, and nothing may be submitted any more.
func (q *Queue) Stop() error {
	q.background.Wait()
	var drained sync.WaitGroup

	// Tasks with and without Redis end at the same time, so that Stop waits for one timeout only.
	drained.Go(q.local.stop)

	var err error

	if q.server != nil {
		q.server.Shutdown()
		err = q.redis.Close()
	}

	drained.Wait()
	return err
}

// Stopping reports whether the worker stops. A handler then finishes the attempt in progress, and
// begins no other one.
func (q *Queue) Stopping() bool { return q.ctx != nil && q.ctx.Err() != nil }

// Ping returns an error if a configured Redis does not answer. A worker does its work without
// Redis, too.
func (q *Queue) Ping(ctx context.Context) error {
	select {
	case <-q.started:
	default:
		return errNotStarted
	}

	if q.servers == nil {
		return nil
	}
	return q.redis.Ping(ctx).Err()
}

var errNotStarted = errors.New("the worker was not started")

// Notify enqueues a task without making the caller wait; see Notifier.Notify.
func (q *Queue) Notify(task Task) {
	if q.servers == nil {
		q.local.submit(task)
		return
	}
	q.notifier.Notify(task)
}

// Submit enqueues a task. Without a Redis, and while it is unavailable, the task runs in this
// process. It is dropped if too many wait: the next sweep of the database finds the same work
// again.
func (q *Queue) Submit(task Task) {
	// While Redis fails, Submit does not try: a Redis that accepts connections and does not answer
	// would cost each task its timeout.
	if q.servers != nil && !q.failing() {
		err := enqueue(q.ctx, q.client, task)
		q.record(err)

		if err == nil {
			return
		}
	}

	q.local.submit(task)
}

// enqueue writes a task to Redis. An ID that Redis has already is not an error.
func enqueue(ctx context.Context, client *asynq.Client, task Task) error {
	ctx, cancel := context.WithTimeout(ctx, enqueueTimeout)
	defer cancel()

	payload, err := json.Marshal(task.Payload)
	if err != nil {
		return err
	}

	id := task.ID

	// A stuck ID gets a new name after stuckAfter, and again whenever the delay has doubled.
	if again := bits.Len64(uint64(max(0, task.Overdue) / stuckAfter)); again > 0 {
		id = fmt.Sprintf("%s:again%d", id, again)
	}

	_, err = client.EnqueueContext(ctx, asynq.NewTask(task.Type, payload),
		asynq.Queue(task.Queue),
		asynq.TaskID(id),
		asynq.MaxRetry(neverArchive),
		asynq.Timeout(taskTimeout),
	)
	if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
		return fmt.Errorf("enqueue %s: %w", id, err)
	}

	return nil
}

// record stores the outcome of an attempt to enqueue.
func (q *Queue) record(err error) {
	// An attempt that the worker's stop has ended is no evidence about Redis.
	if q.ctx.Err() != nil {
		return
	}

	q.refused.Store(err != nil)

	if err != nil {
		q.throttled.Error(err)
	}
}

// LogError logs an error of a loop that keeps running, once a minute for each text, and not during
// an outage of Redis.
func (q *Queue) LogError(what string, err error) { q.throttled.Error(what+": ", err) }

// failing reports whether the last Redis command, or the last attempt to enqueue, failed. The
// schedule tries again every few seconds and the idle server asks for tasks all the time, so that
// the end of an outage shows soon.
func (q *Queue) failing() bool { return q.refused.Load() || q.monitor.failing() }

// unavailable reports whether Redis has failed for longer than reconnecting takes.
func (q *Queue) unavailable() bool {
	select {
	case <-q.started:
		return q.refused.Load() || q.monitor.unavailable()
	default:
		return false
	}
}

// Warning returns a sentence for the operator while Redis is unavailable, else "".
func (q *Queue) Warning() string {
	if !q.unavailable() {
		return ""
	}
	return "the job queue (Redis) is unavailable; this worker takes due work from the database"
}
