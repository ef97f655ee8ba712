package reports_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/oracle"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// clock is the time of a test.
type clock struct{ now model.Instant }

func (c *clock) Now() time.Time { return c.now.Time() }

// fixture stores rows of a site and compares reports with a recount of the export.
type fixture struct {
	t       testing.TB
	d       *db.DB
	clock   *clock
	reports *reports.Store
	site    *model.Site
	random  *rand.Rand
	rollUp  bool // keep rollups of segments of all sizes
}

func newFixture(t testing.TB, d *db.DB, seed uint64) *fixture {
	t.Helper()
	f := &fixture{t: t, d: d, clock: &clock{dbtest.Noon}, random: rand.New(rand.NewPCG(seed, 99))}
	dbtest.SetClock(d, f.clock.Now)
	f.rollUp = seed%3 != 1
	f.restart()
	f.site = world.New(t, d).Site(fmt.Sprintf("site%d.example", seed))
	return f
}

// restart replaces the Store, whose live days and answers are of an earlier time.
func (f *fixture) restart() {
	f.reports = reports.New(f.d)
	if f.rollUp {
		reports.RollUpAll(f.reports)
	}
}

func (f *fixture) exec(statement string, args ...any) {
	f.t.Helper()
	testkit.NoError(f.t, dbtest.Exec(f.d, statement, args...))
}

// store stores the rows of days, in the way ingestion does.
func (f *fixture) store(siteID model.SiteID, days ...segment.Rows) {
	f.t.Helper()
	testkit.NoError(f.t, oracle.Store(f.t.Context(), f.d, int64(siteID), days...))
}

// work runs the worker's tasks at a time.
func (f *fixture) work(now model.Instant) {
	f.t.Helper()
	f.clock.now = now
	if _, err := f.reports.Plan(f.t.Context(), now); err != nil {
		f.t.Fatal(err)
	}
	if built, err := f.reports.BuildDue(f.t.Context()); err != nil || built.Lost != 0 {
		f.t.Fatalf("built %+v, error %v", built, err)
	}
}

// exported reads the rows of the site from its export.
func (f *fixture) exported() []segment.Rows {
	f.t.Helper()
	days, err := oracle.Exported(f.t.Context(), f.d, int64(f.site.ID))
	testkit.NoError(f.t, err)
	return days
}

// report returns the answer of the store.
func (f *fixture) report(periods ...*scan.Query) *reports.Answer {
	f.t.Helper()
	answer, err := f.reports.Report(f.t.Context(), reports.Request{SiteID: f.site.ID, Now: f.clock.now, Periods: periods})
	testkit.NoError(f.t, err)
	return answer
}

// compare compares random reports with a recount of the export. Each has two periods.
func (f *fixture) compare(name string, zone *time.Location, first model.Day, days int) {
	f.t.Helper()
	rows := f.exported()
	f.restart()
	for i := range 4 {
		a, b := oracle.Query(f.random, zone, first, days), oracle.Query(f.random, zone, first, days)
		if i%2 == 0 {
			a = rollable(a)
		}
		answer := f.report(a, b)
		oracle.Check(f.t, fmt.Sprintf("%s, report %d", name, i), oracle.Count(a, rows), answer.Results[0])
		oracle.Check(f.t, fmt.Sprintf("%s, report %d compared", name, i), oracle.Count(b, rows), answer.Results[1])
	}
}

// rollable returns the query without what rollups do not have.
func rollable(q *scan.Query) *scan.Query {
	q.Filters, q.Funnels, q.Journeys, q.Cohorts, q.Numbers = nil, nil, nil, nil, nil
	q.Breakdowns = []scan.Breakdown{{By: scan.Event}}
	return q
}

// check compares the segments with a count by SQL.
func (f *fixture) check(wantDays bool) {
	f.t.Helper()
	checked, err := f.reports.Check(f.t.Context(), f.site.ID, func(d reports.Difference) { f.t.Errorf("segment and rows differ: %+v", d) })
	if err != nil || (checked.Days > 0) != wantDays {
		f.t.Fatalf("checked %+v, error %v", checked, err)
	}
}

// states returns how many days have each state.
func (f *fixture) states() map[int]int {
	f.t.Helper()
	type row struct{ State, N int }
	rows, err := dbtest.Rows[row](f.d, "SELECT state, count(*) AS n FROM report_days WHERE site_id = ? GROUP BY state", f.site.ID)
	testkit.NoError(f.t, err)
	states := map[int]int{}
	for _, r := range rows {
		states[r.State] = r.N
	}
	return states
}

// The states of report_days.
const (
	open, final, merged, sealed = 0, 1, 2, 3
)

