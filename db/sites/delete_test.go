package sites_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// fillTo creates n sites and n sitekeys for an account.
func fillTo(t *testing.T, d *db.DB, accountID model.AccountID, n int) {
	t.Helper()

	numbers := fmt.Sprintf("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) ", n)
	for _, statement := range []string{
		numbers + `INSERT INTO sites (account_id, site_key, domain, name, plan, monthly_pageviews, created_at)
			SELECT ?0, 'key ' || ?0 || ' ' || i, 's' || i || '.example', 's', 'FREE', 10000, 1 FROM n`,
		numbers + `INSERT INTO sitekeys (account_id, sitekey, name, domains, secret_hash, secret_hint, created_at)
			SELECT ?0, 'key ' || ?0 || ' ' || i, 'k', '[]', CAST('hash ' || ?0 || ' ' || i AS ` +
			map[string]string{"postgres": "bytea", "sqlite": "blob"}[d.Dialect()] + `), '', 1 FROM n`,
	} {
		testkit.NoError(t, dbtest.Exec(d, statement, accountID))
	}
}

// TestSitesAndSitekeysAreBounded checks that an account has no more than the limit, even when many
// are created at once.
func TestSitesAndSitekeysAreBounded(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		owner, other := world.New(t, d).User("owner@example.com"), world.New(t, d).User("other@example.com")
		fillTo(t, d, owner.AccountID, model.MaxSites-1)

		for _, kind := range []struct {
			code   string
			create func(accountID model.AccountID, i int) error
			count  func(context.Context, model.AccountID) (int64, error)
		}{
			{"too_many_sites", func(accountID model.AccountID, i int) error {
				_, err := sites.New(d).Sites.CreateSite(context.Background(),
					model.Site{AccountID: accountID, SiteKey: model.NewSiteKey(),
						Domain: fmt.Sprintf("new%d.example", i), Name: "new", Plan: model.PlanFree})
				return err
			}, func(ctx context.Context, accountID model.AccountID) (int64, error) {
				return sites.New(d).Sites.CountSites(ctx, accountID, "", nil)
			}},
			{"too_many_sitekeys", func(accountID model.AccountID, _ int) error {
				_, _, err := sites.New(d).Sitekeys.CreateSitekey(context.Background(), accountID, "new", nil, 1)
				return err
			}, func(ctx context.Context, accountID model.AccountID) (int64, error) {
				return sites.New(d).Sitekeys.CountSitekeys(ctx, accountID, "")
			}},
		} {
			var made atomic.Int64
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					err := kind.create(owner.AccountID, i)
					if shown, ok := errors.AsType[*model.Error](err); err == nil {
						made.Add(1)
					} else if !ok || shown.Code != kind.code || shown.Kind != model.Conflict {
						t.Error(err)
					}
				})
			}

			wg.Wait()

			if n, err := kind.count(t.Context(), owner.AccountID); made.Load() != 1 || n != model.MaxSites || err != nil {
				t.Errorf("%s: %d made, %d there, %v", kind.code, made.Load(), n, err)
			}
			testkit.Succeeds(t, kind.create(other.AccountID, 0), "another account")
			testkit.ErrorIs(t, kind.create(1<<40, 0), model.ErrNotFound, "an account that is not there")
		}
	})
}

