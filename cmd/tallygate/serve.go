package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	assets "github.com/tallygate/tallygate/frontend-assets"

	"github.com/tallygate/tallygate/dataplane"
	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/dataplane/captcha"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/files"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/graph"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/export"
	"github.com/tallygate/tallygate/jobs"
)

type serveCommand struct {
	Config `embed:""`
}

// Run serves until ctx ends.
func (c *serveCommand) Run(ctx context.Context, term terminal) error {
	app, err := open(ctx, &c.Config, logger(&c.Config, term.log))
	if err != nil {
		return err
	}
	return app.run(ctx)
}

type migrateCommand struct {
	Config `embed:""`
}

// Run migrates and exits.
func (c *migrateCommand) Run(ctx context.Context, term terminal) error {
	d, hold, err := openDatabase(ctx, &c.Config, logger(&c.Config, term.log))
	if err != nil {
		return err
	}
	defer hold.release()

	if err := retention.New(d).EnsurePartitions(ctx, model.At(time.Now())); err != nil {
		return errors.Join(fmt.Errorf("make partitions: %w", err), d.Close())
	}

	fmt.Fprintln(term.out, "The schema is up to date.")
	return d.Close()
}

// The limits of both HTTP servers. A download extends its own write deadline while the reader keeps
// up.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 60 * time.Second
	maxHeaderBytes    = 16 << 10
)

// drainTimeout bounds the whole way from the signal to the end of the process, and requestsTimeout
// the part of it that requests under way have. It is longer than a hit can take.
const (
	drainTimeout    = 25 * time.Second
	requestsTimeout = 8 * time.Second
)

// app is a process with its roles: opened, but not serving yet.
type app struct {
	config *Config
	log    *slog.Logger
	db     *db.DB
	keys   *applicationKeys
	hold   *folderHold // on the data folder; nil without one

	control, data *server            // nil without the role
	analytics     *analytics.Service // nil without the data role
	captcha       *captcha.Service   // nil without the data role
	jobs          *jobs.Jobs         // nil without the worker role
	bell          *jobs.Bell         // of a process whose workers are elsewhere; nil without a Redis to ring in
	metrics       *server            // nil unless asked for

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

// open checks the configuration against the world: it opens and migrates the database, finds the
// application key and takes the addresses. Nothing is served before run.
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

	// Not a reason to stay away: rows without a partition go to the default one, and the worker
	// tries again.
	if err := retention.New(a.db).EnsurePartitions(ctx, model.At(time.Now())); err != nil {
		log.WarnContext(ctx, "make partitions", "error", err)
	}
	if a.keys, err = openApplicationKeys(ctx, c, a.db, log); err != nil {
		return nil, err
	}

	a.addWarnings()
	a.baseConfigured = c.BaseURL != ""
	if err := a.listen(); err != nil {
		return nil, err
	}

	clients := dataplane.NewClients(prefixes(c.TrustedProxies), log, time.Now)
	a.warn(clients.Warning)

	// first: the others ring for it
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

// openDatabase takes hold of the data folder, if it is used, and opens and migrates the database.
// The caller closes the database and then releases the hold.
func openDatabase(ctx context.Context, c *Config, log *slog.Logger) (d *db.DB, hold *folderHold, err error) {
	if c.usesDataFolder() {
		if hold, err = holdFolder(ctx, c, log); err != nil {
			return nil, nil, err
		}
	}

	if d, err = prepareDatabase(ctx, c, hold); err != nil {
		hold.release()
		return nil, nil, err
	}

	return d, hold, nil
}

func prepareDatabase(ctx context.Context, c *Config, hold *folderHold) (*db.DB, error) {
	d, err := db.Open(c.databaseURL())
	if err != nil {
		return nil, err
	}

	if hold != nil && hold.accepted {
		if err := files.New(d).QuickCheck(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("without its log the database is damaged, restore a backup: %w", err), d.Close())
		}
	}

	if err := d.Migrate(ctx, time.Now); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the database: %w", err), d.Close())
	}

	return d, nil
}

// listen takes the addresses of the roles, and settles the public origins that follow from them.
func (a *app) listen() error {
	c := a.config
	var err error

	if c.Has(RoleControl) {
		if a.control, err = listen("control", string(c.ControlAddr), &c.BaseURL); err != nil {
			return err
		}
	}

	if c.Has(RoleData) {
		if a.data, err = listen("data", string(c.DataAddr), &c.AnalyticsURL); err != nil {
			return err
		}
	}

	// A process without one of the roles still names the other's origin, in script tags for
	// instance.
	if c.BaseURL == "" {
		c.BaseURL = "http://" + Origin(c.ControlAddr)
	}
	if c.AnalyticsURL == "" {
		c.AnalyticsURL = "http://" + Origin(c.DataAddr)
	}
	if c.CaptchaURL == "" {
		c.CaptchaURL = c.AnalyticsURL
	}

	return nil
}

