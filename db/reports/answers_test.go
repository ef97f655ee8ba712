package reports_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/oracle"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// counted makes the fixture's store count its counts of reports.
func (f *fixture) counted() *atomic.Int64 {
	var counts atomic.Int64
	reports.Observe(f.reports, func(what string) {
		if what == reports.Counting {
			counts.Add(1)
		}
	})
	return &counts
}

// payer is a Payer that pays for page views by a function.
type payer func(pageviews int64) error

func (p payer) PayBefore(size reports.Size) error { return p(size.Pageviews) }
func (p payer) PayAfter(reports.Work)             {}

// free pays for all.
var free = payer(func(int64) error { return nil })

// answer asks for a shared answer.
func (f *fixture) answer(r reports.Request) *reports.Answer {
	f.t.Helper()
	answer, err := f.reports.Answer(f.t.Context(), r, free)
	testkit.NoError(f.t, err)
	return answer
}

// shown returns what an answer shows. Its rows have functions, which cannot be compared.
func shown(a *reports.Answer) (all []any) {
	for _, r := range a.Results {
		all = append(all, r.Totals, r.Points, r.Funnels, r.Journeys, r.Cohorts, r.Properties)
		for _, rows := range r.Breakdowns {
			all = append(all, maps.Collect(rows.All()))
		}
	}
	return all
}

// TestEqualQuestionsAreCountedOnce checks that parallel requests share one count and its charge,
// and that the answer is used for ten seconds.
func TestEqualQuestionsAreCountedOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		f.storeVisits(startDay, 5)
		f.work((startDay + 1).Start().Add(time.Hour))
		counts := f.counted()

		var charges atomic.Int64
		answers := make([]*reports.Answer, 20)
		var group sync.WaitGroup
		for i := range answers {
			group.Go(func() {
				// Requests that began within one second.
				r := reports.Request{
					SiteID: f.site.ID, Now: f.clock.now.Add(time.Duration(i) * 50 * time.Millisecond),
					Periods: []*scan.Query{whole(1)},
				}
				answer, err := f.reports.Answer(t.Context(), r, payer(func(pageviews int64) error { charges.Add(pageviews); return nil }))
				if err != nil {
					t.Error(err)
				}
				answers[i] = answer
			})
		}
		group.Wait()
		for _, answer := range answers {
			if answer != answers[0] {
				t.Fatalf("two answers, %p and %p", answer, answers[0])
			}
		}
		if counts.Load() != 1 || charges.Load() != 5 {
			t.Errorf("%d counts, %d page views charged; want one count of 5", counts.Load(), charges.Load())
		}

		first := answers[0].AsOf
		ask := func(after time.Duration) *reports.Answer {
			return f.answer(reports.Request{SiteID: f.site.ID, Now: first.Add(after), Periods: []*scan.Query{whole(1)}})
		}
		if again := ask(9 * time.Second); again != answers[0] || again.AsOf != first {
			t.Errorf("after 9 s: as of %v, want the first answer", again.AsOf)
		}
		if again := ask(11 * time.Second); again.AsOf != first.Add(11*time.Second) || counts.Load() != 2 {
			t.Errorf("after 11 s: as of %v, %d counts; want a new answer", again.AsOf, counts.Load())
		}
		if back := ask(-time.Hour); back.AsOf != first.Add(-time.Hour) {
			t.Errorf("an hour before: as of %v", back.AsOf)
		}
	})
}

// work is a Payer that keeps what reports took.
type work struct {
	pay  func() error
	took []reports.Work
}

func (w *work) PayBefore(reports.Size) error { return w.pay() }
func (w *work) PayAfter(took reports.Work)   { w.took = append(w.took, took) }

