package accounts_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestSitesOfAnAccountAreBounded checks that an owner can create 50 sites on the plan of new sites,
// also concurrently, and more if the operator permits them or puts sites on other plans.
func TestSitesOfAnAccountAreBounded(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		world.New(t, d).User("operator@example.com")
		owner, other := world.New(t, d).User("owner@example.com"), world.New(t, d).User("other@example.com")
		create := func(account model.AccountID, plan model.Plan, name string) (*model.Site, error) {
			return sites.New(d).Sites.CreateOwnersSite(t.Context(), model.Site{
				AccountID: account, SiteKey: model.NewSiteKey(), Domain: name +
					".example", Name: name, Plan: plan, MonthlyPageviews: 10_000, CreatedAt: dbtest.Start,
			})
		}

		var made atomic.Int64
		var first atomic.Pointer[model.Site]

		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				for k := range 10 {
					site, err := create(owner.AccountID, model.PlanFree, fmt.Sprintf("s%d-%d", i, k))
					if err == nil {
						made.Add(1)
						first.Store(site)
					}
				}
			})
		}

		wg.Wait()

		if n, err := sites.New(d).Sites.CountSites(t.Context(), owner.AccountID, "", nil); n != 50 || made.Load() != 50 || err != nil {
			t.Errorf("%d sites, %d were made, %v; want 50", n, made.Load(), err)
		}

		_, err := create(owner.AccountID, model.PlanFree, "more")
		dbtest.WantCode(t, err, model.Conflict, "too_many_sites", "")

		if _, err := create(other.AccountID, model.PlanFree, "more"); err != nil {
			t.Errorf("another account: %v", err)
		}

		testkit.NoError(t, sites.New(d).Sites.SetSitePlan(t.Context(), first.Load().ID, model.PlanPro100K, nil))
		if _, err := create(owner.AccountID, model.PlanFree, "more"); err != nil {
			t.Errorf("with one of the 50 on another plan: %v", err)
		}
		testkit.NoError(t, sites.New(d).Sites.SetSiteLimit(t.Context(), owner.AccountID, 51))
		if _, err := create(owner.AccountID, model.PlanFree, "permitted"); err != nil {
			t.Errorf("after the operator permitted 51: %v", err)
		}

		_, err = create(owner.AccountID, model.PlanFree, "one-too-many")
		dbtest.WantCode(t, err, model.Conflict, "too_many_sites", "")

		for _, limit := range []int64{-1, 0, model.MaxSites + 1} {
			dbtest.WantCode(t, sites.New(d).Sites.SetSiteLimit(t.Context(), owner.AccountID, limit), model.Invalid,
				"invalid_volume", "sites")
		}

		dbtest.WantCode(t, sites.New(d).Sites.SetSiteLimit(t.Context(), 987_654, 60), model.NotFound, "not_found", "")
	})
}

// TestNoticesOfAnAccountAreBounded checks that an account gets at most 1,000 notice mails a day,
// over all members. Other accounts and the next day have their own limit.
func TestNoticesOfAnAccountAreBounded(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		noisy, quiet := world.New(t, d).User("noisy@example.com"), world.New(t, d).User("quiet@example.com")
		for i := range 29 {
			world.New(t, d).Member(noisy.AccountID, fmt.Sprintf("m%d@example.com", i), model.RoleMember)
		}

		notice := func(account model.AccountID, site int64, at model.Instant) {
			t.Helper()
			err := dbtest.Exec(d, "INSERT INTO quota_notices (account_id, site_id, product, month, threshold, quota, created_at, mailed_at) VALUES (?, ?, 'analytics', 202611, 80, 10000, ?, 0)",
				account, site, at)
			testkit.NoError(t, err)
		}

		mailed := func(account model.AccountID) int {
			t.Helper()
			rows, err := dbtest.Rows[struct{ N int }](d, "SELECT count(*) AS n FROM mails WHERE account_id = ?", account)
			testkit.NoError(t, err)
			return rows[0].N
		}

		// Cause 1,200 mails.
		for i := range int64(40) {
			notice(noisy.AccountID, i+1, dbtest.Start)
		}

		notice(quiet.AccountID, 100, dbtest.Start)

		if n, err := outbox.New(d).MailQuotaNotices(t.Context(), dbtest.Start); len(n) != 41 || err != nil {
			t.Fatalf("%d notices, %v", len(n), err)
		}
		if mailed(noisy.AccountID) != 1_000 || mailed(quiet.AccountID) != 1 {
			t.Errorf("%d mails of the noisy account, %d of the quiet one; want 1000 and 1", mailed(noisy.AccountID),
				mailed(quiet.AccountID))
		}

		notice(noisy.AccountID, 50, dbtest.Start)

		if _, err := outbox.New(d).MailQuotaNotices(t.Context(), dbtest.Start.Add(24*time.Hour)); err != nil {
			t.Fatal(err)
		}
		testkit.Equal(t, mailed(noisy.AccountID), 1_030, "mails after the next day's notice")
	})
}
