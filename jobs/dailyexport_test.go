package jobs_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/jobs"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestDailyExport: when a day has ended, its events arrive in signed parts of at most 5,000 rows as
// in the download. Each part has the same bytes at each attempt and from each worker, and arrives
// once.
func TestDailyExport(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := newReceiver(t, a, func(n int, w http.ResponseWriter, _ *http.Request) {
			// The first call fails.
			w.WriteHeader([]int{500, 200}[min(n, 1)])
		})

		site := newSite(t, d, "shop.example", "", "a secret of the site")
		day := model.At(noon).Day()

		testkit.NoError(t, sites.New(d).Sites.SetDailyExportWebhook(t.Context(), site.AccountID, site.ID, r.URL, model.ChangedBy{At: model.At(noon)}))

		fill(t, d, site.ID, day, 5_001)

		// At this time the day is not planned yet.
		clock := testkit.NewClock((day + 1).Start().Time().Add(4 * time.Minute))

		// Each has its own queue, so that each plans.
		for range 2 {
			startQuick(t, d, a, clock.Now, jobs.AttemptTimeout(patientAttempt))
		}

		awaitThat(t, func() (string, bool) {
			rows, err := dbtest.Rows[model.Delivery](d, "SELECT * FROM deliveries")

			// The clock advances to the second attempt, but not while one is made: a lease ends
			// after 45 s.
			delivered, leased := 0, false
			for _, row := range rows {
				leased = leased || row.LeasedUntil != 0
				if row.State == model.DeliveryDelivered {
					delivered++
				}
			}
			if !leased {
				clock.Add(20 * time.Second)
			}

			return fmt.Sprintf("%d parts delivered, %v", delivered, err), delivered == 2
		})

		type body struct {
			Type    string
			SiteKey string `json:"site_key"`
			Date    string
			Part    int
			Parts   int
			Rows    []map[string]any
		}

		calls := r.all()
		seen := map[int]string{}
		for i, call := range calls {
			var b body
			testkit.NoError(t, json.Unmarshal([]byte(call.body), &b))

			if b.Type != "daily_export" || b.SiteKey != site.SiteKey || b.Date != "2026-11-20" || b.Parts != 2 ||
				len(b.Rows) != []int{0, 5000, 1}[b.Part] {
				t.Errorf(
					"call %d: %s %s %s, part %d of %d with %d rows", i, b.Type, b.SiteKey, b.Date, b.Part, b.Parts,
					len(b.Rows),
				)
			}

			if before, again := seen[b.Part]; again && before != call.body {
				t.Errorf("part %d has other bytes at its second attempt", b.Part)
			}

			seen[b.Part] = call.body
			if len(b.Rows) == 0 {
				continue
			}
			row := b.Rows[0]
			if row["event"] != "signup" || row["channel"] != "direct" || row["row_id"] == "" || len(row) != 31 {
				t.Errorf("row %v", row)
			}
			if call.header.Get("X-Service-Signature") == "" || call.header.Get("webhook-signature") == "" {
				t.Errorf("call %d is not signed", i)
			}
		}

		if len(calls) != 3 || len(seen) != 2 {
			t.Errorf("%d calls for %d parts, want three for two", len(calls), len(seen))
		}
	})
}

// TestFailingExportPlan checks that a failed plan of a site's exports is logged, and that the
// exports of the other sites arrive. The site's exports arrive when a later run can plan them.
func TestFailingExportPlan(t *testing.T) {
	t.Parallel()

	a := newAuthority(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r, logged := newReceiver(t, a, status(200)), &countHandler{}
		siteList := make([]*model.Site, 3)
		for i := range siteList {
			siteList[i] = newSite(t, d, fmt.Sprintf("shop%d.example", i), "", "")
			testkit.NoError(t, sites.New(d).Sites.SetDailyExportWebhook(t.Context(), siteList[i].AccountID, siteList[i].ID, r.URL,
				model.ChangedBy{At: model.At(noon)}))
		}

		repair := dbtest.RefuseDeliveries(t, d, siteList[0].ID)
		clock := testkit.NewClock(noon.Add(24 * time.Hour))
		startQuick(t, d, a, clock.Now, jobs.LogTo(logged))

		arrived := func(want int) {
			t.Helper()
			awaitThat(t, func() (string, bool) {
				got := len(r.all())
				return fmt.Sprintf("%d of %d exports arrived", got, want), got == want
			})
		}

		arrived(2)
		awaitThat(t, func() (string, bool) {
			n := logged.of("plan a daily export; other sites' exports continue, this one is retried in 5 minutes")
			// A task runs in this process as well if its submission took too long.
			return fmt.Sprintf("the failure was logged %d times", n), n > 0
		})

		repair()
		clock.Add(5 * time.Minute)
		arrived(3)
	})
}

// fill writes n events on a day.
func fill(t testing.TB, d *db.DB, siteID model.SiteID, day model.Day, n int) {
	t.Helper()

	visit := model.NewTimeID(day.Start())
	err := dbtest.Exec(
		d,
		`INSERT INTO visits (site_id, visitor, day, n, started_at, last_pageview_at, pageviews, channel) VALUES (?, ?, ?, 1, ?, 0, 0, 1)`,
		siteID, visit, day, day.Start(),
	)
	if err == nil {
		err = dbtest.Exec(d, `INSERT INTO events (site_id, at, id, visitor, n, name, path, properties)
WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
SELECT ?, ? + n, n, ?, 1, 'signup', '/welcome', '{"plan":"pro","step":3,"source":"newsletter"}' FROM numbers`, n-1, siteID, day.Start(), visit)
	}

	testkit.NoError(t, err)
}
