package sites_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestExpiredSecretsAreDeleted checks that housekeeping deletes the old secrets of sites and
// sitekeys at their time, each kind by its own, and nothing else.
func TestExpiredSecretsAreDeleted(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		d.UseApplicationKey(model.ApplicationKey("an application key for tests, long enough"))
		store := sites.New(d)
		site := world.New(t, d).Site("example.com")
		now := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
		until := func(days int) model.Instant { return now.Add(time.Duration(days) * 24 * time.Hour) }

		check := func(err error) {
			t.Helper()
			testkit.NoError(t, err)
		}

		key, _, err := store.Sitekeys.CreateSitekey(ctx, site.AccountID, "form", nil, now)
		check(err)
		_, _, err = store.Sitekeys.RotateSitekeySecret(ctx, site.AccountID, key.ID, until(2))
		check(err)
		_, err = store.Sites.ReplaceServerSecret(ctx, site.AccountID, site.ID, model.HashToken("old"), "old", 0)
		check(err)
		_, err = store.Sites.ReplaceServerSecret(ctx, site.AccountID, site.ID, model.HashToken("new"), "new", until(3))
		check(err)

		for _, secret := range []string{"the old secret of 16", "the new secret of 16"} {
			check(store.Sites.SetWebhookSecret(ctx, site.AccountID, site.ID, &secret, model.ChangedBy{At: now}))
		}

		// At each step one secret expires: the webhook's after a day, the sitekey's after two.
		for day, want := range []struct {
			deleted                  int64
			webhook, sitekey, server bool
		}{
			{0, true, true, true},
			{1, false, true, true},
			{1, false, false, true},
			{1, false, false, false},
			{0, false, false, false},
		} {
			n, err := store.Sites.DeleteExpiredSecrets(ctx, until(day))
			check(err)

			rules := rulesOf(t, d, site)
			key, err := store.Sitekeys.SitekeyByID(ctx, site.AccountID, key.ID)
			check(err)

			if n != want.deleted || (rules.OldWebhookSecret != nil) != want.webhook || (key.OldSecretHash != nil) != want.sitekey ||
				(rules.OldServerSecretHash != nil) != want.server {
				t.Errorf("on day %d: %d deleted, site %+v, sitekey %+v; want %+v", day, n, rules.Site, key, want)
			}
			if rules.ServerSecretHint != "new" || len(rules.ConversionWebhookSecret) == 0 || len(key.SecretHash) == 0 {
				t.Errorf("on day %d a current secret is deleted: %+v, %+v", day, rules.Site, key)
			}
		}

		if rules := rulesOf(t, d, site); rules.OldServerSecretHint != "" || rules.OldServerSecretUntil != 0 || rules.OldWebhookSecretUntil != 0 {
			t.Errorf("something is left of the old secrets: %+v", rules.Site)
		}
	})
}
