package exports_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestExportEngagement checks pages of many days, across months: each page view has the reports of
// its day and the two after it, unless a later page view repeats its id.
func TestExportEngagement(t *testing.T) {
	t.Parallel()
	const days = 40
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("example.com")
		first := model.At(time.Date(2026, 11, 10, 0, 0, 0, 0, time.UTC)).Day()
		must := func(statement string, args ...any) {
			t.Helper()
			testkit.NoError(t, dbtest.Exec(d, statement, args...))
		}
		report := func(day model.Day, id int64, ms, scroll int, repeatedAt any) {
			must("INSERT INTO engagement (site_id, day, id, ms, scroll, repeated_at) VALUES (?, ?, ?, ?, ?, ?)",
				site.ID, day, id, ms, scroll, repeatedAt)
		}

		// Each day has a visit with three page views: the ids -n and 1000 + n occur on the n-th day
		// only, and 7 occurs on each day.
		type views [3]int32
		want := make([]views, days)
		for n := range days {
			day, id := first+model.Day(n), int64(n)
			must(`INSERT INTO visits (site_id, visitor, day, n, started_at, last_pageview_at, pageviews, channel)
				VALUES (?, 1, ?, 1, ?, ?, 3, 1)`, site.ID, day, day.Start(), day.Start())
			for i, id := range []int64{-id - 1, 7, 1000 + id} {
				must(`INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path)
					VALUES (?, ?, ?, 1, 1, 0, false, '/')`, site.ID, day.Start().Add(time.Duration(i)*time.Hour), id)
			}
		}

		// The id 7 has reports on one day; page views of that day and of the two before it show
		// them.
		report(first+20, 7, 70, 7, nil)
		for n := 18; n <= 20; n++ {
			want[n][1] = 70
		}

		report(first+3, -4, 1, 10, nil)
		report(first+4, -4, 20, 30, nil)
		report(first+5, -4, 300, 20, nil)
		report(first+6, -4, 4000, 90, nil) // too late
		want[3][0] = 321

		report(first+9, 1009, 5, 5, (first + 9).Start().Add(2*time.Hour)) // repeated by that page view itself
		want[9][2] = 5
		report(first+11, 1010, 5, 5, (first + 11).Start()) // by a later page view
		report(first+14, 1012, 90_000_000, 100, nil)       // more than a day
		want[12][2] = int32(model.MaxEngagement.Milliseconds())

		n := 0
		all := exports.Range{SiteID: site.ID, From: first.Start(), To: (first + days).Start(), Limit: 1_000}
		err := exports.New(d).ExportPageviews(t.Context(), all, func(p *exports.Pageview) error {
			testkit.Equal(t, p.EngagedMS, want[n/3][n%3], "page view %d of day %d: ms", n%3, n/3)
			if n == 9 && p.Scroll != 30 {
				t.Errorf("scroll depth %d, want the deepest, 30", p.Scroll)
			}
			testkit.Equal(t, p.StartedAt.Day(), p.At.Day(), "page view %d of day %d has the visit of another day", n%3, n/3)
			n++
			return nil
		})
		if err != nil || n != 3*days {
			t.Errorf("%d page views, error %v; want %d", n, err, 3*days)
		}
	})
}

// TestExportAfterFailure checks that a page that fails leaves no transaction to the next user of
// its connection.
func TestExportAfterFailure(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		if !d.IsPostgres() {
			return // pages are one statement
		}
		d.Write.SetMaxOpenConns(1)
		site := world.New(t, d).Site("example.com")
		storeForExport(t, d, site.ID, dbtest.Noon, 10)
		all := exports.Range{SiteID: site.ID, To: 1 << 62, Limit: 10}
		count := func() (n int, err error) {
			err = exports.New(d).ExportPageviews(t.Context(), all, func(*exports.Pageview) error { n++; return nil })
			return n, err
		}

		testkit.NoError(t, dbtest.Exec(d, "ALTER TABLE visits RENAME COLUMN pageviews TO moved"))
		if n, err := count(); err == nil {
			t.Errorf("%d rows without a column of visits, and no error", n)
		}

		// A transaction that is left open would be read-only, and aborted.
		err := dbtest.Exec(d, "ALTER TABLE visits RENAME COLUMN moved TO pageviews")
		if n, failed := count(); n != 10 || failed != nil || err != nil {
			t.Errorf("after that: %d rows, errors %v and %v; want 10", n, failed, err)
		}
	})
}
