package web_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/web"
)

func TestRecover(t *testing.T) {
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	server := httptest.NewServer(web.Recover(log, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/abort" {
			panic(http.ErrAbortHandler)
		}
		panic("a programming error")
	})))
	defer server.Close()

	response, err := http.Get(server.URL + "/")
	testkit.NoError(t, err)

	response.Body.Close()

	text := logged.String()
	if response.StatusCode != http.StatusInternalServerError || !strings.Contains(text, "a programming error") || strings.Contains(text, "127.0.0.1") {
		t.Errorf("status %d, log %q; want 500 and the panic without the address", response.StatusCode, text)
	}

	if response, err := http.Get(server.URL + "/abort"); err == nil {
		response.Body.Close()
		t.Errorf("an aborted answer arrived as %s", response.Status)
	}
}

// TestTry checks that a panic becomes an error with the stack of the function that panicked.
func TestTry(t *testing.T) {
	err := web.Try(func() error { panicHere(); return nil })
	p, ok := errors.AsType[*web.Panic](err)
	if !ok || p.Error() != "panic: here" || !strings.Contains(string(p.Stack), "panicHere") {
		t.Errorf("got %v, want the panic with its stack", err)
	}

	if err := web.Try(func() error { return http.ErrNoCookie }); err != http.ErrNoCookie {
		t.Errorf("got %v, want the error of the function", err)
	}
}

func panicHere() { panic("here") }
