package graph_test

import (
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// TestInstallationHealth: operators see what waits of all accounts and whether a worker has trusted
// the clock. TestRoles checks who may read it.
func TestInstallationHealth(t *testing.T) {
	t.Parallel()
	const query = `{ installationHealth { version database pendingDeliveries dueDeliveries oldestDueAt dueMails dueReports
		workerSeenAt clockTrusted clockAheadMs } }`

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d, func(s *settings) { s.graph.Configuration.Version = "v1.2.3 0f0f" })
		operator := a.owner("operator@example.com")
		a.owner("owner@example.com").siteOf("example.com")

		check := func(state string, want map[string]any) {
			t.Helper()
			got := operator.query(query).ok(t, "")
			for name, value := range want {
				if is := got.at("installationHealth." + name); is != value {
					t.Errorf("%s: %s is %v, want %v", state, name, is, value)
				}
			}
		}

		check("without work", map[string]any{"version": "v1.2.3 0f0f", "database": d.Dialect(), "pendingDeliveries": 0.0, "dueDeliveries": 0.0,
			"oldestDueAt": nil, "dueReports": 0.0, "workerSeenAt": nil, "clockTrusted": true})

		// One delivery is due and one follows in the year 2100; a day's report is due.
		for _, statement := range []string{
			`INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
				VALUES (1, 1, 'conversion', 'lead', 'pending', 0, 1, 1000000, '{}'),
				(1, 2, 'conversion', 'lead', 'pending', 1, 1, 4102444800000000, '{}'), (1, 3, 'conversion', 'lead', 'failed', 5, 1, 1, '{}')`,
			`INSERT INTO report_days (site_id, day, state, version, due_at, built_at, visits, pageviews, events, checksum)
				VALUES (1, 1, 0, 1, 1, 0, 0, 0, 0, 0), (1, 2, 1, 1, NULL, 1, 0, 0, 0, 0)`,
			`INSERT INTO settings (name, value) VALUES ('trusted_clock', '2000000 3000000 3000000')`,
		} {
			if err := dbtest.Exec(d, statement); err != nil {
				t.Fatal(err)
			}
		}
		check("with work, after a jump of the clock", map[string]any{"pendingDeliveries": 2.0, "dueDeliveries": 1.0,
			"oldestDueAt": "1970-01-01T00:00:01Z", "dueReports": 1.0, "workerSeenAt": "1970-01-01T00:00:02Z", "clockTrusted": false})
	})
}
