// Package webhook delivers to the addresses that site owners set: conversions, daily exports and
// tests. Package jobs starts its sweep and runs its tasks; package queue carries them.
//
// A delivery is a row in the database, written together with the fact that it reports. A worker
// leases it, makes one attempt and records the outcome. Each site and kind of delivery is a lane,
// so that a receiver never delays another receiver. The package never decides which events are
// delivered, and never calls an address that package model refuses.
package webhook

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/jobs/queue"
)

// TaskType is the type of the tasks that Handle runs. It is the same in all versions of the
// program.
const TaskType = "deliveries:send"

const (
	laneTurn      = 30 * time.Second // after which a task lets others run
	lanesPerPage  = 500              // lanes read at once
	lanesPerQuery = 100              // lanes in one query for their deliveries
)

// The times of Options.
const (
	defaultLease   = 45 * time.Second
	defaultAttempt = 2 * callTimeout
)

// Store is the database as the package uses it. *outbox.Store implements it.
type Store interface {
	// DueChannels returns the lanes of alert channels with due messages, longest due first.
	DueChannels(ctx context.Context, now model.Instant, limit int) ([]outbox.DueDelivery, error)
	// DueLanes returns lanes that have a due delivery, in the order of their sites, after a site.
	DueLanes(ctx context.Context, now model.Instant, afterSite model.SiteID, limit int) ([]model.Lane, error)
	// DueDeliveries returns due deliveries of each lane, longest due first.
	DueDeliveries(
		ctx context.Context, pages []outbox.LanePage, now model.Instant,
	) (map[model.Lane][]outbox.DueDelivery, error)
	// LeaseDelivery leases the lane's longest due delivery, or returns nil.
	LeaseDelivery(
		ctx context.Context, lane model.Lane, except []int64, now model.Instant, lease time.Duration,
	) (*outbox.Leased, error)
	// FinishAttempt records the outcome of a leased delivery's attempt.
	FinishAttempt(ctx context.Context, leased *outbox.Leased, result outbox.AttemptResult, now model.Instant) error

	// DailyPartEvents calls each with the rows of a part of a daily export, in their order.
	DailyPartEvents(ctx context.Context, siteID model.SiteID, part *model.DailyPart, each func(*exports.Event) error) error
	// PlanDailyExports writes the deliveries of the days before a day.
	PlanDailyExports(
		ctx context.Context, before model.Day, now model.Instant, failed func(siteID model.SiteID, err error),
	) (int, error)
	// DeliveryBacklog counts the deliveries that wait.
	DeliveryBacklog(ctx context.Context, now model.Instant) (outbox.Backlog, error)
}

// Options configure a Deliverer. Store, Clock, Queue and Log are required.
type Options struct {
	Store Store
	Clock queue.Clock
	Queue *queue.Queue
	Log   *slog.Logger

	AllowedNets []netip.Prefix // may be called in addition to hosts on the internet, on any port
	Authorities *x509.CertPool // sign the receivers' certificates; nil: the system's authorities
	Resolver    *net.Resolver  // nil: the system's

	// CallTimeout is how long a receiver has until its response's header has arrived; 0: 10 s.
	CallTimeout time.Duration

	// AttemptTimeout bounds leasing and calling; 0: 20 s. It is measured on the
	// machine's monotonic clock and must end well before the lease: a process that was paused
	// meanwhile then makes no call that another process has begun. The lease and the body have half
	// of it, so that the receiver always has the other half.
	AttemptTimeout time.Duration

	// Lease is how long a lease keeps other workers away, on the database's clock; 0: 45 s.
	Lease time.Duration

	// BaseURL is the origin of the control plane, which messages to alert channels link to; "":
	// they do not.
	BaseURL string
	// IDs returns the global ids of objects in messages to alert channels.
	IDs func(context.Context) (*nodeid.IDs, error)

	// ShowAnswer reports whether a site's users may see the response of the receiver at an address.
	// nil: only for addresses on the internet.
	ShowAnswer func(receiver netip.Addr) bool
}

// Deliverer sends deliveries that are due.
type Deliverer struct {
	store Store
	clock queue.Clock
	queue *queue.Queue
	log   *slog.Logger

	lease, attemptTimeout time.Duration

	lanes   *lanes
	sender  *sender
	exports *exportLimits

	baseURL string
	ids     func(context.Context) (*nodeid.IDs, error)

	metrics *metrics
}

