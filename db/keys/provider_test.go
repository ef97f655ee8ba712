package keys_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestRotationResealsProviders checks that the new key alone opens the client secret of an
// account's provider, and that the secret belongs to its account.
func TestRotationResealsProviders(t *testing.T) {
	t.Parallel()

	now := model.At(time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC))
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		a := firstHolder(t, databaseURL)

		secret := "the client secret"
		owner := world.New(t, a).User("owner@corp.example")
		_, err := accounts.New(a).Providers.Set(t.Context(), owner, accounts.ProviderChange{
			Provider: model.AccountProvider{
				Issuer: "https://login.example", ClientID: "c", Domain: "corp.example", DefaultRole: model.RoleViewer,
				Roles: map[string]model.Role{"staff": model.RoleMember}, ChangedAt: now,
			},
			Secret: &secret,
		})
		testkit.NoError(t, err)

		for range 2 {
			if _, err := keys.New(keyHolder(t, databaseURL, "b", "a")).RotateApplicationKey(t.Context(), now); err != nil {
				t.Fatal(err)
			}
		}

		b := accounts.New(keyHolder(t, databaseURL, "b"))
		row, err := b.Providers.Of(t.Context(), owner.AccountID)
		if err != nil || row.Roles["staff"] != model.RoleMember {
			t.Fatalf("%+v, %v", row, err)
		}
		if got, err := b.Providers.ClientSecret(row); err != nil || got != secret {
			t.Errorf("the secret is %q, %v; want %q", got, err, secret)
		}
		row.AccountID++
		if got, err := b.Providers.ClientSecret(row); err == nil {
			t.Errorf("another account opens the secret as %q", got)
		}
	})
}
