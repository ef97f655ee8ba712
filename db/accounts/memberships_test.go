package accounts_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestMembershipsChangeAtTheSameTime checks that a user is deleted exactly when the last membership
// ends, in every order of two changes, and that the changes do not deadlock.
func TestMembershipsChangeAtTheSameTime(t *testing.T) {
	t.Parallel()
	type fixture struct {
		store  *accounts.Store
		a, b   *model.User // the owners of two accounts
		person *model.User // a member of the first account and, with both, of the second
	}
	type step func(ctx context.Context, w *fixture) error

	leave := func(account func(w *fixture) *model.User) step {
		return func(ctx context.Context, w *fixture) error {
			return w.store.Members.Delete(ctx, account(w).AccountID, w.person.ID)
		}
	}
	remove := func(account func(w *fixture) *model.User) step {
		return func(ctx context.Context, w *fixture) error {
			return w.store.DeleteAccount(ctx, account(w), dbtest.Start)
		}
	}
	first := func(w *fixture) *model.User { return w.a }
	second := func(w *fixture) *model.User { return w.b }
	join := func(ctx context.Context, w *fixture) error {
		_, err := w.store.Invitations.AcceptAs(ctx, invited, w.person, dbtest.Start)
		return err
	}
	create := func(ctx context.Context, w *fixture) error {
		_, err := w.store.CreateAccount(ctx, model.SignupsOpen, model.Account{Name: "own", CreatedAt: dbtest.Start}, w.person.ID)
		return err
	}
	token := func(ctx context.Context, w *fixture) error {
		_, err := w.store.Tokens.Create(ctx, model.APIToken{
			AccountID: w.a.AccountID, UserID: w.person.ID, Name: "t", TokenHash: []byte("t"), Scopes: []model.Scope{model.ScopeRead},
		})
		return err
	}

	tests := []struct {
		name          string
		both          bool   // whether the person belongs to both accounts
		at            string // the statement of the first change before which the second starts
		first, second step
		tooLate       error // of the second
		memberships   int   // of the person afterwards
	}{
		{"leaving both", true, "DELETE FROM memberships", leave(first), leave(second), nil, 0},
		{"leaving one, deletion of the other", true, "DELETE FROM memberships", leave(first), remove(second), nil, 0},
		{"deletion of one, leaving the other", true, "DELETE FROM users", remove(first), leave(second), nil, 0},
		{"deletion of both", true, "DELETE FROM users", remove(first), remove(second), nil, 0},
		{"leaving twice", true, "DELETE FROM memberships", leave(first), leave(first), model.ErrNotFound, 1},
		{"joining, leaving the only one", false, `INSERT INTO "memberships"`, join, leave(first), nil, 1},
		{"joining, deletion of the only one", false, `INSERT INTO "memberships"`, join, remove(first), nil, 1},
		{"joining, deletion of the new one", false, `INSERT INTO "memberships"`, join, remove(second), nil, 1},
		{"leaving the only one, joining", false, `DELETE FROM "users"`, leave(first), join, model.ErrStale, 0},
		{"deletion of the only one, joining", false, "DELETE FROM users", remove(first), join, model.ErrStale, 0},
		{"deletion of the new one, joining", false, "DELETE FROM accounts", remove(second), join, accounts.ErrInvalidToken, 1},
		{"joining twice", false, `INSERT INTO "memberships"`, join, join, accounts.ErrInvalidToken, 2},
		{"a new account, leaving the only one", false, `INSERT INTO "memberships"`, create, leave(first), nil, 1},
		{"leaving the only one, a new account", false, `DELETE FROM "users"`, leave(first), create, model.ErrNotFound, 0},
		{"leaving, a token", true, "DELETE FROM memberships", leave(first), token, model.ErrNotFound, 1},
		{"a token, leaving", true, `INSERT INTO "api_tokens"`, token, leave(first), nil, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				world.New(t, d).User("operator@example.com")
				w := &fixture{
					store: accounts.New(d), a: world.New(t, d).User("a@example.com"), b: world.New(t, d).User("b@example.com"),
				}
				w.person = addMember(t, d, w.a.AccountID, "person@example.com", model.RoleMember)
				invite(t, d, w.b.AccountID, "person@example.com", model.RoleMember, invited)
				if test.both {
					testkit.NoError(t, join(t.Context(), w))
				}

				one, two := dbtest.RaceInOrder(t, d, test.at,
					func() error { return test.first(t.Context(), w) },
					func() error { return test.second(t.Context(), w) })
				if one != nil || !errors.Is(two, test.tooLate) {
					t.Errorf("errors %v and %v, want nil and %v", one, two, test.tooLate)
				}

				rows, err := dbtest.Rows[struct{ Users, Memberships, Tokens int }](d, "SELECT "+
					"(SELECT count(*) FROM users WHERE id = ?) AS users, "+
					"(SELECT count(*) FROM memberships WHERE user_id = ?) AS memberships, "+
					"(SELECT count(*) FROM api_tokens) AS tokens", w.person.ID, w.person.ID)
				if err != nil || rows[0].Memberships != test.memberships || rows[0].Users != min(test.memberships, 1) || rows[0].Tokens != 0 {
					t.Errorf("left are %+v, %v; want %d memberships", rows, err, test.memberships)
				}
			})
		})
	}
}

// TestTheAddressChangesAtTheSameTime checks a confirmation next to other changes of the user.
func TestTheAddressChangesAtTheSameTime(t *testing.T) {
	t.Parallel()
	type step func(ctx context.Context, s *accounts.Store, user *model.User) error
	confirm := func(ctx context.Context, s *accounts.Store, _ *model.User) error {
		_, err := s.ConfirmEmailChange(ctx, firstReset, nil, dbtest.Start)
		return err
	}
	change := func(ctx context.Context, s *accounts.Store, user *model.User) error {
		_, err := s.ChangePassword(ctx, user.ID, "hash", accounts.PasswordChange{Hash: "changed", At: dbtest.Start})
		return err
	}
	leave := func(ctx context.Context, s *accounts.Store, user *model.User) error {
		return s.Members.Delete(ctx, user.AccountID, user.ID)
	}

	tests := []struct {
		name, at      string
		first, second step
		tooLate       error
	}{
		{"two confirmations", "UPDATE users", confirm, confirm, accounts.ErrInvalidToken},
		{"a confirmation, a password", "UPDATE users", confirm, change, nil},
		{"a password, a confirmation", "UPDATE users", change, confirm, accounts.ErrInvalidToken},
		{"a confirmation, a removal", "UPDATE users", confirm, leave, nil},
		{"a removal, a confirmation", `DELETE FROM "users"`, leave, confirm, accounts.ErrInvalidToken},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				owner := world.New(t, d).User("owner@example.com")
				user := addMember(t, d, owner.AccountID, "old@example.com", model.RoleMember)
				store := accounts.New(d)
				err := store.RequestEmailChange(t.Context(), user, accounts.EmailChange{
					Email: "new@example.com", TokenHash: firstReset, At: dbtest.Start,
					Confirm: linkMail(0, model.MailEmailChange, ""), Known: linkMail(0, model.MailEmailKnown, ""),
				})
				testkit.NoError(t, err)

				first, second := dbtest.RaceInOrder(t, d, test.at,
					func() error { return test.first(t.Context(), store, user) },
					func() error { return test.second(t.Context(), store, user) })
				if first != nil || !errors.Is(second, test.tooLate) {
					t.Errorf("errors %v and %v, want nil and %v", first, second, test.tooLate)
				}
			})
		})
	}
}
