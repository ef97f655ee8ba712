package sites_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestChangesInOneTransaction checks that changes of sites are made all or not at all, see each
// other, and are reported after the commit.
func TestChangesInOneTransaction(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site, other := world.New(t, d).Site("example.com"), world.New(t, d).Site("other.example")
		before := rulesOf(t, d, site)
		changed, stop := collectChanges(t, d)
		defer stop()

		wrong := errors.New("wrong")
		changes := func(ctx context.Context, store *sites.Owned) error {
			created, err := store.Sites.CreateSite(ctx, model.Site{AccountID: site.AccountID, SiteKey: model.NewSiteKey(),
				Domain: "second.example", Name: "second", Plan: model.PlanFree})
			if err != nil {
				return err
			}

			err = errors.Join(
				store.Sites.AddSiteDomain(ctx, site.AccountID, created.ID, "extra.example"),
				store.Sites.RegisterEvent(ctx, site.AccountID, site.ID, "lead"),
				store.Sites.SetSitePlan(ctx, site.ID, model.PlanPro1M, nil))

			rules, readErr := store.Sites.SiteRules(ctx, []model.SiteID{site.ID, created.ID})
			if err != nil || readErr != nil {
				return errors.Join(err, readErr)
			}
			if second := rules[created.ID]; len(second.ExtraDomains) != 1 || len(rules[site.ID].Registered) != 1 ||
				rules[site.ID].Plan != model.PlanPro1M {
				t.Errorf("within, the sites are %+v and %+v", second, rules[site.ID])
			}
			if outside := rulesOf(t, d, site); len(outside.Registered) != 0 || outside.Plan != before.Plan {
				t.Errorf("outside, the site is %+v", outside)
			}

			return nil
		}

		err := sites.New(d).InTx(t.Context(), func(ctx context.Context, store *sites.Owned) error {
			return errors.Join(changes(ctx, store), wrong)
		})
		if !errors.Is(err, wrong) {
			t.Fatal(err)
		}
		if n, err := sites.New(d).Sites.CountSites(t.Context(), site.AccountID, "", nil); n != 1 || err != nil ||
			len(rulesOf(t, d, site).Registered) != 0 {
			t.Errorf("a failure leaves %d sites, %v, and %+v", n, err, rulesOf(t, d, site))
		}
		testkit.NoError(t, sites.New(d).Sites.RegisterEvent(t.Context(), other.AccountID, other.ID, "by-itself"))

		// Changes are reported in the order of the commits.
		if sites, _ := changed(1); !sites[other.ID] {
			t.Errorf("the failed change is reported: %v", sites)
		}
		testkit.NoError(t, sites.New(d).InTx(t.Context(), changes))
		if sites, _ := changed(2); len(sites) != 2 || !sites[site.ID] || sites[other.ID] {
			t.Errorf("%v reported, want both", sites)
		}
		if n, err := sites.New(d).Sites.CountSites(t.Context(), site.AccountID, "", nil); n != 2 || err != nil ||
			len(rulesOf(t, d, site).Registered) != 1 {
			t.Errorf("there are %d sites, %v, and %+v", n, err, rulesOf(t, d, site))
		}
	})
}

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }
