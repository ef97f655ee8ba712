package jobs_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
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

// TestDeadReceiverHoldsNobodyUp: while thousands of deliveries wait for a receiver that does not answer, those of other sites
// are made. The dead one has no more calls than its lane has places until then.
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

// BenchmarkDeadReceiver measures how long other sites' deliveries wait while a hundred thousand are due for one dead receiver.
func BenchmarkDeadReceiver(b *testing.B) {
	a := newAuthority(b)
	dbtest.EachBenchmark(b, func(b *testing.B, d *db.DB) {
		url, calls := deadReceiver(b)
		backlog(b, d, newSite(b, d, "dead.example", url, "").ID, 100_000)
		arrived := make(chan time.Time, 1)
		r := newReceiver(b, a, func(int, http.ResponseWriter, *http.Request) { arrived <- time.Now() })
		j, err := jobs.New(jobs.Options{DB: d, RedisURL: redistest.URL(b), Now: func() time.Time { return noon.Add(time.Second) },
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
			due(b, d, site, noon) // nobody rings for it
			took = append(took, (<-arrived).Sub(began))
			time.Sleep(50 * time.Millisecond) // until the lane is empty, so that the next one is not sent in the same turn
		}
		slices.Sort(took)
		b.ReportMetric(took[len(took)/2].Seconds(), "p50-s")
		b.ReportMetric(took[len(took)-1].Seconds(), "max-s")
	})
}

// TestManyDeadReceivers: while more sites than a worker has places for wait for receivers that say nothing, deliveries of a
// site whose receiver answers are made.
func TestManyDeadReceivers(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := newReceiver(t, a, status(200))
		healthy := newSite(t, d, "shop.example", r.URL, "")
		silent, answer := silentReceiver(t, a)
		startQuick(t, d, a, (&clock{now: noon}).Now, func(j *jobs.Jobs) { j.Quick(500*time.Millisecond, time.Hour) }, endless)
		t.Cleanup(answer)
		awaitEnd(t, d, healthy, due(t, d, healthy, noon).ID)
		for i := range 140 {
			backlog(t, d, newSite(t, d, fmt.Sprintf("dead%d.example", i), silent.URL, "").ID, 3)
		}
		awaitThat(t, func() (string, bool) { n := len(silent.all()); return fmt.Sprintf("%d silent calls", n), n >= 100 })
		for i := range 20 {
			log := awaitEnd(t, d, healthy, due(t, d, healthy, noon.Add(-time.Duration(i+1)*time.Second)).ID)
			if log.State != model.DeliveryDelivered {
				t.Errorf("delivery %+v", log.Delivery)
			}
		}
	})
}
