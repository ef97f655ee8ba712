package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestDeadlockedTransactionRunsAgain checks that the database ends one of two transactions that
// wait for each other, and that this transaction runs again.
func TestDeadlockedTransactionRunsAgain(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		world.New(t, d).User("a@example.com")
		world.New(t, d).User("b@example.com")
		change := func(user, name string) string {
			return "UPDATE accounts SET name = name || '" + name + "' WHERE id = " + user
		}

		first, second := dbtest.Race(t, d, change("2", "!"),
			func() error { return dbtest.Transaction(t.Context(), d, change("1", "!"), change("2", "!")) },
			func() error { return dbtest.Transaction(t.Context(), d, change("2", "?"), change("1", "?")) })
		if first != nil || second != nil {
			t.Errorf("errors %v and %v", first, second)
		}

		names, err := dbtest.Rows[struct{ Name string }](d, "SELECT name FROM accounts ORDER BY id")
		if err != nil || len(names) != 2 || len(names[0].Name) != len("a@example.com")+2 ||
			len(names[1].Name) != len("b@example.com")+2 {
			t.Errorf("the accounts are %v, %v; want both changes in each, once", names, err)
		}
	})
}

// lockWorld is an account with an owner, a member, and everything that a transaction may lock below
// them.
type lockWorld struct {
	db            *db.DB
	store         *accounts.Store
	owner, member *model.User
	session       []byte // of the member
	invitation    *model.Invitation
}

// The secrets of a lockWorld: of two password resets of the member, and of the invitation.
var firstReset, secondReset, invited = model.HashToken("first"), model.HashToken("second"), model.HashToken("invited")

func newLockWorld(t *testing.T, d *db.DB) *lockWorld {
	t.Helper()

	world.New(t, d).User("operator@example.com")
	w := &lockWorld{db: d, store: accounts.New(d), owner: world.New(t, d).User("owner@example.com")}
	w.member = addMember(t, d, w.owner.AccountID, "member@example.com", model.RoleMember)
	w.session = newSession(t, d, w.member, "session", dbtest.Start)
	for _, secret := range [][]byte{firstReset, secondReset} {
		testkit.NoError(t, dbtest.Exec(d, "INSERT INTO password_resets (token_hash, user_id, expires_at) VALUES (?, ?, ?)", secret,
			w.member.ID, later))
	}

	w.invitation = invite(t, d, w.owner.AccountID, "guest@example.com", model.RoleMember, invited)
	return w
}

func invite(t *testing.T, d *db.DB, accountID model.AccountID, email string, role model.Role, secret []byte) *model.Invitation {
	t.Helper()
	mail := linkMail(accountID, model.MailInvitation, email)
	invitation, err := accounts.New(d).Invitations.Create(t.Context(), model.Invitation{
		AccountID: accountID, Email: email, Role: role, TokenHash: secret, CreatedAt: dbtest.Start, ExpiresAt: later,
	}, &mail)
	testkit.NoError(t, err)

	return invitation
}

// addMember invites a user, who accepts.
func addMember(t *testing.T, d *db.DB, accountID model.AccountID, email string, role model.Role) *model.User {
	t.Helper()
	secret := model.HashToken(email)
	invite(t, d, accountID, email, role, secret)

	user, err := accounts.New(d).Invitations.Accept(t.Context(), secret, "hash", model.English, dbtest.Start)
	testkit.NoError(t, err)

	return user
}

// later is when the secrets of the tests expire.
var later = dbtest.Start.Add(time.Hour)

func linkMail(accountID model.AccountID, kind, recipient string) model.Mail {
	return model.Mail{AccountID: accountID, Kind: kind, Recipient: recipient, Data: `{"url":"secret"}`,
		State: model.MailPending, CreatedAt: dbtest.Start, NextAttemptAt: dbtest.Start}
}

