package reports_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
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

var startDay = dbtest.Start.Day()

// whole asks for the totals and pages of some days from startDay on, in UTC.
func whole(days int) *scan.Query {
	from := scan.DateOf(startDay.Start().Time())
	return &scan.Query{Zone: time.UTC, From: from, To: from.AddDays(days - 1), Breakdowns: []scan.Breakdown{{By: scan.Page}}}
}

// storeVisits stores n visits of one page view each on a day.
func (f *fixture) storeVisits(day model.Day, n int) {
	f.t.Helper()
	rows := segment.Rows{Day: day}
	for i := range n {
		key := segment.VisitKey{Visitor: model.VisitorID{byte(i), byte(i >> 8), byte(day)}, N: 1}
		at := day.Start().Add(time.Duration(i) * time.Second)
		rows.Visits = append(rows.Visits, segment.Visit{VisitKey: key, StartedAt: at, Channel: "direct"})
		rows.Views = append(rows.Views, segment.View{VisitKey: key, At: at, ID: int64(day)<<32 | int64(i), Path: "/", Width: -1})
	}
	f.store(f.site.ID, rows)
}

// equal compares the totals of a report with a recount of the export.
func (f *fixture) equal(name string, q *scan.Query) {
	f.t.Helper()
	oracle.Check(f.t, name, oracle.Count(q, f.exported()), f.report(q).Results[0])
}

// TestTwoWorkersOnOneDay checks that a worker that read the rows first but stores last does not
// replace the newer segment.
func TestTwoWorkersOnOneDay(t *testing.T) {
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		d := dbtest.Open(t, databaseURL)
		f := newFixture(t, dbtest.Open(t, databaseURL), 1)
		dbtest.SetClock(d, f.clock.Now)
		f.storeVisits(startDay, 3)

		f.clock.now = (startDay + 1).Start().Add(time.Hour)
		if _, err := f.reports.Plan(t.Context(), f.clock.now); err != nil {
			t.Fatal(err)
		}

		// The snapshot of the slow worker begins with its first query.
		slow, met := reports.New(d), false
		reports.Observe(slow, func(query string) {
			if !strings.Contains(query, "FROM pageviews") || met {
				return
			}
			met = true
			f.exec("UPDATE engagement SET ms = 12345 WHERE site_id = ?", f.site.ID)
			f.invalidate(startDay)
			if built, err := f.reports.BuildDue(context.Background()); err != nil || built.Days != 1 {
				t.Errorf("the fast worker built %+v, error %v", built, err)
			}
		})
		if _, err := slow.BuildDue(t.Context()); err != nil || !met {
			t.Fatalf("the slow worker: error %v, met %v", err, met)
		}
		f.equal("after both", whole(1))
		f.check(false)
	})
}

func (f *fixture) invalidate(day model.Day) {
	err := f.d.InSiteTx(context.Background(), f.site.ID, func(ctx context.Context, tx *db.CellTx) error {
		return reports.Invalidate(ctx, tx, f.site.ID, f.clock.now, day)
	})
	if err != nil {
		f.t.Error(err)
	}
}

// TestCrashDuringBuild checks that a worker that ends in the middle of storing a day leaves nothing
// of it, and that the day is built when the lease has ended.
func TestCrashDuringBuild(t *testing.T) {
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		d := dbtest.Open(t, databaseURL)
		f := newFixture(t, dbtest.Open(t, databaseURL), 1)
		dbtest.SetClock(d, f.clock.Now)
		f.storeVisits(startDay, 3)
		f.clock.now = (startDay + 1).Start().Add(time.Hour)
		if _, err := f.reports.Plan(t.Context(), f.clock.now); err != nil {
			t.Fatal(err)
		}

		ctx, crash := context.WithCancel(t.Context())
		dbtest.OnStatement(d, func(statement string) {
			if strings.Contains(statement, "DELETE FROM report_segments") {
				crash()
			}
		})
		if _, err := reports.New(d).BuildDue(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v, want canceled", err)
		}

		f.equal("after the crash", whole(1))
		dbtest.HasRows(t, f.d, "report_segments", 0, "rows of segments")

		if built, err := f.reports.BuildDue(t.Context()); built.Days != 0 || err != nil {
			t.Errorf("during the lease: built %+v, error %v", built, err)
		}

		// PostgreSQL ends the canceled transaction, which locks the day, when it notices.
		f.clock.now = f.clock.now.Add(11 * time.Minute)
		testkit.Await(t, "the day after the lease", func() bool {
			built, err := f.reports.BuildDue(t.Context())
			if err != nil || built.Days > 1 {
				t.Fatalf("after the lease: built %+v, error %v", built, err)
			}
			return built.Days == 1
		})
		f.equal("built", whole(1))
	})
}

