package db_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/model"
)

// Two transactions that wait for each other: the database ends one of them, and that one runs again.
func TestATransactionThatLostRunsAgain(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		newUser(t, d, "a@example.com")
		newUser(t, d, "b@example.com")
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
		if err != nil || len(names) != 2 || len(names[0].Name) != len("a@example.com")+2 || len(names[1].Name) != len("b@example.com")+2 {
			t.Errorf("the accounts are %v, %v; want both changes in each, once", names, err)
		}
	})
}

// lockWorld is an account with an owner, a member, and all that a transaction may lock below them.
type lockWorld struct {
	*db.DB
	owner, member *model.User
	session       []byte // of the member
	invitation    *model.Invitation
}

// The secrets of a lockWorld: of two password resets of the member, and of the invitation.
var firstReset, secondReset, invited = model.HashToken("first"), model.HashToken("second"), model.HashToken("invited")

func newLockWorld(t *testing.T, d *db.DB) *lockWorld {
	t.Helper()
	ctx := t.Context()
	newUser(t, d, "operator@example.com")
	w := &lockWorld{DB: d, owner: newUser(t, d, "owner@example.com")}
	invite := func(email string, secret []byte) *model.Invitation {
		t.Helper()
		invitation, err := d.Invite(ctx, model.Invitation{
			AccountID: w.owner.AccountID, Email: email, Role: model.RoleMember, TokenHash: secret, CreatedAt: start, ExpiresAt: later,
		}, linkMail(w.owner.AccountID, model.MailInvitation, email))
		if err != nil {
			t.Fatal(err)
		}
		return invitation
	}
	secret := model.HashToken("member")
	invite("member@example.com", secret)
	var err error
	if w.member, err = d.Accept(ctx, secret, "hash", start); err != nil {
		t.Fatal(err)
	}
	w.session = newSession(t, d, w.member, "session", start)
	for _, secret := range [][]byte{firstReset, secondReset} {
		if err := d.StorePasswordReset(ctx, w.member.Email, secret, later); err != nil {
			t.Fatal(err)
		}
	}
	w.invitation = invite("guest@example.com", invited)
	return w
}

// later is when the secrets of the tests end.
var later = start.Add(time.Hour)

func linkMail(accountID int64, kind, recipient string) model.Mail {
	return model.Mail{AccountID: accountID, Kind: kind, Recipient: recipient, Data: `{"url":"secret"}`, State: model.MailPending, CreatedAt: start, NextAttemptAt: start}
}

// Each pair locks the same rows and begins from other ones: neither waits for the other in turn, and what comes too late is
// told so.
func TestTransactionsOnAccountsLockInOneOrder(t *testing.T) {
	type step func(w *lockWorld, ctx context.Context) error
	reset := func(secret []byte) step {
		return func(w *lockWorld, ctx context.Context) error { return w.ResetPassword(ctx, secret, "new", start) }
	}
	change := func(w *lockWorld, ctx context.Context) error {
		return w.ChangePassword(ctx, w.member.ID, "hash", "changed")
	}
	request := func(w *lockWorld, ctx context.Context) error {
		return w.RequestPasswordReset(ctx, w.member.Email, model.HashToken("third"), later, linkMail(0, model.MailPasswordReset, ""))
	}
	signIn := func(w *lockWorld, ctx context.Context) error {
		return w.CreateSession(ctx, model.Session{IDHash: []byte("next"), UserID: w.member.ID, CreatedAt: start}, w.session)
	}
	accept := func(w *lockWorld, ctx context.Context) error {
		_, err := w.Accept(ctx, invited, "hash", start)
		return err
	}
	revoke := func(w *lockWorld, ctx context.Context) error {
		_, err := w.DeleteInvitation(ctx, w.owner.AccountID, w.invitation.ID)
		return err
	}
	deleteMember := func(w *lockWorld, ctx context.Context) error {
		return w.DeleteMember(ctx, w.owner.AccountID, w.member.ID)
	}
	deleteAccount := func(w *lockWorld, ctx context.Context) error { return w.DeleteAccount(ctx, w.owner.AccountID, start) }
	tests := []struct {
		name          string
		at            string // where first is when second begins
		first, second step
		tooLate       error // of second, which finds what first did
	}{
		{"a reset, a change", "UPDATE users", reset(firstReset), change, model.ErrNotFound},
		{"two resets", "UPDATE users", reset(firstReset), reset(secondReset), db.ErrInvalidToken},
		{"a change, a reset", "DELETE FROM sessions", change, reset(firstReset), db.ErrInvalidToken},
		{"a request, a removal", "INSERT INTO password_resets", request, deleteMember, nil},
		{"a removal, a request", `DELETE FROM "users"`, deleteMember, request, nil},
		{"a sign-in, a removal", `INSERT INTO "sessions"`, signIn, deleteMember, nil},
		{"a sign-in, a deletion", `INSERT INTO "sessions"`, signIn, deleteAccount, nil},
		{"a request, a deletion", "INSERT INTO password_resets", request, deleteAccount, nil},
		{"an acceptance, a deletion", `INSERT INTO "users"`, accept, deleteAccount, nil},
		{"a deletion, an acceptance", "DELETE FROM accounts", deleteAccount, accept, db.ErrInvalidToken},
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
					t.Errorf("errors %v and %v, want none and %v", first, second, test.tooLate)
				}
			})
		})
	}
}
