package test

import (
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestCheckReports checks that the operator's command agrees with right reports, and names each
// figure that is wrong.
func TestCheckReports(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		check := func(ok bool, want string, args ...string) {
			t.Helper()
			status, out := runAdmin(t, settings, append([]string{"check-reports"}, args...)...)
			if (status == 0) != ok || !strings.Contains(out, want) {
				t.Errorf("%v: status %d\n%s\nwant %q", args, status, out, want)
			}
		}
		if status, _, logged := tallygate(t, settings, "migrate"); status != 0 {
			t.Fatal(logged)
		}
		check(true, "Checked 0 days.")

		d := dbtest.Open(t, databaseOf(settings))
		site := world.New(t, d).Site("example.com")
		at := dbtest.Noon
		for _, statement := range []string{
			"INSERT INTO visits (site_id, day, visitor, n, started_at, last_pageview_at, pageviews, channel) SELECT ?0, ?1, 1, 1, ?2, ?2, 1, 1",
			"INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path) SELECT ?0, ?2, 1, 1, 1, 0, false, '/pricing'",
			"INSERT INTO engagement (site_id, day, id, ms, scroll) SELECT ?0, ?1, 1, 0, 0",
		} {
			testkit.NoError(t, dbtest.Exec(d, statement, site.ID, at.Day(), at))
		}

		now := at.Add(4 * 24 * time.Hour)
		dbtest.SetClock(d, now.Time)
		store := reports.New(d)
		if _, err := store.Plan(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if _, err := store.BuildDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		check(true, "Checked 1 days.", site.SiteKey)

		testkit.NoError(t, dbtest.Exec(d, "UPDATE engagement SET ms = 12000"))
		check(false, "site 1, 2026-11-20, time in view of /pricing: 0 in the report, 12000 in the rows")
		check(false, "bounces: 1 in the report, 0 in the rows")
		check(false, "there is no site with the key", strings.Repeat("0", 32))
	})
}
