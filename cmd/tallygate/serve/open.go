// Package serve runs the service: it opens what the configured roles need, serves, and drains. The
// commands start it, and the end-to-end tests start the same. The rules of hits, tokens, accounts
// and deliveries are in the packages that it connects.
package serve

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tallygate/tallygate/cmd/tallygate/acme"
	"github.com/tallygate/tallygate/cmd/tallygate/background"
	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/cmd/tallygate/database"
	"github.com/tallygate/tallygate/cmd/tallygate/secret"
	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/dataplane/captcha"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/jobs/queue"
	"github.com/tallygate/tallygate/web"
)

// App is a process with its roles, after Open. Nothing is served before Run.
type App struct {
	config *config.Config      // of this process
	whole  *config.Config      // of this process and its child; config without a child
	child  *background.Process // has the roles other than data; nil if this process has all roles
	parent *background.Parent  // of a child; else nil
	log    *slog.Logger
	db     *db.DB
	keys   *secret.Keys
	hold   *database.Hold // on the data folder; nil without one

	files OperatorFiles // empty without the data role

	control, data *server            // nil without the role
	analytics     *analytics.Service // nil without the data role
	captcha       *captcha.Service   // nil without the data role
	jobs          *jobs.Worker       // nil without the worker role
	notifier      *queue.Notifier    // of a process whose workers are elsewhere; nil without Redis
	metrics       *server            // nil unless configured
	health        *server            // nil unless configured
	secure        *server            // https; nil unless this process terminates TLS
	plain         *server            // http in front of it; nil without secure
	acme          *acme.Manager      // nil without secure

	registry     *prometheus.Registry
	registerer   prometheus.Registerer // of registry; labels the series of a child
	requests     *web.Requests
	certificates *prometheus.GaugeVec // see newCertificateGauge
	access       *slog.Logger         // of the access log; nil unless configured

	baseConfigured bool // the base URL is set, not derived from the control address

	readiness readiness
	checks    []check // see addChecks

	serving     chan struct{}             // closed when all roles serve for the first time
	ready       func()                    // closes serving
	draining    atomic.Pointer[time.Time] // since when; nil: not
	commonAway  atomic.Bool               // only cells with addresses of their own can be reached
	damaged     sync.Once                 // damaged data was logged
	keyReplaced atomic.Bool               // the database uses an application key that this process does not have
}

// Open opens and migrates the database, finds the application key, opens the listeners and creates
// the services of the roles. It does not start them. The caller calls Run or Close. Open completes
// c: an origin that is not set derives from its listener.
func Open(ctx context.Context, c *config.Config, log *slog.Logger) (*App, error) {
	return open(ctx, c, nil, log)
}

// OpenChild is Open for a child process.
func OpenChild(ctx context.Context, parent *background.Parent, log *slog.Logger) (*App, error) {
	return open(ctx, parent.Settings, parent, log)
}

func open(ctx context.Context, c *config.Config, parent *background.Parent, log *slog.Logger) (_ *App, err error) {
	a := &App{config: c, whole: c, parent: parent, log: log, registry: prometheus.NewRegistry(), requests: web.NewRequests(),
		certificates: newCertificateGauge(), serving: make(chan struct{})}
	a.registerer = a.labelMetrics()
	a.ready = sync.OnceFunc(func() { close(a.serving) })
	a.readiness.check, a.readiness.log = a.checkDatabase, log
	defer func() {
		if err != nil {
			a.Close()
		}
	}()

	if err := Check(c); err != nil {
		return nil, err
	}
	var others *config.Config
	if c.Splits() {
		c, others = c.Split()
		a.config = c
	}
	if a.files, err = OpenOperatorFiles(c, log); err != nil {
		return nil, err
	}
	if a.db, a.hold, err = database.Open(ctx, c, log); err != nil {
		return nil, err
	}
	if parent != nil {
		a.db.AfterNotify(parent.Changed)
	}

	// The start continues: rows without a partition go to the default partition, and the worker
	// tries again.
	if err := retention.New(a.db).EnsurePartitions(ctx, model.At(time.Now())); err != nil {
		log.WarnContext(ctx, "create partitions", "error", err)
	}
	if err := a.checkCells(ctx); err != nil {
		return nil, err
	}
	if a.keys, err = secret.Open(ctx, c, a.db, log); err != nil {
		return nil, err
	}

	if c.AccessLog {
		a.access = slog.New(slog.NewJSONHandler(os.Stdout, nil))
	}

	a.baseConfigured = c.BaseURL != ""
	if err := a.listen(); err != nil {
		return nil, err
	}
	if others != nil {
		a.openChild(others)
	}

	clients := web.NewClients(config.Prefixes(c.TrustedProxies), log, time.Now)
	if parent == nil {
		a.warnOfWideProxies()
	}

	// Open the jobs first: the other services notify them.
	if err := a.openJobs(); err != nil {
		return nil, err
	}

	if a.control != nil {
		if err := a.openControl(clients); err != nil {
			return nil, err
		}
		if err := a.warnOfSignUps(ctx); err != nil {
			return nil, err
		}
	}

	if a.data != nil {
		if err := a.openData(ctx, clients); err != nil {
			return nil, err
		}
	}

	if err := a.openTLS(); err != nil {
		return nil, err
	}
	a.addChecks(clients)
	if err := errors.Join(a.openMetrics(), a.openHealth()); err != nil {
		return nil, err
	}

	return a, nil
}

// Close releases what Open opened, even after a failed Open. Run calls it.
func (a *App) Close() {
	for _, s := range a.servers() {
		// Shutdown has usually closed it already.
		_ = s.listener.Close()
	}

	if a.db != nil {
		if err := a.db.Close(); err != nil {
			a.log.Error("close the database", "error", err)
		}
	}

	a.hold.Release()
}

// servers returns the servers of this process by role.
func (a *App) servers() map[string]*server {
	servers := map[string]*server{"control": a.control, "data": a.data, "metrics": a.metrics, "health": a.health,
		"tls": a.secure, "tls-http": a.plain}
	maps.DeleteFunc(servers, func(_ string, s *server) bool { return s == nil })
	return servers
}

// DB returns the database, which is open until Run returns.
func (a *App) DB() *db.DB { return a.db }

// Serving returns a channel that is closed when all roles serve.
func (a *App) Serving() <-chan struct{} { return a.serving }

// Addr returns the address of the listener "control", "data", "metrics", "health", "tls" or
// "tls-http", or "" without it. The listener of a child process has one from Serving on.
func (a *App) Addr(role string) string {
	if s := a.servers()[role]; s != nil {
		return s.listener.Addr().String()
	}
	if a.child != nil {
		return a.child.Addr(role)
	}
	return ""
}
