package reports_test

import (
	"fmt"
	"iter"
	"syscall"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/oracle"
	"github.com/tallygate/tallygate/tools/testkit"
)

// storeBusyDays stores days of n page views each, one in ten of them without engagement. n is at
// most 30,000. Ids are in no order.
func (f *fixture) storeBusyDays(first model.Day, days, n int) {
	f.t.Helper()
	for day := first; day < first+model.Day(days); day++ {
		at := day.Start()
		numbers := fmt.Sprintf("WITH RECURSIVE n (i) AS (SELECT CAST(0 AS bigint) UNION ALL SELECT i + 1 FROM n WHERE i + 1 < %d) ", n)
		id := fmt.Sprintf("(i * 7919 %% 30011 + CAST(%d AS bigint) * 100000)", day)
		f.exec(numbers+`INSERT INTO visits (site_id, day, visitor, n, started_at, last_pageview_at, pageviews, channel)
SELECT ?, ?, i / 3, 1, ? + i * 1000000, 0, 3, 1 FROM n WHERE i % 3 = 0`, f.site.ID, day, at)
		f.exec(numbers+`INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path)
SELECT ?, ? + i * 1000000, `+id+`, i / 3, 1, 0, false, '/a/path/of/usual/length/' || (i * 7919 % 1000) FROM n`, f.site.ID, at)
		f.exec(numbers+"INSERT INTO engagement (site_id, day, id, ms, scroll) SELECT ?, ?, "+id+", i, i % 100 FROM n WHERE i % 10 > 0",
			f.site.ID, day)
	}
	if f.d.IsPostgres() {
		f.exec("ANALYZE")
	}
}

// processorTime returns the processor time of this process so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	testkit.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkBuildDay builds a day of 30,000 page views between two such days. Its processor time is
// that of this process, with SQLite and without PostgreSQL.
func BenchmarkBuildDay(b *testing.B) {
	dbtest.EachBenchmark(b, func(b *testing.B, d *db.DB) {
		f := newFixture(b, d, 1)
		f.storeBusyDays(startDay, 3, 30_000)
		f.exec("INSERT INTO site_usage (site_id, month, used) VALUES (?, 202611, 1)", f.site.ID)
		f.work((startDay + 3).Start().Add(time.Hour))

		before := processorTime(b)
		for b.Loop() {
			f.invalidate(startDay + 1)
			if built, err := f.reports.BuildDue(b.Context()); err != nil || built.Days != 1 {
				b.Fatalf("built %+v, error %v", built, err)
			}
		}
		b.ReportMetric(float64((processorTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
	})
}

// putBusyDays stores the segments of days: single ones of the last month, and merged ones before.
func (f *fixture) putBusyDays(first, last model.Day, pageviews func(model.Day) int) {
	f.t.Helper()
	put := func(g *segment.Segment, err error) {
		f.t.Helper()
		testkit.NoError(f.t, err)
		testkit.NoError(f.t, f.reports.PutSegment(f.t.Context(), f.site.ID, g))
	}

	busy := oracle.NewBusy(1)
	var month []*segment.Segment
	for day := first; day <= last; day++ {
		g, err := segment.Build(busy.Day(day, pageviews(day)))
		if day.Start().Month() == last.Start().Month() || err != nil {
			put(g, err)
			continue
		}
		month = append(month, g)
		if (day + 1).Start().Month() != day.Start().Month() {
			put(segment.Merge(month))
			month = nil
		}
	}
}

// BenchmarkReport reads and counts dashboards of 10 million page views a year over periods that end
// within a month, with the single days of this month and merged ones before.
func BenchmarkReport(b *testing.B) {
	const pageviews = 27_400
	first := model.At(time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)).Day()
	last := model.At(time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)).Day()

	dbtest.EachBenchmark(b, func(b *testing.B, d *db.DB) {
		f := newFixture(b, d, 1)
		f.putBusyDays(first, last, func(model.Day) int { return pageviews })

		f.clock.now = (last + 1).Start()
		for name, q := range dashboards(last) {
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				before := processorTime(b)
				for b.Loop() {
					if f.report(q).Results[0].Totals.Pageviews == 0 {
						b.Fatal("nothing was counted")
					}
				}
				b.ReportMetric(float64((processorTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			})
		}
	})
}

// dashboards yields dashboards of periods that end with the last day, and the same with a filter
// each.
func dashboards(last model.Day) iter.Seq2[string, *scan.Query] {
	property := oracle.Is(scan.Property, "plan-1")
	property.Property = "plan"
	part, without := oracle.Is(scan.Page, "section-7/"), oracle.Is(scan.Page, oracle.BusyPath(10))
	part.Operator, without.Operator = model.OperatorContains, model.OperatorIsNot
	filters := []struct {
		name   string
		filter scan.Filter
	}{
		{"a property", property}, {"a channel", oracle.Is(scan.Channel, "direct")},
		{"a part of a path", part}, {"without a page", without},
	}

	return func(yield func(string, *scan.Query) bool) {
		for _, days := range []int{30, 90} {
			all := oracle.Dashboard(time.UTC, last+1-model.Day(days), days)
			if !yield(fmt.Sprint(days, " days"), all) {
				return
			}
			for _, f := range filters {
				filtered := *all
				filtered.Filters = []scan.Filter{f.filter}
				if !yield(fmt.Sprint(days, " days, ", f.name), &filtered) {
					return
				}
			}
		}
	}
}
