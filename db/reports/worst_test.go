package reports_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

const megabyte = 1 << 20

// peakOf returns how much more memory Go has held during work than before it. A memory limit of
// three quarters of the bound keeps garbage from counting. The collector may exceed the limit
// briefly.
func peakOf(bound int64, work func()) int64 {
	held := func() int64 {
		m := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
		metrics.Read(m)
		return int64(m[0].Value.Uint64() - m[1].Value.Uint64())
	}
	runtime.GC()
	debug.FreeOSMemory()
	before := held()
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(before + bound*3/4))

	done := make(chan struct{})
	var sampler sync.WaitGroup
	peak := before
	sampler.Go(func() {
		for {
			peak = max(peak, held())
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	work()
	close(done)
	sampler.Wait()
	return peak - before
}

// storeWorst stores hits of a day with as many and as long texts as clients may send, all
// different: half of them are purchases with 270 properties, half page views. Each hit has a visit
// of its own.
func (f *fixture) storeWorst(siteID model.SiteID, day model.Day, hits int) {
	f.t.Helper()
	r := rand.New(rand.NewPCG(uint64(day), uint64(hits)))
	long := func(n int) string { return fmt.Sprintf("%016x", r.Uint64()) + strings.Repeat("é", n-16) }
	const batch = 100

	for begin := 0; begin < hits; begin += batch {
		var visits, views, events []any
		for i := begin; i < min(begin+batch, hits); i++ {
			visitor := int64(r.Uint64())
			at := day.Start().Add(time.Duration(i) * time.Millisecond)
			campaign := model.Campaign{Source: long(200), Medium: long(200), Name: long(200), Content: long(200), Term: long(200)}
			visits = append(visits, siteID, day, visitor, 1, at, at, 1, 1, binary.BigEndian.AppendUint64(make([]byte, 8), uint64(i)),
				model.PackAttribution(long(2_000), &campaign))
			if i%2 == 0 {
				views = append(views, siteID, at, int64(i), visitor, 1, 0, false, "/"+long(2_000), "en")
				continue
			}

			var object strings.Builder
			for p := range 270 {
				fmt.Fprintf(&object, `,"%s":"%08x"`, propertyName(p), r.Uint32())
			}
			currency := string([]byte{'A' + byte(i/676%26), 'A' + byte(i/26%26), 'A' + byte(i%26)})
			events = append(events, siteID, at, int64(i), visitor, 1, model.EventPurchase, "/"+long(2_000), int64(i), currency,
				"{"+object.String()[1:]+"}")
		}
		f.insert("visits (site_id, day, visitor, n, started_at, last_pageview_at, pageviews, channel, user_id, attribution)", 10, visits)
		f.insert("pageviews (site_id, at, id, visitor, n, width_range, manual, path, language)", 9, views)
		f.insert("events (site_id, at, id, visitor, n, name, path, value, currency, properties)", 10, events)
	}
	f.exec("INSERT INTO site_usage (site_id, month, used) VALUES (?, ?, 1) ON CONFLICT DO NOTHING", siteID, day.Start().Month())
}

func propertyName(p int) string { return string([]byte{'a' + byte(p/26), 'a' + byte(p%26)}) }

// insert stores rows of so many columns.
func (f *fixture) insert(table string, columns int, values []any) {
	f.t.Helper()
	if len(values) == 0 {
		return
	}
	row := "(?" + strings.Repeat(", ?", columns-1) + ")"
	f.exec("INSERT INTO "+table+" VALUES "+row+strings.Repeat(", "+row, len(values)/columns-1), values...)
}

// worstQuery asks for as much as GraphQL permits: breakdowns by 27 properties with all figures, or
// by all else, with funnels.
func worstQuery(days int, properties bool) *scan.Query {
	q := whole(days)
	q.KeyEvents = map[string]bool{model.EventPurchase: true}
	q.Breakdowns = nil
	if properties {
		for p := range 27 {
			q.Breakdowns = append(q.Breakdowns, scan.Breakdown{By: scan.Property, Property: propertyName(p)})
		}
		q.Properties = &scan.PropertyNames{}
		return q
	}

	for by := scan.EntryPage; by <= scan.Event; by++ {
		q.Breakdowns = append(q.Breakdowns, scan.Breakdown{By: by})
	}
	for range 10 {
		q.Funnels = append(q.Funnels, scan.Funnel{Steps: []scan.Step{{Page: "**"}, {Event: model.EventPurchase}}})
	}
	return q
}

// TestWorstDay builds the worst day of a FREE site, by the worker and for a report, merges its
// month, and asks for the largest reports. Peak memory must stay below fixed bounds, and no figure
// of the totals may be lost. A report that needs more than its budget is refused. For larger plans,
// see TestWorstDayOfEachPlan.
func TestWorstDay(t *testing.T) {
	testkit.SkipLong(t, "a day of the largest size")
	const hits = 10_000
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		f.storeWorst(f.site.ID, startDay, hits)
		ask := func(q *scan.Query) {
			answer, err := f.reports.Report(t.Context(), reports.Request{SiteID: f.site.ID, Now: f.clock.now, Periods: []*scan.Query{q, q}})
			if err != nil {
				t.Error(err)
				return
			}
			if r := answer.Results[1]; r.Totals.Pageviews != hits/2 || r.Totals.Conversions != hits/2 {
				t.Errorf("%d page views, %d conversions, want %d of both", r.Totals.Pageviews, r.Totals.Conversions, hits/2)
			}
			for i, rows := range answer.Results[0].Breakdowns {
				if by := q.Breakdowns[i].By; by == scan.Property && (!rows.Other || rows.Len() > segment.DayLimits.ValuesOf+1) {
					t.Errorf("property %d has %d rows (other: %v)", i, rows.Len(), rows.Other)
				}
			}
		}
		within := func(what string, bound int64, work func()) {
			t.Helper()
			if peak := peakOf(bound*megabyte, work) / megabyte; peak > bound {
				t.Errorf("%s took %d MB, want at most %d", what, peak, bound)
			}
		}

		f.clock.now = startDay.Start().Add(20 * time.Hour)
		within("a report of today", 200, func() { ask(worstQuery(1, true)) })
		within("a report of today by texts", 200, func() { ask(worstQuery(1, false)) })

		within("the worker's day", 150, func() { f.work((startDay + 1).Start().Add(time.Hour)) })
		within("a report of the day", 150, func() { ask(worstQuery(2, true)) })
		within("a report of the day by texts", 150, func() { ask(worstQuery(2, false)) })

		within("the worker's month", 150, func() { f.work((startDay + 70).Start()) })
		within("a report of the month", 150, func() { ask(worstQuery(60, true)) })
		within("a report of the month by texts", 150, func() { ask(worstQuery(60, false)) })
	})
}