// TestFinalDayIsBuiltAgain corrects a final day and then one of a merged month: a refund and a
// report of engagement that were stored late, and a user whose visits are deleted. Each correction
// changes this day alone, and at the end report, export and rows agree.
func TestFinalDayIsBuiltAgain(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		for day := range model.Day(3) {
			f.storeVisits(startDay+day, 4)
		}
		user := []byte("user-a..........")
		f.exec("UPDATE visits SET user_id = ? WHERE site_id = ? AND day = ? AND started_at = ?", user, f.site.ID, startDay+1, (startDay + 1).Start())

		type version struct {
			Day                      model.Day
			Version, Checksum, State int64
		}
		versions := func() (all [3]version) {
			t.Helper()
			rows, err := dbtest.Rows[version](d, "SELECT day, version, checksum, state FROM report_days ORDER BY day")
			if err != nil || copy(all[:], rows) != 3 {
				t.Fatal(rows, err)
			}
			return all
		}

		q := whole(3)
		q.Breakdowns = append(q.Breakdowns, scan.Breakdown{By: scan.Event})
		for _, stage := range []struct {
			now   model.Day
			state int64
		}{{startDay + 6, final}, {startDay + 40, merged}} {
			f.work(stage.now.Start())
			number := int64(stage.now)

			for _, correction := range []struct {
				name    string
				correct func()
				want    func(before, after scan.Figures) bool
			}{
				{"refund", func() {
					f.exec(`INSERT INTO events (site_id, at, id, visitor, n, name, path, value, currency)
SELECT site_id, started_at + 1000000, ?, visitor, n, 'refund', '/', -2500000, 'EUR' FROM visits WHERE site_id = ? AND day = ? LIMIT 1`,
						number, f.site.ID, startDay+1)
				}, func(before, after scan.Figures) bool {
					return after.Revenue["EUR"].Refunded == before.Revenue["EUR"].Refunded+2_500_000
				}},
				{"engagement", func() {
					f.exec("UPDATE engagement SET ms = ms + 60000, scroll = 90 WHERE site_id = ? AND day = ?", f.site.ID, startDay+1)
				}, func(before, after scan.Figures) bool { return after.ViewMS > before.ViewMS }},
				{"visit", func() {
					key := segment.VisitKey{Visitor: model.VisitorID{byte(number), 99}, N: 1}
					at := (startDay + 1).Start().Add(time.Hour)
					f.store(f.site.ID, segment.Rows{Day: startDay + 1, Visits: []segment.Visit{{VisitKey: key, StartedAt: at, Channel: "direct"}},
						Views: []segment.View{{VisitKey: key, At: at, ID: number, Path: "/late", Width: -1}}})
				}, func(before, after scan.Figures) bool { return after.Visits == before.Visits+1 }},
			} {
				name := fmt.Sprintf("%s, state %d", correction.name, stage.state)
				was, before := versions(), f.report(q).Results[0].Totals
				correction.correct()
				f.work(f.clock.now.Add(time.Hour))
				testkit.Equal(t, versions(), was, "%s: built without a reason: %+v, then", name, was)

				f.invalidate(startDay + 1)
				f.work(f.clock.now.Add(time.Minute))
				after := f.report(q).Results[0].Totals
				if !correction.want(before, after) {
					t.Errorf("%s: %+v, then %+v", name, before, after)
				}
				is := versions()
				for i := range is {
					if is[i].State != stage.state || (is[i].Checksum != was[i].Checksum) != (i == 1) {
						t.Errorf("%s: %+v, then %+v", name, was[i], is[i])
					}
				}
				f.equal(name, q)
				f.check(true)
			}
		}

		// The erasure names the days itself.
		before := f.report(q).Results[0].Totals.Visits
		if _, err := retention.New(d).EraseUser(t.Context(), &model.UserErasure{SiteID: f.site.ID, Subject: user, RequestedAt: f.clock.now},
			f.clock.now); err != nil {
			t.Fatal(err)
		}
		f.work(f.clock.now.Add(time.Minute))
		if after := f.report(q).Results[0].Totals.Visits; after != before-1 {
			t.Errorf("%d visits, then %d after the erasure", before, after)
		}
		f.equal("erased", q)
		f.check(true)
	})
}

// TestSchedule checks when a day is built, and that the worker's cost is constant when nothing is
// due.
func TestSchedule(t *testing.T) {
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		d := dbtest.Open(t, databaseURL)
		statements := dbtest.WatchStatements(d)
		f := newFixture(t, d, 1)
		f.storeVisits(startDay, 2)
		f.work(startDay.Start().Add(time.Hour)) // plans no day yet
		end := (startDay + 1).Start()

		for _, test := range []struct {
			after time.Duration // since the end of the day
			days  int64
			state int
		}{
			{9 * time.Minute, 0, -1},
			{10 * time.Minute, 1, open},
			{time.Hour, 0, open},
			{71 * time.Minute, 1, open},
			{48 * time.Hour, 1, open},
			{48*time.Hour + 9*time.Minute, 0, open},
			{48*time.Hour + 10*time.Minute, 1, final},
			{10 * 24 * time.Hour, 0, final},
			{14 * 24 * time.Hour, 0, merged}, // the month ended on 30 November
		} {
			f.clock.now = end.Add(test.after)
			if _, err := f.reports.Plan(t.Context(), f.clock.now); err != nil {
				t.Fatal(err)
			}
			built, err := f.reports.BuildDue(t.Context())
			want := map[int]int{test.state: 1}
			if test.state < 0 {
				want = map[int]int{}
			}
			if states := f.states(); err != nil || built.Days != test.days || !reflect.DeepEqual(states, want) {
				t.Errorf("%v after the day: built %+v, error %v, states %v; want %d days, %v", test.after, built, err, states, test.days, want)
			}
		}

		statements.Take()
		f.work(f.clock.now.Add(time.Minute))
		if list := statements.Take(); len(list) > 6 {
			t.Errorf("%d statements while nothing is due: %q", len(list), list)
		}
	})
}

// TestUnchangedDayIsNotWritten checks that an hourly build without a change writes no segment.
func TestUnchangedDayIsNotWritten(t *testing.T) {
	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	statements := dbtest.WatchStatements(d)
	f := newFixture(t, d, 1)
	f.storeVisits(startDay, 2)
	f.work((startDay + 1).Start().Add(time.Hour))

	statements.Take()
	f.work(f.clock.now.Add(time.Hour))
	for _, statement := range statements.Take() {
		if strings.Contains(statement, "DELETE FROM report_segments") {
			t.Errorf("written again: %s", statement)
		}
	}
	f.exec("UPDATE engagement SET scroll = 40")
	f.work(f.clock.now.Add(time.Hour))
	f.equal("changed", whole(1))
}

// TestRepeatedPageviewID checks that what was reported on an id of two page views counts for the
// later one, in the export as in a segment.
func TestRepeatedPageviewID(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		key := segment.VisitKey{Visitor: model.VisitorID{7}, N: 1}
		at := startDay.Start()
		f.store(f.site.ID, segment.Rows{Day: startDay,
			Visits: []segment.Visit{{VisitKey: key, StartedAt: at, Channel: "direct"}},
			Views: []segment.View{
				{VisitKey: key, At: at, ID: 1, Path: "/first", Width: -1},
				{VisitKey: key, At: at.Add(time.Minute), ID: 3, Path: "/second", Width: -1},
				{VisitKey: key, At: at.Add(2 * time.Minute), ID: 2, Path: "/third", Width: -1},
			}})
		f.exec("UPDATE pageviews SET id = 1 WHERE id = 3")
		f.exec("DELETE FROM engagement")
		f.exec("INSERT INTO engagement (id, site_id, day, ms, scroll, repeated_at) VALUES (1, ?0, ?1, 7000, 50, ?2), (2, ?0, ?1, 500, 20, NULL)",
			f.site.ID, startDay, at.Add(time.Minute))

		f.clock.now = (startDay + 1).Start().Add(time.Hour)
		for _, name := range []string{"from rows", "from a segment"} {
			f.equal(name, whole(1))
			for path, want := range map[string]int64{"/first": 0, "/second": 7000, "/third": 500} {
				pages := f.report(whole(1)).Results[0].Breakdowns[0]
				if got := pages.Of(path).ViewMS; got != want {
					t.Errorf("%s: %s has %d ms, want %d", name, path, got, want)
				}
			}
			f.work(f.clock.now)
		}
	})
}