// TestReportsEqualTheExport follows random worlds through all that happens to a day: its rows
// alone, builds, late engagement, erasures, the merge of its month, an erasure after that, and the
// deletion of its rows. After each step, random reports must equal a recount of the export, and the
// segments a count by SQL.
func TestReportsEqualTheExport(t *testing.T) {
	for i, z := range oracle.Zones {
		day, err := model.ParseDay(z.Day)
		testkit.NoError(t, err)
		if day.Start().Time().Year() < 2020 {
			continue
		}
		t.Run(z.Name, func(t *testing.T) {
			zone, err := time.LoadLocation(z.Name)
			testkit.NoError(t, err)
			follow := func(t *testing.T, d *db.DB) { followWorld(t, newFixture(t, d, uint64(i)), zone, day) }
			if i%3 == 0 {
				dbtest.Each(t, follow)
				return
			}
			testkit.SkipLong(t, "further time zones")
			follow(t, dbtest.Open(t, dbtest.SQLiteURL(t)))
		})
	}
}

func followWorld(t *testing.T, f *fixture, zone *time.Location, first model.Day) {
	const days = 5
	subject := []byte("user-a..........")[:16]
	rows := oracle.World(f.random, first, days)
	for i := range rows {
		for j := range rows[i].Visits {
			if v := &rows[i].Visits[j]; v.UserID != "" {
				v.UserID = (v.UserID + "..........")[:16]
			}
		}
	}
	f.store(f.site.ID, rows[:3]...)

	// Rows of another site must not count.
	other := world.New(t, f.d).Site("other.example", world.Of(f.site.AccountID))
	f.store(other.ID, oracle.World(f.random, first, days)...)

	// The worker has not run yet.
	f.clock.now = (first + 2).Start().Add(20 * time.Hour)
	f.compare("from rows", zone, first, 2)

	f.store(f.site.ID, rows[3:]...)
	f.work((first + days).Start().Add(time.Hour))
	f.compare("built", zone, first, days)
	f.check(true)

	// Engagement arrives for the last two days until 48 hours after their end.
	f.exec("UPDATE engagement SET ms = ms + 4000, scroll = 70 WHERE site_id = ? AND day >= ?",
		f.site.ID, first+days-2)
	f.work(f.clock.now.Add(time.Hour))
	f.compare("late engagement", zone, first, days)

	f.work((first + days).Start().Add(50 * time.Hour))
	f.compare("final", zone, first, days)
	f.check(true)

	erase := func(name string) {
		t.Helper()
		e := &model.UserErasure{SiteID: f.site.ID, Subject: subject, RequestedAt: f.clock.now}
		if _, err := retention.New(f.d).EraseUser(t.Context(), e, f.clock.now); err != nil {
			t.Fatal(err)
		}
		f.work(f.clock.now)
		f.compare(name, zone, first, days)
		f.check(true)
	}
	erase("erased")

	// The days of each month are merged two days after its end.
	f.work((first + 70).Start())
	if states := f.states(); states[merged] == 0 || len(states) != 1 {
		t.Fatalf("days by state %v; want all merged", states)
	}
	f.compare("merged", zone, first, days)
	f.check(true)

	subject = []byte("user-b..........")[:16]
	erase("erased after the merge")

	f.setZone(zone)
	f.compare("in another time zone", zone, first, days)
	f.work(f.clock.now.Add(2 * time.Hour))
	f.compare("built again in another time zone", zone, first, days)
	f.check(true)

	f.seal(zone, first, days)
}

// setZone changes the time zone of the site.
func (f *fixture) setZone(zone *time.Location) {
	f.t.Helper()
	name := zone.String()
	err := sites.New(f.d).Sites.UpdateSite(f.t.Context(), f.site.AccountID, f.site.ID, sites.SiteUpdate{TimeZone: &name})
	testkit.NoError(f.t, err)
}

// seal deletes the rows and compares what is left with reports of before, without users.
func (f *fixture) seal(zone *time.Location, first model.Day, days int) {
	f.t.Helper()
	q := &scan.Query{Zone: zone, From: scan.DateOf(first.Start().Time()).AddDays(-2), To: scan.DateOf(first.Start().Time()).AddDays(days + 2),
		Breakdowns: oracle.AllBreakdowns(), KeyEvents: map[string]bool{"signup": true}, Numbers: oracle.AllNumbers("signup", "n")}
	f.exec("UPDATE visits SET user_id = '' WHERE site_id = ?", f.site.ID)
	want := oracle.Count(q, f.exported())

	before := (first + 70).Start().Month()
	if ready, err := f.reports.Seal(f.t.Context(), before, f.clock.now); err != nil || !ready {
		f.t.Fatalf("sealed: %v, %v", ready, err)
	}
	if _, err := retention.New(f.d).DropOldData(f.t.Context(), f.clock.now.Add(300*24*time.Hour), 1); err != nil {
		f.t.Fatal(err)
	}
	if states := f.states(); states[sealed] == 0 || len(states) != 1 {
		f.t.Fatalf("days by state %v; want all sealed", states)
	}
	oracle.Check(f.t, "sealed", want, f.report(q).Results[0])
	f.check(false)
}
