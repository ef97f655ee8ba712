package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/tallygate/tallygate/db/outbox"
)

// Quick makes a worker look at the database often, before it is started. lease is how long a claim
// keeps others away, on the worker's clock.
func (j *Jobs) Quick(sweepEvery, lease time.Duration) {
	j.timing = timing{sweepEvery: sweepEvery, lease: lease, attempt: usualTiming.attempt}
}

// LogTo replaces a worker's log, before it is started.
func (j *Jobs) LogTo(h slog.Handler) { j.log = slog.New(h) }

// AttemptTimeout bounds claiming and calling, before a worker is started.
func (j *Jobs) AttemptTimeout(d time.Duration) { j.timing.attempt = d }

// CallTimeout is how long a receiver has for its answer, before a worker is started.
func (j *Jobs) CallTimeout(d time.Duration) { j.sender.timeout = d }

// Around makes a worker call before and after each call of an owner's address, before it is
// started.
func (j *Jobs) Around(before, after func()) {
	send := j.send
	j.send = func(ctx context.Context, c *outbox.Claim, body []byte) outbox.AttemptResult {
		before()
		defer after()
		return send(ctx, c, body)
	}
}

// Resolve makes a worker ask another name server, before it is started.
func (j *Jobs) Resolve(resolver *net.Resolver) { j.sender.dialer.Resolver = resolver }

// ShowAnswers makes a worker keep the answers of receivers in private networks, as it does those of
// hosts on the internet, before it is started.
func (j *Jobs) ShowAnswers() { j.sender.shows = func(netip.Addr) bool { return true } }

// Every makes the worker run what the schedule calls name in periods of the given length, before it
// is started.
func (j *Jobs) Every(name string, every time.Duration) {
	tasks := make([]periodic, len(j.schedule))
	copy(tasks, j.schedule)

	for i := range tasks {
		if tasks[i].name == name {
			tasks[i].every = every
		}
	}

	j.schedule = tasks
}

// Allow replaces the networks that a worker's webhooks may call beside the internet, before it is
// started.
func (j *Jobs) Allow(networks []netip.Prefix) {
	resolver := j.sender.dialer.Resolver
	*j.sender.dialer = *newSender(networks, nil, j.now).dialer
	j.sender.dialer.Resolver = resolver
}

// OccupyAllBut makes a worker's own schedule take all of its places but n, before it is started:
// with as many tasks, which wait until release is closed. Each calls begun when it first runs; the
// queue repeats a task whose lease it could not extend in time. It returns how many they are.
func (j *Jobs) OccupyAllBut(n int, begun func(), release <-chan struct{}) int {
	j.schedule = nil
	for i := range concurrency - n {
		var first sync.Once
		j.schedule = append(j.schedule, periodic{fmt.Sprint("test:waits-", i), 24 * time.Hour, func(*Jobs, context.Context) error {
			first.Do(begun)
			<-release
			return nil
		}})
	}

	return len(j.schedule)
}

// UnderWay is how many tasks of deliveries have a place at this moment.
func (j *Jobs) UnderWay() (int, error) {
	queue, err := asynq.NewInspectorFromRedisClient(j.redis).GetQueueInfo(deliveryQueue)
	if err != nil {
		return 0, err
	}
	return queue.Active, nil
}

// RunSchedule runs each task of the schedule once, without a queue.
func (j *Jobs) RunSchedule(ctx context.Context) error {
	var all error
	for _, task := range j.schedule {
		if err := task.run(j, ctx); err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", task.name, err))
		}
	}
	return all
}