// TestReportsPayInTheirTurn checks that a report pays when it has its turn, after those before it
// have paid for their time, and that one which cannot pay is not counted.
func TestReportsPayInTheirTurn(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		f.storeVisits(startDay, 5)
		f.work((startDay + 1).Start().Add(time.Hour))

		waiting := reports.OneTurn(f.reports)

		// The first count stops until it is released.
		running, release := make(chan bool, 1), make(chan bool)
		reports.Observe(f.reports, func(what string) {
			if what == reports.Counting {
				running <- true
				<-release
			}
		})
		ask := func(q *scan.Query, p reports.Payer) chan error {
			failure := make(chan error, 1)
			go func() {
				_, err := f.reports.Answer(t.Context(), reports.Request{
					SiteID: f.site.ID, Now: f.clock.now, Asker: "a", Periods: []*scan.Query{q},
				}, p)
				failure <- err
			}()
			return failure
		}
		first := work{pay: func() error { return nil }}
		counted := ask(whole(1), &first)
		<-running

		// Another question does not wait for the answer to the first one, but for its turn.
		var released atomic.Bool
		refusal := errors.New("no points")
		last := work{pay: func() error {
			if !released.Load() {
				t.Error("a report paid before its turn")
			}
			return refusal
		}}
		refused := ask(whole(2), &last)
		testkit.Await(t, "a report that waits", func() bool { return waiting() == 1 })

		released.Store(true)
		close(release)
		if err := <-counted; err != nil {
			t.Error(err)
		}
		testkit.ErrorIs(t, <-refused, refusal, "a report that cannot pay")
		if took := first.took; len(took) != 1 || took[0].Time <= 0 || took[0].Time > time.Second {
			t.Errorf("a report of five page views took %v", took)
		}
		if len(last.took) != 1 || last.took[0] != (reports.Work{}) {
			t.Errorf("a report that was not counted took %v", last.took)
		}
	})
}

// TestImportsEndSharedAnswers checks that an equal request is counted again after another process
// has stored or undone an import, without the ten seconds of a shared answer, and that other sites
// keep their answers.
func TestImportsEndSharedAnswers(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		other := world.New(t, d).Site("other.example", world.Of(f.site.AccountID))
		f.storeVisits(startDay+1, 5)
		f.work((startDay + 2).Start().Add(time.Hour))
		counts := f.counted()

		ask := func(siteID model.SiteID) *reports.Answer {
			return f.answer(reports.Request{SiteID: siteID, Now: f.clock.now, Periods: []*scan.Query{whole(2)}})
		}
		views := func(a *reports.Answer) int64 { return a.Results[0].Totals.Pageviews }
		before, others := ask(f.site.ID), ask(other.ID)

		worker := reports.New(d)
		record := func(context.Context, *db.Tx, model.SiteID, map[string]any, map[string]any) error { return nil }
		stored, err := worker.Import(t.Context(), f.site.ID, &reports.Import{
			Source: model.ImportPlausible, First: startDay, Last: startDay,
			Figures: []reports.ImportFigure{{Day: startDay, Visitors: 7, Visits: 7, Pageviews: 7}},
		}, f.clock.now, record, func(float64) {
			testkit.Equal(t, ask(f.site.ID), before, "an import that is not complete ends a shared answer")
		})
		testkit.NoError(t, err)

		with := ask(f.site.ID)
		if views(with) != views(before)+7 || ask(f.site.ID) != with {
			t.Errorf("after an import: %d page views, want %d in a shared answer", views(with), views(before)+7)
		}
		testkit.NoError(t, worker.UndoImport(t.Context(), f.site.ID, stored.ID, record))
		if after := ask(f.site.ID); views(after) != views(before) {
			t.Errorf("after the undo: %d page views, want %d", views(after), views(before))
		}
		if ask(other.ID) != others || counts.Load() != 3 {
			t.Errorf("%d counts, want 2 of the site and 1 of the other", counts.Load())
		}
	})
}

// TestImportWhileAnAnswerIsCounted checks that an answer is not kept if an import ends during its
// count, which reads the imports again.
func TestImportWhileAnAnswerIsCounted(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		f.storeVisits(startDay+2, 5)
		f.work((startDay + 3).Start().Add(time.Hour))

		record := func(context.Context, *db.Tx, model.SiteID, map[string]any, map[string]any) error { return nil }
		add := func(day model.Day) model.ImportID {
			stored, err := reports.New(d).Import(t.Context(), f.site.ID, &reports.Import{
				Source: model.ImportPlausible, First: day, Last: day,
				Figures: []reports.ImportFigure{{Day: day, Visitors: 7, Visits: 7, Pageviews: 7}},
			}, f.clock.now, record, func(float64) {})
			if err != nil {
				t.Error(err)
			}
			return stored.ID
		}
		add(startDay)

		var second model.ImportID
		reports.Observe(f.reports, func(what string) {
			if what == reports.Counting && second == 0 {
				second = add(startDay + 1)
			}
		})
		ask := func() int64 {
			r := reports.Request{SiteID: f.site.ID, Now: f.clock.now, Periods: []*scan.Query{whole(3)}}
			return f.answer(r).Results[0].Totals.Pageviews
		}
		testkit.Equal(t, ask(), 19, "during the import: page views")
		testkit.NoError(t, reports.New(d).UndoImport(t.Context(), f.site.ID, second, record))
		testkit.Equal(t, ask(), 12, "after the undo: page views")
	})
}

