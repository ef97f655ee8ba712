package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// The queues, and the types of their tasks. They stay when the program changes.
const (
	defaultQueue  = "default"
	deliveryQueue = "deliveries"

	deliverTask = "deliveries:send"
	mailTask    = "mails:send"
)

const (
	bellSize  = 1024        // deliveries that wait to be rung for; more are left to the sweeper
	bellPause = time.Second // after the queue refused

	// neverArchive is more retries than a task can use up. asynq keeps a task that has none left,
	// and its id with it.
	neverArchive = 1_000_000
)

// Bell wakes the workers for deliveries that were just committed. It is all that the other roles
// know of the worker role.
type Bell struct {
	rung chan outbox.DueDelivery

	// Of NewBell only; the bell of a worker runs with it.
	redis       redis.UniversalClient
	ctx         context.Context // ends when Stop is called
	cancel      context.CancelFunc
	start, stop sync.Once
	running     sync.WaitGroup
}

func newBell() *Bell { return &Bell{rung: make(chan outbox.DueDelivery, bellSize)} }

// NewBell returns a bell for a process without the worker role. It rings after Start. It does not
// need Redis to answer.
func NewBell(redisURL string, log *slog.Logger) (*Bell, error) {
	servers, err := parseRedisURL(redisURL)
	if err != nil {
		return nil, err
	}

	b := newBell()
	b.redis = connect(servers, &watch{log: log})
	b.ctx, b.cancel = context.WithCancel(context.Background())

	return b, nil
}

// Start starts the bell of NewBell. Later calls do nothing.
func (b *Bell) Start() {
	b.start.Do(func() {
		b.running.Go(func() { b.run(b.ctx, asynq.NewClientFromRedisClient(b.redis)) })
	})
}

// Stop ends the bell of NewBell. What still waited is left to the sweeper of a worker. It may be
// called again.
func (b *Bell) Stop() error {
	var err error

	// a bell that never started never will
	b.start.Do(func() {})
	b.stop.Do(func() {
		b.cancel()
		b.running.Wait()
		err = b.redis.Close()
	})

	return err
}

// Ring rings for deliveries. It never waits.
func (b *Bell) Ring(deliveries []model.Delivery) {
	for i := range deliveries {
		d := &deliveries[i]
		select {
		case b.rung <- outbox.DueDelivery{Lane: model.Lane{SiteID: d.SiteID, Kind: d.Kind}, ID: d.ID, Tries: d.Tries, NextAttemptAt: d.NextAttemptAt}:
		default:
			return
		}
	}
}

// run rings until ctx ends. Of many deliveries of one lane at once, it rings for as many as can be
// sent at once.
func (b *Bell) run(ctx context.Context, client *asynq.Client) {
	for {
		select {
		case <-ctx.Done():
			return
		case first := <-b.rung:
			if b.ring(ctx, client, first) != nil {
				b.rest(ctx)
			}
		}
	}
}

func (b *Bell) ring(ctx context.Context, client *asynq.Client, due outbox.DueDelivery) error {
	lanes := make(map[model.Lane]int)
	for {
		if lanes[due.Lane]++; lanes[due.Lane] <= slotsOf(due.Kind) {
			if err := enqueueDelivery(ctx, client, due, 0); err != nil {
				return err
			}
		}

		select {
		case due = <-b.rung:
		default:
			return nil
		}
	}
}

// rest lets a queue that refuses alone for a while, and forgets what was rung for meanwhile.
func (b *Bell) rest(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(bellPause):
	}

	for {
		select {
		case <-b.rung:
		default:
			return
		}
	}
}

// enqueueDelivery puts a task for a delivery's next attempt into the queue. The task's id is the
// attempt, so that the queue takes it once however many ring. A queue can lose a task and still
// know its id, when a worker dies with it: a delivery that has been overdue for long gets another
// id now and then.
func enqueueDelivery(ctx context.Context, client *asynq.Client, due outbox.DueDelivery, overdue time.Duration) error {
	payload, err := json.Marshal(due.Lane)
	if err != nil {
		return err
	}
	id := fmt.Sprintf("%d:%d:%d", due.SiteID, due.ID, due.Tries+1)
	return enqueue(ctx, client, asynq.NewTask(deliverTask, payload), deliveryQueue, id, overdue)
}

func enqueue(ctx context.Context, client *asynq.Client, task *asynq.Task, queue, id string, overdue time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, enqueueTimeout)
	defer cancel()

	if again := bits.Len64(uint64(max(0, overdue) / stuckAfter)); again > 0 {
		id = fmt.Sprintf("%s:again%d", id, again)
	}

	_, err := client.EnqueueContext(ctx, task, asynq.Queue(queue), asynq.TaskID(id), asynq.MaxRetry(neverArchive), asynq.Timeout(taskTimeout))
	if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
		return fmt.Errorf("enqueue %s: %w", id, err)
	}

	return nil
}

// stuckAfter is how long a due attempt waits for its task before another one is made, then twice as
// long, and so on.
const stuckAfter = 15 * time.Second
