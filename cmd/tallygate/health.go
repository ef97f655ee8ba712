package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// readyTimeout bounds the database's answer to a readiness question.
const readyTimeout = 2 * time.Second

// health adds /healthz, which answers while the process lives, and /readyz, which answers 200 only while the database is
// reachable, its schema current and the process not draining.
func (a *app) health(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if reason := a.notReady(r.Context()); reason != "" {
			http.Error(w, reason, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
		if warning := a.clockWarning(); warning != "" {
			fmt.Fprintln(w, "warning: "+warning)
		}
	})
}

// clockWarning returns why this process's worker deletes nothing; empty when it does, or when there is none.
func (a *app) clockWarning() string {
	if a.jobs == nil {
		return ""
	}
	return a.jobs.ClockWarning()
}

func (a *app) notReady(ctx context.Context) string {
	if a.draining.Load() {
		return "draining"
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	pending, err := a.db.PendingMigrations(ctx)
	switch {
	case err != nil:
		a.log.Warn("not ready", "error", err)
		return "database not reachable"
	case len(pending) > 0:
		return "migrations pending"
	}
	return ""
}