// TestLargeDay checks a segment of several chunks, alone and merged.
func TestLargeDay(t *testing.T) {
	testkit.SkipLong(t, "a day of the largest size")
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		const n = 10_000
		at := startDay.Start()
		numbers := fmt.Sprintf("WITH RECURSIVE n (i) AS (SELECT CAST(0 AS bigint) UNION ALL SELECT i + 1 FROM n WHERE i + 1 < %d) ", n)
		f.exec(numbers+`INSERT INTO visits (site_id, day, visitor, n, started_at, last_pageview_at, pageviews, channel)
SELECT ?, ?, i / 2, i % 2 + 1, ? + i * 1000000, 0, 1, 1 FROM n`, f.site.ID, startDay, at)
		f.exec(numbers+`INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path)
SELECT ?, ? + i * 1000000, i, i / 2, i % 2 + 1, 0, false, '/a/path/of/usual/length/' || (i * 7919) FROM n`, f.site.ID, at)
		f.exec(numbers+"INSERT INTO engagement (site_id, day, id, ms, scroll) SELECT ?, ?, i, i, i % 100 FROM n", f.site.ID, startDay)
		f.exec("INSERT INTO site_usage (site_id, month, used) VALUES (?, 202611, 1)", f.site.ID)
		f.storeVisits(startDay+3, 2)

		for _, day := range []model.Day{startDay + 1, startDay + 20} {
			name := day.String()
			f.work(day.Start().Add(time.Hour))
			chunks, err := dbtest.Count(d, "report_segments")
			if err != nil || chunks < 4 {
				t.Fatalf("%s: %d chunks, error %v", name, chunks, err)
			}
			totals := f.report(whole(10)).Results[0].Totals
			if totals.Visits < n || totals.Visitors < n/2 || totals.ViewMS != n*(n-1)/2 {
				t.Errorf("%s: %+v", name, totals)
			}
		}
		f.check(true)
	})
}

// TestLimits checks that a report is refused before it reads figures.
func TestLimits(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		for i := range 6 {
			f.storeVisits(startDay+model.Day(i), 1)
		}
		f.clock.now = (startDay + 6).Start().Add(time.Hour)
		ask := func(days int) error {
			_, err := f.reports.Report(t.Context(), reports.Request{SiteID: f.site.ID, Now: f.clock.now, Periods: []*scan.Query{whole(days)}})
			return err
		}

		testkit.Succeeds(t, ask(4), "4 days without a segment")
		testkit.ErrorIs(t, ask(5), reports.ErrNotBuilt, "5 days without a segment")

		f.work(f.clock.now)
		testkit.Succeeds(t, ask(6), "built")

		f.exec("UPDATE report_days SET pageviews = 25000000")
		testkit.Succeeds(t, ask(2), "50 million page views")
		testkit.ErrorIs(t, ask(3), reports.ErrTooExpensive, "75 million page views")
		size, err := f.reports.Size(t.Context(), reports.Request{SiteID: f.site.ID, Now: f.clock.now, Periods: []*scan.Query{whole(3)}})
		if size.Pageviews != 75_000_000 || err != nil {
			t.Errorf("size %+v, error %v", size, err)
		}
	})
}

