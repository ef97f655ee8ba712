package keys_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// keyHolder opens a database like a process that holds the given application keys.
func keyHolder(t *testing.T, databaseURL string, keys ...string) *db.DB {
	t.Helper()

	d, err := db.Open(databaseURL)
	testkit.NoError(t, err)

	t.Cleanup(func() { d.Close() })
	var previous []model.ApplicationKey
	for _, key := range keys[1:] {
		previous = append(previous, applicationKey(key))
	}

	d.UseApplicationKey(applicationKey(keys[0]), previous...)

	return d
}

// firstHolder is keyHolder for the key "a", which becomes the key that the database uses.
func firstHolder(t *testing.T, databaseURL string) *db.DB {
	t.Helper()

	d := keyHolder(t, databaseURL, "a")
	_, err := keys.New(d).ClaimApplicationKey(t.Context(), applicationKey("a"))
	testkit.NoError(t, err)
	return d
}

func applicationKey(name string) model.ApplicationKey {
	return model.ApplicationKey("an application key for tests: " + name)
}

// TestRotationOfDerivedKeys checks that all processes, whatever keys they hold, derive the same
// visitor ids for a day, over two rotations, and always the same user ids.
func TestRotationOfDerivedKeys(t *testing.T) {
	t.Parallel()

	noon := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	day := noon.Day()
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		a := firstHolder(t, databaseURL)

		rotate := func(at model.Instant, to, from string) {
			t.Helper()
			if _, err := keys.New(keyHolder(t, databaseURL, to, from)).RotateApplicationKey(t.Context(), at); err != nil {
				t.Fatal(err)
			}
		}

		// check compares the keys that processes use on the days from today on; an empty name means
		// an error.
		check := func(what string, d *db.DB, userIDs string, visitors ...string) {
			t.Helper()

			key, err := keys.New(d).UserIDKey(t.Context())
			if want := applicationKey(userIDs).Derive("user id"); err != nil || !bytes.Equal(key, want) {
				t.Errorf("%s: the key of user ids is %x, %v; want %s's", what, key, err, userIDs)
			}

			for i, name := range visitors {
				key, err := keys.New(d).VisitorKey(t.Context(), day+model.Day(i))

				if name == "" {
					testkit.ErrorIs(t, err, keys.ErrOtherKey, "%s, day %d: %x", what, i, key)

					continue
				}

				if want := applicationKey(name).Derive("visitor id"); err != nil || !bytes.Equal(key, want) {
					t.Errorf("%s, day %d: %x, %v; want %s's", what, i, key, err, name)
				}
			}
		}

		check("before", a, "a", "a", "a")
		check("prepared", keyHolder(t, databaseURL, "b", "a"), "a", "a", "a")
		rotate(noon, "b", "a")
		check("not restarted", a, "a", "a", "")
		check("both keys", keyHolder(t, databaseURL, "b", "a"), "a", "a", "b", "b")
		check("new key only", keyHolder(t, databaseURL, "b"), "a", "a", "b", "b")

		// Rotate again on the same day, and 1 minute before midnight, when processes can be in the
		// next day already.
		rotate(noon, "c", "b")
		check("twice a day", keyHolder(t, databaseURL, "c"), "a", "a", "c", "c")
		rotate((day + 2).Start().Add(-time.Minute), "d", "c")
		check("before midnight", keyHolder(t, databaseURL, "d"), "a", "a", "c", "c", "d")
		check("before midnight", keyHolder(t, databaseURL, "e", "d"), "a", "a", "c", "c", "d")
	})
}