func listen(role, addr string, origin *Origin) (*server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--%s-addr: %w", role, err)
	}
	if *origin == "" {
		*origin = Origin("http://" + l.Addr().String())
	}

	return &server{listener: l, url: string(*origin), Server: http.Server{
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// What net/http has to say comes with the client's address, which no log may have. Our
		// handlers speak for themselves.
		ErrorLog: log.New(io.Discard, "", 0),
	}}, nil
}

func (a *app) openControl(clients *dataplane.Clients) error {
	c := a.config
	sessions, err := auth.New(auth.Options{
		DB:          a.db,
		Secret:      a.keys.current,
		Rotation:    a.keys.rotation,
		BaseURL:     string(c.BaseURL),
		Signups:     c.Signups,
		CaptchaPlan: c.DefaultCaptchaPlan,
		NoMail:      a.sendsNoMail(),
		ServesHits:  c.Has(RoleData),
		ClientAddr:  clients.Addr,
		IsShared:    clients.Shared,
		Now:         time.Now,
	})
	if err != nil {
		return err
	}

	var graphiQL http.Handler

	if c.GraphiQL {
		graphiQL = assets.GraphiQL()
	}

	api, err := graph.New(graph.Options{
		DB:                a.db,
		Auth:              sessions,
		BaseURL:           string(c.BaseURL),
		AnalyticsURL:      string(c.AnalyticsURL),
		CaptchaURL:        string(c.CaptchaURL),
		AllowLocalDomains: c.AllowLocalDomains,
		DefaultSitePlan:   c.DefaultSitePlan,
		WebhookNets:       prefixes(c.WebhookAllowNets),
		Now:               time.Now,
		Log:               a.log,
		Introspection:     c.Introspection,
		ClientAddr:        clients.Addr,
		IsShared:          clients.Shared,
		GraphiQL:          graphiQL,
		Ring:              a.ring(),
	})
	if err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.Handle("/graphql", api)

	if c.GraphiQL {
		mux.Handle("/graphiql/", graphiQL)
	}

	mux.Handle(export.Path, export.Handler(export.Options{DB: a.db, User: sessions.Downloader, Log: a.log}))
	mux.Handle("GET "+auth.ResetPage, auth.Page())
	mux.Handle("GET "+auth.InvitationPage, auth.Page())
	mux.Handle("GET "+auth.SignUpPage, auth.Page())
	mux.Handle("GET /{$}", http.RedirectHandler("/graphql", http.StatusFound))
	a.health(mux)
	handler := onlyFor(c.BaseURL, a.baseConfigured, recovering(a.log, mux))

	if c.BaseURL.isHTTPS() {
		handler = overTLS(handler)
	}

	a.control.Handler = a.leaving(handler)
	return nil
}

func (a *app) openData(ctx context.Context, clients *dataplane.Clients) (err error) {
	userIDKey, err := keys.New(a.db).UserIDKey(ctx)
	if err != nil {
		return err
	}

	a.analytics = analytics.New(analytics.Options{
		DB:         a.db,
		UserIDKey:  userIDKey,
		VisitorKey: keys.New(a.db).VisitorKey,
		ClientAddr: clients.Addr,
		IsShared:   clients.Shared,
		FloodBurst: a.config.FloodBurst,
		FloodRate:  a.config.FloodRate,
		Now:        time.Now,
		Store:      a.db.HitStore(),
		Log:        a.log,
		Ring:       a.ring(),
	})

	a.captcha, err = captcha.New(captcha.Options{
		DB:         a.db,
		Secret:     a.keys.current,
		Rotation:   a.keys.rotation,
		ClientAddr: clients.Addr,
		IsShared:   clients.Shared,
		Difficulty: a.config.CaptchaDifficulty,
		Now:        time.Now,
		Store:      a.db.CaptchaStore(),
		Log:        a.log,

		NoTestSitekey: !a.config.CaptchaTestSitekey,
	})
	if err != nil {
		return err
	}

	data := dataplane.Handler(dataplane.Options{Analytics: a.analytics, Captcha: a.captcha, Assets: assets.Handler(), Log: a.log})
	health := http.NewServeMux()
	a.health(health)

	// The data plane is not behind a ServeMux, which would redirect a path such as //collect.php.
	handler := recovering(a.log, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz", "/readyz":
			health.ServeHTTP(w, r)
		default:
			data.ServeHTTP(w, r)
		}
	}))

	// one plain origin may share the host
	if a.config.AnalyticsURL.isHTTPS() && a.config.CaptchaURL.isHTTPS() {
		handler = overTLS(handler)
	}

	a.data.Handler = a.leaving(handler)
	return nil
}