// TestDamage checks that a damaged segment gives an error instead of figures, and that merging
// replaces it.
func TestDamage(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		f.storeVisits(startDay, 20)
		f.work((startDay + 3).Start())

		type row struct{ Data []byte }
		rows, err := dbtest.Rows[row](d, "SELECT data FROM report_segments")
		if err != nil || len(rows) != 1 {
			t.Fatal(rows, err)
		}
		for _, at := range []int{0, 9, 20, 100, len(rows[0].Data) - 1} {
			data := append([]byte(nil), rows[0].Data...)
			data[at] ^= 0x55
			f.exec("UPDATE report_segments SET data = ?", data)

			answer, err := f.reports.Report(t.Context(), reports.Request{SiteID: f.site.ID, Now: f.clock.now, Periods: []*scan.Query{whole(1)}})
			if err == nil && answer.Results[0].Totals.Visits != 20 {
				t.Errorf("byte %d: %+v", at, answer.Results[0].Totals)
			}
		}

		f.work((startDay + 20).Start())
		f.equal("merged", whole(1))
		f.check(true)
	})
}

// TestRollups checks that a report which rollups can answer reads no columns, that others read
// them, and that a rollup which is damaged or of another time zone is not used.
func TestRollups(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 2)
		f.storeVisits(startDay, 20)
		f.storeVisits(startDay+1, 30)
		f.work((startDay + 2).Start().Add(time.Hour))

		// The figures of the rollups cannot come from columns that are damaged.
		const columns, rollup = "chunk >= 1048576 AND chunk < 2097152", "chunk >= 2097152"
		type row struct {
			FirstDay, Chunk int64
			Data            []byte
		}
		stored, err := dbtest.Rows[row](d, "SELECT first_day, chunk, data FROM report_segments")
		testkit.NoError(t, err)
		damage := func(which string) { f.exec("UPDATE report_segments SET data = ? WHERE "+which, []byte("damaged")) }
		restore := func() {
			for _, r := range stored {
				f.exec("UPDATE report_segments SET data = ? WHERE first_day = ? AND chunk = ?", r.Data, r.FirstDay, r.Chunk)
			}
		}
		fails := func(name string, q *scan.Query) {
			t.Helper()
			_, err := f.reports.Report(t.Context(), reports.Request{SiteID: f.site.ID, Now: f.clock.now, Periods: []*scan.Query{q}})
			testkit.ErrorIs(t, err, segment.ErrDamaged, "%s", name)
		}

		damage(columns)
		f.equal("from rollups", rollable(whole(2)))
		f.equal("from the rollup of a day", rollable(whole(1)))
		fails("other figures", whole(2))

		berlin, err := time.LoadLocation("Europe/Berlin")
		testkit.NoError(t, err)
		local := rollable(whole(2))
		local.Zone = berlin
		fails("another time zone", local)

		restore()
		f.equal("another time zone, from columns", local)
		answer := f.report(rollable(whole(2)), whole(1), local)
		for i, q := range []*scan.Query{rollable(whole(2)), whole(1), local} {
			oracle.Check(t, fmt.Sprintf("period %d", i), oracle.Count(q, f.exported()), answer.Results[i])
		}

		damage(rollup)
		f.equal("with a damaged rollup", rollable(whole(2)))
		restore()

		// A change of the time zone replaces the rollups.
		f.setZone(berlin)
		f.equal("after a change of the time zone", local)
		f.work(f.clock.now.Add(2 * time.Hour))
		damage(columns)
		f.equal("from rollups of the new time zone", local)
		fails("the former time zone", rollable(whole(2)))
	})
}

// rows returns the rows of the first breakdown.
func rows(answer *reports.Answer) map[string]scan.Figures {
	return maps.Collect(answer.Results[0].Breakdowns[0].All())
}

// TestLiveDay checks that today is read once in ten seconds, and says until when it counts.
func TestLiveDay(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		reads := 0
		reports.Observe(f.reports, func(query string) {
			if strings.Contains(query, "FROM pageviews") {
				reads++
			}
		})
		f.storeVisits(startDay, 2)
		f.clock.now = dbtest.Noon

		first := f.report(whole(1))
		f.exec("UPDATE pageviews SET path = '/new'")
		f.clock.now = dbtest.Noon.Add(9 * time.Second)
		if again := f.report(whole(1)); reads != 1 || again.AsOf != dbtest.Noon || !reflect.DeepEqual(rows(first), rows(again)) {
			t.Errorf("after 9 s: %d reads, %+v; want the first answer", reads, again)
		}

		f.clock.now = dbtest.Noon.Add(3 * time.Minute)
		if later := f.report(whole(1)); reads != 2 || later.AsOf != f.clock.now || later.Results[0].Breakdowns[0].Of("/new").Visits != 2 {
			t.Errorf("after 3 minutes: %d reads, %+v", reads, later)
		}
	})
}

