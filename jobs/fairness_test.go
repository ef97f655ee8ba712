package jobs_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/jobs/redistest"
)

// backlog writes n due deliveries of the site.
func backlog(tb testing.TB, d *db.DB, siteID int64, n int) {
	tb.Helper()
	at := model.At(noon)
	err := dbtest.Exec(d, `INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
SELECT ?, ? + n, 'conversion', 'purchase', 'pending', 0, ?, ?, '{"type":"conversion"}' FROM numbers`, n-1, siteID, model.FirstTimeID(at), at, at)
	if err != nil {
		tb.Fatal(err)
	}
}

// deadReceiver accepts connections and says nothing. calls tells how many it has.
func deadReceiver(tb testing.TB) (url string, calls func() int) {
	tb.Helper()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}

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

// TestDeadReceiverHoldsNobodyUp: while thousands of deliveries wait for a receiver that does not
// answer, those of other sites are made. The dead one has no more calls than its lane has places
// until then.
func TestDeadReceiverHoldsNobodyUp(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		url, calls := deadReceiver(t)
		dead := newSite(t, d, "dead.example", url, "")
		backlog(t, d, dead.ID, 5_000)
		r := newReceiver(t, a, status(200))
		startOn(t, redistest.URL(t), a, jobs.Options{DB: d, Now: (&clock{now: noon}).Now})
		awaitThat(t, func() (string, bool) { return fmt.Sprintf("%d calls of the dead receiver", calls()), calls() >= 2 })

		for i := range 20 {
			site := newSite(t, d, fmt.Sprintf("site%d.example", i), r.URL, "")
			delivery := due(t, d, site, noon)

			if i%5 == 0 {
				if log := awaitEnd(t, d, site, delivery.ID); log.State != model.DeliveryDelivered {
					t.Errorf("delivery %+v", log.Delivery)
				}
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
		if err != nil {
			b.Fatal(err)
		}
		if err := j.Start(); err != nil {
			b.Fatal(err)
		}
		defer j.Stop(context.Background())

		for calls() == 0 {
			time.Sleep(10 * time.Millisecond)
		}

		site := newSite(b, d, "shop.example", r.URL, "")
		var took []time.Duration

		for b.Loop() {
			began := time.Now()

			// nobody rings for it
			due(b, d, site, noon)
			took = append(took, (<-arrived).Sub(began))

			// until the lane is empty, so that the next one is not sent in the same turn
			time.Sleep(50 * time.Millisecond)
		}

		slices.Sort(took)
		b.ReportMetric(took[len(took)/2].Seconds(), "p50-s")
		b.ReportMetric(took[len(took)-1].Seconds(), "max-s")
	})
}

// startCrowded starts a worker of which all places but so many are taken until the test ends. It
// waits long for receivers; answer lets those end that say nothing.
func startCrowded(t *testing.T, d *db.DB, a *authority, places int, answer func()) *jobs.Jobs {
	t.Helper()

	var waiting atomic.Int32
	release := make(chan struct{})
	taken := 0
	j := startQuick(t, d, a, (&clock{now: noon}).Now, endless, func(j *jobs.Jobs) {
		taken = j.OccupyAllBut(places, func() { waiting.Add(1) }, release)
	})

	t.Cleanup(func() { close(release); answer() })
	awaitThat(t, func() (string, bool) {
		n := int(waiting.Load())
		return fmt.Sprintf("%d places are taken, want %d", n, taken), n == taken
	})

	return j
}

// endless makes a worker wait for receivers for as long as a test takes.
func endless(j *jobs.Jobs) {
	j.CallTimeout(2 * patience)
	j.AttemptTimeout(2 * patience)
}

// silentReceiver takes calls and answers none until the function it returns is called.
func silentReceiver(tb testing.TB, a *authority) (r *receiver, answer func()) {
	tb.Helper()
	hold := make(chan struct{})
	r = newReceiver(tb, a, func(_ int, _ http.ResponseWriter, _ *http.Request) { <-hold })
	answer = sync.OnceFunc(func() { close(hold) })
	tb.Cleanup(answer)
	return r, answer
}

// silentSites makes n sites of the account of site, each with deliveries of the kind that are due
// at noon, and whose receiver is r.
func silentSites(t *testing.T, d *db.DB, site *model.Site, r *receiver, n int, kind, body string, deliveries int) {
	t.Helper()

	at := model.At(noon)
	err := dbtest.Exec(d, `INSERT INTO sites (account_id, site_key, domain, name, plan, monthly_pageviews, created_at,
  conversion_webhook_url, daily_export_url, daily_export_day)
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
SELECT account_id, 'silent' || CAST(n AS text), 'silent' || CAST(n AS text), 'silent', plan, monthly_pageviews, created_at, ?, ?, ?
FROM sites CROSS JOIN numbers WHERE id = ?`, n, r.URL, r.URL, at.Day(), site.ID)
	if err != nil {
		t.Fatal(err)
	}

	err = dbtest.Exec(d, `INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
SELECT id, ? + n, ?, 'event', 'pending', 0, ?, ?, ? FROM sites CROSS JOIN numbers WHERE name = 'silent'`,
		deliveries, model.FirstTimeID(at), kind, at, at, body)
	if err != nil {
		t.Fatal(err)
	}
}

// checkServed checks that a worker delivers to the site although at least so many tasks of others
// wait for their receivers. The worker rings for what becomes due now after all that was due
// before, and the queue keeps that order: so one delivery would not be made if the others were
// given all places.
func checkServed(t *testing.T, d *db.DB, j *jobs.Jobs, site *model.Site, others int) {
	t.Helper()
	awaitThat(t, func() (string, bool) {
		n, err := j.UnderWay()
		return fmt.Sprintf("%d tasks under way, want %d; %v", n, others, err), n >= others
	})

	for i := range 3 {
		log := awaitEnd(t, d, site, due(t, d, site, noon.Add(-time.Duration(i)*time.Second)).ID)
		if log.State != model.DeliveryDelivered {
			t.Errorf("delivery %+v", log.Delivery)
		}
	}
}

// TestManyDeadReceivers: while more sites than a worker has places for wait for receivers that say
// nothing, deliveries of a site whose receiver answers are made.
func TestManyDeadReceivers(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const bound, places = 128, 136 // of receivers that are not known yet; in all
		healthy := newSite(t, d, "shop.example", newReceiver(t, a, status(200)).URL, "")
		silent, answer := silentReceiver(t, a)
		j := startCrowded(t, d, a, places, answer)
		awaitEnd(t, d, healthy, due(t, d, healthy, noon).ID)
		silentSites(t, d, healthy, silent, places/2+2, model.DeliveryConversion, `{"type":"conversion"}`, 2)
		checkServed(t, d, j, healthy, bound)
	})
}

// TestExportsHoldNobodyUp: while the exports of more sites than a worker has places for wait for a
// receiver that says nothing, a conversion of another site is delivered.
func TestExportsHoldNobodyUp(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const bound, places = 32, 40 // of exports; in all
		shop := newSite(t, d, "shop.example", newReceiver(t, a, status(200)).URL, "")
		silent, answer := silentReceiver(t, a)
		j := startCrowded(t, d, a, places, answer)
		silentSites(t, d, shop, silent, places+5, model.DeliveryDailyExport, fmt.Sprintf(`{"day":%d,"part":1,"parts":1}`, model.At(noon).Day()-1), 1)
		checkServed(t, d, j, shop, bound)
	})
}
