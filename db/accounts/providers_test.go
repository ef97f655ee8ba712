package accounts_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

const providerIssuer = "https://sso.example"

// setProvider sets and verifies the provider of an owner's account, as changed at this time.
func setProvider(t *testing.T, d *db.DB, owner *model.User, issuer string, at model.Instant) *model.AccountProvider {
	t.Helper()
	secret := "the client secret"
	provider, err := accounts.New(d).SetProvider(t.Context(), owner, accounts.ProviderChange{
		Provider: model.AccountProvider{
			Issuer: issuer, ClientID: "tallygate", Domain: "corp.example", DefaultRole: model.RoleViewer, ChangedAt: at,
		},
		Secret: &secret,
	})
	if err == nil {
		err = accounts.New(d).VerifyProvider(t.Context(), provider, at)
	}
	if err != nil {
		t.Fatal(err)
	}
	return provider
}

// throughProvider returns a session that the account's provider starts, as it was at this time.
func throughProvider(owner *model.User, changed model.Instant) accounts.SessionStart {
	account := owner.AccountID
	return accounts.SessionStart{
		Session: model.Session{
			IDHash: model.HashToken("session"), UserID: owner.ID, CreatedAt: dbtest.Start, ProviderAccount: &account,
		},
		PasswordHash: owner.PasswordHash, SignIn: true,
		Provider: &accounts.ProviderState{Issuer: providerIssuer, Changed: changed},
	}
}

// TestSessionOfAnEarlierProvider checks that no session starts through a provider that was changed or deleted since the
// sign-in began.
func TestSessionOfAnEarlierProvider(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*testing.T, *db.DB, *model.User, *accounts.SessionStart)
		want   error
	}{
		{"no change", func(*testing.T, *db.DB, *model.User, *accounts.SessionStart) {}, nil},
		{"another issuer", func(t *testing.T, d *db.DB, owner *model.User, _ *accounts.SessionStart) {
			setProvider(t, d, owner, "https://other.example", dbtest.Start)
		}, accounts.ErrProviderChanged},
		{"changed and the same again", func(t *testing.T, d *db.DB, owner *model.User, _ *accounts.SessionStart) {
			setProvider(t, d, owner, providerIssuer, dbtest.Start+1)
		}, accounts.ErrProviderChanged},
		{"deleted", func(t *testing.T, d *db.DB, owner *model.User, _ *accounts.SessionStart) {
			if err := accounts.New(d).DeleteProvider(t.Context(), owner); err != nil {
				t.Fatal(err)
			}
		}, accounts.ErrProviderChanged},
		{"without the state of the provider", func(_ *testing.T, _ *db.DB, _ *model.User, start *accounts.SessionStart) {
			start.Provider = nil
		}, accounts.ErrProviderChanged},
	}

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for _, test := range tests {
			owner := dbtest.NewUser(t, d, strings.ReplaceAll(test.name, " ", "-")+"@corp.example")
			setProvider(t, d, owner, providerIssuer, dbtest.Start)
			start := throughProvider(owner, dbtest.Start)
			test.change(t, d, owner, &start)

			err := accounts.New(d).CreateSession(t.Context(), start)
			if !errors.Is(err, test.want) || sessionLives(t, d, start.IDHash, dbtest.Start) != (test.want == nil) {
				t.Errorf("%s: error %v, want %v, or the session lives wrongly", test.name, err, test.want)
			}
			if err := accounts.New(d).DeleteProvider(t.Context(), owner); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestProviderEndsAtTheSameTime checks that the deletion of a provider and the start of a session leave no session,
// whichever is first.
func TestProviderEndsAtTheSameTime(t *testing.T) {
	t.Parallel()
	begin := func(ctx context.Context, d *db.DB, owner *model.User) error {
		return accounts.New(d).CreateSession(ctx, throughProvider(owner, dbtest.Start))
	}
	end := func(ctx context.Context, d *db.DB, owner *model.User) error {
		return accounts.New(d).DeleteProvider(ctx, owner)
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for email, sessionFirst := range map[string]bool{"first@corp.example": true, "second@corp.example": false} {
			owner := dbtest.NewUser(t, d, email)
			setProvider(t, d, owner, providerIssuer, dbtest.Start)

			at, first, second, tooLate := "DELETE FROM account_providers", end, begin, error(accounts.ErrProviderChanged)
			if sessionFirst {
				at, first, second, tooLate = `INSERT INTO "sessions"`, begin, end, nil
			}
			one, two := dbtest.RaceInOrder(t, d, at,
				func() error { return first(t.Context(), d, owner) },
				func() error { return second(t.Context(), d, owner) })
			if one != nil || !errors.Is(two, tooLate) {
				t.Errorf("session first %v: errors %v and %v, want nil and %v", sessionFirst, one, two, tooLate)
			}
			if sessionLives(t, d, model.HashToken("session"), dbtest.Start) {
				t.Errorf("session first %v: the session outlives the provider", sessionFirst)
			}
		}
	})
}
