package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/tallygate/tallygate/db/files"
)

const (
	// readyTimeout is the longest wait for the database in a readiness check.
	readyTimeout = 2 * time.Second

	// readyFresh is the lifetime of a cached readiness result.
	readyFresh = time.Second
)

// health adds two endpoints. /healthz responds while the process runs. /readyz responds with 200
// only while the database is readable and writable, its schema is current, and the process does not
// drain. The first line is then "ok", followed by a line "warning: …" for each condition that an
// operator should check.
func (a *App) health(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if reason := a.notReady(); reason != "" {
			http.Error(w, reason, http.StatusServiceUnavailable)
			return
		}

		fmt.Fprintln(w, "ok")

		for _, warning := range a.warnings {
			if text := warning(); text != "" {
				fmt.Fprintln(w, "warning:", strings.ReplaceAll(text, "\n", " "))
			}
		}
	})
}

// warn adds a warning to /readyz. The function returns one line of text while the condition lasts,
// else "". It is called concurrently on each request, so it must not block. Add warnings in Open,
// before anything is served.
func (a *App) warn(warning func() string) { a.warnings = append(a.warnings, warning) }

// addWarnings adds the warnings of this package.
func (a *App) addWarnings() {
	a.warn(func() string {
		if a.keyReplaced.Load() {
			return keyReplacedMessage
		}
		return ""
	})

	if a.hold != nil {
		a.warn(func() string { return a.hold.LogLost() })
	}
}

// notReady returns the reason not to send requests to this process, or "".
func (a *App) notReady() string {
	if a.draining.Load() {
		return "draining"
	}
	return a.readiness.reason()
}

// checkDatabase reads and writes, and returns the fault, or "".
func (a *App) checkDatabase(ctx context.Context) (reason string, err error) {
	schema, err := a.db.Schema(ctx)
	switch {
	case err != nil:
		return "database not reachable", err
	case schema.TooNew():
		return "database schema is too new", nil
	case len(schema.Pending) > 0:
		return "migrations pending", nil
	}
	if err := files.New(a.db).ProbeWrite(ctx); err != nil {
		return "database not writable", err
	}

	return "", nil
}

// readiness caches the state of the database. It checks the database only on request, once at a
// time, and at most once a second.
type readiness struct {
	check  func(context.Context) (reason string, err error)
	log    *slog.Logger
	flight singleflight.Group

	mu   sync.Mutex
	at   time.Time // time of the last check
	last string
}

// reason returns why the process is not ready, or "". It takes at most readyTimeout.
func (r *readiness) reason() string {
	if reason, fresh := r.cached(); fresh {
		return reason
	}

	answer := r.flight.DoChan("", func() (any, error) { return r.refresh(), nil })

	// Callers do not wait for a database that ignores the deadline.
	timeout := time.NewTimer(readyTimeout)
	defer timeout.Stop()

	select {
	case result := <-answer:
		return result.Val.(string)
	case <-timeout.C:
		return "database not reachable"
	}
}

func (r *readiness) cached() (reason string, fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last, !r.at.IsZero() && time.Since(r.at) < readyFresh
}

// refresh checks the database unless another call has just done so, and logs each change to the
// worse.
func (r *readiness) refresh() string {
	if reason, fresh := r.cached(); fresh {
		return reason
	}

	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()

	reason, err := r.check(ctx)

	r.mu.Lock()
	defer r.mu.Unlock()

	if reason != "" && reason != r.last {
		r.log.Warn("not ready", "reason", reason, "error", err)
	}

	r.at, r.last = time.Now(), reason
	return reason
}
