package db_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/model"
)

// TestALinkOfTheOperator: it ends the links of before, mailed or not, and the user is mailed that
// there is one, without the link itself.
func TestALinkOfTheOperator(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		user := newUser(t, d, "owner@example.com")
		newUser(t, d, "other@example.com")
		store := func(secret string, notify bool) {
			t.Helper()
			if err := d.StorePasswordReset(ctx, user.Email, model.HashToken(secret), start, later, notify); err != nil {
				t.Fatal(err)
			}
		}

		if err := d.RequestPasswordReset(ctx, user.Email, model.HashToken("mailed"), later, linkMail(0, model.MailPasswordReset, "")); err != nil {
			t.Fatal(err)
		}

		store("first", false)

		if got := mails(t, d); got != "" {
			t.Errorf("without a notice: %s", got)
		}

		store("second", true)

		if got, want := mails(t, d), "pending owner@example.com operator_link {}"; got != want {
			t.Errorf("mails %s, want %s", got, want)
		}

		for _, earlier := range []string{"mailed", "first"} {
			if _, err := d.ResetPassword(ctx, model.HashToken(earlier), db.PasswordChange{Hash: "x", At: start}); !errors.Is(err, db.ErrInvalidToken) {
				t.Errorf("the %s link: %v", earlier, err)
			}
		}

		if _, err := d.ResetPassword(ctx, model.HashToken("second"), db.PasswordChange{Hash: "x", At: start}); err != nil {
			t.Errorf("the second link: %v", err)
		}
		if err := d.StorePasswordReset(ctx, "nobody@example.com", model.HashToken("third"), start, later, true); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("for an unknown address: %v", err)
		}
	})
}

// TestAChangedPasswordIsMailed: the user is told which API tokens stay valid, a bounded number of
// times an hour, and each change begins a new generation.
func TestAChangedPasswordIsMailed(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		user, other := newUser(t, d, "owner@example.com"), newUser(t, d, "other@example.com")
		for _, u := range []*model.User{user, other} {
			_, err := d.CreateAPIToken(ctx, model.APIToken{
				AccountID: u.AccountID, UserID: u.ID, Name: "of " + u.Email, Scopes: []model.Scope{model.ScopeExport, model.ScopeRead},
				TokenHash: model.HashToken(u.Email), TokenHint: "wxyz", CreatedAt: start,
			})
			if err != nil {
				t.Fatal(err)
			}
		}

		count := func() (n int) {
			t.Helper()
			rows, err := dbtest.Rows[string](d, "SELECT recipient FROM mails WHERE kind = ?", model.MailPasswordChanged)
			if err != nil {
				t.Fatal(err)
			}

			for _, recipient := range rows {
				if recipient != user.Email {
					t.Errorf("a mail to %s", recipient)
				}
			}

			return len(rows)
		}

		hash := "hash"
		change := func(at model.Instant) {
			t.Helper()
			next := db.PasswordChange{Hash: hash + "x", At: at, Page: "https://app.example.com/"}
			tokens, err := d.ChangePassword(ctx, user.ID, hash, next)
			if err != nil || len(tokens) != 1 || tokens[0].Name != "of owner@example.com" {
				t.Fatalf("tokens %v, %v", tokens, err)
			}
			hash = next.Hash
		}

		change(start)
		rows, err := dbtest.Rows[string](d, "SELECT data FROM mails WHERE kind = ?", model.MailPasswordChanged)

		want := []string{fmt.Sprintf(`{"at":%d,"tokens":["\"of owner@example.com\" (EXPORT READ, ends in wxyz)"],"page":"https://app.example.com/"}`, start)}
		if err != nil || !reflect.DeepEqual(rows, want) {
			t.Errorf("data %q, %v; want %q", rows, err, want)
		}

		for range 2 * model.MaxPasswordMails {
			change(start.Add(time.Minute))
		}

		if n := count(); n != model.MaxPasswordMails {
			t.Errorf("%d mails, want %d", n, model.MaxPasswordMails)
		}

		change(start.Add(time.Hour + time.Minute))

		if n := count(); n != model.MaxPasswordMails+1 {
			t.Errorf("%d mails an hour later, want %d", n, model.MaxPasswordMails+1)
		}

		after, err := d.UserByEmail(ctx, user.Email)
		if want := int32(2*model.MaxPasswordMails + 2); err != nil || after.PasswordGeneration != want {
			t.Errorf("generation %d, %v; want %d", after.PasswordGeneration, err, want)
		}
	})
}
