package outbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestFiltersUseIndexes checks that every filter reads ranges of indexes only, on a table where a
// scan would be slow.
func TestFiltersUseIndexes(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		first, second := world.New(t, d).Site("shop.example", world.Webhook), world.New(t, d).Site("other.example", world.Webhook)
		for _, site := range []*model.Site{first, second} {
			testkit.NoError(t, dbtest.Exec(d, `INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 20000)
SELECT ?, ? + CAST(n AS bigint) * 4096000000, 'conversion', CASE WHEN n % 1000 = 0 THEN 'rare' ELSE 'lead' END,
  CASE WHEN n % 500 = 0 THEN 'failed' ELSE 'delivered' END, 0, ? + CAST(n AS bigint) * 1000000, 0, '{"a body":"of some length, as they are"}' FROM numbers`,
				site.ID, model.FirstTimeID(dbtest.Noon), dbtest.Noon))
		}
		testkit.NoError(t, dbtest.Exec(d, "ANALYZE"))

		statements := dbtest.WatchStatements(d)
		for _, filter := range []outbox.DeliveryFilter{
			{}, {State: "failed"}, {State: "pending"}, {Kind: "test"}, {Kind: "conversion"}, {Kind: "conversion", State: "failed"},
			{Event: "rare"}, {Event: "nothing"}, {Event: "rare", State: "failed"}, {Event: "rare", Kind: "test"},
			{Since: dbtest.Noon.Add(time.Hour)}, {Until: dbtest.Noon}, {State: "failed", Since: dbtest.Noon, Until: dbtest.Noon.Add(time.Hour)},
		} {
			statements.Take()
			page := outbox.DeliveryPage{DeliveryFilter: filter, Page: db.Page{Limit: 21, Descending: true}}
			if _, err := outbox.New(d).DeliveriesOfSites(t.Context(), []model.SiteID{first.ID, second.ID}, page); err != nil {
				t.Fatal(err)
			}
			if _, err := outbox.New(d).DeliveryCounts(t.Context(), []model.SiteID{first.ID, second.ID}, filter); err != nil {
				t.Fatal(err)
			}

			for i, statement := range statements.Take() {
				plan := dbtest.PlanOf(t, d, dbtest.SitesCell(t, d).Read, statement)
				// Most of the table is counted by its first 10,000 rows, in any order.
				most := i == 1 && filter.State == "" && filter.Event == "" && filter.Kind != "test" && filter.Until == 0
				if scans(plan) && !most {
					t.Errorf("%+v: %s\n%s", filter, statement, plan)
				}
			}
		}
	})
}

// scans reports whether a plan reads all deliveries.
func scans(plan string) bool {
	return strings.Contains(plan, "Seq Scan on deliveries") || strings.Contains(plan, "SCAN deliveries") || strings.Contains(plan, "SCAN d")
}
