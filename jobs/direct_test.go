package jobs_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/redistest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestQueueAwayRealRedis: while Redis is dead, or does not answer, two workers still send
// deliveries, mails and daily exports, and operators can see the outage. When Redis returns, empty
// or with its data, nothing is sent again.
func TestQueueAwayRealRedis(t *testing.T) {
	t.Parallel()

	for _, outage := range []struct {
		name        string
		begin, stop func(*redistest.Server)
	}{
		{"killed", (*redistest.Server).Kill, (*redistest.Server).Start},
		{"paused", (*redistest.Server).Pause, (*redistest.Server).Resume},
	} {
		t.Run(outage.name, func(t *testing.T) {
			dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
				t.Parallel()

				server, a := redistest.New(t), newAuthority(t)
				clock := testkit.NewClock(noon)
				r, box := newReceiver(t, a, status(200)), newMailbox(t, a, false, welcome)
				var workers []*jobs.Worker

				var d *db.DB
				for range 2 {
					d = dbtest.Open(t, databaseURL)
					workers = append(workers, startOn(t, server.URL(), a, jobs.Options{
						DB: d, Now: clock.Now, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Mail: box.server(t, a, "smtp", "p%40ss%20word"),
					}))
				}

				site := newSite(t, d, "shop.example", r.URL, "")
				testkit.NoError(t, sites.New(d).Sites.SetDailyExportWebhook(t.Context(), site.AccountID, site.ID, r.URL, model.ChangedBy{At: model.At(noon)}))

				before := due(t, d, site, noon)
				awaitEnd(t, d, site, before.ID)

				for _, j := range workers {
					// A busy machine's Redis may answer late, and then the warning ends soon.
					awaitThat(t, func() (string, bool) {
						w, metrics := j.QueueWarning(), metricsOf(t, j)
						return "with a queue: warning " + w + ", metrics\n" + metrics,
							w == "" && strings.Contains(metrics, "\ntallygate_queue_up 1\n")
					})
				}

				outage.begin(server)
				began := time.Now()

				// The next day begins before there is anything to send: later, it would end the
				// leases of the attempts in progress, and they would be repeated.
				clock.Add(24 * time.Hour)

				const n = 20
				for i := range n {
					due(t, d, site, noon)
					queueMail(t, d, "test", fmt.Sprintf("owner%d@example.com", i), "")
				}

				outcome := func() (string, bool) {
					calls, mails := map[string]int{}, map[string]int{}
					for _, call := range r.all() {
						calls[call.id()]++
					}

					box.mu.Lock()
					for _, to := range box.to {
						mails[to]++
					}

					box.mu.Unlock()

					for id, n := range calls {
						if n != 1 {
							t.Errorf("%s arrived %d times", id, n)
						}
					}

					for to, n := range mails {
						testkit.Equal(t, n, 1, "mails arrived at %s", to)
					}

					// The deliveries, the delivery before the outage and a part of the daily
					// export.
					return fmt.Sprintf(
							"%d of %d calls, %d of %d mails",
							len(calls),
							n+2,
							len(mails),
							n,
						), len(calls) == n+2 &&
							len(mails) == n
				}

				awaitThat(t, outcome)
				t.Logf("all was sent %v after the outage began", time.Since(began).Round(100*time.Millisecond))

				for _, j := range workers {
					awaitThat(t, func() (string, bool) {
						w, metrics := j.QueueWarning(), metricsOf(t, j)
						return "without a queue: warning " + w + ", metrics\n" + metrics,
							strings.Contains(w, "Redis") && strings.Contains(metrics, "\ntallygate_queue_up 0\n")
					})
				}

				outage.stop(server)

				for _, j := range workers {
					awaitThat(t, func() (string, bool) {
						return "the outage has not ended", j.QueueWarning() == "" &&
							strings.Contains(metricsOf(t, j), "\ntallygate_queue_up 1\n")
					})
				}

				// Another round of the schedule, through the queue.
				clock.Add(time.Hour)
				after := due(t, d, site, clock.Now())
				awaitDelivered(t, d, site, after.ID)
				testkit.NoError(t, dbtest.Exec(d, "INSERT INTO signin_failures (key, failures, last_at) VALUES (?, 9, 0)", []byte("old")))

				clock.Add(time.Hour)

				// By then the queue would have repeated its periodic tasks.
				awaitThat(t, func() (string, bool) {
					rows, err := dbtest.Count(d, "signin_failures")
					return fmt.Sprintf("%d old sign-in failures left, %v", rows, err), rows == 0
				})

				if message, _ := outcome(); len(r.all()) != n+3 {
					t.Errorf("%d calls in all, want %d; %s", len(r.all()), n+3, message)
				}

				all, twice := checkOutcome(t, d, []*model.Site{site}, r, func(received) bool { return true })
				if all != n+3 || twice != 0 || states(t, d) != strings.TrimSuffix(strings.Repeat("sent 1, ", n), ", ") {
					t.Errorf("%d deliveries, %d twice; mails %s", all, twice, states(t, d))
				}
			})
		})
	}
}

// metricsOf returns the worker's metrics.
func metricsOf(t *testing.T, j *jobs.Worker) string {
	t.Helper()
	var b strings.Builder
	testkit.NoError(t, j.WriteMetrics(&b))
	return b.String()
}
