package main

import (
	"log/slog"
	"net/http"
	"runtime/debug"
)

// recovering responds with 500 if a handler panics, and logs the panic without the client's
// address. http.ErrAbortHandler, by which a handler aborts its response, is passed on.
func recovering(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch p := recover(); p {
			case nil:
			case http.ErrAbortHandler:
				panic(p)
			default:
				log.ErrorContext(r.Context(), "panic", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()

		next.ServeHTTP(w, r)
	})
}
