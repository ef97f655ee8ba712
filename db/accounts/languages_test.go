package accounts_test

import (
	"fmt"
	"slices"
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

// TestMailsHaveTheRecipientsLanguage checks that each mail to a user has the user's current
// language, and which language mails to addresses without a user have.
func TestMailsHaveTheRecipientsLanguage(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		ctx, store := t.Context(), accounts.New(d)
		german, english := world.New(t, d).User("german@example.com"), world.New(t, d).User("english@example.com")
		if german.Language != model.English && german.Language != "" {
			t.Errorf("a new user's language is %q", german.Language)
		}
		language := model.German
		testkit.NoError(t, store.UpdateUser(ctx, german.ID, accounts.UserUpdate{Language: &language}))
		testkit.ErrorIs(t, store.UpdateUser(ctx, 987, accounts.UserUpdate{}), model.ErrNotFound, "language of an unknown user")

		in := func(language model.Language, kind string) model.Mail {
			m := linkMail(0, kind, "")
			m.Language = language
			return m
		}
		for i, address := range []string{"german@example.com", "english@example.com", "new@example.com"} {
			signUp := model.PendingSignUp{
				Email: address, AccountName: "x", PasswordHash: "x", TokenHash: fmt.Append(nil, "sign-up ", i),
				CreatedAt: dbtest.Start, ExpiresAt: dbtest.Start.Add(time.Hour),
			}
			err := store.RequestSignUp(ctx, signUp, in(model.German, model.MailSignUp), in(model.German, model.MailSignUpKnown))
			testkit.NoError(t, err)

			reset := in(model.German, model.MailPasswordReset)
			testkit.NoError(t, store.RequestPasswordReset(ctx, address, fmt.Append(nil, "reset ", i), signUp.ExpiresAt, reset))

			invitation := model.NewInvitation(english.AccountID, address, model.RoleMember, fmt.Sprint("invitation ", i), dbtest.Start)
			mail := in(model.English, model.MailInvitation)
			mail.AccountID, mail.Recipient = english.AccountID, address
			if _, err := store.Invitations.Create(ctx, invitation, &mail); err != nil && i != 1 {
				t.Fatal(err)
			}
		}

		change := accounts.PasswordChange{Hash: "other", At: dbtest.Start}
		if _, err := store.ChangePassword(ctx, german.ID, "hash", change); err != nil {
			t.Fatal(err)
		}

		rows, err := dbtest.Rows[model.Mail](d, "SELECT * FROM mails WHERE recipient <> '' ORDER BY id")
		testkit.NoError(t, err)

		var got []string
		for _, m := range rows {
			got = append(got, fmt.Sprintf("%s %s %s", m.Recipient, m.Kind, m.Language))
		}
		want := []string{
			"german@example.com sign_up_known de", "german@example.com invitation de", "english@example.com sign_up_known en",
			"english@example.com password_reset en", "new@example.com sign_up de", "new@example.com invitation en",
			"german@example.com password_changed de",
		}
		if !slices.Equal(got, want) {
			t.Errorf("mails\n%q, want\n%q", got, want)
		}
	})
}

// TestAClaimedMailNamesItsAccount checks that a worker gets the current name of the mail's account.
func TestAClaimedMailNamesItsAccount(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		user := world.New(t, d).User("owner@example.com")
		for _, accountID := range []model.AccountID{user.AccountID, 0, 987} {
			testkit.NoError(t, outbox.New(d).QueueMail(t.Context(), linkMail(accountID, model.MailTest, "x@example.com")))
		}

		for i, want := range []string{user.Account.Name, "", ""} {
			m, err := outbox.New(d).LeaseMail(t.Context(), int64(i+1), dbtest.Start, time.Minute)
			if err != nil || m == nil || m.Account != want || m.Language != model.English {
				t.Errorf("mail %d: %+v, %v; want the account %q", i+1, m, err, want)
			}
		}
	})
}