// TestTransactionsOnAccountsLockInOneOrder runs pairs of transactions that lock the same rows but
// start from different rows. It checks that they never deadlock, and that the second one fails with
// the right error.
func TestTransactionsOnAccountsLockInOneOrder(t *testing.T) {
	t.Parallel()
	type step func(w *lockWorld, ctx context.Context) error
	reset := func(secret []byte) step {
		return func(w *lockWorld, ctx context.Context) error {
			_, err := w.store.ResetPassword(ctx, secret, accounts.PasswordChange{Hash: "new", At: dbtest.Start})
			return err
		}
	}

	change := func(w *lockWorld, ctx context.Context) error {
		_, err := w.store.ChangePassword(ctx, w.member.ID, "hash", accounts.PasswordChange{Hash: "changed", At: dbtest.Start})
		return err
	}

	request := func(w *lockWorld, ctx context.Context) error {
		return w.store.RequestPasswordReset(ctx, w.member.Email, model.HashToken("third"), later,
			linkMail(0, model.MailPasswordReset, ""))
	}

	signIn := func(w *lockWorld, ctx context.Context) error {
		return w.store.Sessions.Create(ctx, accounts.SessionStart{
			Session:      model.Session{IDHash: []byte("next"), UserID: w.member.ID, CreatedAt: dbtest.Start},
			PasswordHash: "hash", Replaced: w.session, SignIn: true,
		})
	}

	accept := func(w *lockWorld, ctx context.Context) error {
		_, err := w.store.Invitations.Accept(ctx, invited, "hash", model.English, dbtest.Start)
		return err
	}

	revoke := func(w *lockWorld, ctx context.Context) error {
		_, err := w.store.Invitations.Delete(ctx, w.owner.AccountID, w.invitation.ID)
		return err
	}

	deleteMember := func(w *lockWorld, ctx context.Context) error {
		return w.store.Members.Delete(ctx, w.owner.AccountID, w.member.ID)
	}

	deleteAccount := func(w *lockWorld, ctx context.Context) error {
		return w.store.DeleteAccount(ctx, w.owner, dbtest.Start)
	}
	tests := []struct {
		name          string
		at            string // the statement of first before which second starts
		first, second step
		tooLate       error // error of second, after the changes of first
	}{
		{"a reset, a change", "UPDATE users", reset(firstReset), change, model.ErrStale},
		{"two resets", "UPDATE users", reset(firstReset), reset(secondReset), accounts.ErrInvalidToken},
		{"a change, a reset", "DELETE FROM sessions", change, reset(firstReset), accounts.ErrInvalidToken},
		{"a request, a removal", "INSERT INTO password_resets", request, deleteMember, nil},
		{"a removal, a request", `DELETE FROM "users"`, deleteMember, request, nil},
		{"a sign-in, a removal", `INSERT INTO "sessions"`, signIn, deleteMember, nil},
		{"a sign-in, a deletion", `INSERT INTO "sessions"`, signIn, deleteAccount, nil},
		{"a request, a deletion", "INSERT INTO password_resets", request, deleteAccount, nil},
		{"an acceptance, a deletion", `INSERT INTO "users"`, accept, deleteAccount, nil},
		{"a deletion, an acceptance", "DELETE FROM accounts", deleteAccount, accept, accounts.ErrInvalidToken},
		{"a revocation, a deletion", `DELETE FROM "mails"`, revoke, deleteAccount, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				w := newLockWorld(t, d)
				first, second := dbtest.RaceInOrder(t, d, test.at,
					func() error { return test.first(w, t.Context()) },
					func() error { return test.second(w, t.Context()) })
				if first != nil || !errors.Is(second, test.tooLate) {
					t.Errorf("errors %v and %v, want nil and %v", first, second, test.tooLate)
				}
			})
		})
	}
}

