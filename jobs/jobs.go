// Package jobs is what happens after a request, or without one: the worker role. Tasks travel
// through Redis with asynq, but Redis is only a bell: what must happen follows from rows in the
// database and from the clock, so that an empty Redis delays work and loses none, and workers do it
// themselves while Redis is unavailable. The program starts and stops it; requests never wait for
// it.
package jobs

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/retention"
)

const (
	concurrency    = 256                    // tasks at once in this process; nearly all of them wait for somebody else's server
	checkEvery     = 200 * time.Millisecond // how often an idle worker asks Redis for a task
	tickEvery      = 5 * time.Second        // how often the schedule is looked at
	enqueueTimeout = 3 * time.Second        // for a Redis that accepts and does not answer
	redisTimeout   = time.Second            // for one command; the client tries four times
	taskTimeout    = 10 * time.Minute
	taskRetries    = 3

	// drainTimeout is how long a stopping worker waits for its tasks before it puts them back into
	// the queue.
	drainTimeout = 15 * time.Second
)

// Options are what the worker role works with. DB, Now and Log are required.
type Options struct {
	DB       *db.DB
	RedisURL string // redis://…, redis-sentinel://…, redis-cluster://…, or the same with rediss; empty: a queue inside this process
	Now      func() time.Time
	Log      *slog.Logger

	WebhookNets        []netip.Prefix // may be called beside the internet
	WebhookAuthorities *x509.CertPool // whose certificates webhooks may have; nil: the system's
	Mail               *MailServer    // nil: mails are logged and not sent
	BaseURL            string         // origin of the control plane, which mails name and link to; empty: they do not

	// RetentionMonths is for how many whole months before the current one visits, page views and
	// events are kept; 0: for good.
	RetentionMonths int
}

// Jobs is a worker: it takes tasks from the queue, and puts those in that the schedule asks for.
type Jobs struct {
	db        *db.DB
	accounts  *accounts.Store
	outbox    *outbox.Store
	retention *retention.Store
	now       func() time.Time // this machine's clock; see dbNow
	clock     clockWatch
	log       *slog.Logger
	schedule  []periodic

	retentionMonths int

	timing  timing
	sender  *sender
	send    func(context.Context, *outbox.Claim, []byte) outbox.AttemptResult // the sender\'s; tests put themselves in between
	lanes   *lanes
	exports *exportMemory
	mail    *MailServer
	baseURL string
	metrics *metrics
	bell    *Bell
	direct  *direct

	servers  *redisServers         // nil until Start with an embedded Redis
	embedded *miniredis.Miniredis  // nil with a real Redis
	redis    redis.UniversalClient // what client and server share
	quiet    *quietLog

	redisWatch *watch      // of the commands to Redis
	refused    atomic.Bool // the last attempt to put work into the queue failed

	client *asynq.Client
	server *asynq.Server

	start, stop sync.Once
	started     chan struct{}   // closed when begin has succeeded
	ctx         context.Context // ends when Stop is called
	cancel      context.CancelFunc
	ticker      sync.WaitGroup
	ended       chan struct{} // closed when all is stopped
	endErr      error         // set before
}

// New checks the options and returns a worker that does nothing before Start. It does not need
// Redis to answer.
func New(o Options) (*Jobs, error) {
	if o.DB == nil || o.Now == nil || o.Log == nil {
		return nil, errors.New("jobs: DB, Now and Log are required")
	}

	j := &Jobs{db: o.DB, accounts: accounts.New(o.DB), outbox: outbox.New(o.DB), retention: retention.New(o.DB), now: o.Now, log: o.Log, schedule: schedule, retentionMonths: o.RetentionMonths,
		timing:  usualTiming,
		lanes:   newLanes(),
		exports: &exportMemory{},
		mail:    o.Mail,
		baseURL: o.BaseURL,
		metrics: newMetrics(),
		bell:    newBell(),
		direct:  newDirect(),
		started: make(chan struct{}), ended: make(chan struct{})}

	j.sender = newSender(o.WebhookNets, o.WebhookAuthorities, j.dbTime)
	j.send = j.sender.send
	j.ctx, j.cancel = context.WithCancel(context.Background())

	if o.RedisURL != "" {
		var err error
		if j.servers, err = parseRedisURL(o.RedisURL); err != nil {
			return nil, err
		}
	}

	return j, nil
}

