package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hibiken/asynq"

	"github.com/tallygate/tallygate/db/outbox"
)

// metrics are the counters of this process since it started. The texts in them come from our own
// lists, so they are few.
type metrics struct {
	mu       sync.Mutex
	attempts map[[2]string]int64 // by kind of delivery and class of failure
	mails    map[string]int64    // by outcome
}

func newMetrics() *metrics {
	return &metrics{attempts: make(map[[2]string]int64), mails: make(map[string]int64)}
}

func (m *metrics) attempt(kind, class string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.attempts[[2]string{kind, class}]++
}

func (m *metrics) mail(outcome string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mails[outcome]++
}

// WriteMetrics writes what the worker does and what waits for it in Prometheus' text form. Numbers
// of the database and of Redis are left out while these do not answer. It returns their errors,
// except while tallygate_queue_up is 0, which says it.
func (j *Jobs) WriteMetrics(ctx context.Context, w io.Writer) error {
	var b strings.Builder
	var backlog outbox.Backlog

	now, err := j.dbNow(ctx)
	if err == nil {
		backlog, err = j.outbox.DeliveryBacklog(ctx, now)
	}

	if err == nil {
		head(&b, "tallygate_deliveries", "gauge", "Deliveries that wait, and those of them that are due.")
		fmt.Fprintf(&b, "tallygate_deliveries{state=\"pending\"} %d\ntallygate_deliveries{state=\"due\"} %d\n", backlog.Pending, backlog.Due)
		head(&b, "tallygate_oldest_due_delivery_seconds", "gauge", "For how long the longest due delivery has been due.")
		age := 0.0

		if backlog.Oldest != 0 {
			age = now.Sub(backlog.Oldest).Seconds()
		}

		fmt.Fprintf(&b, "tallygate_oldest_due_delivery_seconds %g\n", age)
	}

	err = errors.Join(err, j.writeQueues(&b))
	j.writeClock(&b)
	j.metrics.write(&b)
	_, writeErr := io.WriteString(w, b.String())

	return errors.Join(err, writeErr)
}

// writeQueues writes what asynq's queues hold.
func (j *Jobs) writeQueues(b *strings.Builder) error {
	select {
	case <-j.started:
	default:
		return errors.New("the worker was not started")
	}

	up := 1

	if j.queueAway() {
		up = 0
	}

	head(b, "tallygate_queue_up", "gauge", "1 while the job queue works; 0 while it does not and this worker takes due work from the database.")
	fmt.Fprintf(b, "tallygate_queue_up %d\n", up)

	if up == 0 {
		return nil
	}

	inspector := asynq.NewInspectorFromRedisClient(j.redis)
	var lines strings.Builder

	for _, queue := range []string{defaultQueue, deliveryQueue} {
		info, err := inspector.GetQueueInfo(queue)
		if errors.Is(err, asynq.ErrQueueNotFound) {
			// nothing was ever put into it
			continue
		}

		if err != nil {
			return err
		}

		for _, state := range []struct {
			name string
			n    int
		}{{"pending", info.Pending}, {"active", info.Active}, {"scheduled", info.Scheduled}, {"retry", info.Retry}, {"archived", info.Archived}} {
			fmt.Fprintf(&lines, "tallygate_queue_tasks{queue=%q,state=%q} %d\n", queue, state.name, state.n)
		}
	}

	head(b, "tallygate_queue_tasks", "gauge", "Tasks in the job queue.")
	b.WriteString(lines.String())
	return nil
}

func (m *metrics) write(b *strings.Builder) {
	m.mu.Lock()
	defer m.mu.Unlock()

	head(b, "tallygate_delivery_attempts_total", "counter", "Calls of owners' addresses by this process; error is empty for those that were delivered.")

	for _, key := range slices.SortedFunc(maps.Keys(m.attempts), func(x, y [2]string) int { return slices.Compare(x[:], y[:]) }) {
		fmt.Fprintf(b, "tallygate_delivery_attempts_total{kind=%q,error=%q} %d\n", key[0], key[1], m.attempts[key])
	}

	head(b, "tallygate_mails_total", "counter", "Attempts of this process to send a mail.")

	for _, outcome := range slices.Sorted(maps.Keys(m.mails)) {
		fmt.Fprintf(b, "tallygate_mails_total{outcome=%q} %d\n", outcome, m.mails[outcome])
	}
}

func head(b *strings.Builder, name, kind, help string) {
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", name, help, kind)
}