// run serves until ctx ends, then drains.
func (a *app) run(ctx context.Context) error {
	defer a.close()

	a.warnOfExposedFiles()
	a.warnOfPlainOrigins()
	defer a.background(files.New(a.db).WriteBack, a.watchKeys)()

	if a.analytics != nil {
		a.analytics.Start()
		a.captcha.Start()
	}

	if a.bell != nil {
		a.bell.Start()
	}

	if a.jobs != nil {
		if err := a.jobs.Start(); err != nil {
			return err
		}
	}

	failed := make(chan error, 3)

	for role, s := range a.servers() {
		a.log.Info("listening", "role", role, "addr", s.listener.Addr().String(), "url", s.url)
		go func() {
			if err := s.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("%s listener: %w", role, err)
			}
		}()
	}

	var err error
	select {
	case <-ctx.Done():
		a.announceStop()
	case err = <-failed:
	}

	return errors.Join(err, a.drain())
}

// background starts tasks that run until their context ends, and returns what ends them and waits
// for them.
func (a *app) background(tasks ...func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, task := range tasks {
		wg.Go(func() { task(ctx) })
	}

	return func() {
		cancel()
		wg.Wait()
	}
}

// drain ends the process's work in the order that loses nothing:
//
//  1. say "not ready", so that a load balancer stops sending (announceStop, before it);
//  2. stop accepting on all listeners at once and finish the requests under way, which still need the writer; what takes
//     longer than its share of the time, such as a download to a slow reader, is cut off;
//  3. stop the writers, which store whatever a request left behind;
//  4. stop the workers, whose tasks still need the database;
//  5. close the database (in run).
func (a *app) drain() error {
	a.draining.Store(true)
	err := a.finishRequests()
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout-requestsTimeout)
	defer cancel()

	if a.analytics != nil {
		err = errors.Join(err, a.analytics.Stop(ctx), a.captcha.Stop(ctx))
	}
	if a.jobs != nil {
		err = errors.Join(err, a.jobs.Stop(ctx))
	}
	if a.bell != nil {
		err = errors.Join(err, a.bell.Stop())
	}

	a.log.Info("stopped", "clean", err == nil)
	return err
}

// announceStop answers "draining" to readiness checks and serves on for the configured time, so
// that load balancers take the process out before its listeners close. A second signal ends the
// wait.
func (a *app) announceStop() {
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(again)

	a.log.Info("draining", "delay", a.config.DrainDelay.String())
	a.draining.Store(true)

	if a.config.DrainDelay == 0 {
		return
	}

	delay := time.NewTimer(a.config.DrainDelay)
	defer delay.Stop()

	select {
	case <-delay.C:
	case <-again:
		a.log.Info("a second signal ends the wait")
	}
}

// leaving ends each connection with its answer while the process drains. A connection that a load
// balancer keeps would otherwise be closed when the next request is on it.
func (a *app) leaving(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// finishRequests stops all listeners. A hit is answered within seconds, whatever happens; only the
// control plane's requests are ever cut off, and that is no fault.
func (a *app) finishRequests() error {
	ctx, cancel := context.WithTimeout(context.Background(), requestsTimeout)
	defer cancel()

	var group errgroup.Group
	for role, s := range a.servers() {
		group.Go(func() error {
			err := s.Shutdown(ctx)
			if err == nil {
				return nil
			}

			a.log.Warn("requests were cut off", "role", role)

			if closeErr := s.Close(); role == "control" {
				return closeErr
			}

			return fmt.Errorf("drain %s listener: %w", role, err)
		})
	}

	return group.Wait()
}

// close gives back what open took. It may follow a half-done open.
func (a *app) close() {
	for _, s := range a.servers() {
		// usually closed by Shutdown already
		_ = s.listener.Close()
	}

	if a.db != nil {
		if err := a.db.Close(); err != nil {
			a.log.Error("close the database", "error", err)
		}
	}

	a.hold.release()
}

// servers are the listeners of this process, by role.
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
