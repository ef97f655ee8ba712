// Package jobs is the worker role: work that runs after a request or without any. It decides what
// runs when. Package queue carries the tasks through Redis or memory, webhook makes the deliveries
// and mail sends the mails.
//
// Rows in the database and the clock determine the due work, so that an empty or absent Redis loses
// no work. The program starts and stops a Worker; requests never wait for it.
package jobs

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/cells"
	"github.com/tallygate/tallygate/db/imports"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/explain"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/jobs/alerts"
	"github.com/tallygate/tallygate/jobs/importjob"
	"github.com/tallygate/tallygate/jobs/mail"
	"github.com/tallygate/tallygate/jobs/queue"
	"github.com/tallygate/tallygate/jobs/webhook"
)

const (
	scheduleEvery = 5 * time.Second  // interval at which the schedule is checked
	sweepEvery    = 2 * time.Second  // interval at which the database is read for due work
	clockTimeout  = 3 * time.Second  // for one comparison of the clocks
	sweepTimeout  = 2 * time.Minute  // for one sweep, against a database that does not answer
	importCall    = 20 * time.Second // for one call of the API of another service
)

// Options configure a Worker. DB, Now and Log are required.
type Options struct {
	DB       *db.DB
	RedisURL string // see queue.Options; "": a queue in the memory of this process
	Now      func() time.Time
	Log      *slog.Logger

	WebhookNets        []netip.Prefix   // webhooks may call them in addition to hosts on the internet
	WebhookAuthorities *x509.CertPool   // sign the webhooks' certificates; nil: the system's authorities
	Mail               *mail.Server     // nil: mails are logged and not sent
	Reports            alerts.Figures   // of planned messages to alert channels; nil: none is sent
	Resolver           *net.Resolver    // finds DNS records of providers' domains; nil: the machine's
	Imports            importjob.Reader // reads exports of other services; nil: no imports are run
	BaseURL            string           // origin of the control plane, which mails name and link to; "": they do not

	// RetentionMonths is how many whole months before the current one visits, page views and events
	// are kept; 0: forever.
	RetentionMonths int
	// ReportMonths is how many whole months before the current one reports are kept, which do not
	// need visits, page views and events; 0: forever.
	ReportMonths int
}

// settings are Options and what only tests change.
type settings struct {
	Options
	webhook    webhook.Options  // WebhookNets and what New adds replace its fields
	sweepEvery time.Duration    // 0: the constant
	schedule   []queue.Periodic // nil: newSchedule
}

// Worker runs the schedule, and takes tasks from the queue.
type Worker struct {
	clock    *clock
	queue    *queue.Queue
	webhooks *webhook.Deliverer
	mails    *mail.Mailer
	outbox   *outbox.Store
	reports  *reports.Store
	tasks    *taskMetrics
	imports  *importjob.Runner // nil without Options.Imports

	schedule     []queue.Periodic
	housekeeping *housekeeping // of the schedule; nil if tests give another one
	sweepEvery   time.Duration

	start, stop sync.Once
	ctx         context.Context // ends when Stop is called
	cancel      context.CancelFunc
	loops       sync.WaitGroup
	ended       chan struct{} // closed when everything has stopped
	endErr      error         // set before
}

// New checks the options and returns a worker that does nothing before Start. Redis need not be
// reachable.
func New(o Options) (*Worker, error) { return newWorker(settings{Options: o}) }

