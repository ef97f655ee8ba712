package analytics

import (
	"fmt"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/model"
)

// BenchmarkCommit measures the writer's batch alone, from decided keys to the durable commit. One operation is one hit.
func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			dbtest.EachBenchmark(b, func(b *testing.B, d *db.DB) { benchCommit(b, d, size) })
		})
	}
}

func benchCommit(b *testing.B, d *db.DB, size int) {
	w := newWriter(d.HitStore(), nil)
	defer w.stop(b.Context())
	site := modelSite(b, d, "example.com", 1<<40)
	n := 0
	next := func() []*hit {
		hits := make([]*hit, size)
		for i := range hits {
			n++
			hits[i] = &hit{
				site:     site,
				at:       model.At(time.Now()),
				visitor:  model.VisitorID{byte(n), byte(n >> 8), byte(n >> 16)},
				entry:    entry{channel: "direct"},
				pageview: &model.Pageview{SiteID: site.id, ID: int64(n), Path: "/products/42", Language: "de", WidthRange: 1920},
			}
			if n > 20_000 {
				n = 0
			}
		}
		return hits
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += size {
		if _, err := w.commit(b.Context(), next()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "hits/s")
}
