package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/jobs/queue"
	"github.com/tallygate/tallygate/jobs/webhook"
)

// Settings are a worker's Options and what only tests change.
type Settings = settings

// NewWith is New with further settings.
func NewWith(o Options, change ...func(*Settings)) (*Worker, error) {
	s := settings{Options: o}
	for _, f := range change {
		f(&s)
	}
	return newWorker(s)
}

// Quick makes a worker sweep often. lease is how long a lease keeps others away, on the worker's
// clock.
func Quick(sweepEvery, lease time.Duration) func(*Settings) {
	return func(s *Settings) { s.sweepEvery, s.webhook.Lease = sweepEvery, lease }
}

// WriteMetrics writes the worker's metrics in Prometheus' text format.
func (w *Worker) WriteMetrics(out io.Writer) error {
	registry := prometheus.NewRegistry()
	if err := w.Measure(registry); err != nil {
		return err
	}

	families, err := registry.Gather()
	if err != nil {
		return err
	}

	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(out, family); err != nil {
			return err
		}
	}
	return nil
}

// LogTo replaces a worker's log.
func LogTo(h slog.Handler) func(*Settings) {
	return func(s *Settings) { s.Log = slog.New(h) }
}

// AttemptTimeout bounds leasing and calling.
func AttemptTimeout(d time.Duration) func(*Settings) {
	return func(s *Settings) { s.webhook.AttemptTimeout = d }
}

// CallTimeout bounds the time of a receiver.
func CallTimeout(d time.Duration) func(*Settings) {
	return func(s *Settings) { s.webhook.CallTimeout = d }
}

// DeliverFrom puts a store between the deliveries and the worker's database.
func DeliverFrom(wrap func(webhook.Store) webhook.Store) func(*Settings) {
	return func(s *Settings) { s.webhook.Store = wrap(outbox.New(s.DB)) }
}

// Resolve makes a worker ask another name server.
func Resolve(resolver *net.Resolver) func(*Settings) {
	return func(s *Settings) { s.webhook.Resolver = resolver }
}

// ShowAnswers makes a worker store the responses of receivers in private networks, as it does for
// hosts on the internet.
func ShowAnswers(s *Settings) {
	s.webhook.ShowAnswer = func(netip.Addr) bool { return true }
}

// Allow replaces the networks that webhooks may call in addition to the internet.
func Allow(networks ...netip.Prefix) func(*Settings) {
	return func(s *Settings) { s.WebhookNets = networks }
}

// WithoutSchedule makes a worker run no periodic tasks.
func WithoutSchedule(s *Settings) { s.schedule = []queue.Periodic{} }

// occupier is the type of the tasks of Occupy.
const occupier = "test:waits"

// PrepareOccupy makes a worker accept Occupy's tasks. It must not be called after Start. Each task
// runs until release is closed, and calls begun when it first runs: the queue repeats a
// task if it could not extend the task's lease in time.
func (w *Worker) PrepareOccupy(begun func(), release <-chan struct{}) {
	var first sync.Map
	w.queue.Handle(occupier, func(_ context.Context, payload []byte) error {
		if _, again := first.LoadOrStore(string(payload), true); !again {
			begun()
		}

		<-release
		return nil
	})
}

// Occupy takes n of the tasks that a worker runs at once.
func (w *Worker) Occupy(n int) {
	for i := range n {
		w.queue.Submit(queue.Task{Queue: queue.Default, Type: occupier, ID: fmt.Sprint(occupier, ":", i), Payload: i})
	}
}

// Tasks is how many tasks a worker runs at once.
const Tasks = queue.Concurrency

// RunSchedule runs each task of the schedule once, without a queue.
func (w *Worker) RunSchedule(ctx context.Context) error {
	var all error
	for _, task := range w.schedule {
		if err := task.Run(ctx); err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", task.Name, err))
		}
	}
	return all
}
