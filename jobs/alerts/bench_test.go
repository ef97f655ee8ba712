package alerts

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// BenchmarkAlerts evaluates the rules of 1,000 sites of 50 accounts, all of which want every event.
// Each site has 35 days of usage and, in the hour of each of the five weeks, 100 page views. The
// metric is the time of one site.
func BenchmarkAlerts(b *testing.B) {
	const accounts, perAccount = 50, 20
	const sites = accounts * perAccount
	dbtest.EachBenchmark(b, func(b *testing.B, d *db.DB) {
		now := dbtest.Noon
		exec := func(statement string, args ...any) {
			b.Helper()
			testkit.NoError(b, dbtest.Exec(d, statement, args...))
		}
		exec("INSERT INTO settings (name, value) VALUES ('usage_day_counted', ?)", int(now.Day()-1))
		exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
INSERT INTO accounts (id, name, captcha_plan, created_at) SELECT i, 'a', 'FREE', 1 FROM n`, accounts)
		exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
INSERT INTO sites (id, account_id, site_key, domain, name, plan, monthly_pageviews, time_zone, created_at)
SELECT i, 1 + i % ?, 'key' || i, 'd' || i, 'd', 'FREE', 100, 'Europe/Berlin', 1 FROM n`, sites, accounts)
		exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
INSERT INTO site_usage_days (site_id, day, used) SELECT 1 + i % ?, CAST(? AS integer) - i / ?, 5000 FROM n`,
			sites*35-1, sites, now.Day()-1, sites)
		exec(`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path)
SELECT 1 + i % ?, CAST(? AS bigint) - CAST(i / ? % 100 * 35 AS bigint) * 1000000 - CAST(i / ? AS bigint) * ?, i, 1, 1, 0, false, '/'
FROM n`, sites*500-1, sites, now, sites, sites*100, (7 * 24 * time.Hour).Microseconds())
		for id := range int64(accounts) {
			channel := model.AlertChannel{
				AccountID: model.AccountID(id + 1), Kind: model.ChannelWebhook, Name: "ops", Language: model.English, Address: []byte{1},
				Events: model.AlertEvents, ConfirmedAt: 1, CreatedAt: 1,
			}
			if _, err := d.Write.NewInsert().Model(&channel).Exec(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		exec("ANALYZE")

		watcher := NewWatcher(d, nil)
		for b.Loop() {
			if _, err := watcher.Watch(b.Context(), now); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(b.Elapsed().Seconds()*1_000/float64(b.N)/sites, "ms/site")
	})
}