// TestRotationReseals checks that webhook secrets are readable with the new key alone, that sign-in
// throttles restart at zero, and that a secret which neither key opens is reported and kept.
func TestRotationReseals(t *testing.T) {
	t.Parallel()

	now := model.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		a := firstHolder(t, databaseURL)

		site := world.New(t, a).Site("first.example")
		var siteIDs []model.SiteID
		for i := range 3 {
			secret := fmt.Sprintf("the secret of site %d", i)
			made := world.New(t, a).Site(fmt.Sprintf("s%d.example", i), world.Of(site.AccountID), world.WebhookAt("https://s.example/hook", &secret))
			siteIDs = append(siteIDs, made.ID)
		}

		// The first site's earlier secret signs in addition.
		old := "the second secret of site 0"
		testkit.NoError(t, sites.New(a).Sites.SetWebhookSecret(t.Context(), site.AccountID, siteIDs[0], &old, model.ChangedBy{At: now}))
		current := "the secret of site 0"
		testkit.NoError(t, sites.New(a).Sites.SetWebhookSecret(t.Context(), site.AccountID, siteIDs[0], &current, model.ChangedBy{At: now}))

		damaged := siteIDs[1]
		testkit.NoError(t, dbtest.Exec(a, "UPDATE sites SET conversion_webhook_secret = ? WHERE id = ?", []byte("damaged"), damaged))
		if _, err := accounts.New(a).SignIns.Begin(t.Context(), now, accounts.SignInLimit{Key: []byte("x"), Free: 1, Cap: time.Minute}); err != nil {
			t.Fatal(err)
		}

		userID := totpUser(t, a, now)
		token := model.NewSecret(model.SharedLinkPrefix)
		link, err := sites.New(a).Objects.CreateSharedLink(t.Context(), site.AccountID, model.SharedLink{
			SiteID: site.ID, Name: "link", TokenHash: model.HashToken(token), Token: token, CreatedAt: now,
		})
		testkit.NoError(t, err)

		result, err := keys.New(keyHolder(t, databaseURL, "b", "a")).RotateApplicationKey(t.Context(), now)
		if err != nil || result.Resealed != 3 || !slices.Equal(result.Unreadable, []model.SiteID{damaged}) || result.Already {
			t.Errorf("%+v, %v; want 3 sealed again and site %d unreadable", result, err, damaged)
		}

		if result.ResealedTOTP != 2 || len(result.UnreadableUsers) != 0 {
			t.Errorf("TOTP secrets: %+v; want both rows of the user sealed again", result)
		}

		b := keyHolder(t, databaseURL, "b")
		if got, err := openSecret(t, b, siteIDs[0], "old_webhook_secret"); err != nil || got != old {
			t.Errorf("the old secret of site %d: %q, %v; want %q", siteIDs[0], got, err, old)
		}

		for _, confirmed := range []bool{true, false} {
			if secret, err := accounts.New(b).SecondFactors.TOTP(t.Context(), userID, confirmed, now); err != nil || string(secret) != fmt.Sprint(confirmed) {
				t.Errorf("the TOTP secret with confirmed = %v is %q, %v", confirmed, secret, err)
			}
		}

		link, err = sites.New(b).Objects.SharedLink(t.Context(), site.AccountID, link.ID)
		if err != nil || sites.New(b).Objects.LinkToken(link) != token {
			t.Errorf("the token of the link is %q, %v; want %q", sites.New(b).Objects.LinkToken(link), err, token)
		}

		for i, id := range siteIDs {
			got, err := webhookSecret(t, b, id)

			if id == damaged {
				if err == nil {
					t.Errorf("the damaged secret opens as %q", got)
				}

				continue
			}

			if want := fmt.Sprintf("the secret of site %d", i); err != nil || got != want {
				t.Errorf("site %d: %q, %v; want %q", id, got, err, want)
			}
		}

		dbtest.HasRows(t, b, "signin_failures", 0, "sign-in throttles are left")

		// A process that was not restarted must not encrypt with the replaced key.
		secret := "a secret that comes too early"
		if err := sites.New(a).Sites.SetWebhookSecret(t.Context(), site.AccountID, siteIDs[0], &secret, model.ChangedBy{}); !errors.Is(err,
			keys.ErrOtherKey) {
			t.Errorf("sealing with the replaced key: %v, want ErrOtherKey", err)
		}
		if _, err := keys.New(keyHolder(t, databaseURL, "d", "c")).RotateApplicationKey(t.Context(), now); !errors.Is(err, keys.ErrOtherKey) {
			t.Errorf("rotation with two other keys: %v, want ErrOtherKey", err)
		}
	})
}

// totpUser stores a user with an authenticator app in use and another app that waits for its first
// code.
func totpUser(t *testing.T, d *db.DB, now model.Instant) model.UserID {
	t.Helper()

	store := accounts.New(d)
	user := world.New(t, d).User("totp@example.com")
	testkit.NoError(t, store.SecondFactors.StartTOTP(t.Context(), user.ID, "hash", []byte("true"), now))
	if _, err := store.SecondFactors.ConfirmTOTP(t.Context(), user.ID, 1, nil, accounts.FactorChange{At: now}); err != nil {
		t.Fatal(err)
	}
	testkit.NoError(t, store.SecondFactors.StartTOTP(t.Context(), user.ID, "hash", []byte("false"), now))

	return user.ID
}

// webhookSecret decrypts a site's stored webhook secret.
func webhookSecret(t *testing.T, d *db.DB, siteID model.SiteID) (string, error) {
	t.Helper()
	return openSecret(t, d, siteID, "conversion_webhook_secret")
}

// openSecret decrypts a column of a site.
func openSecret(t *testing.T, d *db.DB, siteID model.SiteID, column string) (string, error) {
	t.Helper()

	rows, err := dbtest.Rows[[]byte](d, "SELECT "+column+" FROM sites WHERE id = ?", siteID)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%d siteIDs, %v", len(rows), err)
	}

	return keys.New(d).Open(keys.WebhookSecret(siteID), rows[0])
}
