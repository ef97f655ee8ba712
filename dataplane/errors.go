package dataplane

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// statusOf is the data plane's one table of kinds and HTTP statuses (section 7 of both contracts).
var statusOf = map[model.Kind]int{
	model.Invalid:          http.StatusBadRequest,
	model.Unauthenticated:  http.StatusUnauthorized,
	model.Forbidden:        http.StatusForbidden,
	model.NotFound:         http.StatusNotFound,
	model.MethodNotAllowed: http.StatusMethodNotAllowed,
	model.QuotaExceeded:    http.StatusTooManyRequests,
	model.RateLimited:      http.StatusTooManyRequests,
	model.Unavailable:      http.StatusServiceUnavailable,
}

// handler is an HTTP handler that returns its error instead of writing it.
type handler func(http.ResponseWriter, *http.Request) error

// serve turns a handler's error into the contract's answer. Whatever is not a model.Error, a panic
// included, is ours to mend and, for the caller, temporary: 503 unavailable, logged here and
// nowhere else. The methods are those that the handler takes; text is what the body says of an
// error.
func serve(log *slog.Logger, methods string, text func(*model.Error) string, h handler) http.HandlerFunc {
	failures := quietLog{log: log}
	return func(w http.ResponseWriter, r *http.Request) {
		err := recovered(h, w, r)
		if err == nil {
			return
		}

		shown, ok := errors.AsType[*model.Error](err)
		if !ok || shown.Kind == model.Internal {
			shown = &model.Error{Kind: model.Unavailable, Code: "unavailable", Message: "The service is temporarily unavailable.", Cause: err}
		}
		if shown.Kind == model.Unavailable {
			failures.say(r, err)
		}
		if shown.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(shown.RetryAfter.Seconds()))))
		}

		if shown.Kind == model.MethodNotAllowed {
			w.Header().Set("Allow", methods)
		}

		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(statusOf[shown.Kind])

		// the client may have left; nothing to do then
		_ = json.NewEncoder(w).Encode(map[string]string{"error": text(shown)})
	}
}

// The analytics contract answers with an error's code, the captcha contract with a sentence.
func code(e *model.Error) string     { return e.Code }
func sentence(e *model.Error) string { return e.Message }

// serveOK is serve for an endpoint whose every answer is HTTP 200: after an error, which is ours to
// mend, the body says so.
func serveOK(log *slog.Logger, h handler, unavailable func(http.ResponseWriter)) http.HandlerFunc {
	failures := quietLog{log: log}
	return func(w http.ResponseWriter, r *http.Request) {
		if err := recovered(h, w, r); err != nil {
			failures.say(r, err)
			unavailable(w)
		}
	}
}

// recovered runs a handler and returns a panic as an error, with its stack.
func recovered(h handler, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return h(w, r)
}

// quietLog logs failures of requests, at most one a second: an outage under load must not fill the
// disk.
type quietLog struct {
	log *slog.Logger

	mu      sync.Mutex
	last    time.Time
	skipped int
}

func (q *quietLog) say(r *http.Request, err error) {
	q.mu.Lock()
	now := time.Now()
	if now.Sub(q.last) < time.Second {
		q.skipped++
		q.mu.Unlock()
		return
	}

	skipped := q.skipped
	q.last, q.skipped = now, 0
	q.mu.Unlock()
	q.log.ErrorContext(r.Context(), "request failed", "path", r.URL.Path, "error", err, "more_since_last", skipped)
}
