package accounts_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// TestStorePasswordReset checks that the operator's reset revokes earlier secrets, mailed or not,
// and that the user is mailed about it, without the link itself.
func TestStorePasswordReset(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		user := world.New(t, d).User("owner@example.com")
		world.New(t, d).User("other@example.com")
		store := func(secret string, notify bool) {
			t.Helper()
			testkit.NoError(t, accounts.New(d).StorePasswordReset(ctx, user.Email, model.HashToken(secret), dbtest.Start, later,
				notify))
		}

		testkit.NoError(t, accounts.New(d).RequestPasswordReset(ctx, user.Email, model.HashToken("mailed"), later,
			linkMail(0, model.MailPasswordReset, "")))

		store("first", false)

		testkit.Equal(t, mails(t, d), "", "without a notice")

		store("second", true)

		if got, want := mails(t, d), "pending owner@example.com operator_link {}"; got != want {
			t.Errorf("mails %s, want %s", got, want)
		}

		for _, earlier := range []string{"mailed", "first"} {
			if _, err := accounts.New(d).ResetPassword(ctx, model.HashToken(earlier),
				accounts.PasswordChange{Hash: "x", At: dbtest.Start}); !errors.Is(err, accounts.ErrInvalidToken) {
				t.Errorf("the %s link: %v", earlier, err)
			}
		}

		if _, err := accounts.New(d).ResetPassword(ctx, model.HashToken("second"),
			accounts.PasswordChange{Hash: "x", At: dbtest.Start}); err != nil {
			t.Errorf("the second link: %v", err)
		}
		if err := accounts.New(d).StorePasswordReset(ctx, "unknown@example.com", model.HashToken("third"), dbtest.Start,
			later, true); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("for an unknown address: %v", err)
		}
	})
}

// TestAChangedPasswordIsMailed checks that the mail lists the API tokens that stay valid, that
// mails are limited per hour, and that each change starts a new generation.
func TestAChangedPasswordIsMailed(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		user, other := world.New(t, d).User("owner@example.com"), world.New(t, d).User("other@example.com")
		for _, u := range []*model.User{user, other} {
			_, err := accounts.New(d).Tokens.Create(ctx, model.APIToken{
				AccountID: u.AccountID, UserID: u.ID, Name: "of " +
					u.Email, Scopes: []model.Scope{model.ScopeExport, model.ScopeRead},
				TokenHash: model.HashToken(u.Email), TokenHint: "wxyz", CreatedAt: dbtest.Start,
			})
			testkit.NoError(t, err)
		}

		count := func() (n int) {
			t.Helper()
			rows, err := dbtest.Rows[string](d, "SELECT recipient FROM mails WHERE kind = ?", model.MailPasswordChanged)
			testkit.NoError(t, err)

			for _, recipient := range rows {
				testkit.Equal(t, recipient, user.Email, "a mail to")
			}

			return len(rows)
		}

		hash := "hash"
		change := func(at model.Instant) {
			t.Helper()
			next := accounts.PasswordChange{Hash: hash + "x", At: at}
			tokens, err := accounts.New(d).ChangePassword(ctx, user.ID, hash, next)
			if err != nil || len(tokens) != 1 || tokens[0].Name != "of owner@example.com" {
				t.Fatalf("tokens %v, %v", tokens, err)
			}
			hash = next.Hash
		}

		change(dbtest.Start)
		rows, err := dbtest.Rows[string](d, "SELECT data FROM mails WHERE kind = ?", model.MailPasswordChanged)

		want := []string{fmt.Sprintf(`{"at":%d,"tokens":["\"of owner@example.com\" (EXPORT READ, …wxyz)"]}`, dbtest.Start)}
		if err != nil || !reflect.DeepEqual(rows, want) {
			t.Errorf("data %q, %v; want %q", rows, err, want)
		}

		for range 2 * outbox.MaxPasswordMails {
			change(dbtest.Start.Add(time.Minute))
		}

		testkit.Equal(t, count(), outbox.MaxPasswordMails, "mails")

		change(dbtest.Start.Add(time.Hour + time.Minute))

		testkit.Equal(t, count(), outbox.MaxPasswordMails+1, "mails an hour later")

		after, err := accounts.New(d).UserByEmail(ctx, user.Email)
		if want := int32(2*outbox.MaxPasswordMails + 2); err != nil || after.PasswordGeneration != want {
			t.Errorf("generation %d, %v; want %d", after.PasswordGeneration, err, want)
		}
	})
}