func newWorker(s settings) (*Worker, error) {
	if s.DB == nil || s.Now == nil || s.Log == nil {
		return nil, errors.New("jobs: DB, Now and Log are required")
	}

	tasks, err := queue.New(queue.Options{RedisURL: s.RedisURL, Now: s.Now, Log: s.Log})
	if err != nil {
		return nil, err
	}

	w := &Worker{
		clock: &clock{db: s.DB, now: s.Now, log: s.Log}, queue: tasks,
		sweepEvery: cmp.Or(s.sweepEvery, sweepEvery), ended: make(chan struct{}),
		outbox: outbox.New(s.DB), reports: reports.New(s.DB), tasks: newTaskMetrics(),
	}

	o := s.webhook
	o.Clock, o.Queue, o.Log, o.AllowedNets, o.Authorities = w.clock, w.queue, s.Log, s.WebhookNets, s.WebhookAuthorities
	o.BaseURL, o.IDs = s.BaseURL, keys.New(s.DB).NodeIDs
	if o.Store == nil {
		o.Store = w.outbox
	}

	w.webhooks = webhook.New(o)
	w.mails = mail.New(mail.Options{
		Store: w.outbox, Clock: w.clock, Queue: w.queue, Log: s.Log, Server: s.Mail, BaseURL: s.BaseURL,
		IDs: keys.New(s.DB).NodeIDs,
	})

	if s.Imports != nil {
		w.imports = importjob.New(importjob.Options{
			DB: s.DB, Clock: w.clock, Log: s.Log, Reader: s.Imports, Blocked: webhook.ErrBlocked,
			Client: webhook.NewClient(s.WebhookNets, s.WebhookAuthorities, importCall),
		})
	}

	runs := alerts.NewTaskRuns(s.DB, s.Now)
	if w.schedule = slices.Clone(s.schedule); w.schedule == nil {
		changes := alerts.NewChanges(explain.New(w.reports), s.Log)
		w.housekeeping = &housekeeping{
			db: s.DB, accounts: accounts.New(s.DB), resolver: cmp.Or(s.Resolver, net.DefaultResolver), outbox: w.outbox, retention: retention.New(s.DB),
			sites: sites.New(s.DB), cells: cells.New(s.DB), planner: alerts.NewPlanner(s.DB, s.Reports, changes),
			reports: w.reports, imports: imports.New(s.DB), built: w.tasks.built, log: s.Log, exports: w.webhooks,
			retentionMonths: s.RetentionMonths, reportMonths: s.ReportMonths, watcher: alerts.NewWatcher(s.DB, changes),
		}
		w.schedule = newSchedule(w.clock, w.housekeeping)
	}

	for i, task := range w.schedule {
		w.schedule[i].Run = runs.Noted(task.Name, w.tasks.measured(task.Name, task.Run))
	}

	w.ctx, w.cancel = context.WithCancel(context.Background())

	return w, nil
}

// Start starts the worker. Later calls do nothing.
func (w *Worker) Start() error {
	var err error
	w.start.Do(func() { err = w.begin() })
	return err
}

func (w *Worker) begin() error {
	for _, task := range w.schedule {
		w.queue.Handle(task.Name, oneAtATime(task.Run))
	}

	if err := w.queue.Start(w.ctx); err != nil {
		return err
	}

	w.loops.Go(func() { w.every(scheduleEvery, w.submitSchedule) })
	w.loops.Go(func() { w.every(w.sweepEvery, func() { w.sweep("look for due deliveries", w.webhooks.Sweep) }) })
	w.loops.Go(func() { w.every(w.sweepEvery, w.sweepCommon(w.importPlaces())) })

	return nil
}

// sweepCommon returns a function that looks for due mails and import jobs. They are rows of the
// common tables, and share a loop, which wakes an idle process once. The error of one does not keep
// the other from its sweep.
func (w *Worker) sweepCommon(places map[bool]chan struct{}) func() {
	return func() {
		w.sweep("look for due messages to channels", w.webhooks.SweepChannels)
		w.sweep("look for due messages to e-mail addresses", func(ctx context.Context, now model.Instant) error {
			_, err := w.outbox.MailMessages(ctx, now)
			return err
		})
		w.sweep("look for due mails", w.mails.Sweep)

		if w.imports == nil {
			return
		}
		w.sweep("look for due imports", func(ctx context.Context, now model.Instant) error {
			due, err := w.imports.Due(ctx, now)
			for _, api := range due {
				w.startImports(ctx, api, places[api])
			}
			return err
		})
	}
}

// importPlaces returns the places of the import jobs that run at once, by whether they read an API.
func (w *Worker) importPlaces() map[bool]chan struct{} {
	places := make(map[bool]chan struct{}, len(importjob.AtOnce))
	for api, jobs := range importjob.AtOnce {
		places[api] = make(chan struct{}, jobs)
	}
	return places
}