// TestDeletingManySitesTakesFewStatements checks that deleting an account with many sites, and
// purging these, takes as many statements as with few sites.
func TestDeletingManySitesTakesFewStatements(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		d := dbtest.Open(t, databaseURL)
		statements := dbtest.WatchStatements(d)
		world.New(t, d).User("operator@example.com")

		var deletion, purge []int
		for i, n := range []int{1, model.MaxSites} {
			owner := world.New(t, d).User(fmt.Sprintf("owner%d@example.com", i))
			fillTo(t, d, owner.AccountID, n)
			changed, stop := collectChanges(t, d)
			statements.Take()

			testkit.NoError(t, accounts.New(d).DeleteAccount(t.Context(), owner, dbtest.Noon))

			deletion = append(deletion, len(withoutPolls(statements.Take())))

			if sites, keys := changed(2 * n); len(sites) != n || len(keys) != n {
				t.Errorf("%d sites and %d sitekeys reported, want %d of each", len(sites), len(keys), n)
			}

			stop()

			dbtest.HasRows(t, d, "deleted_sites", n, "deleted sites")

			statements.Take()

			if _, err := retention.New(d).PurgeDeletedSites(t.Context(), dbtest.Noon.Add(time.Hour)); err != nil {
				t.Fatal(err)
			}

			purge = append(purge, len(withoutPolls(statements.Take())))

			dbtest.HasRows(t, d, "deleted_sites", 0, "deleted sites an hour later")
		}

		// Three statements are about the users: their locks, their deletion, and the mails of those
		// who belong to another account. Three delete the account's audit log, idempotency keys and
		// identities. Three are about the cell of the account's captcha. On Citus one waits for a
		// turn, and one holds the cell on its node.
		if deletion[0] != deletion[1] || deletion[1] > 30 {
			t.Errorf("deleting takes %v statements", deletion)
		}

		// The purge reads the sites in two pages, with one statement for each of some two dozen
		// tables. A cell has a dozen of them.
		list, err := d.Cells(t.Context())
		testkit.NoError(t, err)
		if purge[1] > 2*purge[0] || purge[1] > 50+24*(len(list)-1) {
			t.Errorf("purging takes %v statements", purge)
		}
	})
}

// collectChanges collects the ids that watchers report, the first n of sites and sitekeys.
func collectChanges(t *testing.T, d *db.DB) (changed func(n int) (sites map[model.SiteID]bool, sitekeys map[model.SitekeyID]bool), stop func()) {
	t.Helper()

	ctx, cancel := context.WithCancel(t.Context())
	site, sitekey, synced := make(chan model.SiteID, 2000), make(chan model.SitekeyID, 2000), make(chan struct{}, 2)
	ready := func(err error) {
		if err == nil {
			synced <- struct{}{}
		}
	}

	go sites.New(d).Lookup.WatchSites(ctx, func(id int64) { site <- model.SiteID(id) }, ready)
	go sites.New(d).Lookup.WatchSitekeys(ctx, func(id int64) { sitekey <- model.SitekeyID(id) }, ready)
	<-synced
	<-synced

	return func(n int) (map[model.SiteID]bool, map[model.SitekeyID]bool) {
		sites, sitekeys := map[model.SiteID]bool{}, map[model.SitekeyID]bool{}
		for len(sites)+len(sitekeys) < n {
			select {
			case id := <-site:
				sites[id] = true
			case id := <-sitekey:
				sitekeys[id] = true
			case <-time.After(time.Minute):
				t.Error("too few changes reported")
				return sites, sitekeys
			}
		}

		return sites, sitekeys
	}, cancel
}

// TestPurgeSites checks that the rows of the given sites are deleted in all tables, and those of
// other sites stay.
func TestPurgeSites(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		const many = 2_500 // more than one transaction's share
		for _, statement := range []string{
			"INSERT INTO deleted_sites (site_id, deleted_at) VALUES (7, 1), (8, 1), (9, 1)",
			fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
				INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path) SELECT 7, %d, i, 1, 1, 0, false, '/' FROM n`, many, dbtest.Noon),
			"INSERT INTO rejections (site_id, day, endpoint, code, count) VALUES (7, 1, 'collect', 'bot', 1), (8, 1, 'collect', 'bot', 1), (9, 1, 'collect', 'bot', 1), (10, 1, 'collect', 'bot', 1)",
		} {
			testkit.NoError(t, dbtest.Exec(d, statement))
		}

		// Site 10 was not deleted.
		n, err := retention.New(d).PurgeSites(t.Context(), []model.SiteID{7, 9, 10})
		if err != nil || n != many+2 {
			t.Errorf("%d rows deleted, %v, want %d", n, err, many+2)
		}

		rows, err := dbtest.Dump(d, "rejections")
		slices.Sort(rows)

		if err != nil || len(rows) != 2 || !strings.Contains(rows[0], "site_id:10") ||
			!strings.Contains(rows[1], "site_id:8") {
			t.Errorf("left: %v, %v", rows, err)
		}
		dbtest.HasRows(t, d, "deleted_sites", 3, "sites are looked after")
	})
}

// withoutPolls leaves out the periodic queries of SQLite's watchers.
func withoutPolls(statements []string) []string {
	return slices.DeleteFunc(statements, func(s string) bool {
		return strings.Contains(s, "SELECT") && strings.Contains(s, `"changes"`) ||
			strings.Contains(s, "max(seq), 0) FROM changes")
	})
}
