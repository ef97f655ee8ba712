package sites_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

func TestSiteIsFoundByItsOwnersIDAndByKey(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		owner, other := world.New(t, d).User("owner@example.com"), world.New(t, d).User("other@example.com")
		site := world.New(t, d).Site("example.com", world.Of(owner.AccountID))
		if got, err := sites.New(d).Sites.SiteByID(ctx, owner.AccountID, site.ID); err != nil || !reflect.DeepEqual(got, site) {
			t.Errorf("by id: got %+v, error %v; want %+v", got, err, site)
		}
		if got, err := sites.New(d).Lookup.SiteRulesByKey(ctx, site.SiteKey); err != nil || !reflect.DeepEqual(got.Site, *site) {
			t.Errorf("by key: got %+v, error %v; want %+v", got, err, site)
		}

		for name, find := range map[string]func() (*model.Site, error){
			"another account's": func() (*model.Site, error) { return sites.New(d).Sites.SiteByID(ctx, other.AccountID, site.ID) },
			"an unknown id":     func() (*model.Site, error) { return sites.New(d).Sites.SiteByID(ctx, owner.AccountID, site.ID+1) },
		} {
			if got, err := find(); got != nil || !errors.Is(err, model.ErrNotFound) {
				t.Errorf("%s: got %+v, error %v; want not found", name, got, err)
			}
		}
	})
}

func TestDomainIsUniqueWithinAnAccount(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		owner, other := world.New(t, d).User("owner@example.com"), world.New(t, d).User("other@example.com")
		world.New(t, d).Site("example.com", world.Of(owner.AccountID))
		world.New(t, d).Site("example.com", world.Of(other.AccountID))
		_, err := sites.New(d).Sites.CreateSite(t.Context(), model.Site{
			AccountID: owner.AccountID, SiteKey: model.NewSiteKey(), Domain: "example.com", Name: "again", Plan: model.PlanFree,
		})

		dbtest.WantCode(t, err, model.Conflict, "domain_taken", "domain")

		if n, err := sites.New(d).Sites.CountSites(t.Context(), owner.AccountID, "", nil); err != nil || n != 1 {
			t.Errorf("the owner has %d sites, error %v; want 1", n, err)
		}
	})
}

func TestSitesPageByKey(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		owner, other := world.New(t, d).User("owner@example.com"), world.New(t, d).User("other@example.com")
		var want []model.SiteID
		for i := range 7 {
			want = append(want, world.New(t, d).Site(fmt.Sprintf("s%d.example.com", i), world.Of(owner.AccountID)).ID)
			world.New(t, d).Site(fmt.Sprintf("s%d.example.com", i), world.Of(other.AccountID))
		}

		var got []model.SiteID

		for after := model.SiteID(0); ; {
			page, err := sites.New(d).Sites.Sites(t.Context(), owner.AccountID, after, 3)
			testkit.NoError(t, err)

			for _, site := range page {
				got = append(got, site.ID)
				after = site.ID
			}

			if len(page) < 3 {
				break
			}
		}

		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got sites %v, want %v", got, want)
		}
	})
}

func TestMonthlyUsage(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		owner := world.New(t, d).User("owner@example.com")
		a, b := world.New(t, d).Site("a.example.com", world.Of(owner.AccountID)), world.New(t, d).Site("b.example.com", world.Of(owner.AccountID))
		addUsage(t, d, map[model.UsageKey]int64{{SiteID: a.ID, Month: 202611}: 7, {SiteID: a.ID, Month: 202610}: 9})

		got, err := sites.New(d).Usage.MonthlyUsage(t.Context(), 202611, []model.SiteID{a.ID, b.ID})
		if err != nil || len(got) != 1 || got[a.ID] != 7 {
			t.Errorf("got %v, error %v; want only site %d with 7", got, err, a.ID)
		}
		if got, err := sites.New(d).Usage.MonthlyUsage(t.Context(), 202611, nil); err != nil || len(got) != 0 {
			t.Errorf("of no sites: got %v, error %v", got, err)
		}
	})
}

func addUsage(t *testing.T, d *db.DB, used map[model.UsageKey]int64) {
	t.Helper()
	hits := ingest.NewHitStore(dbtest.SitesCell(t, d))
	defer hits.Close()

	for key, n := range used {
		err := hits.Update(t.Context(), ingest.HitKeys{Usage: []model.UsageKey{key}},
			func(*ingest.HitState) *ingest.HitChanges {
				return &ingest.HitChanges{Used: map[model.UsageKey]int64{key: n}}
			})
		testkit.NoError(t, err)
	}
}

// TestIsKeyTaken checks that a new site cannot get the key of a deleted site, which may be restored.
func TestIsKeyTaken(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		site, store := world.New(t, d).Site("example.com"), sites.New(d).Sites
		if _, err := store.RemoveSite(t.Context(), site.AccountID, site.ID, nil, 1); err != nil {
			t.Fatal(err)
		}

		for key, want := range map[string]bool{site.SiteKey: true, model.NewSiteKey(): false} {
			if taken, err := store.IsKeyTaken(t.Context(), key); taken != want || err != nil {
				t.Errorf("%s: %v, %v; want %v", key, taken, err, want)
			}
		}
	})
}
