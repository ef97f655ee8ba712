package accounts_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

const providerIssuer = "https://sso.example"

// setProvider sets and verifies the provider of an owner's account, as changed at this time.
func setProvider(t *testing.T, d *db.DB, owner *model.User, issuer string, at model.Instant) *model.AccountProvider {
	t.Helper()
	secret := "the client secret"
	provider, err := accounts.New(d).Providers.Set(t.Context(), owner, accounts.ProviderChange{
		Provider: model.AccountProvider{
			Issuer: issuer, ClientID: "tallygate", Domain: "corp.example", DefaultRole: model.RoleViewer, ChangedAt: at,
		},
		Secret: &secret,
	})
	if err == nil {
		err = accounts.New(d).Providers.Verify(t.Context(), provider, nil, at)
	}
	testkit.NoError(t, err)
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

// TestSessionOfAnEarlierProvider checks that no session starts through a provider that was changed
// or deleted since the sign-in began.
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
			testkit.NoError(t, accounts.New(d).Providers.Delete(t.Context(), owner))
		}, accounts.ErrProviderChanged},
		{"without the state of the provider", func(_ *testing.T, _ *db.DB, _ *model.User, start *accounts.SessionStart) {
			start.Provider = nil
		}, accounts.ErrProviderChanged},
	}

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for _, test := range tests {
			owner := world.New(t, d).User(strings.ReplaceAll(test.name, " ", "-") + "@corp.example")
			setProvider(t, d, owner, providerIssuer, dbtest.Start)
			start := throughProvider(owner, dbtest.Start)
			test.change(t, d, owner, &start)

			err := accounts.New(d).Sessions.Create(t.Context(), start)
			if !errors.Is(err, test.want) || sessionLives(t, d, start.IDHash, dbtest.Start) != (test.want == nil) {
				t.Errorf("%s: error %v, want %v, or the session lives wrongly", test.name, err, test.want)
			}
			testkit.NoError(t, accounts.New(d).Providers.Delete(t.Context(), owner))
		}
	})
}

// TestProviderEndsAtTheSameTime checks that the deletion of a provider and the start of a session
// leave no session, whichever is first.
func TestProviderEndsAtTheSameTime(t *testing.T) {
	t.Parallel()
	begin := func(ctx context.Context, d *db.DB, owner *model.User) error {
		return accounts.New(d).Sessions.Create(ctx, throughProvider(owner, dbtest.Start))
	}
	end := func(ctx context.Context, d *db.DB, owner *model.User) error {
		return accounts.New(d).Providers.Delete(ctx, owner)
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for email, sessionFirst := range map[string]bool{"first@corp.example": true, "second@corp.example": false} {
			owner := world.New(t, d).User(email)
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

// TestAlertsOfProviderSessions checks that a sign-in is an alert of the accounts alone that the
// session reaches.
func TestAlertsOfProviderSessions(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		owner := world.New(t, d).User("owner@corp.example")
		setProvider(t, d, owner, providerIssuer, dbtest.Start)
		strict := world.New(t, d).Account("strict")
		run := func(statement string, args ...any) {
			t.Helper()
			testkit.NoError(t, dbtest.Exec(d, statement, args...))
		}
		run("INSERT INTO memberships (user_id, account_id, role, created_at) VALUES (?, ?, ?, 1)", owner.ID, strict, model.RoleMember)
		run("UPDATE accounts SET require_provider = ? WHERE id = ?", true, strict)
		for _, account := range []model.AccountID{owner.AccountID, strict} {
			channel := model.AlertChannel{
				AccountID: account, Kind: model.ChannelWebhook, Name: "ops", Language: model.English, Address: []byte{1},
				Events: []model.AlertEvent{model.AlertNewSignIn}, ConfirmedAt: 1, CreatedAt: 1,
			}
			if _, err := d.Write.NewInsert().Model(&channel).Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
		}

		installation := model.AccountID(0)
		for i, step := range []struct {
			name     string
			provider *model.AccountID
			role     model.Role
			want     []model.AccountID
		}{
			{"through the account's provider", &owner.AccountID, model.RoleMember, []model.AccountID{owner.AccountID}},
			{"by password, as a member of an account that requires its provider", nil, model.RoleMember, []model.AccountID{owner.AccountID}},
			{"through the installation's provider", &installation, model.RoleMember, []model.AccountID{owner.AccountID}},
			{"by password, as its owner", nil, model.RoleOwner, []model.AccountID{owner.AccountID, strict}},
		} {
			run("UPDATE memberships SET role = ? WHERE account_id = ?", step.role, strict)
			start := throughProvider(owner, dbtest.Start)
			start.IDHash, start.ProviderAccount = model.HashToken(step.name), step.provider
			start.CreatedAt = dbtest.Start + model.Instant(i)
			if err := accounts.New(d).Sessions.Create(t.Context(), start); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			got, err := dbtest.Rows[model.AccountID](d, "SELECT account_id FROM alerts WHERE began_at = ? ORDER BY account_id", start.CreatedAt)
			if err != nil || !slices.Equal(got, step.want) {
				t.Errorf("%s: alerts of the accounts %v, want %v, %v", step.name, got, step.want, err)
			}
		}
	})
}
