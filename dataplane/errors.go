package dataplane

import (
	"log/slog"
	"net/http"

	"github.com/tallygate/tallygate/dataplane/captcha"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/web"
)

// handler is an HTTP handler that returns its error instead of writing it.
type handler func(http.ResponseWriter, *http.Request) error

// serve turns a handler's error into the contract's answer. An error that is not a model.Error,
// such as a panic, is an internal fault: it is logged here, once, and answered with 503
// unavailable. methods are those that the handler accepts; body returns the members of the answer
// to an error.
func serve(log *slog.Logger, methods string, body func(*model.Error) map[string]string, h handler) http.HandlerFunc {
	failures := web.NewFailureLog(log)
	return func(w http.ResponseWriter, r *http.Request) {
		err := web.Try(func() error { return h(w, r) })
		if err == nil {
			return
		}

		shown := web.Shown(err)
		if shown.Kind == model.Unavailable {
			failures.Error(r.Context(), "request failed", err, "path", r.URL.Path)
		}

		web.WriteError(w, shown, methods, body(shown))
	}
}

// code returns the answer of the analytics contract: an error's code, and the field that caused it.
func code(e *model.Error) map[string]string {
	if e.Field == "" {
		return map[string]string{"error": e.Code}
	}
	return map[string]string{"error": e.Code, "field": e.Field}
}

// sentence returns the answer of the captcha contract.
func sentence(e *model.Error) map[string]string { return map[string]string{"error": e.Message} }

// serveCompat is serve for an endpoint of other captchas' interfaces, which answer every call with
// HTTP 200. An error is an internal fault, and is logged.
func serveCompat(log *slog.Logger, h handler) http.HandlerFunc {
	failures := web.NewFailureLog(log)
	return func(w http.ResponseWriter, r *http.Request) {
		if err := web.Try(func() error { return h(w, r) }); err != nil {
			failures.Error(r.Context(), "request failed", err, "path", r.URL.Path)
			captcha.CompatUnavailable(w)
		}
	}
}
