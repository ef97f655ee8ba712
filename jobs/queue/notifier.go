package queue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

const (
	notifierSize  = 1024        // tasks that wait to be enqueued
	notifierPause = time.Second // after Redis refused a task
)

// Notifier enqueues tasks in the background, for callers that must not wait. It drops what Redis
// does not take: the workers' sweep of the database finds the same work.
type Notifier struct {
	tasks chan Task

	// Only a Notifier of NewNotifier has these. A queue runs its own Notifier.
	redis       redis.UniversalClient
	ctx         context.Context // ends when Stop is called
	cancel      context.CancelFunc
	start, stop sync.Once
	running     sync.WaitGroup
}

func newNotifier() *Notifier { return &Notifier{tasks: make(chan Task, notifierSize)} }

// NewNotifier returns a notifier for a process without the worker role. It enqueues after Start.
// It returns the error of CheckURL. Redis need not be reachable.
func NewNotifier(redisURL string, log *slog.Logger) (*Notifier, error) {
	servers, err := parseURL(redisURL)
	if err != nil {
		return nil, err
	}

	n := newNotifier()
	n.redis = connect(servers, &monitor{log: log})
	n.ctx, n.cancel = context.WithCancel(context.Background())

	return n, nil
}

// Start starts a notifier of NewNotifier. Later calls do nothing.
func (n *Notifier) Start() {
	n.start.Do(func() {
		n.running.Go(func() { n.run(n.ctx, asynq.NewClientFromRedisClient(n.redis)) })
	})
}

// Stop stops a notifier of NewNotifier, and drops the tasks that wait. It may be called again, and
// without Start.
func (n *Notifier) Stop() error {
	var err error

	// A later Start does nothing.
	n.start.Do(func() {})
	n.stop.Do(func() {
		n.cancel()
		n.running.Wait()
		err = n.redis.Close()
	})

	return err
}

// Notify enqueues a task. It never waits: it drops the task if 1,024 others wait.
func (n *Notifier) Notify(task Task) {
	select {
	case n.tasks <- task:
	default:
	}
}

// run enqueues tasks until ctx ends.
func (n *Notifier) run(ctx context.Context, client *asynq.Client) {
	for {
		select {
		case <-ctx.Done():
			return
		case first := <-n.tasks:
			if n.enqueueAll(ctx, client, first) != nil {
				n.pause(ctx)
			}
		}
	}
}

// enqueueAll enqueues the first task and the others that wait already, but no more tasks of one
// payload than can run at once. A task that arrives meanwhile is left to the next call, which
// counts from 0 again: under a steady load the channel is never empty.
func (n *Notifier) enqueueAll(ctx context.Context, client *asynq.Client, task Task) error {
	enqueued := make(map[any]int) // number of tasks by payload

	for waiting := len(n.tasks); ; waiting-- {
		if enqueued[task.Payload]++; enqueued[task.Payload] <= max(1, task.Parallel) {
			if err := enqueue(ctx, client, task); err != nil {
				return err
			}
		}

		// Only this goroutine receives, so that as many tasks as waited still do.
		if waiting == 0 {
			return nil
		}

		task = <-n.tasks
	}
}

// pause waits before the next attempt, and drops the tasks of the meantime.
func (n *Notifier) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(notifierPause):
	}

	// The sweep submits these tasks again.
	for {
		select {
		case <-n.tasks:
		default:
			return
		}
	}
}
