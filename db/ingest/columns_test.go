package ingest_test

import (
	"slices"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/tables"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestColumnsMatchTheTables checks that the descriptions name exactly the columns that the
// migrations create.
func TestColumnsMatchTheTables(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		stored, err := dbtest.Tables(d)
		testkit.NoError(t, err)

		for table, columns := range map[string][]string{
			tables.Visits.Name:       tables.Visits.Columns.Names(),
			tables.Pageviews.Name:    tables.Pageviews.Columns.Names(),
			tables.Engagement.Name:   tables.Engagement.Columns.Names(),
			tables.Events.Name:       tables.Events.Columns.Names(),
			tables.Transactions.Name: tables.Transactions.Columns.Names(),
			tables.Consumed.Name:     tables.Consumed.Columns.Names(),
			"captcha_usage":          append(tables.CaptchaUsageKey.Names(), tables.CaptchaUsage.Names()...),
		} {
			slices.Sort(columns)
			slices.Sort(stored[table])

			if !slices.Equal(columns, stored[table]) {
				t.Errorf("%s is described with %v, and has %v", table, columns, stored[table])
			}
		}
	})
}
