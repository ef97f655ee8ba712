package jobs_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/redistest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// backlog writes n due deliveries of the site.
func backlog(tb testing.TB, d *db.DB, siteID model.SiteID, n int) {
	tb.Helper()

	at := model.At(noon)
	err := dbtest.Exec(
		d,
		`INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
SELECT ?, ? + n, 'conversion', 'purchase', 'pending', 0, ?, ?, '{"type":"conversion"}' FROM numbers`,
		n-1,
		siteID,
		model.FirstTimeID(at),
		at,
		at,
	)
	testkit.NoError(tb, err)
}

// deadReceiver accepts connections and never responds. calls returns how many there are.
func deadReceiver(tb testing.TB) (url string, calls func() int) {
	tb.Helper()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(tb, err)

	accepted := make(chan net.Conn, 10_000)
	done := make(chan struct{})
	go func() {
		defer close(done)

		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}

			accepted <- conn
		}
	}()

	tb.Cleanup(func() {
		l.Close()
		<-done
		close(accepted)
		for conn := range accepted {
			conn.Close()
		}
	})

	return "https://" + l.Addr().String(), func() int { return len(accepted) }
}

// TestDeadReceiverDelaysNoOther checks that deliveries of other sites are made while thousands wait
// for an unresponsive receiver. Meanwhile that receiver gets no more calls than its lane has
// permits.
func TestDeadReceiverDelaysNoOther(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		url, calls := deadReceiver(t)
		dead := newSite(t, d, "dead.example", url, "")
		backlog(t, d, dead.ID, 5_000)
		r := newReceiver(t, a, status(200))
		startOn(t, redistest.URL(t), a, jobs.Options{DB: d, Now: testkit.NewClock(noon).Now})
		awaitThat(t, func() (string, bool) { return fmt.Sprintf("%d calls of the dead receiver", calls()), calls() >= 2 })

		for i := range 20 {
			site := newSite(t, d, fmt.Sprintf("site%d.example", i), r.URL, "")
			delivery := due(t, d, site, noon)

			if i%5 == 0 {
				awaitDelivered(t, d, site, delivery.ID)
			}
		}

		awaitThat(t, func() (string, bool) { n := len(r.all()); return fmt.Sprintf("%d calls of the others", n), n == 20 })
		attempts, err := dbtest.Count(d, "delivery_attempts")
		if err != nil || attempts-20 > 3*8 {
			t.Errorf("%d attempts for the dead receiver, %v", attempts-20, err)
		}
	})
}

// BenchmarkDeadReceiver measures how long other sites' deliveries wait while a hundred thousand are
// due for one dead receiver.
func BenchmarkDeadReceiver(b *testing.B) {
	a := newAuthority(b)
	dbtest.EachBenchmark(b, func(b *testing.B, d *db.DB) {
		url, calls := deadReceiver(b)
		backlog(b, d, newSite(b, d, "dead.example", url, "").ID, 100_000)
		arrived := make(chan time.Time, 1)
		r := newReceiver(b, a, func(int, http.ResponseWriter, *http.Request) { arrived <- time.Now() })
		now := func() time.Time { return noon.Add(time.Second) }
		dbtest.SetClock(d, now)

		j, err := jobs.New(jobs.Options{DB: d, RedisURL: redistest.URL(b), Now: now,
			Log: slog.New(slog.DiscardHandler), WebhookNets: loopback, WebhookAuthorities: a.pool})
		testkit.NoError(b, err)
		testkit.NoError(b, j.Start())
		defer j.Stop(context.Background())

		testkit.Await(b, "the first calls", func() bool { return calls() > 0 })

		site := newSite(b, d, "shop.example", r.URL, "")
		var took []time.Duration

		for b.Loop() {
			began := time.Now()

			// No notifier announces it.
			due(b, d, site, noon)
			took = append(took, (<-arrived).Sub(began))

			// The lane becomes empty, so that the next one is not sent in the same turn.
			time.Sleep(50 * time.Millisecond)
		}

		slices.Sort(took)
		b.ReportMetric(took[len(took)/2].Seconds(), "p50-s")
		b.ReportMetric(took[len(took)-1].Seconds(), "max-s")
	})
}

// startCrowded starts a worker with only the given number of free tasks until the test ends. Its
// calls have a long timeout; answer ends the calls of unresponsive receivers.
func startCrowded(t *testing.T, d *db.DB, a *authority, tasks int, answer func()) *testkit.Clock {
	t.Helper()

	var waiting atomic.Int32
	release := make(chan struct{})
	now := testkit.NewClock(noon)
	j := newQuick(t, d, a, now.Now, endless, jobs.WithoutSchedule)
	j.PrepareOccupy(func() { waiting.Add(1) }, release)
	run(t, j)
	t.Cleanup(func() { close(release); answer() })
	j.Occupy(jobs.Tasks - tasks)

	awaitThat(t, func() (string, bool) {
		n := int(waiting.Load())
		return fmt.Sprintf("%d tasks are taken, want %d", n, jobs.Tasks-tasks), n == jobs.Tasks-tasks
	})

	return now
}

