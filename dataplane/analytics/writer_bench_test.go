package analytics

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics/payload"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// BenchmarkCommit measures the writer's batch alone, from decided keys to the durable commit. One
// operation is one hit. The hits are those of a busy installation: 20 sites of very different
// sizes, random visitors and page view ids, and half a million page views that are stored already.
// Ids that count up, or a single site, would keep each batch on a few pages, which no real traffic
// does.
//
// The cases differ in the size of the batch and in the share of page views by new visitors. In
// "reports" every third hit is an engagement report on an earlier page view. Use a count of hits
// such as -benchtime 40000x, so that two runs store the same.
func BenchmarkCommit(b *testing.B) {
	dbtest.EachBenchmark(b, func(b *testing.B, d *db.DB) {
		crowd := newCrowd(b, d)
		crowd.commit(b, 20_000, storedBefore)

		for _, kind := range []struct {
			name               string
			newcomers, reports float64
		}{{"new=75%", 0.75, 0}, {"new=30%", 0.3, 0}, {"reports", 0.5, 0.3}} {
			for _, size := range []int{32, 128, 512} {
				b.Run(fmt.Sprintf("%s/batch=%d", kind.name, size), func(b *testing.B) {
					crowd.newcomers, crowd.reports = kind.newcomers, kind.reports
					before, cpu := crowd.storage(b), processorTime(b)
					b.ReportAllocs()
					b.ResetTimer()

					crowd.commit(b, size, b.N)

					b.StopTimer()
					used, after := processorTime(b)-cpu, crowd.storage(b)
					b.ReportMetric(float64(used.Nanoseconds())/float64(b.N), "cpu-ns/hit")
					b.ReportMetric(float64(after.stored-before.stored)/float64(b.N), "disk-B/hit")
					b.ReportMetric(float64(after.logged-before.logged)/float64(b.N), "log-B/hit")
				})
			}
		}
	})
}

// storedBefore is how many page views BenchmarkCommit stores before it measures.
const storedBefore = 500_000

// crowd is the traffic of many sites and visitors, 100 microseconds apart.
type crowd struct {
	writer  *writer
	db      *db.DB
	sites   []*site
	random  *rand.Rand
	popular *rand.Zipf
	at      time.Time

	newcomers float64 // share of the page views whose visitor has none yet
	reports   float64 // share of the hits that are engagement reports

	views []hit // the latest page views, a ring
	n     int   // page views so far
}

func newCrowd(b *testing.B, d *db.DB) *crowd {
	random := rand.New(rand.NewPCG(1, 1))
	c := &crowd{writer: newWriter(ingest.NewHitStore(dbtest.SitesCell(b, d)), StoreTimeout, nil, nil), db: d, random: random,
		popular: rand.NewZipf(random, 1.2, 1, 19),
		at:      time.Now(), newcomers: 0.75, views: make([]hit, 50_000)}
	b.Cleanup(func() { _ = c.writer.Stop(context.Background()) })

	for i := range 20 {
		c.sites = append(c.sites, modelSite(b, d, fmt.Sprintf("site-%d.example", i), 1<<40))
	}

	return c
}

