package accounts_test

import (
	"errors"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestNoSessionWithoutTheSecondFactor: a password that was checked before the user got a second
// factor starts no session afterwards.
func TestNoSessionWithoutTheSecondFactor(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		store, ctx := accounts.New(d), t.Context()
		now := model.Instant(1_795_168_800_000_000)
		user := world.New(t, d).User("owner@example.com")

		create := func(id string, proved bool) error {
			session := model.Session{IDHash: []byte(id), UserID: user.ID, CreatedAt: now}
			return store.Sessions.Create(ctx, accounts.SessionStart{Session: session, PasswordHash: "hash", Proved: proved})
		}
		for _, id := range []string{"own", "other"} {
			testkit.NoError(t, create(id, false))
		}

		if err := store.SecondFactors.StartTOTP(ctx, user.ID, "another hash", []byte("secret"), now); !errors.Is(err, model.ErrStale) {
			t.Errorf("a setup after the password has changed: %v, want ErrStale", err)
		}
		testkit.NoError(t, store.SecondFactors.StartTOTP(ctx, user.ID, "hash", []byte("secret"), now))
		change := accounts.FactorChange{At: now, Session: []byte("own")}
		if first, err := store.SecondFactors.ConfirmTOTP(ctx, user.ID, 7, [][]byte{[]byte("code")}, change); !first || err != nil {
			t.Fatal(first, err)
		}

		rows, err := dbtest.Rows[[]byte](d, "SELECT id_hash FROM sessions")
		if err != nil || len(rows) != 1 || string(rows[0]) != "own" {
			t.Errorf("sessions: %q, %v; want the own one", rows, err)
		}
		testkit.ErrorIs(t, create("unproved", false), model.ErrStale, "a session without the second factor")
		testkit.Succeeds(t, create("proved", true), "a session with the second factor")

		// A used code is refused, and so are the codes of earlier periods.
		for step, want := range map[int64]error{6: model.ErrNotFound, 7: model.ErrNotFound} {
			if err := store.SecondFactors.UseTOTP(ctx, user.ID, step); !errors.Is(err, want) {
				t.Errorf("period %d: %v, want %v", step, err, want)
			}
		}
		if err := store.SecondFactors.UseTOTP(ctx, user.ID, 8); err != nil {
			t.Error(err)
		}

		// The operator's reset removes everything.
		testkit.ErrorIs(t, store.SecondFactors.Reset(ctx, "unknown@example.com", change), model.ErrNotFound, "an unknown user")
		testkit.NoError(t, store.SecondFactors.Reset(ctx, user.Email, change))
		testkit.ErrorIs(t, store.SecondFactors.Reset(ctx, user.Email, change), accounts.ErrNoSecondFactor, "a second reset")
		for _, table := range []string{"totp_secrets", "recovery_codes", "passkeys", "sessions"} {
			dbtest.HasRows(t, d, table, 0, "rows are left in %s", table)
		}
		testkit.Succeeds(t, create("later", false), "a session after the reset")
	})
}

// TestChallengesAndCounters: a challenge is answered once, and a passkey's counter grows.
func TestChallengesAndCounters(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		store, ctx := accounts.New(d), t.Context()
		now := model.Instant(1_795_168_800_000_000)
		user := world.New(t, d).User("owner@example.com")

		answered := func(text string) accounts.Challenge {
			return accounts.Challenge{Hash: []byte(text), ExpiresAt: now + 1}
		}
		key := model.Passkey{UserID: user.ID, CredentialID: []byte("id"), PublicKey: []byte("key"), Name: "Key", CreatedAt: now}
		passkey, first, err := store.Passkeys.Create(ctx, key, answered("create"), nil, accounts.FactorChange{At: now})
		if err != nil || !first {
			t.Fatal(first, err)
		}
		key.CredentialID = []byte("other")
		if _, _, err := store.Passkeys.Create(ctx, key, answered("create"), nil, accounts.FactorChange{At: now}); !errors.Is(err,
			accounts.ErrChallengeUsed) {
			t.Errorf("the challenge again: %v, want ErrChallengeUsed", err)
		}

		for _, use := range []struct {
			challenge string
			count     int64
			want      error
		}{
			{"a", 0, nil}, {"a", 0, accounts.ErrChallengeUsed}, {"b", 5, nil}, {"c", 5, model.ErrNotFound}, {"d", 4, model.ErrNotFound},
			{"e", 0, model.ErrNotFound}, {"c", 6, nil},
		} {
			passkey.SignCount = use.count
			if err := store.Passkeys.Use(ctx, passkey, answered(use.challenge), now); !errors.Is(err, use.want) {
				t.Errorf("challenge %s with counter %d: %v, want %v", use.challenge, use.count, err, use.want)
			}
		}

		for i := range model.MaxPasskeys {
			key.CredentialID = []byte{byte(i)}
			_, first, err := store.Passkeys.Create(ctx, key, answered(string(key.CredentialID)), nil, accounts.FactorChange{At: now})
			if full := i == model.MaxPasskeys-1; full != (err != nil) || first {
				t.Errorf("passkey %d: %v, %v", i+2, first, err)
			}
		}
	})
}
