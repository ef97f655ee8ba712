package importer_test

import (
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/importer"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/oracle"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

func TestMain(m *testing.M) { os.Exit(dbtest.RunByTurns(m)) }

// fixture is a site with a visit of its own on 5 February 2026.
type fixture struct {
	t    *testing.T
	d    *db.DB
	site *model.Site
	now  model.Instant
}

func newFixture(t *testing.T, databaseURL string) *fixture {
	t.Helper()
	f := &fixture{t: t, d: dbtest.Open(t, databaseURL), now: day("2026-02-07").Start()}
	dbtest.SetClock(f.d, func() time.Time { return f.now.Time() })
	f.site = world.New(t, f.d).Site("example.com")

	own := day("2026-02-05").Start().Add(time.Hour)
	key := segment.VisitKey{Visitor: model.VisitorID{1}, N: 1}
	err := oracle.Store(t.Context(), f.d, int64(f.site.ID), segment.Rows{
		Day: own.Day(), Visits: []segment.Visit{{VisitKey: key, StartedAt: own, Channel: "direct"}},
		Views: []segment.View{{VisitKey: key, At: own, ID: 1, Path: "/", Width: model.UnknownWidth, EngagedMS: 20_000}},
	})
	testkit.NoError(t, err)
	return f
}

// read reads an export for the site.
func (f *fixture) read(source model.ImportSource, names ...string) *importer.Result {
	f.t.Helper()
	o := everyDay
	var err error
	o.BeforeLocal, o.BeforeUTC, err = reports.New(f.d).ImportBefore(f.t.Context(), f.site.ID, time.UTC, f.now)
	testkit.NoError(f.t, err)
	r, err := importer.Read(source, names, o)
	testkit.NoError(f.t, err)
	return r
}

// store stores an import.
func (f *fixture) store(r *importer.Result) model.ReportImport {
	f.t.Helper()
	stored, err := reports.New(f.d).Import(f.t.Context(), f.site.ID, &r.Import, f.now, sites.RecordImport, func(float64) {})
	testkit.NoError(f.t, err)
	return stored
}

func (f *fixture) undo(id model.ImportID) {
	f.t.Helper()
	testkit.NoError(f.t, reports.New(f.d).UndoImport(f.t.Context(), f.site.ID, id, sites.RecordImport))
}

// query asks for the days of February, each a point of the series.
func query(by ...scan.Dimension) *scan.Query {
	q := &scan.Query{
		Zone: time.UTC, From: scan.DateOfNumber(day("2026-02-01")), To: scan.DateOfNumber(day("2026-02-05")),
		KeyEvents: map[string]bool{"sign_up": true, "sign-up": true, "purchase": true},
	}
	for d := range 6 {
		q.Points = append(q.Points, q.From.AddDays(d).Start(time.UTC))
	}
	for _, dimension := range by {
		q.Breakdowns = append(q.Breakdowns, scan.Breakdown{By: dimension})
	}
	return q
}

func (f *fixture) report(q *scan.Query) *scan.Result { return f.reportOf(f.site.ID, q) }

func (f *fixture) reportOf(siteID model.SiteID, q *scan.Query) *scan.Result {
	f.t.Helper()
	answer, err := reports.New(f.d).Report(f.t.Context(), reports.Request{SiteID: siteID, Now: f.now, Periods: []*scan.Query{q}})
	testkit.NoError(f.t, err)
	return answer.Results[0]
}

// counts are visitors, visits, page views, bounces, exits and events.
type counts [6]int64

func countsOf(f scan.Figures) counts {
	return counts{f.Visitors, f.Visits, f.Pageviews, f.Bounces, f.Exits, f.Events}
}

func (f *fixture) wantRows(r *scan.Result, breakdown int, want map[string]counts) {
	f.t.Helper()
	got := make(map[string]counts)
	for value, figures := range r.Breakdowns[breakdown].All() {
		got[value] = countsOf(figures)
		if of := countsOf(r.Breakdowns[breakdown].Of(value)); of != got[value] {
			f.t.Errorf("the row %q is %v in the list and %v alone", value, got[value], of)
		}
	}
	if !maps.Equal(got, want) || r.Breakdowns[breakdown].Len() != len(want) {
		f.t.Errorf("breakdown %d has %d rows\ngot  %v\nwant %v", breakdown, r.Breakdowns[breakdown].Len(), got, want)
	}
}

func (f *fixture) wantTotals(r *scan.Result, want counts, days ...int64) {
	f.t.Helper()
	if got := countsOf(r.Totals); got != want {
		f.t.Errorf("totals %v, want %v", got, want)
	}
	var visitors []int64
	for _, point := range r.Points {
		visitors = append(visitors, point.Visitors)
	}
	if !slices.Equal(visitors, days) {
		f.t.Errorf("visitors of the days %v, want %v", visitors, days)
	}
}

// TestImports imports a fixture of each form, compares the figures with a manual count of its rows,
// undoes it, and imports it again.
func TestImports(t *testing.T) {
	plausible := fixtures(t, "plausible/*")
	for name, test := range map[string]struct {
		source model.ImportSource
		files  []string
		check  func(f *fixture)
	}{
		"plausible files":   {model.ImportPlausible, plausible, wantPlausible},
		"plausible archive": {model.ImportPlausible, []string{zipped(t, plausible...)}, wantPlausible},
		"umami":             {model.ImportUmami, fixtures(t, "umami.csv"), wantUmami},
		"umami gzip":        {model.ImportUmami, []string{compressed(t, "testdata/umami.csv")}, wantUmami},
		"ga4":               {model.ImportGA4, fixtures(t, "ga4/*"), wantGA4},
		"matomo":            {model.ImportMatomo, fixtures(t, "matomo/*"), wantMatomo},
		"matomo archive":    {model.ImportMatomo, []string{zipped(t, fixtures(t, "matomo/*")...)}, wantMatomo},
		"ga4 archive":       {model.ImportGA4, []string{zipped(t, fixtures(t, "ga4/*")...)}, wantGA4},
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
				f := newFixture(t, databaseURL)
				other := world.New(t, f.d).Site("other.example")
				before := f.report(query(scan.Page))

				read := f.read(test.source, test.files...)
				first := f.store(read)
				test.check(f)
				if empty := f.reportOf(other.ID, query()); countsOf(empty.Totals) != (counts{}) || empty.Imported != nil {
					t.Errorf("another site has %+v", empty.Totals)
				}
				f.wantFirstDay(read.First)

				f.undo(first.ID)
				f.equal(before)
				f.wantEmpty()

				f.store(f.read(test.source, test.files...))
				test.check(f)
			})
		})
	}
}