// TestDeletion checks that a deleted site's reports go with its rows, and that old reports are
// deleted by month.
func TestDeletion(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		f.storeVisits(startDay, 3)
		f.storeVisits(startDay+40, 3)
		own := f.site
		f.site = world.New(t, d).Site("deleted.example", world.Of(own.AccountID))
		f.storeVisits(startDay, 3)
		f.work((startDay + 42).Start())

		if _, err := sites.New(d).Sites.DeleteSite(t.Context(), own.AccountID, f.site.ID, f.site.Domain, f.clock.now); err != nil {
			t.Fatal(err)
		}
		if _, err := retention.New(d).PurgeSites(t.Context(), []model.SiteID{f.site.ID}); err != nil {
			t.Fatal(err)
		}
		for _, table := range []string{"report_days", "report_segments"} {
			if n, err := dbtest.Rows[struct{ N int }](d, "SELECT count(*) AS n FROM "+table+" WHERE site_id = ?", f.site.ID); err != nil || n[0].N != 0 {
				t.Errorf("%s has %v of the deleted site, error %v", table, n, err)
			}
		}
		f.work(f.clock.now.Add(24 * time.Hour)) // plans nothing for it

		f.site = own
		f.equal("the other site", whole(41))
		if _, err := retention.New(d).DeleteOldReports(t.Context(), f.clock.now, 1); err != nil {
			t.Fatal(err)
		}
		testkit.Equal(t, f.report(whole(41)).Results[0].Totals.Visits, 3, "visits are left")
	})
}

// TestClockAhead checks that days that were planned and built by a clock months ahead are built
// again, and that days are planned when they end.
func TestClockAhead(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		f.storeVisits(startDay, 3)
		f.work(dbtest.Start)
		f.work(dbtest.Start.Add(60 * 24 * time.Hour))
		if states := f.states(); states[merged] != 1 {
			t.Fatalf("months ahead, days by state %v; want the day merged", states)
		}

		f.storeVisits(startDay+1, 2)
		late := segment.VisitKey{Visitor: model.VisitorID{200}, N: 1}
		at := dbtest.Start.Add(time.Hour)
		f.store(f.site.ID, segment.Rows{Day: startDay, Visits: []segment.Visit{{VisitKey: late, StartedAt: at, Channel: "direct"}},
			Views: []segment.View{{VisitKey: late, At: at, ID: 1, Path: "/late", Width: -1}}})

		f.work((startDay + 2).Start().Add(time.Hour))
		f.equal("put right", whole(2))
		if states := f.states(); states[open] != 2 || len(states) != 1 {
			t.Errorf("days by state %v", states)
		}
	})
}

// TestLiveIsReadOnce checks that parallel callers share one read of the last minutes, and that some
// seconds later they are read again.
func TestLiveIsReadOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, 1)
		f.storeVisits(startDay, 5)
		now := startDay.Start().Add(30 * time.Second)

		var reads atomic.Int64
		reports.Observe(f.reports, func(what string) {
			if strings.Contains(what, "FROM pageviews") {
				reads.Add(1)
			}
		})
		live := func(at model.Instant) *reports.Live {
			live, err := f.reports.Live(t.Context(), f.site.ID, at)
			if err != nil {
				t.Error(err)
			}
			return live
		}

		var callers sync.WaitGroup
		for range 30 {
			callers.Go(func() {
				if got := live(now); got == nil || got.Visitors != 5 || got.Pageviews[reports.LiveMinutes-1] != 5 {
					t.Errorf("got %+v", got)
				}
			})
		}
		callers.Wait()
		testkit.Equal(t, reads.Load(), 1, "reads")

		live(now.Add(500 * time.Millisecond))
		live(now.Add(11 * time.Second))
		testkit.Equal(t, reads.Load(), 2, "reads after 11 seconds")
	})
}
