package web_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/web"
)

// TestStatuses goes through the kinds of errors (section 7 of both contracts). Internal errors,
// unknown errors and panics are all shown as unavailable.
func TestStatuses(t *testing.T) {
	kind := func(k model.Kind) error { return fmt.Errorf("wrapped: %w", &model.Error{Kind: k, Code: "code"}) }
	for _, test := range []struct {
		err    error
		status int
		code   string
	}{
		{kind(model.Invalid), http.StatusBadRequest, "code"},
		{kind(model.Unauthenticated), http.StatusUnauthorized, "code"},
		{kind(model.Forbidden), http.StatusForbidden, "code"},
		{kind(model.NotFound), http.StatusNotFound, "code"},
		{kind(model.MethodNotAllowed), http.StatusMethodNotAllowed, "code"},
		{kind(model.Conflict), http.StatusConflict, "code"},
		{kind(model.QuotaExceeded), http.StatusTooManyRequests, "code"},
		{kind(model.RateLimited), http.StatusTooManyRequests, "code"},
		{kind(model.Unavailable), http.StatusServiceUnavailable, "code"},
		{kind(model.Internal), http.StatusServiceUnavailable, "unavailable"},
		{errors.New("unknown"), http.StatusServiceUnavailable, "unavailable"},
		{web.NewPanic("wrong"), http.StatusServiceUnavailable, "unavailable"},
	} {
		response := httptest.NewRecorder()
		shown := web.Shown(test.err)
		web.WriteError(response, shown, "POST", nil)

		if response.Code != test.status || shown.Code != test.code {
			t.Errorf("%v: %d %s, want %d %s", test.err, response.Code, shown.Code, test.status, test.code)
		}
	}
}

// TestErrorHeaders checks that Retry-After rounds up, and that status 405 names the methods.
func TestErrorHeaders(t *testing.T) {
	response := httptest.NewRecorder()
	web.WriteError(response, &model.Error{Kind: model.RateLimited, RetryAfter: 1001 * time.Millisecond}, "POST", map[string]string{"error": "x"})

	testkit.Equal(t, response.Header().Get("Retry-After"), "2", "Retry-After")
	if allow := response.Header()["Allow"]; allow != nil {
		t.Errorf("Allow %q with status 429", allow)
	}
	testkit.Equal(t, response.Body.String(), `{"error":"x"}`+"\n", "body")

	response = httptest.NewRecorder()
	web.WriteError(response, &model.Error{Kind: model.MethodNotAllowed}, "POST, OPTIONS", nil)

	if got := response.Header().Get("Allow"); got != "POST, OPTIONS" || response.Header()["Retry-After"] != nil {
		t.Errorf("headers %v, want Allow and no Retry-After", response.Header())
	}
}
