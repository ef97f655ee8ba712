package ingest_test

import (
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// hitStore returns a store of the cell of the sites.
func hitStore(t *testing.T, d *db.DB) *ingest.HitStore {
	t.Helper()
	return ingest.NewHitStore(dbtest.SitesCell(t, d))
}

// claimStore returns a store of the accounts' cell, which is the sites' cell too.
func claimStore(t *testing.T, d *db.DB) *ingest.ClaimStore {
	t.Helper()
	return ingest.NewClaimStore(dbtest.SitesCell(t, d))
}

// used returns the site's count of the month.
func used(t *testing.T, d *db.DB, site *model.Site) int64 {
	t.Helper()

	rows, err := dbtest.Rows[struct{ Used int64 }](d, "SELECT used FROM site_usage WHERE site_id = ? AND month = ?",
		site.ID, month)
	testkit.NoError(t, err)
	if len(rows) == 0 {
		return 0
	}

	return rows[0].Used
}