// TestTheLastOperatorStays removes two operators at the same time, in each way, and checks that one
// stays.
func TestTheLastOperatorStays(t *testing.T) {
	t.Parallel()
	type step func(d *db.DB, ctx context.Context, user *model.User) error
	deleteAccount := func(d *db.DB, ctx context.Context, user *model.User) error {
		return accounts.New(d).DeleteAccount(ctx, user, dbtest.Start)
	}

	deleteMember := func(d *db.DB, ctx context.Context, user *model.User) error {
		return accounts.New(d).Members.Delete(ctx, user.AccountID, user.ID)
	}

	stepBack := func(d *db.DB, ctx context.Context, user *model.User) error {
		return accounts.New(d).SetOperator(ctx, user.Email, false)
	}

	tests := []struct {
		name, at      string
		first, second step
	}{
		{"two accounts", "DELETE FROM accounts", deleteAccount, deleteAccount},
		{"two members", `DELETE FROM "users"`, deleteMember, deleteMember},
		{"an account and a member", "DELETE FROM accounts", deleteAccount, deleteMember},
		{"a member and one who steps back", `DELETE FROM "users"`, deleteMember, stepBack},
		{"one who steps back and an account", `UPDATE "users"`, stepBack, deleteAccount},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				operators := []*model.User{world.New(t, d).User("one@example.com"), world.New(t, d).User("two@example.com")}
				world.New(t, d).User("other@example.com")

				for i, user := range operators {
					testkit.NoError(t, accounts.New(d).SetOperator(t.Context(), user.Email, true))

					addMember(t, d, user.AccountID, fmt.Sprintf("second%d@example.com", i), model.RoleOwner)
				}

				first, second := dbtest.RaceInOrder(t, d, test.at,
					func() error { return test.first(d, t.Context(), operators[0]) },
					func() error { return test.second(d, t.Context(), operators[1]) })
				if first != nil || !errors.Is(second, accounts.ErrLastOperator) {
					t.Errorf("errors %v and %v, want nil and ErrLastOperator", first, second)
				}
			})
		})
	}
}

// TestRevocationMeetsAcceptance revokes and accepts an invitation at the same time, and checks that
// one of the two fails.
func TestRevocationMeetsAcceptance(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		w := newLockWorld(t, d)
		revoked, accepted := dbtest.RaceInOrder(t, d, `DELETE FROM "mails"`,
			func() error {
				_, err := accounts.New(d).Invitations.Delete(t.Context(), w.owner.AccountID, w.invitation.ID)
				return err
			},
			func() error {
				_, err := accounts.New(d).Invitations.Accept(t.Context(), invited, "hash", model.English, dbtest.Start)
				return err
			})
		if revoked != nil || !errors.Is(accepted, accounts.ErrInvalidToken) {
			t.Errorf("errors %v and %v, want nil and an invalid link", revoked, accepted)
		}
		if _, err := accounts.New(d).Invitations.Delete(t.Context(), w.owner.AccountID,
			w.invitation.ID); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("a second time: %v", err)
		}
	})
}

