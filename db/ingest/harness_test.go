package ingest_test

import (
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// hitStore returns a store of the cell of the sites, which is closed with the test.
func hitStore(t *testing.T, d *db.DB) *ingest.HitStore {
	t.Helper()
	store := ingest.NewHitStore(dbtest.SitesCell(t, d))
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// siteWithStore creates a site and a store for its hits.
func siteWithStore(t *testing.T, d *db.DB) (*model.Site, *ingest.HitStore) {
	t.Helper()
	return world.New(t, d).Site("example.com"), hitStore(t, d)
}

// claimStore returns a store of the accounts' cell, which is the sites' cell too. It is closed with
// the test.
func claimStore(t *testing.T, d *db.DB) *ingest.ClaimStore {
	t.Helper()
	store := ingest.NewClaimStore(dbtest.SitesCell(t, d))
	t.Cleanup(func() { _ = store.Close() })
	return store
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
