package sites_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

func newSitekey(t *testing.T, d *db.DB, account model.AccountID, domains ...string) (*model.Sitekey, string) {
	t.Helper()
	key, secret, err := sites.New(d).Sitekeys.CreateSitekey(t.Context(), account, "Form", domains, 7)
	testkit.NoError(t, err)
	return key, secret
}

func sameSitekey(a, b *model.Sitekey) bool {
	return a != nil && b != nil && a.ID == b.ID && a.AccountID == b.AccountID && a.Sitekey == b.Sitekey &&
		a.Name == b.Name &&
		slices.Equal(a.Domains, b.Domains) && bytes.Equal(a.SecretHash, b.SecretHash) && a.SecretHint == b.SecretHint &&
		a.CreatedAt == b.CreatedAt
}

func TestSitekeys(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		ctx, account, other := t.Context(), world.New(t, d).Account("a"), world.New(t, d).Account("b")
		key, secret := newSitekey(t, d, account, "shop.example", "example.com", "example.com")
		if !model.IsSitekey(key.Sitekey) || !model.IsSecret(model.CaptchaSecretPrefix, secret) ||
			!strings.HasSuffix(secret, key.SecretHint) ||
			!bytes.Equal(key.SecretHash, model.HashToken(secret)) ||
			!slices.Equal(key.Domains, []string{"example.com", "shop.example"}) || key.CreatedAt != 7 {
			t.Errorf("created %+v with %s", key, secret)
		}

		unbound, _ := newSitekey(t, d, account)
		foreign, _ := newSitekey(t, d, other)

		for name, find := range map[string]func() (*model.Sitekey, error){
			"by id":  func() (*model.Sitekey, error) { return sites.New(d).Sitekeys.SitekeyByID(ctx, account, key.ID) },
			"by key": func() (*model.Sitekey, error) { return sites.New(d).Lookup.SitekeyByKey(ctx, key.Sitekey) },
			"by secret": func() (*model.Sitekey, error) {
				return sites.New(d).Lookup.SitekeyBySecret(ctx, model.HashToken(secret))
			},
		} {
			if got, err := find(); err != nil || !sameSitekey(got, key) {
				t.Errorf("%s: %+v, %v; want %+v", name, got, err, key)
			}
		}

		if got, err := sites.New(d).Lookup.SitekeyByKey(ctx, unbound.Sitekey); err != nil || len(got.Domains) != 0 {
			t.Errorf("unbound: %+v, %v", got, err)
		}

		name, domains := "  Sign-up ", []string{"b.example", "a.example"}
		updated, err := sites.New(d).Sitekeys.UpdateSitekey(ctx, account, key.ID, sites.SitekeyUpdate{Name: &name, Domains: &domains})
		if err != nil || updated.Name != "Sign-up" || !slices.Equal(updated.Domains, []string{"a.example", "b.example"}) {
			t.Errorf("updated %+v, %v", updated, err)
		}
		if got, err := sites.New(d).Sitekeys.SitekeyByID(ctx, account, key.ID); err != nil || !sameSitekey(got, updated) {
			t.Errorf("stored %+v, %v; want %+v", got, err, updated)
		}

		none := []string{}
		if updated, err = sites.New(d).Sitekeys.UpdateSitekey(ctx, account, key.ID,
			sites.SitekeyUpdate{Domains: &none}); err != nil || len(updated.Domains) != 0 || updated.Name != "Sign-up" {
			t.Errorf("unbound %+v, %v", updated, err)
		}

		rotated, newSecret, err := sites.New(d).Sitekeys.RotateSitekeySecret(ctx, account, key.ID, 0)
		if err != nil || newSecret == secret {
			t.Fatal(newSecret, err)
		}
		if got, err := sites.New(d).Sitekeys.SitekeyByID(ctx, account, key.ID); err != nil || !sameSitekey(got, rotated) {
			t.Errorf("stored %+v, %v; want the returned %+v", got, err, rotated)
		}

		if _, err := sites.New(d).Lookup.SitekeyBySecret(ctx, model.HashToken(secret)); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("the old secret: %v, want ErrNotFound", err)
		}
		if got, err := sites.New(d).Lookup.SitekeyBySecret(ctx, model.HashToken(newSecret)); err != nil || got.ID != key.ID ||
			!strings.HasSuffix(newSecret, got.SecretHint) {
			t.Errorf("the new secret: %+v, %v", got, err)
		}

		// Another account's sitekey behaves like one that does not exist.
		for what, change := range map[string]func(id model.SitekeyID) error{
			"find": func(id model.SitekeyID) error {
				_, err := sites.New(d).Sitekeys.SitekeyByID(ctx, account, id)
				return err
			},
			"update": func(id model.SitekeyID) error {
				_, err := sites.New(d).Sitekeys.UpdateSitekey(ctx, account, id, sites.SitekeyUpdate{Name: &name})
				return err
			},
			"rotate": func(id model.SitekeyID) error {
				_, _, err := sites.New(d).Sitekeys.RotateSitekeySecret(ctx, account, id, 0)
				return err
			},
			"delete": func(id model.SitekeyID) error { return sites.New(d).Sitekeys.DeleteSitekey(ctx, account, id) },
		} {
			for _, id := range []model.SitekeyID{foreign.ID, 1 << 40} {
				testkit.ErrorIs(t, change(id), model.ErrNotFound, "%s %d", what, id)
			}
		}

		if got, err := sites.New(d).Sitekeys.SitekeyByID(ctx, other, foreign.ID); err != nil || !sameSitekey(got, foreign) {
			t.Errorf("the other account's: %+v, %v; want %+v", got, err, foreign)
		}

		testkit.NoError(t, sites.New(d).Sitekeys.DeleteSitekey(ctx, account, key.ID))
		if _, err := sites.New(d).Lookup.SitekeyByKey(ctx, key.Sitekey); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("deleted: %v, want ErrNotFound", err)
		}
		if n, err := sites.New(d).Sitekeys.CountSitekeys(ctx, account, ""); err != nil || n != 1 {
			t.Errorf("%d sitekeys, %v; want 1", n, err)
		}
	})
}

