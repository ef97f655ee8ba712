package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/jobs"
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
				if reason := r.reason(); reason != want {
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
		if reason := r.reason(); reason != "database not reachable" {
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
	if err != nil {
		t.Fatal(err)
	}

	a := &App{db: d, log: log, jobs: j}
	a.readiness.check, a.readiness.log = a.checkDatabase, log
	a.warn(j.ClockWarning)
	mux := http.NewServeMux()
	a.health(mux)

	for _, test := range []struct {
		wrong time.Duration
		want  string
	}{{0, "ok\n"}, {time.Hour, "ok\nwarning: worker clock differs from the database's by 3600 s; nothing is deleted\n"},
		{0, "ok\n"}} {
		wrong = test.wrong

		// Compare the clocks, as the running worker does every few seconds.
		_ = j.WriteMetrics(t.Context(), io.Discard)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))

		if w.Code != 200 || w.Body.String() != test.want {
			t.Errorf("%v ahead: %d %q, want %q", test.wrong, w.Code, w.Body, test.want)
		}
	}
}
