package outbox_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// dayEvents stores n events of a day, up to three at the same time.
func dayEvents(t testing.TB, d *db.DB, siteID model.SiteID, day model.Day, n int) {
	t.Helper()
	visit := model.NewTimeID(day.Start())
	testkit.NoError(t, dbtest.Exec(d,
		`INSERT INTO visits (site_id, visitor, day, n, started_at, last_pageview_at, pageviews, channel) VALUES (?, ?, ?, 1, ?, 0, 0, 1)`,
		siteID, visit, day, day.Start()))

	testkit.NoError(t, dbtest.Exec(d, `INSERT INTO events (site_id, at, id, visitor, n, name, path)
WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
SELECT ?, ? + n / 3, n % 3, ?, 1, 'signup', '/' || CAST(n AS text) FROM numbers`, n-1, siteID, day.Start(), visit))
}

// exportsOf returns the site's parts, ordered by id.
func exportsOf(t *testing.T, d *db.DB, siteID model.SiteID) []model.DailyPart {
	t.Helper()

	deliveries, err := dbtest.Rows[model.Delivery](d, "SELECT * FROM deliveries WHERE site_id = ? AND kind = 'daily_export' ORDER BY id", siteID)
	testkit.NoError(t, err)

	parts := make([]model.DailyPart, len(deliveries))
	for i, delivery := range deliveries {
		if err := json.Unmarshal([]byte(delivery.Body), &parts[i]); err != nil || delivery.Event != parts[i].Day.String() ||
			delivery.State != model.DeliveryPending {
			t.Fatal(delivery, err)
		}
	}

	return parts
}

// noFailedPlan returns a callback that fails the test when a site cannot be planned.
func noFailedPlan(t testing.TB) func(siteID model.SiteID, err error) {
	return func(siteID model.SiteID, err error) { t.Errorf("plan the daily export of site %d: %v", siteID, err) }
}

// TestFailingPlan checks that each call skips a site that fails to be planned and reports it once,
// while all days of other sites are planned. The next call tries it again.
func TestFailingPlan(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		today := dbtest.Noon.Day()
		siteList := make([]*model.Site, 5)
		for i := range siteList {
			siteList[i] = world.New(t, d).Site(fmt.Sprintf("shop%d.example", i), world.Webhook)
			err := sites.New(d).Sites.SetDailyExportWebhook(t.Context(), siteList[i].AccountID, siteList[i].ID, "https://shop.example/daily",
				model.ChangedBy{At: dbtest.Noon})
			testkit.NoError(t, err)

			dayEvents(t, d, siteList[i].ID, today, 10)
		}

		failing := map[model.SiteID]bool{siteList[0].ID: true, siteList[3].ID: true}
		repair := dbtest.RefuseDeliveries(t, d, siteList[0].ID, siteList[3].ID)

		for range 2 {
			reported := map[model.SiteID]int{}
			_, err := outbox.New(d).PlanDailyExports(t.Context(), today+3, (today + 3).Start(), func(siteID model.SiteID, err error) {
				reported[siteID]++
				if !strings.Contains(err.Error(), "planted") {
					t.Errorf("site %d: %v", siteID, err)
				}
			})
			testkit.NoError(t, err)

			if len(reported) != 2 || reported[siteList[0].ID] != 1 || reported[siteList[3].ID] != 1 {
				t.Errorf("reported: %v, want sites %v once each", reported, failing)
			}
		}

		for _, site := range siteList {
			want := 3

			if failing[site.ID] {
				want = 0
			}
			testkit.Equal(t, len(exportsOf(t, d, site.ID)), want, "%s: parts", site.Domain)
		}

		repair()

		if n, err := outbox.New(d).PlanDailyExports(t.Context(), today+3, (today + 3).Start(), noFailedPlan(t)); err != nil || n != 6 {
			t.Errorf("after the repair %d parts were planned, %v; want 6", n, err)
		}
	})
}

// TestPlanDailyExports checks that each day since the webhook was set has its parts once, with each
// event in one of them, however many processes plan it. Missed days are sent late, up to the limit.
func TestPlanDailyExports(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site, silent := world.New(t, d).Site("shop.example", world.Webhook), world.New(t, d).Site("silent.example", world.Webhook)
		today := dbtest.Noon.Day()

		// Events of the day before the webhook was set are not exported.
		dayEvents(t, d, site.ID, today-1, 10)
		dayEvents(t, d, site.ID, today, model.DailyPartRows+1)
		dayEvents(t, d, site.ID, today+2, model.DailyPartRows)
		dayEvents(t, d, silent.ID, today, 10)

		testkit.NoError(t, sites.New(d).Sites.SetDailyExportWebhook(t.Context(), site.AccountID, site.ID, "https://shop.example/daily",
			model.ChangedBy{At: dbtest.Noon}))

		plan := func(before model.Day) {
			t.Helper()
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					if _, err := outbox.New(d).PlanDailyExports(t.Context(), before, before.Start(), noFailedPlan(t)); err != nil {
						t.Error(err)
					}
				})
			}

			wg.Wait()
		}

		plan(today)

		if parts := exportsOf(t, d, site.ID); len(parts) != 0 {
			t.Errorf("planned before the day is over: %+v", parts)
		}

		plan(today + 1)

		// The worker was down for a day.
		plan(today + 3)
		dayEvents(t, d, silent.ID, today+2, 1)
		parts := exportsOf(t, d, site.ID)
		var got []string

		rows := map[string]int{}
		for _, part := range parts {
			n := 0
			err := outbox.New(d).DailyPartEvents(t.Context(), site.ID, &part, func(e *exports.Event) error {
				n++
				rows[fmt.Sprint(part.Day, e.Path)]++
				return nil
			})
			testkit.NoError(t, err)

			got = append(got, fmt.Sprintf("%d: %d/%d %d", part.Day-today, part.Part, part.Parts, n))
		}

		want := "0: 1/2 5000, 0: 2/2 1, 1: 1/1 0, 2: 1/1 5000"
		testkit.Equal(t, strings.Join(got, ", "), want, "parts %v", got)

		for row, n := range rows {
			if n != 1 {
				t.Errorf("row %s is in %d parts", row, n)
			}
		}

		testkit.Equal(t, len(rows), 2*model.DailyPartRows+1, "rows in all")

		// A late event is in no part, and does not change the parts.
		testkit.NoError(t, dbtest.Exec(d,
			"INSERT INTO events (site_id, at, id, visitor, n, name, path) SELECT site_id, at, id + 1000, visitor, n, name, '/late' FROM events WHERE site_id = ? AND path = '/5' AND at < ? AND at >= ?",
			site.ID, (today+1).Start(), today.Start()))

		n := 0
		if err := outbox.New(d).DailyPartEvents(t.Context(), site.ID, &parts[1], func(*exports.Event) error { n++; return nil }); err != nil || n != 1 {
			t.Errorf("%d rows in the second part, %v", n, err)
		}
		testkit.Equal(t, len(exportsOf(t, d, silent.ID)), 0, "a site without an address has exports")

		plan(today + 100)

		if got, want := len(exportsOf(t, d, site.ID)), len(parts)+outbox.MaxDailyCatchUp; got != want {
			t.Errorf("%d parts after a hundred days, want %d", got, want)
		}
	})
}