// startImports starts the import jobs that are due while a place is free. They run apart from the
// queue: they take longer than its tasks.
func (w *Worker) startImports(ctx context.Context, api bool, places chan struct{}) {
	for {
		select {
		case places <- struct{}{}:
		default:
			return
		}

		job, err := w.imports.Lease(ctx, api)
		if err != nil || job == nil {
			<-places
			w.logImports("look for due imports", err)
			return
		}
		w.loops.Go(func() {
			defer func() { <-places }()
			w.logImports("run an import", w.imports.Run(w.ctx, job))
		})
	}
}

// logImports logs an error, unless the process stops.
func (w *Worker) logImports(action string, err error) {
	if err != nil && w.ctx.Err() == nil {
		w.queue.LogError(action, err)
	}
}

// oneAtATime returns a handler that does nothing while the task still runs in this process for an
// earlier period. Tasks that wait for a lock would each hold a connection to the database, and
// leave no connection for the deliveries.
func oneAtATime(task func(context.Context) error) queue.Handler {
	var running atomic.Bool

	return func(ctx context.Context, _ []byte) error {
		if !running.CompareAndSwap(false, true) {
			return nil
		}
		defer running.Store(false)

		return task(ctx)
	}
}

// every calls do at once and then at an interval, until Stop.
func (w *Worker) every(interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()

	for {
		do()

		select {
		case <-w.ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// submitSchedule submits the periodic tasks of the current periods. Before that it compares the
// clocks, so that a wrong clock shows although no task runs.
func (w *Worker) submitSchedule() {
	ctx, cancel := context.WithTimeout(w.ctx, clockTimeout)
	defer cancel()

	if _, err := w.clock.Certain(ctx); err != nil && !errors.Is(err, errUncertain) && w.ctx.Err() == nil {
		w.queue.LogError("compare the clocks", err)
	}

	w.queue.SubmitPeriodic(w.schedule)
}

// sweep submits tasks for due work. Deliveries have a loop of their own, because a sweep of many
// cells can take long.
func (w *Worker) sweep(what string, submit func(context.Context, model.Instant) error) {
	ctx, cancel := context.WithTimeout(w.ctx, sweepTimeout)
	defer cancel()

	now, err := w.clock.Now(ctx)
	if err == nil {
		err = submit(ctx, now)
	}

	if err != nil && w.ctx.Err() == nil {
		w.queue.LogError(what, err)
	}
}

// Ping returns an error if the queue does not answer. A worker does its work without it, too.
func (w *Worker) Ping(ctx context.Context) error { return w.queue.Ping(ctx) }

// Notify asks for the first attempts of deliveries that were just committed, so that these do not
// wait for the next sweep. It never waits, and drops deliveries if the queue is full.
func (w *Worker) Notify(deliveries []model.Delivery) { webhook.Notify(w.queue, deliveries) }

// QueueWarning returns a sentence for the operator while the queue is unavailable, else "".
func (w *Worker) QueueWarning() string { return w.queue.Warning() }

// QuotaWarning returns a sentence for the operator while quotas are nearly used up, else "".
func (w *Worker) QuotaWarning() string {
	if w.housekeeping == nil {
		return ""
	}
	return w.housekeeping.quotaWarning()
}

// ClockWarning returns a sentence for the operator while nothing is deleted because the time is not
// certain, else "".
func (w *Worker) ClockWarning() string { return w.clock.Warning() }

// Stop takes no more tasks, and waits for tasks in progress. A task that takes longer than 15 s is
// returned to the queue, or canceled if it runs without the queue. If ctx ends first, Stop returns
// its error, and the worker continues to stop. Stop may be called again, and without Start.
func (w *Worker) Stop(ctx context.Context) error {
	// A later Start does nothing.
	w.start.Do(func() {})
	w.stop.Do(func() {
		w.cancel()
		go w.end()
	})

	select {
	case <-w.ended:
		return w.endErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end stops the loops before the queue that they use.
func (w *Worker) end() {
	defer close(w.ended)
	w.loops.Wait()
	w.endErr = w.queue.Stop()
}
