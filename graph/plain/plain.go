// Package plain serves the figures of a site's report by a GET, for dashboards, sheets, badges and
// metrics: as JSON, CSV, SVG or Prometheus text. Each request becomes one GraphQL query of the same
// caller, so permissions, costs, small groups and hidden revenue are GraphQL's.
package plain

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/inprocess"
	"github.com/tallygate/tallygate/graph/limits"
)

// Path is where the files are: a site's id or domain, or the token of a shared link, with the
// ending of a format.
const Path = "/figures/"

// freshness is how long an answer may be used again.
const freshness = time.Minute

// server answers requests for figures.
type server struct{ api *inprocess.API }

// New returns the handler of Path. Its requests must have limits.WithRequest and a deadline.
func New(api *inprocess.API) http.Handler { return &server{api} }

// format writes an answer in one form.
type format struct {
	contentType string
	write       func(a *answer) ([]byte, error)
}

// formats are the forms, by the ending of the file.
var formats = map[string]format{
	"json": {"application/json", writeJSON},
	"csv":  {"text/csv; charset=utf-8", writeCSV},
	"svg":  {"image/svg+xml; charset=utf-8", writeSVG},
	"prom": {"text/plain; version=0.0.4; charset=utf-8", writeProm},
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	header.Add("Vary", "Authorization, Origin, "+inprocess.PasswordHeader)

	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, limits.Refusal(generated.ErrorCodeBadRequest, "Send a GET request."))
		return
	}

	if err := s.answer(w, r); err != nil {
		refuse(w, status(err), err)
	}
}

// answer answers a GET with figures, or returns an error of GraphQL.
func (s *server) answer(w http.ResponseWriter, r *http.Request) *gqlerror.Error {
	site, ending, _ := cutLast(strings.TrimPrefix(r.URL.Path, Path), ".")
	format, ok := formats[ending]
	if !ok || site == "" {
		return invalid("There is no such format. The address ends with the site and one of .json, .csv, .svg, .prom.")
	}
	q, err := parse(r.URL.RawQuery, ending)
	if err != nil {
		return s.errorOf(r, err)
	}

	call, refused := s.call(r, site)
	if refused != nil {
		return refused
	}
	a, err := q.ask(call, site)
	if err != nil {
		return s.errorOf(r, err)
	}
	body, err := format.write(a)
	if err != nil {
		return s.errorOf(r, err)
	}

	allowFrames(w, r, call)
	send(w, r, format.contentType, body, a)
	return nil
}

// call identifies the caller by the token of a shared link in the path, or else by the API token in
// the header.
func (s *server) call(r *http.Request, site string) (*inprocess.Call, *gqlerror.Error) {
	if strings.HasPrefix(site, model.SharedLinkPrefix) {
		return s.api.Call(r, site, nil)
	}
	token, ok := auth.Bearer(r)
	if !ok || token == "" {
		return nil, limits.Refusal(generated.ErrorCodeUnauthenticated,
			"Send an API token with the scope READ as Authorization: Bearer, or put the token of a shared link in place of the site.")
	}
	return s.api.Call(r, token, nil)
}

// allowFrames permits scripts of the pages that may show the report of a shared link in a frame to
// read its figures.
func allowFrames(w http.ResponseWriter, r *http.Request, call *inprocess.Call) {
	if origin := r.Header.Get("Origin"); call.Reads() && slices.Contains(call.Caller.Shared.Link.Origins, origin) {
		w.Header().Set("Access-Control-Allow-Origin", origin)
	}
}

// send sends an answer, or only its tag to a client that has the same figures.
func send(w http.ResponseWriter, r *http.Request, contentType string, body []byte, a *answer) {
	// A shared cache would serve the figures of a link with a password to clients without one.
	scope := "private"
	if a.link && r.Header.Get(inprocess.PasswordHeader) == "" {
		scope = "public"
	}
	header := w.Header()
	header.Set("Cache-Control", fmt.Sprintf("%s, max-age=%d", scope, int(freshness.Seconds())))
	header.Set("Content-Type", contentType)

	// The time of reading differs in each answer, and is no figure.
	sum := sha256.Sum256([]byte(strings.ReplaceAll(string(body), a.asOf, "")))
	tag := `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	header.Set("ETag", tag)
	if slices.Contains(strings.Split(strings.ReplaceAll(r.Header.Get("If-None-Match"), " ", ""), ","), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(body)
}

// errorOf returns an error of a question as GraphQL has it.
func (s *server) errorOf(r *http.Request, err error) *gqlerror.Error {
	if errs, ok := errors.AsType[inprocess.Errors](err); ok {
		e := limits.Refusal(generated.ErrorCode(errs[0].Extensions.Code), "%s", errs[0].Message)
		if errs[0].Extensions.RetryAfter > 0 {
			e.Extensions["retryAfter"] = errs[0].Extensions.RetryAfter
		}
		return e
	}
	if known, ok := errors.AsType[*gqlerror.Error](err); ok {
		return known
	}
	return s.api.Present(r.Context(), err)
}

func invalid(text string, args ...any) *gqlerror.Error {
	return limits.Refusal(generated.ErrorCodeInvalidArgument, text, args...)
}

// errNoSite is the answer for a site that the caller does not reach.
var errNoSite = &gqlerror.Error{
	Message:    "No such site exists, or the token does not reach it.",
	Extensions: map[string]any{"code": "NOT_FOUND"},
}

// status returns the HTTP status of an error of GraphQL.
func status(err *gqlerror.Error) int {
	switch err.Extensions["code"] {
	case "NOT_FOUND":
		return http.StatusNotFound
	case string(generated.ErrorCodeForbidden), string(generated.ErrorCodeAccountSuspended),
		string(generated.ErrorCodeSecondFactorRequired), string(generated.ErrorCodeGroupTooSmall):
		return http.StatusForbidden
	case string(generated.ErrorCodeInvalidArgument), string(generated.ErrorCodeValidationFailed),
		string(generated.ErrorCodeTooExpensive), string(generated.ErrorCodeTooComplex):
		return http.StatusBadRequest
	}
	return inprocess.Status(err)
}

// refuse sends an error as JSON: its code and a text.
func refuse(w http.ResponseWriter, status int, err *gqlerror.Error) {
	header := w.Header()
	if wait, ok := err.Extensions["retryAfter"]; ok {
		header.Set("Retry-After", fmt.Sprint(wait))
	}
	if status == http.StatusUnauthorized {
		header.Set("Www-Authenticate", `Bearer realm="Tallygate"`)
	}
	header.Set("Content-Type", "application/json")
	body, fault := json.Marshal(map[string]string{"error": strings.ToLower(fmt.Sprint(err.Extensions["code"])), "message": err.Message})
	if fault != nil {
		// Texts can be encoded.
		panic(fault)
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// cutLast cuts a text at the last separator.
func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}