// commit stores hits in batches.
func (c *crowd) commit(b *testing.B, size, hits int) {
	b.Helper()

	for stored := 0; stored < hits; stored += size {
		batch := make([]*hit, min(size, hits-stored))
		for i := range batch {
			batch[i] = c.hit()
		}

		if _, err := c.writer.Commit(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}

// hit returns a page view of a new visitor, or one of a visitor whose page view is among the
// latest, or a report on one of those.
func (c *crowd) hit() *hit {
	c.at = c.at.Add(100 * time.Microsecond)
	h := hit{site: c.sites[c.popular.Uint64()], at: model.At(c.at), entry: entry{channel: "direct"}}
	known := min(c.n, len(c.views))

	if known > 0 && c.random.Float64() < c.reports {
		earlier := &c.views[c.random.IntN(known)]
		h.site = earlier.site
		h.engagement = newEngagement(&payload.Payload{PageviewID: fmt.Sprintf("%016x", uint64(earlier.pageview.ID)), MS: 5_000, Scroll: 60}, h.site, h.at)
		return &h
	}

	if known == 0 || c.random.Float64() < c.newcomers {
		binary.LittleEndian.PutUint64(h.visitor[:], c.random.Uint64())
		if c.random.IntN(4) == 0 {
			h.entry = entry{channel: "paid search", referrer: "www.google.com",
				campaign: model.Campaign{Source: "google", Medium: "cpc", Name: "spring sale", Gclid: "Cj0KCQiA5NSdBhDfARIsALzs2EDr"}}
		}
	} else {
		earlier := &c.views[c.random.IntN(known)]
		h.site, h.visitor = earlier.site, earlier.visitor
	}

	h.pageview = &model.Pageview{SiteID: h.site.id, ID: int64(c.random.Uint64()), Path: fmt.Sprint("/products/", c.random.IntN(200)),
		Language: "de", WidthRange: 1920}
	c.views[c.n%len(c.views)] = h
	c.n++

	return &h
}

// storage is what a database occupies, and all that was ever written to its log, in bytes.
type storage struct{ stored, logged int64 }

// storage measures the database. SQLite does not count what it writes to its log.
func (c *crowd) storage(b *testing.B) storage {
	b.Helper()

	query := "SELECT page_count * page_size AS stored, 0 AS logged FROM pragma_page_count(), pragma_page_size()"
	if c.db.IsPostgres() {
		query = "SELECT pg_database_size(current_database()) AS stored, (pg_current_wal_insert_lsn() - '0/0')::bigint AS logged"
	}

	rows, err := dbtest.Rows[struct{ Stored, Logged int64 }](c.db, query)
	testkit.NoError(b, err)

	return storage{rows[0].Stored, rows[0].Logged}
}

// processorTime returns the processor time that this process has used. It includes SQLite, but not
// the PostgreSQL server.
func processorTime(b *testing.B) time.Duration {
	b.Helper()

	var usage syscall.Rusage
	testkit.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))

	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkManual measures manual page views, each of which may repeat an automatic one, and for
// comparison automatic ones: on one site with 100,000 visits, whose hits come at 10,000 a second.
// "repeated" are automatic and manual page views in turn, the latter by visitors whose automatic
// one is half a second old.
func BenchmarkManual(b *testing.B) {
	const size, visitors, half = 64, 100_000, 5_000
	for _, kind := range []struct {
		name string
		next func(t *traffic) (visitor int, manual bool)
	}{
		{"automatic", func(t *traffic) (int, bool) { return t.n, false }},
		{"manual", func(t *traffic) (int, bool) { return t.n, true }},
		{"repeated", func(t *traffic) (int, bool) {
			if t.n%2 == 0 {
				return t.n, false
			}
			return t.n - 1 - half, true
		}},
	} {
		b.Run(kind.name, func(b *testing.B) {
			dbtest.EachBenchmark(b, func(b *testing.B, d *db.DB) {
				t := newTraffic(b, d, visitors)
				t.commit(b, 1_000, visitors, func() (int, bool) { return t.n, false })
				b.ResetTimer()
				t.commit(b, size, b.N, func() (int, bool) { return kind.next(t) })
			})
		})
	}
}

// BenchmarkHostile measures ordinary page views in batches half of which are one visitor's, who
// starts a visit with each of them, automatic or manual, and has stored 20,000 page views so
// before.
func BenchmarkHostile(b *testing.B) {
	const size, before = 64, 20_000
	for _, manual := range []bool{false, true} {
		b.Run(fmt.Sprintf("manual=%v", manual), func(b *testing.B) {
			dbtest.EachBenchmark(b, func(b *testing.B, d *db.DB) {
				t := newTraffic(b, d, 100_000)
				t.hostile = func() *hit {
					h := t.pageview(-1, manual)
					h.entry.campaign.Source = fmt.Sprint("source ", t.n)
					return h
				}

				t.commit(b, 1_000, before, func() (int, bool) { return t.n, false })
				b.ResetTimer()
				t.commit(b, size, b.N, func() (int, bool) { return t.n, false })
			})
		})
	}
}

// traffic is page views of one site, 100 microseconds apart.
type traffic struct {
	writer   *writer
	site     *site
	at       time.Time
	n        int // hits so far
	visitors int
	hostile  func() *hit // makes every second hit of a batch; nil for none
}

func newTraffic(b *testing.B, d *db.DB, visitors int) *traffic {
	t := &traffic{
		writer: newWriter(ingest.NewHitStore(dbtest.SitesCell(b, d)), StoreTimeout, nil, nil),
		site:   modelSite(b, d, "example.com", 1<<40), at: time.Now(), visitors: visitors,
	}
	b.Cleanup(func() { _ = t.writer.Stop(b.Context()) })
	return t
}

// commit stores hits in batches. Each hit's visitor and kind come from next.
func (t *traffic) commit(b *testing.B, size, hits int, next func() (visitor int, manual bool)) {
	b.Helper()

	b.ReportAllocs()

	for stored := 0; stored < hits; stored += size {
		batch := make([]*hit, size)
		for i := range batch {
			if t.hostile != nil && i%2 == 1 {
				batch[i] = t.hostile()
				continue
			}

			visitor, manual := next()
			batch[i] = t.pageview((visitor+t.visitors)%t.visitors, manual)
		}

		if _, err := t.writer.Commit(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}

	b.ReportMetric(float64(hits)/b.Elapsed().Seconds(), "hits/s")
}

func (t *traffic) pageview(visitor int, manual bool) *hit {
	t.n++
	t.at = t.at.Add(100 * time.Microsecond)
	return &hit{
		site:    t.site,
		at:      model.At(t.at),
		visitor: model.VisitorID{byte(visitor), byte(visitor >> 8), byte(visitor >> 16)},
		entry:   entry{channel: "direct"},
		pageview: &model.Pageview{SiteID: t.site.id, ID: int64(t.n), Path: "/products/42", Language: "de", WidthRange: 1920,
			Manual: manual},
	}
}
