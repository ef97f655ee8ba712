package inprocess

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestGraphQLRequests checks what of a client's request reaches GraphQL, and that a panic or a
// broken answer there becomes an INTERNAL error.
func TestGraphQLRequests(t *testing.T) {
	var got *http.Request
	answer := func(w http.ResponseWriter) { fmt.Fprint(w, `{"data":{"sites":{"totalCount":0,"nodes":[]}}}`) }
	log := &testkit.Log{}
	api := New(Options{Log: slog.New(slog.NewJSONHandler(log, nil)), GraphQL: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		answer(w)
	})})

	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader("{}"))
	for name, value := range map[string]string{
		"Authorization": "Bearer tgl_link", "Cookie": "session=1", "Origin": "https://app.example.com", "Accept-Encoding": "gzip",
		"X-Forwarded-For": "192.0.2.9", "Accept-Language": "de", PasswordHeader: "secret", "Transfer-Encoding": "chunked",
	} {
		r.Header.Set(name, value)
	}
	c := &Call{API: api, HTTP: r, Authorization: "Bearer tgv_viewer"}
	const query = "query Sites { sites { totalCount } }"

	if response := c.Run(t.Context(), query, nil); len(response.Errors) > 0 {
		t.Errorf("got %+v", response)
	}
	want := http.Header{"Authorization": {"Bearer tgv_viewer"}, "Content-Type": {"application/json"}, "Accept": {"application/json"},
		"X-Forwarded-For": {"192.0.2.9"}, "Accept-Language": {"de"}}
	if !reflect.DeepEqual(got.Header, want) || got.Method != http.MethodPost || got.URL.Path != "/graphql" {
		t.Errorf("GraphQL got %s %s %v, want %v", got.Method, got.URL, got.Header, want)
	}
	if r.Header.Get("Cookie") == "" || r.URL.Path != "/mcp" {
		t.Error("the client's request was changed")
	}

	for name, broken := range map[string]func(http.ResponseWriter){
		"panic":   func(http.ResponseWriter) { panic("bug") },
		"HTML":    func(w http.ResponseWriter) { fmt.Fprint(w, "<html>") },
		"nothing": func(http.ResponseWriter) {},
	} {
		answer = broken
		response := c.Run(t.Context(), query, nil)
		if len(response.Errors) != 1 || response.Errors[0].Extensions.Code != "INTERNAL" {
			t.Errorf("%s: %+v", name, response)
		}
	}
	if !strings.Contains(log.String(), `"panic":"bug"`) {
		t.Errorf("the panic is not logged: %s", log)
	}
}

// TestKeptLinks checks that a viewer token is kept until it expires, for the token and the password
// of its link alone.
func TestKeptLinks(t *testing.T) {
	kept, now := newLinks(), time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	kept.add([32]byte{1}, viewer{"tgv_1", now.Add(time.Hour)})
	for _, test := range []struct {
		key  byte
		at   time.Duration
		want string
	}{{1, 0, "tgv_1"}, {1, 58 * time.Minute, "tgv_1"}, {1, 59 * time.Minute, ""}, {1, 2 * time.Hour, ""}, {2, 0, ""}} {
		testkit.Equal(t, kept.get([32]byte{test.key}, now.Add(test.at)), test.want, "key %d after %v", test.key, test.at)
	}
	for i := range 2 * maxLinks {
		kept.add([32]byte{byte(i), byte(i >> 8), 1}, viewer{"x", now.Add(time.Hour)})
	}
	testkit.Equal(t, kept.opened.Len(), maxLinks, "links are kept")
}
