package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/acme"
	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/dataplane/operatorfile"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/web"
)

// staleFile is a file of the operator after a reload that failed.
type staleFile struct{}

func (staleFile) Check() {}

func (staleFile) State() operatorfile.State {
	return operatorfile.State{Setting: "TALLYGATE_GEO_FILE", Built: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Err: errors.New("x")}
}

// TestReadyzGolden compares the body of /readyz with every warning that needs no other process with
// the file of testdata.
func TestReadyzGolden(t *testing.T) {
	t.Parallel()

	log := slog.New(slog.DiscardHandler)
	clients := web.NewClients([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}, log, time.Now)
	for _, peer := range []string{"127.0.0.1:5000", "10.0.0.1:5000"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = peer
		r.Header.Set("X-Forwarded-For", "10.0.0.99")
		clients.Addr(r)
	}

	a := &App{config: &config.Config{}, log: log, files: OperatorFiles{all: []operatorFile{staleFile{}}}}
	a.acme = acme.New(acme.Options{DB: dbtest.Open(t, dbtest.SQLiteURL(t)), Hosts: []string{"app.example.com"}, Now: time.Now})
	a.readiness = readiness{log: log, check: func(context.Context) (string, error) { return "", nil }}
	a.keyReplaced.Store(true)
	a.commonAway.Store(true)
	a.addChecks(clients)

	mux := http.NewServeMux()
	a.serveHealth(mux)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))

	want, err := os.ReadFile("testdata/readyz.txt")
	testkit.NoError(t, err)
	if w.Code != http.StatusOK || w.Body.String() != string(want) {
		t.Errorf("%d %s, want\n%s", w.Code, w.Body, want)
	}
}