// endless gives receivers more time than a test takes.
func endless(s *jobs.Settings) {
	jobs.CallTimeout(2 * patience)(s)
	jobs.AttemptTimeout(2 * patience)(s)
}

// silentReceiver accepts calls, and responds only after answer is called.
func silentReceiver(tb testing.TB, a *authority) (r *receiver, answer func()) {
	tb.Helper()
	hold := make(chan struct{})
	r = newReceiver(tb, a, func(_ int, _ http.ResponseWriter, _ *http.Request) { <-hold })
	answer = sync.OnceFunc(func() { close(hold) })
	tb.Cleanup(answer)
	return r, answer
}

// silentSites makes n sites of the account of site. Each has deliveries of the kind to r that are
// due at noon.
func silentSites(t *testing.T, d *db.DB, site *model.Site, r *receiver, n int, kind, body string, deliveries int) {
	t.Helper()

	at := model.At(noon)
	err := dbtest.Exec(d, `INSERT INTO sites (account_id, site_key, domain, name, plan, monthly_pageviews, created_at,
  conversion_webhook_url, daily_export_url, daily_export_day)
SELECT account_id, 'silent' || CAST(n AS text), 'silent' || CAST(n AS text), 'silent', plan, monthly_pageviews, created_at, ?, ?, ?
FROM sites CROSS JOIN `+numbers(n)+` WHERE id = ?`, r.URL, r.URL, at.Day(), site.ID)
	testkit.NoError(t, err)

	err = dbtest.Exec(
		d,
		`INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
SELECT id, ? + n, ?, 'event', 'pending', 0, ?, ?, ? FROM sites CROSS JOIN `+numbers(deliveries)+` WHERE name = 'silent'`,
		model.FirstTimeID(at),
		kind,
		at,
		at,
		body,
	)
	testkit.NoError(t, err)
}

// numbers returns a table of the numbers from 1 to n. Citus has no recursive statements on
// distributed tables.
func numbers(n int) string {
	rows := make([]string, n)
	for i := range rows {
		rows[i] = fmt.Sprintf("SELECT %d AS n", i+1)
	}
	return "(" + strings.Join(rows, " UNION ALL ") + ") AS numbers"
}

// checkServed checks that a worker delivers to the site while that many calls wait for a receiver
// that does not respond. The worker submits what becomes due now after all that was due before, and
// the queue keeps that order. So a delivery would not be made if the others had all tasks.
func checkServed(t *testing.T, d *db.DB, silent *receiver, now *testkit.Clock, site *model.Site, calls int) {
	t.Helper()
	awaitThat(t, func() (string, bool) {
		// On a busy machine a TLS handshake may time out: its delivery is due again later.
		now.Add(time.Second)
		n := len(silent.all())
		return fmt.Sprintf("%d calls wait for the receiver, want %d", n, calls), n >= calls
	})

	for i := range 3 {
		awaitDelivered(t, d, site, due(t, d, site, noon.Add(-time.Duration(i)*time.Second)).ID)
	}
}

// TestManyDeadReceivers checks that a site with a responsive receiver gets its deliveries while
// more sites than a worker has tasks wait for unresponsive receivers.
func TestManyDeadReceivers(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const bound, tasks = 128, 136 // of lanes with unknown health; in all
		healthy := newSite(t, d, "shop.example", newReceiver(t, a, status(200)).URL, "")
		silent, answer := silentReceiver(t, a)
		now := startCrowded(t, d, a, tasks, answer)
		awaitEnd(t, d, healthy, due(t, d, healthy, noon).ID)
		silentSites(t, d, healthy, silent, tasks/2+2, model.DeliveryConversion, `{"type":"conversion"}`, 2)
		checkServed(t, d, silent, now, healthy, bound)
	})
}

// TestExportsDelayNoOther: while the exports of more sites than a worker has tasks for wait for a
// receiver that does not respond, a conversion of another site is delivered.
func TestExportsDelayNoOther(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const bound, tasks = 32, 40 // of exports; in all
		shop := newSite(t, d, "shop.example", newReceiver(t, a, status(200)).URL, "")
		silent, answer := silentReceiver(t, a)
		now := startCrowded(t, d, a, tasks, answer)
		silentSites(
			t, d, shop, silent, tasks+5, model.DeliveryDailyExport,
			fmt.Sprintf(`{"day":%d,"part":1,"parts":1}`, model.At(noon).Day()-1), 1,
		)

		checkServed(t, d, silent, now, shop, bound)
	})
}