// Start starts working. Later calls do nothing.
func (j *Jobs) Start() error {
	var err error
	j.start.Do(func() { err = j.begin() })
	return err
}

func (j *Jobs) begin() error {
	if j.servers == nil {
		if err := j.embed(); err != nil {
			return fmt.Errorf("embedded queue: %w", err)
		}
	}

	j.redisWatch = &watch{log: j.log}
	j.quiet = &quietLog{log: j.log, now: j.now, troubled: j.redisWatch.troubled}
	j.redis = connect(j.servers, j.redisWatch)
	j.client = asynq.NewClientFromRedisClient(j.redis)
	j.server = asynq.NewServerFromRedisClient(j.redis, asynq.Config{
		Concurrency:       concurrency,
		Queues:            map[string]int{defaultQueue: 1, deliveryQueue: 1},
		TaskCheckInterval: checkEvery,
		Logger:            j.quiet,
		LogLevel:          asynq.WarnLevel,
		ShutdownTimeout:   drainTimeout,
		ErrorHandler: asynq.ErrorHandlerFunc(func(ctx context.Context, task *asynq.Task, err error) {
			j.log.ErrorContext(ctx, "task failed", "task", task.Type(), "error", err)
		}),
	})

	mux := asynq.NewServeMux()
	for _, task := range j.schedule {
		mux.HandleFunc(task.name, func(ctx context.Context, _ *asynq.Task) error { return task.run(j, ctx) })
	}

	mux.HandleFunc(deliverTask, j.runLane)
	mux.HandleFunc(mailTask, j.runMail)

	if err := j.server.Start(mux); err != nil {
		return err
	}

	j.ticker.Go(j.tick)
	j.ticker.Go(j.sweep)
	j.ticker.Go(func() { j.bell.run(j.ctx, j.client) })
	close(j.started)

	return nil
}

// Ping reports whether the queue answers. A worker does its work without it, too.
func (j *Jobs) Ping(ctx context.Context) error {
	select {
	case <-j.started:
		return j.redis.Ping(ctx).Err()
	default:
		return errors.New("the worker was not started")
	}
}

// Ring says that deliveries were committed, so that they begin at once instead of at the next look
// at the database. It never waits: what the queue cannot take now is found by that look.
func (j *Jobs) Ring(deliveries []model.Delivery) { j.bell.Ring(deliveries) }

// Stop takes no more tasks, waits for those under way and ends. A task that takes longer than 15 s
// is put back into the queue, or canceled if it runs without the queue. When ctx ends first, Stop
// returns its error and the rest goes on. It may be called again, and without Start.
func (j *Jobs) Stop(ctx context.Context) error {
	// a worker that never started never will
	j.start.Do(func() {})
	j.stop.Do(func() {
		j.cancel()
		go j.end()
	})

	select {
	case <-j.ended:
		return j.endErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

// end stops everything that begin started, users before what they use.
func (j *Jobs) end() {
	defer close(j.ended)

	j.ticker.Wait()
	var drained sync.WaitGroup
	drained.Go(j.direct.drain)

	if j.server != nil {
		j.server.Shutdown()
		j.endErr = j.redis.Close()
	}

	drained.Wait()

	if j.embedded != nil {
		j.embedded.Close()
	}
}

// embed starts a Redis inside this process, for an installation that is one process. It forgets
// everything at the end, which loses nothing.
func (j *Jobs) embed() error {
	// it listens on loopback, where other programs could reach it
	password := rand.Text()
	j.embedded = miniredis.NewMiniRedis()
	j.embedded.RequireAuth(password)

	if err := j.embedded.Start(); err != nil {
		return err
	}

	j.servers = &redisServers{single: &redis.Options{Addr: j.embedded.Addr(), Password: password}}
	j.ticker.Go(j.age)
	return nil
}

// age lets time pass in the embedded Redis: its keys expire only when told so.
func (j *Jobs) age() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()

	for {
		select {
		case <-j.ctx.Done():
			return
		case <-ticker.C:
			j.embedded.FastForward(time.Second)
		}
	}
}
