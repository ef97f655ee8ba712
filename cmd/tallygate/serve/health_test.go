package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/web"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

// TestReadinessChecksOnceASecond checks that concurrent callers share one database check a second,
// and that changes are noticed.
func TestReadinessChecksOnceASecond(t *testing.T) {
	t.Parallel()

	var asked atomic.Int64
	asking, answer := make(chan bool, 1), make(chan string)
	r := readiness{log: slog.New(slog.DiscardHandler), check: func(context.Context) (string, error) {
		asked.Add(1)
		asking <- true
		return <-answer, errors.New("x")
	}}

	var wg sync.WaitGroup
	ask := func(n int, want string) {
		for range n {
			wg.Go(func() {
				if reason, _ := r.state(); reason != want {
					t.Errorf("%q, want %q", reason, want)
				}
			})
		}
	}

	ask(1, "broken")
	<-asking

	// The check is still in flight.
	ask(50, "broken")
	answer <- "broken"
	wg.Wait()
	ask(50, "broken")
	wg.Wait()

	if n := asked.Load(); n != 1 {
		t.Errorf("101 calls asked the database %d times, want 1", n)
	}

	r.mu.Lock()
	r.at = r.at.Add(-readyFresh)
	r.mu.Unlock()
	ask(1, "")
	<-asking
	answer <- ""
	wg.Wait()

	if n := asked.Load(); n != 2 {
		t.Errorf("after a second the database was asked %d times, want 2", n)
	}
}

// TestNotReadySince checks that the time of the first failed check stays while the reason changes,
// and that a new failure has a new one.
func TestNotReadySince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reason := ""
		a := &App{}
		a.readiness = readiness{log: slog.New(slog.DiscardHandler),
			check: func(context.Context) (string, error) { return reason, nil }}
		mux := http.NewServeMux()
		a.serveHealth(mux)

		began := time.Now() // of the test's clock, as all sleeps
		for _, step := range []struct {
			after  time.Duration
			reason string
			since  time.Duration
		}{
			{5 * time.Second, "", 0}, {10 * time.Second, "not writable", 10 * time.Second},
			{20 * time.Second, "not reachable", 10 * time.Second}, {30 * time.Second, "", 0},
			{40 * time.Second, "not reachable", 40 * time.Second},
		} {
			time.Sleep(step.after - time.Since(began))
			reason = step.reason
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))

			status, want := http.StatusOK, "ok\n"
			if step.reason != "" {
				since := began.Add(step.since).UTC().Format(time.RFC3339)
				status, want = http.StatusServiceUnavailable, step.reason+"\ncheck: database\nsince: "+since+"\n"
			}
			if w.Code != status || w.Body.String() != want {
				t.Errorf("after %v: %d %q, want %d %q", step.after, w.Code, w.Body, status, want)
			}
		}

		time.Sleep(time.Minute - time.Since(began))
		a.markDraining()
		time.Sleep(time.Minute)
		a.markDraining()
		if f := a.notReady(); f == nil || f.check != checkDrain || f.since.Sub(began) != time.Minute {
			t.Errorf("draining: %+v", f)
		}
	})
}

// TestReadinessOfAHungDatabase checks that a database that ignores its deadline does not delay
// callers, and is not checked again before it responds.
func TestReadinessOfAHungDatabase(t *testing.T) {
	t.Parallel()

	var asked atomic.Int64
	hung := make(chan bool)
	defer close(hung)

	r := readiness{log: slog.New(slog.DiscardHandler), check: func(context.Context) (string, error) {
		asked.Add(1)
		<-hung
		return "", nil
	}}

	began := time.Now()

	for range 2 {
		if reason, _ := r.state(); reason != "database not reachable" {
			t.Errorf("%q, want that the database is not reachable", reason)
		}
	}

	if took, n := time.Since(began), asked.Load(); took > 5*readyTimeout || n != 1 {
		t.Errorf("two answers took %v, and the database was asked %d times", took, n)
	}
}

// TestReadyzWarnsOfAWrongClock checks that a process whose worker stops deletions because of a
// wrong clock reports that, and stays ready.
func TestReadyzWarnsOfAWrongClock(t *testing.T) {
	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	log := slog.New(slog.DiscardHandler)
	wrong := time.Duration(0)
	j, err := jobs.New(jobs.Options{DB: d, Now: func() time.Time { return time.Now().Add(wrong) }, Log: log})
	testkit.NoError(t, err)

	a := &App{db: d, log: log, jobs: j}
	a.readiness.check, a.readiness.log = a.checkDatabase, log
	a.addChecks(web.NewClients(nil, log, time.Now))
	mux := http.NewServeMux()
	a.serveHealth(mux)

	registry := prometheus.NewRegistry()
	testkit.NoError(t, j.Measure(registry))

	for _, test := range []struct {
		wrong time.Duration
		want  string
	}{{0, "ok\n"}, {time.Hour, "ok\nwarning: worker clock differs from the database's by 3600 s; nothing is deleted\n"},
		{0, "ok\n"}} {
		wrong = test.wrong

		// Compare the clocks, as the running worker does every few seconds.
		if _, err := registry.Gather(); err != nil {
			t.Fatal(err)
		}

		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))

		if w.Code != 200 || w.Body.String() != test.want {
			t.Errorf("%v ahead: %d %q, want %q", test.wrong, w.Code, w.Body, test.want)
		}
	}
}