func (f *fixture) wantFirstDay(want model.Day) {
	f.t.Helper()
	if first, ok, err := reports.New(f.d).FirstDay(f.t.Context(), f.site.ID); first != want || !ok || err != nil {
		f.t.Errorf("the first day is %v, %v, error %v; want %v", first, ok, err, want)
	}
}

// equal compares the report of pages with an earlier report.
func (f *fixture) equal(before *scan.Result) {
	f.t.Helper()
	after := f.report(query(scan.Page))
	want := &oracle.Result{Totals: before.Totals, Points: before.Points,
		Breakdowns: []map[string]scan.Figures{maps.Collect(before.Breakdowns[0].All())}}
	oracle.Check(f.t, "after the import was undone", want, after)
	f.wantFirstDay(day("2026-02-05"))
}

// wantEmpty checks that no row of an import is left.
func (f *fixture) wantEmpty() {
	f.t.Helper()
	for _, table := range []string{"report_imports", "import_figures", "import_segments"} {
		if n, err := dbtest.Count(f.d, table); n != 0 || err != nil {
			f.t.Errorf("%s has %d rows, error %v", table, n, err)
		}
	}
}

// own is the site's own visit.
var own = counts{1, 1, 1, 0, 1, 0}

func wantPlausible(f *fixture) {
	f.t.Helper()
	wantPlausibleClients(f)
	r := f.report(query(scan.Page, scan.Source, scan.Channel, scan.EntryPage, scan.ExitPage, scan.Event, scan.Referrer,
		scan.UTMCampaign, scan.DayOfWeek, scan.Language))
	f.wantTotals(r, counts{21, 24, 40, 11, 0, 5}, 10, 7, 0, 3, 1)
	if r.Totals.Conversions != 4 {
		f.t.Errorf("%d conversions, want 4", r.Totals.Conversions)
	}
	if want := (scan.Unknown{VisitTime: 23, ViewTime: 39, Conversion: 20}); r.Totals.UnknownOf() != want {
		f.t.Errorf("unknown are %+v, want %+v", r.Totals.UnknownOf(), want)
	}

	f.wantRows(r, 0, map[string]counts{"/": {18, 21, 26, 0, 15, 0}, "/pricing,%20plans": {9, 9, 14, 0, 9, 0}})
	f.wantRows(r, 1, map[string]counts{
		"": {5, 6, 11, 2, 0, 0}, "google.com": {11, 12, 18, 7, 0, 0}, "newsletter": {2, 3, 6, 1, 0, 0},
		"news.example.org": {3, 3, 5, 1, 0, 0},
	})
	f.wantRows(r, 2, map[string]counts{
		"direct": {5, 6, 11, 2, 0, 0}, "organic search": {11, 12, 18, 7, 0, 0}, "email": {2, 3, 6, 1, 0, 0},
		"referral": {3, 3, 5, 1, 0, 0},
	})
	f.wantRows(r, 3, map[string]counts{"/": {17, 20, 32, 9, 0, 0}, "/pricing,%20plans": {4, 4, 8, 2, 0, 0}})
	f.wantRows(r, 4, map[string]counts{"/": {13, 15, 19, 9, 15, 0}, "/pricing,%20plans": {9, 9, 21, 2, 9, 0}})
	f.wantRows(r, 5, map[string]counts{
		"outbound_click": {3, 0, 0, 0, 0, 4}, "sign_up": {3, 0, 0, 0, 0, 4}, "404": {1, 0, 0, 0, 0, 1},
	})
	f.wantRows(r, 6, map[string]counts{
		"": {7, 9, 17, 3, 0, 0}, "google.com": {11, 12, 18, 7, 0, 0}, "news.example.org/today": {3, 3, 5, 1, 0, 0},
	})
	f.wantRows(r, 7, map[string]counts{"": {19, 21, 34, 10, 0, 0}, "february": {2, 3, 6, 1, 0, 0}})
	f.wantRows(r, 8, map[string]counts{
		"7": {10, 12, 25, 4, 0, 2}, "1": {7, 8, 9, 6, 0, 0}, "3": {3, 3, 5, 1, 0, 3}, "4": {1, 1, 1, 0, 0, 0},
	})
	f.wantRows(r, 9, map[string]counts{"": {1, 1, 1, 0, 0, 0}})
	f.wantStates(r, scan.ImportIncluded, scan.ImportIncluded, scan.ImportNoValues)
	f.wantExcluded()
}