// worst adds the hits of a day: purchases with properties, each with a visit and texts of its own.
func worst(hits int) func(*segment.DayBuilder) error {
	return func(d *segment.DayBuilder) error {
		hex := func(i int) string {
			const digits = "0123456789abcdef"
			var text [8]byte
			for n := range text {
				text[n] = digits[i>>(4*n)&15]
			}
			return string(text[:])
		}
		long := strings.Repeat("x", 1_000)
		path := []byte("/" + long + "        ")

		for i := range hits {
			var k segment.VisitKey
			binary.BigEndian.PutUint64(k.Visitor[:], uint64(i)*0x9e3779b97f4a7c15)
			at := startDay.Start().Add(time.Duration(i) * time.Millisecond)
			number := hex(i)
			copy(path[len(path)-8:], number)
			campaign := model.Campaign{Source: number, Medium: number, Name: number, Content: number, Term: number}
			d.AddVisit(k, at, []byte(number+number), "email", d.Origin(number+".example/"+long, &campaign),
				d.Client(&model.Client{Host: number + ".shop.example"}))
			d.AddEvent(k, at, int64(i), []byte("purchase"), path, []byte("EUR"), 1, []byte(`{"a":"`+number+`","b":1,"`+number+`":true}`))
			if err := d.Err(); err != nil {
				return err
			}
		}
		return nil
	}
}

// TestWorstDayOfEachPlan builds the day on which all hits of a plan's month come, and encodes it.
// Its memory follows the hits, with some 800 bytes each, and not their texts, which have 4 KB.
// Plans of more than 100,000 are built with TALLYGATE_TEST_WORST=all, see "make test-worst".
func TestWorstDayOfEachPlan(t *testing.T) {
	testkit.SkipLong(t, "the largest day of two plans")
	most := 100_000
	if os.Getenv("TALLYGATE_TEST_WORST") == "all" {
		most = math.MaxInt
	}
	for _, c := range []struct {
		plan model.Plan
		hits int
		most int64 // MB
	}{
		{model.PlanFree, 10_000, 150}, {model.PlanPro100K, 100_000, 300}, {model.PlanPro500K, 500_000, 600},
		{model.PlanPro1M, 1_000_000, 1_000}, {model.PlanPro2M, 2_000_000, 1_900}, {model.PlanPro5M, 5_000_000, 4_500},
	} {
		if c.hits > most {
			break
		}
		t.Run(string(c.plan), func(t *testing.T) {
			peak := peakOf(c.most*megabyte, func() {
				s, err := segment.BuildDay(t.Context(), startDay, 0, worst(c.hits))
				testkit.NoError(t, err)
				if got := s.Total(); int(got.Events) != c.hits {
					t.Errorf("%d events, want %d", got.Events, c.hits)
				}
				s.Encode()
			})
			if peak > c.most*megabyte {
				t.Errorf("%d MB, want at most %d", peak/megabyte, c.most)
			}
		})
	}
}

