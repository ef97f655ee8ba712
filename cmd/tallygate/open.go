package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/dataplane/captcha"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/jobs/queue"
	"github.com/tallygate/tallygate/web"
)

// app is a process with its roles, after opening. Nothing is served before run.
type app struct {
	config *Config
	log    *slog.Logger
	db     *db.DB
	keys   *applicationKeys
	hold   *folderHold // on the data folder; nil without one

	control, data *server            // nil without the role
	analytics     *analytics.Service // nil without the data role
	captcha       *captcha.Service   // nil without the data role
	jobs          *jobs.Worker       // nil without the worker role
	notifier      *queue.Notifier    // of a process whose workers are elsewhere; nil without Redis
	metrics       *server            // nil unless configured

	baseConfigured bool // the base URL is set, not derived from the control address

	readiness readiness
	warnings  []func() string // of /readyz, see warn

	draining    atomic.Bool
	keyReplaced atomic.Bool // the database uses an application key that this process does not have
}

// server is one listener with its HTTP server.
type server struct {
	http.Server
	listener net.Listener
	url      string // the public origin
}

// open opens and migrates the database, finds the application key, opens the listeners and creates
// the services of the roles. It does not start them.
func open(ctx context.Context, c *Config, log *slog.Logger) (_ *app, err error) {
	a := &app{config: c, log: log}
	a.readiness.check, a.readiness.log = a.checkDatabase, log
	defer func() {
		if err != nil {
			a.close()
		}
	}()

	if a.db, a.hold, err = openDatabase(ctx, c, log); err != nil {
		return nil, err
	}

	// The start continues: rows without a partition go to the default partition, and the worker
	// tries again.
	if err := retention.New(a.db).EnsurePartitions(ctx, model.At(time.Now())); err != nil {
		log.WarnContext(ctx, "create partitions", "error", err)
	}
	if a.keys, err = openApplicationKeys(ctx, c, a.db, log); err != nil {
		return nil, err
	}

	a.addWarnings()
	a.baseConfigured = c.BaseURL != ""
	if err := a.listen(); err != nil {
		return nil, err
	}

	clients := web.NewClients(prefixes(c.TrustedProxies), log, time.Now)
	a.warn(clients.Warning)

	// Open the jobs first: the other services notify them.
	if err := a.openJobs(); err != nil {
		return nil, err
	}

	if a.jobs != nil {
		a.warn(a.jobs.ClockWarning)
		a.warn(a.jobs.QueueWarning)
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

	return a, nil
}

// close releases what open opened, even after a failed open.
func (a *app) close() {
	for _, s := range a.servers() {
		// Shutdown has usually closed it already.
		_ = s.listener.Close()
	}

	if a.db != nil {
		if err := a.db.Close(); err != nil {
			a.log.Error("close the database", "error", err)
		}
	}

	a.hold.release()
}

// servers returns the servers of this process by role.
func (a *app) servers() map[string]*server {
	servers := make(map[string]*server, 2)

	if a.control != nil {
		servers["control"] = a.control
	}
	if a.data != nil {
		servers["data"] = a.data
	}
	if a.metrics != nil {
		servers["metrics"] = a.metrics
	}

	return servers
}

func prefixes(networks []Network) []netip.Prefix {
	p := make([]netip.Prefix, len(networks))
	for i, n := range networks {
		p[i] = n.Prefix
	}
	return p
}
