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
// reachable, its schema current and the process not draining. Warnings follow on lines of their own.
func (a *app) health(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if reason := a.notReady(r.Context()); reason != "" {
			http.Error(w, reason, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
		for _, warning := range a.warnings {
			if text := warning(); text != "" {
				fmt.Fprintln(w, "warning:", text)
			}
		}
	})
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