// wantStates checks the states of the totals, the series and the last breakdown.
func (f *fixture) wantStates(r *scan.Result, totals, series, rows scan.ImportState) {
	f.t.Helper()
	if m := r.Imported; m == nil || m.State != totals || m.Series != series || m.Rows[len(m.Rows)-1] != rows {
		f.t.Errorf("the imports are %+v", m)
	}
}

// wantExcluded checks that daily sums are in no report that divides days or visits.
func (f *fixture) wantExcluded() {
	f.t.Helper()
	filtered := query(scan.Page)
	filtered.Filters = []scan.Filter{oracle.Is(scan.Page, "/")}
	r := f.report(filtered)
	f.wantTotals(r, counts{1, 1, 1, 0, 0, 0}, 0, 0, 0, 0, 1)
	f.wantRows(r, 0, map[string]counts{"/": own})
	f.wantStates(r, scan.ImportFiltered, scan.ImportFiltered, scan.ImportFiltered)

	hours := query(scan.HourOfDay)
	hours.To, hours.Points = hours.From, nil
	for hour := range 25 {
		hours.Points = append(hours.Points, hours.From.Start(time.UTC).Add(time.Duration(hour)*time.Hour))
	}
	r = f.report(hours)
	f.wantTotals(r, countsOf(r.Totals), make([]int64, 24)...)
	if r.Totals.Visitors != 10 {
		f.t.Errorf("%d visitors, want 10", r.Totals.Visitors)
	}
	f.wantStates(r, scan.ImportIncluded, scan.ImportWholeDays, scan.ImportWholeDays)

	until := query(scan.Page)
	until.Until = day("2026-02-02").Start().Time().Add(12 * time.Hour)
	r = f.report(until)
	if r.Totals.Visitors != 10 {
		f.t.Errorf("%d visitors until noon of the second day, want 10", r.Totals.Visitors)
	}
	f.wantStates(r, scan.ImportWholeDays, scan.ImportWholeDays, scan.ImportWholeDays)
}

