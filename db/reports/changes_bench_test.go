package reports_test

import (
	"flag"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/changes"
	"github.com/tallygate/tallygate/db/reports/period"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/oracle"
)

var changedPageviews = flag.Int("changes.pageviews", 27_400, "page views of a day in BenchmarkChanges")

// comparedQueries returns a report of 30 days that end with the last one, by the dimensions of all
// changes and over time, and of the 30 days before.
func comparedQueries(last model.Day) []*scan.Query {
	q := oracle.Dashboard(time.UTC, last-29, 30)
	q.Breakdowns = breakdownsOf(changes.Revenue)
	return []*scan.Query{q, comparedQuery(q)}
}

// comparedQuery returns the query of the days before another one's.
func comparedQuery(q *scan.Query) *scan.Query {
	days := period.Period{From: q.From, To: q.To}
	shift := period.Before(days, false)
	before, other := *q, shift.Period(days)
	before.From, before.To = other.From, other.To
	if q.Points != nil {
		before.Points, _ = days.Points(q.Zone, period.Day, shift)
	}
	if q.Hours != nil {
		before.Hours, _ = days.Hours(q.Zone, shift)
	}
	return &before
}

func breakdownsOf(metric changes.Metric) (list []scan.Breakdown) {
	for _, by := range metric.Dimensions() {
		list = append(list, scan.Breakdown{By: reports.Dimensions[by]})
	}
	return list
}

// divide returns the visits of a report with a comparison, divided.
func divide(answer *reports.Answer) *changes.Counts {
	after, before := answer.Results[0], answer.Results[1]
	counts := &changes.Counts{Metric: changes.Visits, Before: &before.Totals, After: &after.Totals}
	for _, by := range changes.Visits.Dimensions() {
		n := slices.IndexFunc(answer.Request.Periods[0].Breakdowns, scan.Breakdown{By: reports.Dimensions[by]}.Same)
		counts.Tables = append(counts.Tables, changes.TableOf(by, before.Breakdowns[n], after.Breakdowns[n], 0))
	}
	return counts
}

// changedReport counts the compared report, and divides the difference.
func (f *fixture) changedReport(last model.Day) *changes.Counts {
	queries := comparedQueries(last)
	days := period.Period{From: queries[0].From, To: queries[0].To}
	queries[0].Hours, _ = days.Hours(time.UTC, period.Shift{})
	queries[1] = comparedQuery(queries[0])

	answer := f.report(queries...)
	counts := divide(answer)
	for i := range counts.Tables {
		counts.Parts(&counts.Tables[i], 5)
	}
	hours := changes.Hours(queries[1].Hours, queries[0].Hours, answer.Results[1].Hours, answer.Results[0].Hours, f.clock.now)
	changes.Gaps(hours, 5)
	return counts
}

// chain counts what names a difference.
func (f *fixture) chain(b *testing.B, counts *changes.Counts, last model.Day) {
	links, err := counts.Chain(func(cause changes.Value) (*changes.Counts, error) {
		q := comparedQueries(last)[0]
		q.Points, q.Breakdowns, q.Filters = nil, breakdownsOf(changes.Visits), []scan.Filter{oracle.Is(reports.Dimensions[cause.By], cause.Value)}
		return divide(f.report(q, comparedQuery(q))), nil
	})
	if err != nil || len(links) != changes.MaxChain {
		b.Fatalf("the chain is %+v, %v", links, err)
	}
}

// BenchmarkChanges counts 30 days compared with 30 days before, which had a ninth more, in turn: by
// all breakdowns of changes, with changes but the chain, and with all. It reports the processor time
// and the allocated bytes of the first, and the quotients of the other ones.
func BenchmarkChanges(b *testing.B) {
	last := model.At(time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)).Day()
	dbtest.EachBenchmark(b, func(b *testing.B, d *db.DB) {
		f := newFixture(b, d, 1)
		f.putBusyDays(last-60, last, func(day model.Day) int {
			if day > last-30 {
				return *changedPageviews * 9 / 10
			}
			return *changedPageviews
		})
		f.clock.now = (last + 1).Start()

		variants := []func(){
			func() { f.report(comparedQueries(last)...) },
			func() { f.changedReport(last) },
			func() { f.chain(b, f.changedReport(last), last) },
		}
		var times [3]time.Duration
		var bytes [3]uint64
		for b.Loop() {
			for i, run := range variants {
				var memory runtime.MemStats
				runtime.ReadMemStats(&memory)
				allocated, before := memory.TotalAlloc, processorTime(b)
				run()
				times[i] += processorTime(b) - before
				runtime.ReadMemStats(&memory)
				bytes[i] += memory.TotalAlloc - allocated
			}
		}
		b.ReportMetric(float64(times[0].Microseconds())/1000/float64(b.N), "cpu-ms/report")
		b.ReportMetric(float64(bytes[0])/(1<<20)/float64(b.N), "MB/report")
		for i, name := range []string{"", "changes", "chain"} {
			if i > 0 {
				b.ReportMetric(float64(times[i])/float64(times[0]), "x-cpu-"+name)
				b.ReportMetric(float64(bytes[i])/float64(bytes[0]), "x-bytes-"+name)
			}
		}
	})
}