// TestNothingOutlivesItsAccount checks that rows written while an account is deleted are deleted
// with it, or are not written.
func TestNothingOutlivesItsAccount(t *testing.T) {
	t.Parallel()
	type step func(t *testing.T, d *db.DB, owner *model.User) error
	request := func(t *testing.T, d *db.DB, owner *model.User) error {
		return accounts.New(d).RequestPasswordReset(t.Context(), owner.Email, model.HashToken("third"), later,
			linkMail(0, model.MailPasswordReset, ""))
	}

	mailNotices := func(t *testing.T, d *db.DB, _ *model.User) error {
		_, err := outbox.New(d).MailQuotaNotices(t.Context(), dbtest.Start)
		return err
	}

	createSite := func(t *testing.T, d *db.DB, owner *model.User) error {
		site, err := sites.New(d).Sites.CreateSite(t.Context(),
			model.Site{AccountID: owner.AccountID, SiteKey: "new", Domain: "new.example", CreatedAt: dbtest.Start})
		if err == nil {
			if rows, err := dbtest.Rows[struct{ SiteID model.SiteID }](d, "SELECT site_id FROM deleted_sites WHERE site_id = ?",
				site.ID); err != nil || len(rows) != 1 {
				t.Errorf("the new site was deleted without a trace: %v, %v", rows, err)
			}
		}

		// The account may have been deleted first.
		return nil
	}

	verify := func(month model.Month) step {
		return func(t *testing.T, d *db.DB, owner *model.User) error {
			store := ingest.NewClaimStore(dbtest.SitesCell(t, d))
			defer store.Close()

			key := model.CaptchaUsageKey{AccountID: owner.AccountID, Month: month}
			return store.Update(t.Context(), ingest.ClaimKeys{Usage: []model.CaptchaUsageKey{key}},
				func(state *ingest.ClaimState) *ingest.ClaimChanges {
					changes := &ingest.ClaimChanges{Usage: state.Usage}
					if _, ok := state.Usage[key]; ok {
						changes.Notices = []ingest.QuotaNotice{{CaptchaUsageKey: key, Threshold: 100, CreatedAt: dbtest.Start}}
					}
					return changes
				})
		}
	}

	tests := []struct {
		name, at string // the statement of the deletion before which the write starts
		step     step
	}{
		{"a request for a reset", "DELETE FROM accounts", request},
		{"a request for a reset, when the users are gone", `DELETE FROM "mails"`, request},
		{"mails of a notice", "DELETE FROM accounts", mailNotices},
		{"mails of a notice, when the users are gone", `DELETE FROM "mails"`, mailNotices},
		{"a site", "DELETE FROM accounts", createSite},
		{"a captcha's notice", `DELETE FROM "captcha_usage"`, verify(202611)},
		{"a captcha's notice, later", `DELETE FROM "quota_notices"`, verify(202611)},
		{"a month's first captcha", `DELETE FROM "captcha_usage"`, verify(202612)},
		{"a month's first captcha, later", `DELETE FROM "quota_notices"`, verify(202612)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				world.New(t, d).User("operator@example.com")
				owner := world.New(t, d).User("owner@example.com")
				for _, statement := range []string{
					"INSERT INTO captcha_usage (account_id, month, used) VALUES (?, 202611, 80)",
					"INSERT INTO quota_notices (account_id, product, month, threshold, quota, created_at) VALUES (?, 'captcha', 202611, 80, 10000, 0)",
				} {
					testkit.NoError(t, dbtest.Exec(d, statement, owner.AccountID))
				}

				deleted, written := dbtest.Race(t, d, test.at,
					func() error { return accounts.New(d).DeleteAccount(t.Context(), owner, dbtest.Start) },
					func() error { return test.step(t, d, owner) })
				if deleted != nil || written != nil {
					t.Errorf("errors %v and %v", deleted, written)
				}

				for _, table := range []string{"memberships", "sites", "mails", "captcha_usage", "quota_notices"} {
					rows, err := dbtest.Rows[struct{ AccountID model.AccountID }](d, "SELECT account_id FROM "+table+" WHERE account_id = ?",
						owner.AccountID)
					if err != nil || len(rows) > 0 {
						t.Errorf("%s: %d rows are left, %v", table, len(rows), err)
					}
				}

				dbtest.HasRows(t, d, "password_resets", 0, "password resets are left")
			})
		})
	}
}

// TestDeleteAccountChecksTheOwnerAgain checks that an account is deleted only by a user who is
// still an owner, with the checked password, under the deletion's locks.
func TestDeleteAccountChecksTheOwnerAgain(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		w := newLockWorld(t, d)
		second := addMember(t, d, w.owner.AccountID, "second@example.com", model.RoleOwner)

		third := addMember(t, d, w.owner.AccountID, "third@example.com", model.RoleOwner)
		if _, err := accounts.New(d).ChangePassword(t.Context(), third.ID, "hash",
			accounts.PasswordChange{Hash: "changed", At: dbtest.Start}); err != nil {
			t.Fatal(err)
		}

		// Make the second user a viewer while the deletion is in progress.
		demoted, deleted := dbtest.RaceInOrder(t, d, `INSERT INTO "memberships"`,
			func() error {
				return accounts.New(d).Members.SetRole(t.Context(), w.owner.AccountID, second.ID, model.RoleViewer, nil)
			},
			func() error { return accounts.New(d).DeleteAccount(t.Context(), second, dbtest.Start) })
		if demoted != nil || !errors.Is(deleted, model.ErrForbidden) {
			t.Errorf("errors %v and %v, want nil and forbidden", demoted, deleted)
		}
		testkit.ErrorIs(t, accounts.New(d).DeleteAccount(t.Context(), third, dbtest.Start), model.ErrStale, "with an earlier password")
		testkit.Succeeds(t, accounts.New(d).DeleteAccount(t.Context(), w.owner, dbtest.Start), "the owner")
	})
}
