package web

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
)

// Panic is a recovered panic as an error.
type Panic struct {
	Value any
	Stack []byte
}

// NewPanic returns the panic that a deferred function has recovered, with the stack of the caller.
func NewPanic(value any) *Panic { return &Panic{Value: value, Stack: debug.Stack()} }

// Error implements error. The stack is left out, so that a log can throttle it.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Try calls f and returns its error, or a *Panic if it panics.
func Try(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = NewPanic(value)
		}
	}()
	return f()
}

// Recover answers a request whose handler panics with status 500, and logs the panic without the
// client's address. A handler that aborts its answer with http.ErrAbortHandler still does so.
func Recover(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := Try(func() error { next.ServeHTTP(w, r); return nil })

		if p, ok := errors.AsType[*Panic](err); ok {
			if p.Value == http.ErrAbortHandler {
				panic(http.ErrAbortHandler)
			}

			log.ErrorContext(r.Context(), "panic", "path", r.URL.Path, "panic", p.Value, "stack", string(p.Stack))
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
}