// TestReportsEndWithTheirRequest checks that a report stops counting soon after its caller has
// left.
func TestReportsEndWithTheirRequest(t *testing.T) {
	testkit.SkipLong(t, "a site with many rows")
	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	f := newFixture(t, d, 1)
	f.storeWorst(f.site.ID, startDay, 2_000)
	f.work((startDay + 1).Start().Add(time.Hour))

	ctx, leave := context.WithCancel(t.Context())
	reports.Observe(f.reports, func(what string) {
		if what == reports.Counting {
			leave()
		}
	})
	request := reports.Request{SiteID: f.site.ID, Now: f.clock.now, Periods: []*scan.Query{whole(1)}}
	_, err := f.reports.Report(ctx, request)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
}

// TestLongReportsGiveWay checks that a report that reads a large day lets one of another caller go
// first, and that one of its own caller waits.
func TestLongReportsGiveWay(t *testing.T) {
	testkit.SkipLong(t, "a site with many rows")
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		f.storeVisits(startDay, 5_000)
		f.clock.now = startDay.Start().Add(20 * time.Hour)
		other := world.New(t, d).Site("other.example", world.Of(f.site.AccountID))
		waiting := reports.OneTurn(f.reports)

		// The page views of the large day are read once two further reports wait. With one turn at
		// a time, no two reports do anything at once.
		entered, all := make(chan struct{}), make(chan struct{})
		var once sync.Once
		var steps []string
		table := regexp.MustCompile(`FROM (\w+)`)
		reports.Observe(f.reports, func(what string) {
			if what != reports.Counting {
				what = table.FindStringSubmatch(what)[1]
			}
			steps = append(steps, what)
			if what == "pageviews" {
				once.Do(func() {
					close(entered)
					<-all
				})
			}
		})

		var asked sync.WaitGroup
		ask := func(asker string, siteID model.SiteID) {
			asked.Go(func() {
				r := reports.Request{SiteID: siteID, Now: f.clock.now, Asker: asker, Periods: []*scan.Query{whole(1)}}
				if _, err := f.reports.Report(t.Context(), r); err != nil {
					t.Error(err)
				}
			})
		}
		ask("a", f.site.ID)
		<-entered
		ask("a", other.ID)
		ask("b", other.ID)
		for waiting() < 2 {
			runtime.Gosched()
		}
		close(all)
		asked.Wait()

		// The third report finds the day of its site kept by the second one.
		want := []string{
			reports.Counting, "report_segments", "visits", "pageviews",
			reports.Counting, "report_segments", "visits", "pageviews", "events",
			"engagement", "events",
			reports.Counting, "report_segments",
		}
		testkit.EqualSlices(t, steps, want, "steps")
	})
}

// TestImportedValuesAreBounded checks that a report of an import with too many values of a
// dimension is refused, and that the totals of the same days are counted.
func TestImportedValuesAreBounded(t *testing.T) {
	testkit.SkipLong(t, "a day of the largest size")
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		m := &reports.Import{
			Source: model.ImportPlausible, First: startDay, Last: startDay, Dimensions: []model.ReportDimension{model.DimensionPage},
			Figures: []reports.ImportFigure{{Day: startDay, Visitors: 7, Visits: 7, Pageviews: 7}},
		}
		for i := range 100_001 {
			m.Figures = append(m.Figures, reports.ImportFigure{
				Dimension: model.DimensionPage, Day: startDay, Value: fmt.Sprintf("/%d", i), Visitors: 1, Visits: 1, Pageviews: 1,
			})
		}
		record := func(context.Context, *db.Tx, model.SiteID, map[string]any, map[string]any) error { return nil }
		if _, err := f.reports.Import(t.Context(), f.site.ID, m, f.clock.now, record, func(float64) {}); err != nil {
			t.Fatal(err)
		}

		ask := func(by ...scan.Breakdown) (*reports.Answer, error) {
			q := whole(1)
			q.Breakdowns = by
			return f.reports.Report(t.Context(), reports.Request{SiteID: f.site.ID, Now: f.clock.now, Periods: []*scan.Query{q}})
		}
		if _, err := ask(scan.Breakdown{By: scan.Page}); !errors.Is(err, reports.ErrTooLarge) {
			t.Errorf("error %v, want ErrTooLarge", err)
		}
		if answer, err := ask(); err != nil || answer.Results[0].Totals.Visitors != 7 {
			t.Errorf("error %v, want totals of 7 visitors", err)
		}
	})
}
