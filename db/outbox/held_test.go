package outbox_test

import (
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestHeldSitesWait checks that the deliveries and daily exports of a deleted site and of a
// suspended account's site wait and are made afterwards. A paused site's deliveries are made.
func TestHeldSitesWait(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site, other := world.New(t, d).Site("shop.example", world.Webhook), world.New(t, d).Site("other.example", world.Webhook)
		store := outbox.New(d)
		day := dbtest.Noon.Day()
		exec := func(statement string, args ...any) {
			t.Helper()
			testkit.NoError(t, dbtest.Exec(d, statement, args...))
		}

		for i, state := range []struct {
			name, begin, end string
			held             bool
		}{
			{"deleted", "UPDATE sites SET deleted_at = 5 WHERE id = ?", "UPDATE sites SET deleted_at = 0 WHERE id = ?", true},
			{"suspended", "UPDATE accounts SET suspended_at = 5 WHERE id = (SELECT account_id FROM sites WHERE id = ?)",
				"UPDATE accounts SET suspended_at = 0 WHERE id = (SELECT account_id FROM sites WHERE id = ?)", true},
			{"paused", "UPDATE sites SET paused_at = 5 WHERE id = ?", "UPDATE sites SET paused_at = 0 WHERE id = ?", false},
		} {
			exec("DELETE FROM deliveries")
			exec("UPDATE sites SET daily_export_url = 'https://x.example/', daily_export_day = ?", day-1)
			pending(t, d, site.ID, model.DeliveryConversion, dbtest.Noon)
			pending(t, d, other.ID, model.DeliveryConversion, dbtest.Noon)
			exec(state.begin, site.ID)

			check := func(when string, held bool) {
				t.Helper()

				lanes, err := store.DueLanes(t.Context(), dbtest.Noon, 0, 10)
				if err != nil || (len(lanes) == 2) == held {
					t.Errorf("%s, %s: lanes %v, %v", state.name, when, lanes, err)
				}

				backlog, err := store.DeliveryBacklog(t.Context(), dbtest.Noon)
				if want := int64(2); err != nil || (backlog.Due == want) == held {
					t.Errorf("%s, %s: backlog %+v, %v", state.name, when, backlog, err)
				}

				leased, err := store.LeaseDelivery(t.Context(), conversions(site), nil, dbtest.Noon, lease)
				if err != nil || (leased != nil) == held {
					t.Errorf("%s, %s: leased %v, %v", state.name, when, leased, err)
				}

				parts, err := store.PlanDailyExports(t.Context(), day, dbtest.Noon+model.Instant(i), func(id model.SiteID, err error) { t.Error(id, err) })
				if want := map[bool]int{true: 1, false: 2}[held]; err != nil || parts != want {
					t.Errorf("%s, %s: %d exports, %v; want %d", state.name, when, parts, err, want)
				}
			}

			check("during", state.held)
			exec(state.end, site.ID)

			if state.held {
				exec("DELETE FROM deliveries WHERE kind = 'daily_export'")
				exec("UPDATE sites SET daily_export_day = ?", day-1)
				check("afterwards", false)
			}
		}
	})
}