// wantFiltered checks that visits can be filtered by a page.
func (f *fixture) wantFiltered(want counts, page string) {
	f.t.Helper()
	filtered := query(scan.HourOfDay)
	filtered.Points = nil
	filtered.Filters = []scan.Filter{oracle.Is(scan.Page, page)}
	r := f.report(filtered)
	f.wantTotals(r, want)
	f.wantStates(r, scan.ImportIncluded, scan.ImportIncluded, scan.ImportIncluded)
}

func wantUmami(f *fixture) {
	f.t.Helper()
	wantUmamiClients(f)
	r := f.report(query(scan.Page, scan.Source, scan.Channel, scan.Event, scan.Language, scan.UTMCampaign))
	f.wantTotals(r, counts{4, 5, 6, 3, 0, 1}, 1, 1, 1, 0, 1)
	f.wantRows(r, 0, map[string]counts{
		"/": {3, 4, 4, 2, 3, 0}, "/pricing": {1, 1, 1, 0, 1, 1}, "/blog/": {1, 1, 1, 1, 1, 0},
	})
	f.wantRows(r, 1, map[string]counts{
		"newsletter": {1, 1, 2, 0, 0, 1}, "": {3, 3, 3, 2, 0, 0}, "www.google.com": {1, 1, 1, 1, 0, 0},
	})
	f.wantRows(r, 2, map[string]counts{
		"email": {1, 1, 2, 0, 0, 1}, "direct": {3, 3, 3, 2, 0, 0}, "organic search": {1, 1, 1, 1, 0, 0},
	})
	f.wantRows(r, 3, map[string]counts{"sign_up": {1, 1, 0, 0, 0, 1}})
	f.wantRows(r, 4, map[string]counts{"en": {1, 2, 3, 1, 0, 1}, "de": {2, 2, 2, 2, 0, 0}, "": {1, 1, 1, 0, 0, 0}})
	f.wantRows(r, 5, map[string]counts{"february": {1, 1, 2, 0, 0, 1}, "": {4, 4, 4, 3, 0, 0}})
	f.wantFiltered(counts{1, 1, 2, 0, 0, 1}, "/pricing")
}

