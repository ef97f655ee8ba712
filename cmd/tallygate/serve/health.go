package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tallygate/tallygate/dataplane/flight"
	"github.com/tallygate/tallygate/db/damage"
	"github.com/tallygate/tallygate/db/files"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/db/sites"
)

const (
	// readyTimeout is the longest wait for the database in a readiness check.
	readyTimeout = 2 * time.Second

	// readyFresh is the lifetime of a cached readiness result.
	readyFresh = time.Second
)

// healthPaths are the paths that serveHealth adds.
var healthPaths = []string{"/healthz", "/readyz"}

// The checks of readiness, by the names that /readyz shows.
const (
	checkDrain    = "drain"
	checkDatabase = "database"
	checkDamage   = "damage"
)

// reasonUnreachable is the reason of a database that does not answer in time.
const reasonUnreachable = "database not reachable"

// damagedReason is the reason of a database that reported damaged data to this process. It lasts
// until the process ends: a restore needs a start anyway.
const damagedReason = "database damaged"

// failure is a readiness check that fails.
type failure struct {
	check  string
	reason string // one of a fixed set, so it contains no secret
	since  time.Time
}

// serveHealth adds two endpoints. /healthz responds while the process runs. /readyz responds with
// 200 only while the database is readable and writable (see checkDatabase), its schema is current,
// it has reported no damaged data to this process, and the process does not drain. The first line
// is then "ok", followed by a line "warning: …" for each condition that an operator should check,
// and by a line "file: …" for each file of the operator. Otherwise the first line is the reason,
// followed by the name of the check and the time since when it fails. With format=json, for the
// doctor, the body of a 200 has the findings instead.
func (a *App) serveHealth(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")

		if f := a.notReady(); f != nil {
			http.Error(w, fmt.Sprintf("%s\ncheck: %s\nsince: %s", f.reason, f.check, f.since.UTC().Format(time.RFC3339)),
				http.StatusServiceUnavailable)
			return
		}

		found := a.findings()
		if r.URL.Query().Get("format") == "json" {
			_ = json.NewEncoder(w).Encode(found)
			return
		}

		fmt.Fprintln(w, "ok")
		for _, f := range found {
			fmt.Fprintln(w, "warning:", strings.ReplaceAll(f.Problem, "\n", " "))
		}
		for _, file := range a.files.states() {
			fmt.Fprintln(w, "file:", file.Setting, "of", file.Built.UTC().Format(time.DateOnly))
		}
	})
}

// commonAwayMessage is the warning, and what is logged when it begins.
const commonAwayMessage = "the common database is not reachable or not writable; hits are stored in the cells whose addresses are"

// notReady returns why no requests should be sent to this process, or nil.
func (a *App) notReady() *failure {
	if since := a.draining.Load(); since != nil {
		return &failure{checkDrain, "draining", *since}
	}
	if report := damage.First(); report != nil {
		a.damaged.Do(func() { a.log.Error(damagedReason, "message", report.Message) })
		return &failure{checkDamage, damagedReason, report.At}
	}
	if reason, since := a.readiness.state(); reason != "" {
		return &failure{checkDatabase, reason, since}
	}
	return nil
}

// checkDatabase reads and writes, and returns the fault, or "". A process that only stores hits is
// ready while it can store those of a cell: it knows its sites from before.
func (a *App) checkDatabase(ctx context.Context) (reason string, err error) {
	if a.data == nil || a.control != nil || a.jobs != nil || !a.db.HasCellAddresses() {
		return a.checkCommon(ctx)
	}

	common, cancel := context.WithTimeout(ctx, readyTimeout/2)
	defer cancel()
	reason, err = a.checkCommon(common)
	away := err != nil && a.db.WritesCell(ctx)
	if a.commonAway.Swap(away) != away {
		a.logCommon(away, err)
	}
	if away {
		return "", nil
	}
	return reason, err
}

// logCommon logs that the common database went away, or came back.
func (a *App) logCommon(away bool, err error) {
	if away {
		a.log.Warn(commonAwayMessage, "error", err)
		return
	}
	a.log.Info("the common database serves again, or no cell does")
}

// checkCommon is checkDatabase for the common tables.
func (a *App) checkCommon(ctx context.Context) (reason string, err error) {
	schema, err := migrations.ReadSchema(ctx, a.db)
	switch {
	case err != nil:
		return reasonUnreachable, err
	case schema.TooNew():
		return "database schema is too new", nil
	case len(schema.Pending) > 0:
		return "migrations pending", nil
	}
	if err := files.New(a.db).ProbeWrite(ctx); err != nil {
		return "database not writable", err
	}
	if a.data == nil {
		return "", nil
	}
	if err := errors.Join(sites.New(a.db).Lookup.ProbeRules(ctx), sites.New(a.db).Lookup.ProbeSitekeys(ctx)); err != nil {
		return "settings of sites not readable", err
	}

	return "", nil
}

// readiness caches the state of the database. It checks the database only on request, once at a
// time, and at most once a second.
type readiness struct {
	check  func(context.Context) (reason string, err error)
	log    *slog.Logger
	flight flight.Group[struct{}]

	mu     sync.Mutex
	at     time.Time // time of the last check
	last   string
	failed time.Time // time of the first check that failed since the last one that did not
}

// state returns why the process is not ready and since when, or "". It takes at most readyTimeout.
func (r *readiness) state() (reason string, since time.Time) {
	if reason, since, fresh := r.cached(); fresh {
		return reason, since
	}

	// Callers do not wait for a database that ignores the deadline.
	_, err := r.flight.Get(time.Now().Add(readyTimeout), "", readyTimeout, func(ctx context.Context) (struct{}, error) {
		r.refresh(ctx)
		return struct{}{}, nil
	})
	if err != nil {
		return reasonUnreachable, r.failingSince()
	}

	reason, since, _ = r.cached()
	return reason, since
}

func (r *readiness) cached() (reason string, since time.Time, fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last, r.failed, !r.at.IsZero() && time.Since(r.at) < readyFresh
}

// failingSince returns since when the checks have failed: from now on if the last one did not.
func (r *readiness) failingSince() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed.IsZero() {
		r.failed = time.Now()
	}
	return r.failed
}

// refresh checks the database unless another call has just done so, and logs each change to the
// worse.
func (r *readiness) refresh(ctx context.Context) {
	if _, _, fresh := r.cached(); fresh {
		return
	}

	began := time.Now()
	reason, err := r.check(ctx)

	r.mu.Lock()
	defer r.mu.Unlock()

	if reason != "" && reason != r.last {
		r.log.Warn("not ready", "reason", reason, "error", err)
	}

	switch {
	case reason == "":
		r.failed = time.Time{}
	case r.failed.IsZero():
		r.failed = began
	}

	r.at, r.last = time.Now(), reason
}