// New returns a deliverer that handles its queue's tasks of TaskType.
func New(o Options) *Deliverer {
	d := &Deliverer{
		store: o.Store, clock: o.Clock, queue: o.Queue, log: o.Log,
		lease:          cmp.Or(o.Lease, defaultLease),
		attemptTimeout: cmp.Or(o.AttemptTimeout, defaultAttempt),
		lanes:          newLanes(), sender: newSender(o), exports: newExportLimits(),
		metrics: newMetrics(), baseURL: o.BaseURL, ids: o.IDs,
	}

	o.Queue.Handle(TaskType, d.handle)

	return d
}

// Task returns the task that asks for a delivery's next attempt. Its ID names the attempt, so that
// Redis accepts it once. Its payload is the lane: the worker sends the longest due delivery.
func Task(lane model.Lane, id int64, attempts int32) queue.Task {
	name := fmt.Sprintf("%d:%d:%d", lane.SiteID, id, attempts+1)
	if lane.ChannelID != 0 {
		name = fmt.Sprintf("alert:%d:%d:%d", lane.ChannelID, id, attempts+1)
	}
	return queue.Task{
		Type: TaskType, Queue: queue.Deliveries, Payload: lane, Parallel: lanePermits(lane.Kind), ID: name,
	}
}

// submit submits the task of a due delivery.
func (d *Deliverer) submit(due outbox.DueDelivery, now model.Instant) {
	task := Task(due.Lane, due.ID, due.Attempts)
	task.Overdue = now.Sub(due.NextAttemptAt)
	d.queue.Submit(task)
}

// dueChannels is how many alert channels one sweep serves. Others follow when these have been
// served.
const dueChannels = 500

// SweepChannels submits tasks for alert channels with due messages.
func (d *Deliverer) SweepChannels(ctx context.Context, now model.Instant) error {
	channels, err := d.store.DueChannels(ctx, now, dueChannels)
	if err != nil {
		return err
	}

	// Slow channels must not keep others from the first tasks.
	rand.Shuffle(len(channels), func(a, b int) { channels[a], channels[b] = channels[b], channels[a] })
	for _, due := range channels {
		if d.lanes.free(due.Lane) > 0 {
			d.submit(due, now)
		}
	}
	return nil
}

// Notifier asks the workers for a task: a queue or a queue.Notifier.
type Notifier interface{ Notify(queue.Task) }

// Notify asks the workers for the first attempts of deliveries that were just committed.
func Notify(workers Notifier, deliveries []model.Delivery) {
	for i := range deliveries {
		d := &deliveries[i]
		workers.Notify(Task(model.Lane{SiteID: d.SiteID, Kind: d.Kind}, d.ID, d.Attempts))
	}
}

// Sweep submits tasks for due deliveries. Every worker calls it every few seconds: this makes an
// empty or absent Redis, a lost task or a dead worker harmless.
func (d *Deliverer) Sweep(ctx context.Context, now model.Instant) error {
	for after := model.SiteID(0); ; {
		lanes, err := d.store.DueLanes(ctx, now, after, lanesPerPage)
		if err != nil {
			return err
		}

		next := after

		// The next page begins with the last site again, which may have further lanes.
		if len(lanes) > 0 {
			next = lanes[len(lanes)-1].SiteID - 1
		}

		// The order is random, so that all lanes get some of the tasks when these are few.
		rand.Shuffle(len(lanes), func(a, b int) { lanes[a], lanes[b] = lanes[b], lanes[a] })

		for some := range slices.Chunk(lanes, lanesPerQuery) {
			if err := d.sweepLanes(ctx, some, now); err != nil {
				return err
			}
		}

		if len(lanes) < lanesPerPage {
			return nil
		}

		after = next
	}
}

// sweepLanes submits tasks for as many deliveries of each lane as this process has permits for.
func (d *Deliverer) sweepLanes(ctx context.Context, lanes []model.Lane, now model.Instant) error {
	var pages []outbox.LanePage
	for _, lane := range lanes {
		if free := d.lanes.free(lane); free > 0 {
			pages = append(pages, outbox.LanePage{Lane: lane, Limit: free})
		}
	}

	due, err := d.store.DueDeliveries(ctx, pages, now)
	if err != nil {
		return err
	}

	for _, page := range pages {
		for _, delivery := range due[page.Lane] {
			d.submit(delivery, now)
		}
	}

	return nil
}

// handle runs a task: it sends the lane's due deliveries. It returns no error, since the sweep
// submits the work again.
func (d *Deliverer) handle(ctx context.Context, payload []byte) error {
	var lane model.Lane
	if err := json.Unmarshal(payload, &lane); err == nil && (lane.SiteID != 0 || lane.ChannelID != 0) {
		d.drain(ctx, lane)
	}
	return nil
}