func wantMatomo(f *fixture) {
	f.t.Helper()
	wantMatomoClients(f)
	r := f.report(query(scan.Page, scan.Source, scan.Channel, scan.EntryPage, scan.ExitPage, scan.Event, scan.Language,
		scan.UTMCampaign, scan.Referrer))
	f.wantTotals(r, counts{21, 24, 40, 11, 0, 5}, 10, 7, 0, 3, 1)
	if want := (scan.Unknown{VisitTime: 23, ViewTime: 39, Conversion: 20}); r.Totals.UnknownOf() != want || r.Totals.Conversions != 3 {
		f.t.Errorf("%d conversions, unknown are %+v, want 3 and %+v", r.Totals.Conversions, r.Totals.UnknownOf(), want)
	}
	f.wantRows(r, 0, map[string]counts{
		"/": {20, 23, 29, 0, 17, 0}, "/pricing,%20plans": {6, 6, 10, 0, 6, 0}, "(other)": {1, 1, 1, 0, 1, 0},
	})
	f.wantRows(r, 1, map[string]counts{
		"": {5, 6, 1, 1, 0, 0}, "google": {4, 4, 0, 2, 0, 0}, "news.example.org": {7, 8, 0, 6, 0, 0}, "mastodon": {3, 3, 0, 1, 0, 0},
	})
	f.wantRows(r, 2, map[string]counts{
		"direct": {5, 6, 1, 1, 0, 0}, "organic search": {4, 4, 0, 2, 0, 0}, "unassigned": {2, 3, 0, 1, 0, 0},
		"referral": {7, 8, 0, 6, 0, 0}, "organic social": {3, 3, 0, 1, 0, 0},
	})
	f.wantRows(r, 3, map[string]counts{"/": {19, 21, 1, 10, 0, 0}, "/pricing,%20plans": {3, 3, 0, 1, 0, 0}})
	f.wantRows(r, 4, map[string]counts{
		"/": {15, 17, 1, 0, 17, 0}, "/pricing,%20plans": {6, 6, 0, 0, 6, 0}, "(other)": {1, 1, 0, 0, 1, 0},
	})
	f.wantRows(r, 5, map[string]counts{"sign_up": {2, 0, 0, 0, 0, 3}, "play": {1, 0, 0, 0, 0, 2}})
	f.wantRows(r, 6, map[string]counts{"en": {11, 13, 0, 4, 0, 0}, "de": {2, 2, 0, 1, 0, 0}, "": {8, 9, 1, 6, 0, 0}})
	f.wantRows(r, 7, map[string]counts{"": {1, 1, 1, 0, 0, 0}, "february": {2, 3, 0, 1, 0, 0}})
	f.wantStates(r, scan.ImportIncluded, scan.ImportIncluded, scan.ImportNoValues)
	f.wantExcluded()
}

func wantGA4(f *fixture) {
	f.t.Helper()
	wantGA4Clients(f)
	r := f.report(query(scan.Page, scan.Source, scan.Channel, scan.Event, scan.EntryPage))
	f.wantTotals(r, counts{25, 30, 62, 9, 0, 3}, 10, 14, 0, 0, 1)
	f.wantRows(r, 0, map[string]counts{"/": {24, 1, 51, 0, 1, 0}, "/pricing": {6, 0, 11, 0, 0, 0}})
	f.wantRows(r, 1, map[string]counts{
		"google": {15, 17, 0, 0, 0, 0}, "": {5, 6, 1, 0, 0, 0}, "news.example.org": {6, 7, 0, 0, 0, 0},
	})
	f.wantRows(r, 2, map[string]counts{
		"organic search": {6, 7, 0, 0, 0, 0}, "direct": {5, 6, 1, 0, 0, 0}, "paid search": {9, 10, 0, 0, 0, 0},
		"unassigned": {6, 7, 0, 0, 0, 0},
	})
	f.wantRows(r, 3, map[string]counts{"sign_up": {2, 0, 0, 0, 0, 3}, "outbound_click": {3, 0, 0, 0, 0, 4}})
	f.wantStates(r, scan.ImportIncluded, scan.ImportIncluded, scan.ImportNoValues)
	if r.Totals.Conversions != 3 {
		f.t.Errorf("%d conversions, want 3", r.Totals.Conversions)
	}
	f.wantExcluded()
}
