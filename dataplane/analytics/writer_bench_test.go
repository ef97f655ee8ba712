package analytics

import (
	"fmt"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
)

// BenchmarkCommit measures the writer's batch alone, from decided keys to the durable commit. One
// operation is one hit.
func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			dbtest.EachBenchmark(b, func(b *testing.B, d *db.DB) {
				t := newTraffic(b, d, 20_000)
				t.commit(b, size, b.N, func() (int, bool) { return t.n, false })
			})
		})
	}
}

// BenchmarkManual measures manual page views, each of which may repeat an automatic one, and for
// comparison automatic ones: on one site with 100,000 visits, whose hits come at 10,000 a second. "repeated"
// are automatic and manual page views in turn, the latter by visitors whose automatic one is half a
// second old.
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
	t := &traffic{writer: newWriter(ingest.New(d).HitStore(), nil), site: modelSite(b, d, "example.com", 1<<40), at: time.Now(), visitors: visitors}
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
