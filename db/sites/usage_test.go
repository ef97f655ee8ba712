package sites_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestUsageDaysAreCountedOnce: a finished day is counted after its margin, once, and days that were
// missed are caught up.
func TestUsageDaysAreCountedOnce(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		store := sites.New(d)
		site, quiet := world.New(t, d).Site("a.example"), world.New(t, d).Site("b.example")
		today := dbtest.Start.Day()
		hit := func(siteID model.SiteID, at model.Instant, id int) {
			t.Helper()
			for _, statement := range []string{
				"INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path) VALUES (?, ?, ?, 1, 1, 0, false, '/')",
				"INSERT INTO events (site_id, at, id, visitor, n, name, path) VALUES (?, ?, ?, 1, 1, 'a', '/')",
			} {
				testkit.NoError(t, dbtest.Exec(d, statement, siteID, at, id))
			}
		}

		for _, id := range []model.SiteID{site.ID, quiet.ID, quiet.ID + 1} {
			testkit.NoError(t, dbtest.Exec(d, "INSERT INTO site_usage (site_id, month, used) VALUES (?, 202611, 9)", id))
		}

		// The ends of yesterday, and the days before and after it.
		hit(site.ID, today.Start()-1, 1)
		hit(site.ID, (today - 1).Start(), 2)
		hit(site.ID, (today-1).Start()-1, 3)
		hit(site.ID, today.Start(), 4)
		hit(quiet.ID+1, today.Start()-1, 5) // no such site

		count := func(now model.Instant, want int64) {
			t.Helper()
			if n, err := store.Usage.CountUsageDays(t.Context(), now); err != nil || n != want {
				t.Errorf("at %s: %d days counted, %v; want %d", now.Time(), n, err, want)
			}
		}

		if day, err := store.Usage.UsageDayCounted(t.Context()); err != nil || day >= 0 {
			t.Errorf("before the first count: day %d, %v", day, err)
		}
		count(today.Start().Add(9*time.Minute), 31)
		count(today.Start().Add(10*time.Minute), 1)
		count(today.Start().Add(10*time.Minute), 0)

		// A late row does not change a counted day.
		hit(site.ID, today.Start()-2, 6)
		count((today + 2).Start().Add(time.Hour), 2)

		used, err := store.Usage.UsageByDay(t.Context(), []model.SiteID{site.ID, quiet.ID, quiet.ID + 1}, 0)
		want := fmt.Sprintf("map[%d:map[%s:2 %s:4 %s:2]]", site.ID, today-2, today-1, today)
		if err != nil || fmt.Sprint(used) != want {
			t.Errorf("usage by day %v, %v; want %s", used, err, want)
		}
		if day, err := store.Usage.UsageDayCounted(t.Context()); err != nil || day != today+1 {
			t.Errorf("counted until %d, %v", day, err)
		}

		months, err := store.Usage.UsageHistory(t.Context(), []model.SiteID{site.ID}, 202611)
		if err != nil || fmt.Sprint(months) != fmt.Sprintf("map[%d:map[2026-11:9]]", site.ID) {
			t.Errorf("usage by month %v, %v", months, err)
		}
	})
}