func TestSitekeyFields(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		ctx, account := t.Context(), world.New(t, d).Account("a")
		key, _ := newSitekey(t, d, account, "example.com")

		many := make([]string, model.MaxSitekeyDomains+1)
		for i := range many {
			many[i] = fmt.Sprintf("d%d.example", i)
		}

		exactly, empty, long := many[1:], " ", strings.Repeat("x", 101)
		for name, u := range map[string]sites.SitekeyUpdate{
			"empty name": {Name: &empty}, "long name": {Name: &long}, "too many domains": {Domains: &many}, "both": {Name: &empty, Domains: &many},
		} {
			_, err := sites.New(d).Sitekeys.UpdateSitekey(ctx, account, key.ID, u)
			if kind := model.KindOf(err); kind != model.Invalid && kind != model.Conflict {
				t.Errorf("%s: %v", name, err)
			}
			if name == "both" && (!strings.Contains(err.Error(), "invalid_name") ||
				!strings.Contains(err.Error(), "too_many_domains")) {
				t.Errorf("both: %v, want both faults", err)
			}
		}

		if _, _, err := sites.New(d).Sitekeys.CreateSitekey(ctx, account, "", nil, 1); model.KindOf(err) != model.Invalid {
			t.Errorf("create without a name: %v", err)
		}
		if got, err := sites.New(d).Sitekeys.SitekeyByID(ctx, account, key.ID); err != nil || !sameSitekey(got, key) {
			t.Errorf("after refused changes %+v, %v; want %+v", got, err, key)
		}
		if _, err := sites.New(d).Sitekeys.UpdateSitekey(ctx, account, key.ID, sites.SitekeyUpdate{Domains: &exactly}); err != nil {
			t.Errorf("as many domains as allowed: %v", err)
		}
	})
}

func TestSitekeyPages(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		account := world.New(t, d).Account("a")
		var ids []model.SitekeyID
		for range 5 {
			key, _ := newSitekey(t, d, account)
			ids = append(ids, key.ID)
			newSitekey(t, d, world.New(t, d).Account(fmt.Sprint("other", len(ids))))
		}

		var got []model.SitekeyID

		for after := model.SitekeyID(0); ; {
			page, err := sites.New(d).Sitekeys.Sitekeys(t.Context(), account, after, 2)
			testkit.NoError(t, err)
			if len(page) == 0 {
				break
			}

			for _, key := range page {
				got = append(got, key.ID)
			}

			after = got[len(got)-1]
		}

		testkit.EqualSlices(t, got, ids, "pages list")
	})
}

// TestWatchSitekeys checks that every change is reported, in the process that makes it and in
// others, and not to watchers of sites.
func TestWatchSitekeys(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		d := dbtest.Open(t, databaseURL)
		t.Run("here", func(t *testing.T) { testWatchSitekeys(t, d, d, "here") })
		t.Run("elsewhere", func(t *testing.T) { testWatchSitekeys(t, d, dbtest.Open(t, databaseURL), "elsewhere") })
	})
}

func testWatchSitekeys(t *testing.T, d, watcher *db.DB, name string) {
	account := world.New(t, d).Account(name)
	changed, siteList := make(chan model.SitekeyID, 16), make(chan model.SiteID, 16)

	listening := make(chan bool, 16)
	for _, watch := range []func() error{
		func() error {
			return sites.New(watcher).Lookup.WatchSitekeys(t.Context(), func(id int64) { changed <- model.SitekeyID(id) },
				func(err error) { listening <- err == nil })
		},
		func() error {
			return sites.New(watcher).Lookup.WatchSites(t.Context(), func(id int64) { siteList <- model.SiteID(id) },
				func(err error) { listening <- err == nil })
		},
	} {
		go func() { _ = watch() }()
		<-listening
	}

	key, _ := newSitekey(t, d, account)
	expect := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		testkit.Equal(t, <-changed, key.ID, "%s: reported", what)
	}

	expect("create", nil)
	renamed := "new"
	_, err := sites.New(d).Sitekeys.UpdateSitekey(t.Context(), account, key.ID, sites.SitekeyUpdate{Name: &renamed})
	expect("update", err)
	_, _, err = sites.New(d).Sitekeys.RotateSitekeySecret(t.Context(), account, key.ID, 0)
	expect("rotate", err)
	expect("delete", sites.New(d).Sitekeys.DeleteSitekey(t.Context(), account, key.ID))

	site := world.New(t, d).Site("example.com", world.Of(account))
	if id := <-siteList; id != site.ID || len(siteList) != 0 || len(changed) != 0 {
		t.Errorf("%d reported to the sites' watcher, then %d and %d more changes", id, len(siteList), len(changed))
	}
}