// TestQuestionsAreKeptApart asks one question and then others that differ from it in one respect.
// Each is counted, and gets what a report without shared answers has.
func TestQuestionsAreKeptApart(t *testing.T) {
	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	f := newFixture(t, d, 1)
	other := world.New(t, d).Site("other.example", world.Of(f.site.AccountID))
	f.store(f.site.ID, oracle.World(f.random, startDay, 3)...)
	f.store(other.ID, oracle.World(f.random, startDay, 3)...)
	f.work((startDay + 3).Start().Add(time.Hour))
	counts := f.counted()

	type asked = reports.Request
	question := func(change func(r *asked, q *scan.Query)) reports.Request {
		q := whole(2)
		q.Filters = []scan.Filter{oracle.Is(scan.Page, "/")}
		q.KeyEvents = map[string]bool{"purchase": true}
		q.Points = []time.Time{startDay.Start().Time(), (startDay + 2).Start().Time()}
		q.Funnels = []scan.Funnel{{Steps: []scan.Step{{Page: "/"}, {Event: "signup"}}}}
		q.Journeys = []scan.Journey{{From: scan.Step{Page: "/"}, Steps: 2}}
		q.Cohorts = &scan.Cohorts{First: q.From.Monday(), Weeks: 1}
		q.Properties = &scan.PropertyNames{}
		r := reports.Request{SiteID: f.site.ID, Now: f.clock.now, Periods: []*scan.Query{q}}
		change(&r, q)
		return r
	}
	same := func(*asked, *scan.Query) {}
	zone, err := time.LoadLocation("America/New_York")
	testkit.NoError(t, err)

	first := f.answer(question(same))
	for name, change := range map[string]func(r *asked, q *scan.Query){
		"site":                func(r *asked, _ *scan.Query) { r.SiteID = other.ID },
		"filter's value":      func(_ *asked, q *scan.Query) { q.Filters[0].Values = []string{"/a"} },
		"filter's dimension":  func(_ *asked, q *scan.Query) { q.Filters[0].By = scan.ExitPage },
		"filter's operator":   func(_ *asked, q *scan.Query) { q.Filters[0].Operator = model.OperatorIsNot },
		"no filter":           func(_ *asked, q *scan.Query) { q.Filters = nil },
		"time zone":           func(_ *asked, q *scan.Query) { q.Zone = zone },
		"first day":           func(_ *asked, q *scan.Query) { q.From = q.From.AddDays(1) },
		"last day":            func(_ *asked, q *scan.Query) { q.To = q.To.AddDays(1) },
		"time of day":         func(_ *asked, q *scan.Query) { q.Until = (startDay + 1).Start().Time() },
		"other time of day":   func(_ *asked, q *scan.Query) { q.Until = (startDay + 1).Start().Time().Add(time.Hour) },
		"key events":          func(_ *asked, q *scan.Query) { q.KeyEvents = map[string]bool{"purchase": true, "signup": true} },
		"points":              func(_ *asked, q *scan.Query) { q.Points = nil },
		"breakdown":           func(_ *asked, q *scan.Query) { q.Breakdowns[0].By = scan.EntryPage },
		"visitors only":       func(_ *asked, q *scan.Query) { q.Breakdowns[0].VisitorsOnly = true },
		"two breakdowns":      func(_ *asked, q *scan.Query) { q.Breakdowns = append(q.Breakdowns, scan.Breakdown{By: scan.Channel}) },
		"no properties":       func(_ *asked, q *scan.Query) { q.Properties = nil },
		"event's properties":  func(_ *asked, q *scan.Query) { q.Properties = &scan.PropertyNames{Event: "signup"} },
		"no funnel":           func(_ *asked, q *scan.Query) { q.Funnels = nil },
		"funnel's page":       func(_ *asked, q *scan.Query) { q.Funnels[0].Steps[0].Page = "/a" },
		"funnel's event":      func(_ *asked, q *scan.Query) { q.Funnels[0].Steps[1].Event = "scroll" },
		"no journey":          func(_ *asked, q *scan.Query) { q.Journeys = nil },
		"journey's page":      func(_ *asked, q *scan.Query) { q.Journeys[0].From.Page = "/a" },
		"journey's direction": func(_ *asked, q *scan.Query) { q.Journeys[0].Before = true },
		"journey's steps":     func(_ *asked, q *scan.Query) { q.Journeys[0].Steps = 1 },
		"no cohorts":          func(_ *asked, q *scan.Query) { q.Cohorts = nil },
		"cohorts' weeks":      func(_ *asked, q *scan.Query) { q.Cohorts.Weeks = 2 },
		"compared":            func(r *asked, q *scan.Query) { r.Periods = append(r.Periods, whole(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			before := counts.Load()
			got := f.answer(question(change))
			testkit.Equal(t, counts.Load()-before, 1, "counts")
			want, err := f.reports.Report(t.Context(), question(change))
			if err != nil || got == first || !reflect.DeepEqual(shown(got), shown(want)) {
				t.Errorf("error %v; got another question's answer", err)
			}
		})
	}

	before := counts.Load()
	if again := f.answer(question(same)); again != first || counts.Load() != before {
		t.Error("the first question was counted again")
	}
	broken := question(func(_ *asked, q *scan.Query) { q.Filters[0].Values = []string{"\xff"} })
	if a, b := f.answer(broken), f.answer(broken); a == b {
		t.Error("requests with texts that are not UTF-8 share an answer")
	}
}

// TestFailureIsNotShared checks that a refused charge ends one request only, and that an error is
// not kept.
func TestFailureIsNotShared(t *testing.T) {
	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	f := newFixture(t, d, 1)
	f.storeVisits(startDay, 5)
	f.work((startDay + 1).Start().Add(time.Hour))
	counts := f.counted()

	r := reports.Request{SiteID: f.site.ID, Now: f.clock.now, Periods: []*scan.Query{whole(1)}}
	refused := errors.New("over the limit")
	if _, err := f.reports.Answer(t.Context(), r, payer(func(int64) error { return refused })); !errors.Is(err, refused) || counts.Load() != 0 {
		t.Errorf("error %v, %d counts", err, counts.Load())
	}
	if answer := f.answer(r); answer.Results[0].Totals.Visits != 5 || counts.Load() != 1 {
		t.Errorf("%+v, %d counts", answer.Results[0].Totals, counts.Load())
	}

	f.exec(fmt.Sprintf("UPDATE report_days SET pageviews = %d", reports.MaxPageviews+1))
	r.Now = r.Now.Add(time.Minute)
	for range 2 {
		if _, err := f.reports.Answer(t.Context(), r, free); !errors.Is(err, reports.ErrTooExpensive) {
			t.Errorf("error %v, want ErrTooExpensive", err)
		}
	}
}

// heap returns the memory in use after a garbage collection.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// TestAnswersOfAnEmptySiteAreBounded asks questions that differ in their period only and have the
// filters of a large request. What is kept of each must be small, and counted.
func TestAnswersOfAnEmptySiteAreBounded(t *testing.T) {
	const questions, filters, perAnswer, spare = 100, 256 << 10, 8 << 10, 4 << 20
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		before := heap()

		for i := range questions {
			q := whole(1)
			q.From = q.From.AddDays(-i)
			value := strings.Repeat("<", filters)
			q.Filters = []scan.Filter{oracle.Is(scan.Page, value)}
			q.KeyEvents = map[string]bool{value: true}
			q.Points = make([]time.Time, 20)
			for n := range q.Points {
				q.Points[n] = q.From.Start(time.UTC).Add(time.Duration(n) * time.Hour)
			}
			answer := f.answer(reports.Request{SiteID: f.site.ID, Now: f.clock.now, Periods: []*scan.Query{q}})
			if got := answer.Request.Periods[0]; len(got.Points) != len(q.Points) || len(got.Breakdowns) != len(q.Breakdowns) {
				t.Fatalf("the answer has the request %+v", got)
			}
		}

		used := heap() - before
		counted, _ := reports.KeptBytes(f.reports)
		if counted < questions<<10 || used > questions*perAnswer+spare || used > counted+spare {
			t.Errorf("%d answers keep %d bytes, of which %d are counted", questions, used, counted)
		}
	})
}

// TestEmptyDaysAreCounted asks for single days without rows, which are built for each question.
func TestEmptyDaysAreCounted(t *testing.T) {
	testkit.SkipLong(t, "a site with many rows")
	const days, spare = 500, 4 << 20
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		before := heap()

		for i := range days {
			q := whole(1)
			q.From, q.To = q.From.AddDays(-i), q.From.AddDays(-i)
			f.report(q)
		}

		used := heap() - before
		if _, counted := reports.KeptBytes(f.reports); counted < days<<10 || used > counted+spare {
			t.Errorf("%d empty days keep %d bytes, of which %d are counted", days, used, counted)
		}
	})
}
