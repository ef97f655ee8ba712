package main

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRecovering(t *testing.T) {
	var logged bytes.Buffer
	server := httptest.NewServer(recovering(slog.New(slog.NewTextHandler(&logged, nil)),
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/abort" {
				panic(http.ErrAbortHandler)
			}
			panic("a mistake")
		})))
	defer server.Close()

	response, err := http.Get(server.URL + "/")
	if err != nil {
		t.Fatal(err)
	}

	response.Body.Close()

	if response.StatusCode != http.StatusInternalServerError || !strings.Contains(logged.String(), "a mistake") ||
		strings.Contains(logged.String(), "127.0.0.1") {
		t.Errorf("status %d, log %q; want 500 and the panic without the address", response.StatusCode, logged.String())
	}

	if response, err := http.Get(server.URL + "/abort"); err == nil {
		response.Body.Close()
		t.Errorf("a broken-off answer arrived as %s", response.Status)
	}
}