// TestSetDailyExportWebhook checks that a changed URL continues with the same day, and that one
// removed and set again starts with the current day.
func TestSetDailyExportWebhook(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site := world.New(t, d).Site("shop.example", world.Webhook)
		day := time.Duration(24) * time.Hour
		for _, step := range []struct {
			address string
			at      model.Instant
			want    model.Day
		}{
			{"https://shop.example/daily", dbtest.Noon, dbtest.Noon.Day()},
			{"https://shop.example/other", dbtest.Noon.Add(day), dbtest.Noon.Day()},
			{"", dbtest.Noon.Add(2 * day), dbtest.Noon.Day()},
			{"https://shop.example/daily", dbtest.Noon.Add(3 * day), dbtest.Noon.Day() + 3},
		} {
			testkit.NoError(t, sites.New(d).Sites.SetDailyExportWebhook(t.Context(), site.AccountID, site.ID, step.address, model.ChangedBy{At: step.at}))

			got, err := sites.New(d).Sites.SiteByID(t.Context(), site.AccountID, site.ID)
			if err != nil || got.DailyExportURL != step.address || got.DailyExportDay != step.want {
				t.Errorf("%q at %v: %+v, %v; want day %v", step.address, step.at.Time(), got, err, step.want)
			}
		}

		for _, bad := range []string{"http://shop.example", "shop.example", "https://user@shop.example/"} {
			if err := sites.New(d).Sites.SetDailyExportWebhook(t.Context(), site.AccountID, site.ID, bad,
				model.ChangedBy{At: dbtest.Noon}); model.KindOf(err) != model.Invalid {
				t.Errorf("%s: %v", bad, err)
			}
		}

		if err := sites.New(d).Sites.SetDailyExportWebhook(t.Context(), site.AccountID+1, site.ID, "",
			model.ChangedBy{At: dbtest.Noon}); model.KindOf(err) != model.NotFound {
			t.Errorf("another account's site: %v", err)
		}
	})
}

// BenchmarkPlanDailyExport plans a day of a million events, and reads its last part.
func BenchmarkPlanDailyExport(b *testing.B) {
	dbtest.EachBenchmark(b, func(b *testing.B, d *db.DB) {
		const site = 1
		day := dbtest.Noon.Day()
		visit := model.NewTimeID(day.Start())
		for _, statement := range []string{
			fmt.Sprintf("INSERT INTO visits (site_id, visitor, day, n, started_at, last_pageview_at, pageviews, channel) VALUES (%d, %d, %d, 1, %d, 0, 0, 1)", site, visit, day, day.Start()),
			fmt.Sprintf(`INSERT INTO events (site_id, at, id, visitor, n, name, path, properties)
WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < 999999)
SELECT %d, %d + CAST(n AS bigint) * 86400, n, %d, 1, 'signup', '/welcome', '{"plan":"pro","step":3,"source":"newsletter"}' FROM numbers`,
				site, day.Start(), visit),
			fmt.Sprintf(`INSERT INTO sites (id, account_id, site_key, domain, name, plan, monthly_pageviews, daily_export_url, created_at)
SELECT %d, id, 'k', 'shop.example', 'shop', 'FREE', 1, 'https://shop.example', 0 FROM accounts`, site),
		} {
			if strings.HasPrefix(statement, "INSERT INTO sites") {
				testkit.NoError(b, dbtest.Exec(d, "INSERT INTO accounts (name, created_at) VALUES ('a', 0)"))
			}

			testkit.NoError(b, dbtest.Exec(d, statement))
		}

		b.ReportAllocs()

		for b.Loop() {
			testkit.NoError(b, dbtest.Exec(d, "UPDATE sites SET daily_export_day = ?", day))
			testkit.NoError(b, dbtest.Exec(d, "DELETE FROM deliveries"))

			n, err := outbox.New(d).PlanDailyExports(b.Context(), day+1, (day + 1).Start(), noFailedPlan(b))
			if err != nil || n != 200 {
				b.Fatal(n, err)
			}
		}
	})
}
