// Package openapitest checks the answers of the data plane against its OpenAPI document. The test
// servers of the data plane wrap their handlers with Handler, and tests of the whole program send
// their requests through a Transport.
package openapitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tallygate/tallygate/db/model"
)

// recorder passes an answer on and keeps a copy.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.body.Write(b)
	return w.ResponseWriter.Write(b)
}

// Unwrap returns the writer for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// reporter is the part of testing.TB that Handler needs.
type reporter interface {
	Errorf(format string, args ...any)
}

// Handler returns a data plane's handler that fails the test for an answer that differs from the
// document.
func Handler(tb reporter, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sent bytes.Buffer
		read := r.WithContext(r.Context())
		if r.Body != nil {
			read.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(r.Body, &sent), r.Body}
		}

		answer := &recorder{ResponseWriter: w}
		next.ServeHTTP(answer, read)
		if answer.status == 0 {
			answer.status = http.StatusOK
		}
		r.Pattern = read.Pattern

		x := exchange{r, sent.Bytes(), true, answer.status, w.Header(), answer.body.Bytes()}
		err := x.check()
		if f, ok := tb.(*testing.F); ok && err != nil {
			// Methods of F must not be called within a fuzz target.
			panic(fmt.Sprintf("%s: %v", f.Name(), err))
		}
		if err != nil {
			tb.Errorf("%v", err)
		}
	})
}

// Transport is an HTTP transport that compares answers with the document. It ignores requests for
// paths that the document does not have: they may be for another server.
type Transport struct {
	next http.RoundTripper

	mu      sync.Mutex
	errs    []error
	ignored map[string]bool // see Ignore
}

// NewTransport returns a Transport over another one.
func NewTransport(next http.RoundTripper) *Transport { return &Transport{next: next} }

// maxErrors is how many differences a Transport keeps.
const maxErrors = 20

// Errors returns the first differences that were found.
func (t *Transport) Errors() []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.errs)
}

// Ignore leaves out the answers of a host, such as a control listener, which has pages of its own
// under every path.
func (t *Transport) Ignore(host string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ignored == nil {
		t.ignored = make(map[string]bool)
	}
	t.ignored[host] = true
}

func (t *Transport) ignores(host string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ignored[host]
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err != nil || Path(r.URL.Path) == "" || t.ignores(r.URL.Host) {
		return response, err
	}

	body, err := io.ReadAll(response.Body)
	if err != nil {
		// The connection broke. The caller gets the same error when it reads.
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), failing{err}), response.Body}
		return response, nil
	}
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(body))

	x := exchange{request: r, status: response.StatusCode, header: response.Header, body: body}
	if r.Body == nil || r.GetBody != nil {
		x.sent, x.hasSent = sentBody(r), true
	}
	if err := x.check(); err != nil {
		t.add(err)
	}
	return response, nil
}

func (t *Transport) add(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.errs) < maxErrors {
		t.errs = append(t.errs, err)
	}
}

// MessageOf returns the message of a delivery. ok is false for an unknown one.
func MessageOf(kind, event string) (message model.WebhookMessage, ok bool) {
	for _, m := range model.WebhookMessages {
		if m.Kind == kind && (m.Event == event || m.Event == "") {
			return m, true
		}
	}
	return model.WebhookMessage{}, false
}

// Webhook fails the test for the body of a delivery that differs from the document, or from the
// fields in model.WebhookMessages.
func Webhook(tb reporter, name, event, body string) {
	message, ok := MessageOf(name, event)
	if !ok {
		tb.Errorf("model.WebhookMessages lacks the message %s of the event %q", name, event)
		return
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal([]byte(body), &fields)
	for _, field := range message.Fields {
		if _, ok := fields[field]; !ok {
			tb.Errorf("model.WebhookMessages has the field %s in the message %q: %s", field, message.Name, body)
			return
		}
	}
	for field := range fields {
		if !slices.Contains(message.Fields, field) && !slices.Contains(message.Optional, field) {
			tb.Errorf("model.WebhookMessages lacks the field %s in the message %q: %s", field, message.Name, body)
			return
		}
	}

	value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err == nil {
		err = schemaAt("webhooks", name, "post", "requestBody", "content", "application/json", "schema").Validate(value)
	}
	if err != nil {
		tb.Errorf("dataplane/openapi.json does not describe the webhook %s: %v\n%s", name, err, body)
	}
}

// sentBody returns a copy of a request's body.
func sentBody(r *http.Request) []byte {
	if r.Body == nil {
		return nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil
	}
	defer body.Close()
	text, _ := io.ReadAll(body)
	return text
}

// failing is a reader that returns an error.
type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) { return 0, f.err }