// drain sends the lane's due deliveries, one after another, until nothing is due, no permit is free
// or the turn is over. The turn of a slow lane is one attempt, so that slow lanes take turns.
// Errors are logged.
func (d *Deliverer) drain(ctx context.Context, lane model.Lane) {
	for began := time.Now(); time.Since(began) < laneTurn && ctx.Err() == nil && !d.queue.Stopping(); {
		more, err := d.deliver(ctx, lane)
		if err != nil {
			d.log.ErrorContext(ctx, "delivery", "site", lane.SiteID, "channel", lane.ChannelID, "kind", lane.Kind, "error", err)
		}
		if !more || err != nil || d.lanes.isSlow(lane) {
			return
		}
	}
}

// deliver makes one attempt of the lane's longest due delivery. It returns false if nothing is due
// or no permit is free. It never waits for a permit, because it would occupy a task of the queue
// meanwhile.
func (d *Deliverer) deliver(ctx context.Context, lane model.Lane) (bool, error) {
	permit, ok := d.lanes.enter(lane)
	if !ok {
		return false, nil
	}
	defer d.lanes.leave(permit)

	var body *exportBody

	// Reserve memory for the body before the lease, because a lease uses up an attempt.
	if lane.Kind == model.DeliveryDailyExport {
		if body = d.exports.begin(); body == nil {
			return false, nil
		}
		defer body.end()
	}

	leased, deadlines, err := d.leaseNext(ctx, lane)
	if leased == nil {
		return false, err
	}
	defer deadlines.cancel()

	result, err := d.attempt(deadlines, leased, body)
	defer d.lanes.release(lane, leased.ID, result)

	if err != nil {
		d.log.ErrorContext(ctx, "make a delivery's body", "site", leased.SiteID, "delivery", leased.ID, "error", err)
	}

	d.metrics.observe(leased.Kind, result)
	return true, queue.Record(ctx, func(ctx context.Context) error {
		now, err := d.clock.Now(ctx)
		if err != nil {
			return err
		}
		return d.store.FinishAttempt(ctx, leased, result, now)
	})
}

// deadlines are the contexts of one attempt.
type deadlines struct {
	work   context.Context // ends with the attempt
	prompt context.Context // ends after half of it, for all that comes before the call
	cancel context.CancelFunc
}

func newDeadlines(ctx context.Context, attempt time.Duration) deadlines {
	work, cancelWork := context.WithTimeout(ctx, attempt)
	prompt, cancelPrompt := context.WithTimeout(work, attempt/2)
	return deadlines{work, prompt, func() { cancelPrompt(); cancelWork() }}
}

// leaseNext leases the lane's longest due delivery. It returns nil without a due delivery or with
// an error. The attempt's time runs from the lease, not from the wait for the lane's other leases.
func (d *Deliverer) leaseNext(ctx context.Context, lane model.Lane) (leased *outbox.Leased, times deadlines, err error) {
	// The context of the queue ends when Redis is lost, and the receiver would be blamed for the
	// call that was interrupted.
	ctx = context.WithoutCancel(ctx)

	d.lanes.lease(lane, func(sending []int64) int64 {
		times = newDeadlines(ctx, d.attemptTimeout)

		var now model.Instant
		if now, err = d.clock.Now(times.prompt); err == nil {
			leased, err = d.store.LeaseDelivery(times.prompt, lane, sending, now, d.lease)
		}

		if err != nil || leased == nil {
			leased = nil
			times.cancel()
			return 0
		}

		return leased.ID
	})

	return leased, times, err
}

// attempt makes the call, if the site still has an address. It writes the body of a daily export
// first. An error is an internal one, and is also in the result.
func (d *Deliverer) attempt(times deadlines, leased *outbox.Leased, export *exportBody) (outbox.AttemptResult, error) {
	if leased.URL == "" {
		return outbox.AttemptResult{Error: model.AttemptNoWebhook}, nil
	}
	if leased.Fault != nil {
		return outbox.AttemptResult{Error: model.AttemptInternal}, leased.Fault
	}

	body := []byte(leased.Body)
	if leased.Channel != nil {
		ids, err := d.ids(times.prompt)
		if err == nil {
			body, err = d.alertBody(leased, ids)
		}
		if err != nil {
			return outbox.AttemptResult{Error: model.AttemptInternal}, err
		}
	}

	if leased.Kind == model.DeliveryDailyExport {
		var err error
		if body, err = d.dailyBody(times.prompt, leased, export); err != nil {
			return outbox.AttemptResult{Error: model.AttemptInternal}, err
		}

		export.written(len(body))
	}

	return d.sender.send(times.work, leased, body), nil
}
