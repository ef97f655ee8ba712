package accounts_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
)

// mails returns state, recipient, kind and data of all mails except mails about a changed password,
// in the order of their ids.
func mails(t *testing.T, d *db.DB) string {
	t.Helper()
	rows, err := dbtest.Rows[model.Mail](d, "SELECT * FROM mails WHERE kind <> ? ORDER BY id", model.MailPasswordChanged)
	testkit.NoError(t, err)

	var all []string
	for _, m := range rows {
		all = append(all, fmt.Sprintf("%s %s %s %s", m.State, m.Recipient, m.Kind, m.Data))
	}

	return strings.Join(all, "; ")
}

// TestAnEndedMailHasNoLink checks that a mail's link is deleted when the mail ends in any way, and
// stays between attempts.
func TestAnEndedMailHasNoLink(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		kind   string
		claims int // by workers that crash
		after  time.Duration
		finish string
		want   string
	}{
		{"sent", model.MailPasswordReset, 0, 0, model.MailSent, "sent x@example.com password_reset {}"},
		{"failed", model.MailPasswordReset, 0, 0, model.MailFailed, "failed x@example.com password_reset {}"},
		{"skipped", model.MailInvitation, 0, 0, model.MailSkipped, "skipped x@example.com invitation {}"},
		{"tried again", model.MailPasswordReset, 0, 0, model.MailPending,
			`pending x@example.com password_reset {"url":"secret"}`},
		{"given up", model.MailInvitation, model.MaxMailAttempts, 0, "", "failed x@example.com invitation {}"},
		{"a reset, just in time", model.MailPasswordReset, 0, model.ResetLifetime - time.Second, model.MailPending,
			`pending x@example.com password_reset {"url":"secret"}`},
		{"a reset, too late", model.MailPasswordReset, 0, model.ResetLifetime, "", "failed x@example.com password_reset {}"},
		{"an invitation, just in time", model.MailInvitation, 0, model.InvitationLifetime - time.Second, model.MailSent,
			"sent x@example.com invitation {}"},
		{"an invitation, too late", model.MailInvitation, 0, model.InvitationLifetime, "",
			"failed x@example.com invitation {}"},
		{"without a link", model.MailTest, 0, 365 * 24 * time.Hour, model.MailSent, "sent x@example.com test {}"},
	}

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for i, test := range tests {
			testkit.NoError(t, outbox.New(d).QueueMail(t.Context(), linkMail(1, test.kind, "x@example.com")))

			id, now := int64(i+1), dbtest.Start.Add(test.after)
			for range test.claims {
				if m, err := outbox.New(d).LeaseMail(t.Context(), id, now, time.Second); m == nil || err != nil {
					t.Fatalf("%s: %v, %v", test.name, m, err)
				}

				now = now.Add(time.Second)
			}

			m, err := outbox.New(d).LeaseMail(t.Context(), id, now, time.Second)
			if err != nil || (m == nil) != (test.finish == "") {
				t.Fatalf("%s: claimed %v, %v", test.name, m, err)
			}

			if m != nil {
				m.State = test.finish
				testkit.NoError(t, outbox.New(d).FinishMail(t.Context(), m))
			}

			testkit.Equal(t, strings.Split(mails(t, d), "; ")[i], test.want, "%s", test.name)
		}
	})
}

// TestInvalidLinksAreNotSent checks that no mail is sent with a link that was replaced, consumed,
// or belongs to an address that the user no longer has.
func TestInvalidLinksAreNotSent(t *testing.T) {
	t.Parallel()
	const secret = ` {"url":"secret"}`
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		owner, other := world.New(t, d).User("owner@example.com"), world.New(t, d).User("other@example.com")

		request := func(user *model.User, token string) error {
			return accounts.New(d).RequestPasswordReset(ctx, user.Email, model.HashToken(token), later,
				linkMail(0, model.MailPasswordReset, ""))
		}
		for i, step := range []struct {
			do   func(ctx context.Context) error
			want string
		}{
			{func(context.Context) error { return request(other, "1") }, "pending other@example.com password_reset" + secret},
			{func(context.Context) error { return request(owner, "2") },
				"pending other@example.com password_reset" + secret + "; pending owner@example.com password_reset" + secret},
			{func(context.Context) error { return request(owner, "3") },
				"pending other@example.com password_reset" + secret + "; pending owner@example.com password_reset" + secret},
			{func(ctx context.Context) error {
				_, err := accounts.New(d).ResetPassword(ctx, model.HashToken("3"),
					accounts.PasswordChange{Hash: "new", At: dbtest.Start})
				return err
			}, "pending other@example.com password_reset" + secret},
			{func(ctx context.Context) error {
				_, err := accounts.New(d).ChangePassword(ctx, other.ID, "hash",
					accounts.PasswordChange{Hash: "new", At: dbtest.Start})
				return err
			}, ""},
			{func(context.Context) error {
				invite(t, d, owner.AccountID, "guest@example.com", model.RoleMember, invited)
				return nil
			}, "pending guest@example.com invitation" + secret},
			{func(context.Context) error {
				invite(t, d, other.AccountID, "guest@example.com", model.RoleMember, firstReset)
				return nil
			},
				"pending guest@example.com invitation" + secret + "; pending guest@example.com invitation" + secret},
			{func(context.Context) error {
				invite(t, d, owner.AccountID, "guest@example.com", model.RoleMember, secondReset)
				return nil
			},
				"pending guest@example.com invitation" + secret + "; pending guest@example.com invitation" + secret},
			{func(ctx context.Context) error {
				_, err := accounts.New(d).Invitations.Accept(ctx, secondReset, "hash", model.English, dbtest.Start)
				return err
			}, "pending guest@example.com invitation" + secret},
		} {
			if err := step.do(ctx); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
			testkit.Equal(t, mails(t, d), step.want, "step %d", i)
		}
	})
}

// TestResetOfAnUnknownAddress checks that a request for an unknown address also writes a row, and
// does not store the address.
func TestResetOfAnUnknownAddress(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		world.New(t, d).User("owner@example.com")

		for range 2 {
			testkit.NoError(t, accounts.New(d).RequestPasswordReset(t.Context(), "unknown@example.com", model.HashToken("1"), later,
				linkMail(0, model.MailPasswordReset, "")))
		}

		testkit.Equal(t, mails(t, d), "skipped  password_reset {}; skipped  password_reset {}", "mails")
		if due, err := outbox.New(d).DueMails(t.Context(), later, 10); len(due) != 0 || err != nil {
			t.Errorf("due: %v, %v", due, err)
		}
		dbtest.HasRows(t, d, "password_resets", 0, "resets")
		if n, err := retention.New(d).DeleteOldRecords(t.Context(), dbtest.Start.Add(31*24*time.Hour)); n != 2 || err != nil {
			t.Errorf("housekeeping: %d, %v", n, err)
		}
	})
}
