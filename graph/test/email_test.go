package graph_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// mailsTo returns the kinds of the mails to an address, oldest first.
func (a *app) mailsTo(recipient string) string {
	a.t.Helper()
	rows := value(dbtest.Rows[string](a.db, "SELECT kind FROM mails WHERE recipient = ? ORDER BY id", recipient))(a.t)
	return strings.Join(rows, " ")
}

func TestChangeOfAddress(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		user, other := a.owner("old@example.com"), a.owner("other@example.com")
		phone := a.client()
		phone.signIn("old@example.com", password).ok(t, "signIn")
		token := user.createToken("READ")

		for _, try := range []struct{ email, password, want string }{
			{"no-domain", password, "email:INVALID_EMAIL"}, {"OLD@example.com", password, "email:INVALID_EMAIL"},
			{"new@example.com", "not the password", "password:WRONG_CREDENTIALS"}, {"new@example.com", "", "password:WRONG_CREDENTIALS"},
		} {
			user.do("requestEmailChange", "email", try.email, "password", try.password).
				named("%s with %q", try.email, try.password).fails(t, "requestEmailChange", try.want)
		}
		equal(t, a.mailsTo("new@example.com"), "", "refused requests mail")

		// A second request revokes the first one's secret.
		user.done("requestEmailChange", "email", "mistyped@example.com", "password", password)
		replaced := a.mailedSecret("mistyped@example.com")
		user.done("requestEmailChange", "email", " New@example.com ", "password", password)
		secret := a.mailedSecret("new@example.com")

		if rows, err := dbtest.Dump(a.db, "email_changes"); err != nil || len(rows) != 1 || strings.Contains(rows[0], secret) {
			t.Errorf("the table: %v, %v", rows, err)
		}
		equal(t, a.mailsTo("new@example.com"), "email_change", "the new address gets")

		phone.done("requestPasswordReset", "email", "old@example.com")
		reset := a.mailedSecret("old@example.com")

		for name, wrong := range map[string]string{
			"replaced": replaced, "unknown": model.NewSecret(model.EmailPrefix), "empty": "", "of another kind": reset,
		} {
			user.do("confirmEmailChange", "secret", wrong).
				named("a secret that is %s", name).fails(t, "confirmEmailChange", "secret:INVALID_TOKEN")
		}

		got := user.done("confirmEmailChange", "secret", secret)
		got.named("confirming").has(t, "confirmEmailChange.email", "new@example.com")
		equal(t, user.viewer(), "new@example.com", "confirming")
		equal(t, phone.viewer(), "", "another session goes on")
		a.with(token.secret, `{ viewer { email } }`).named("the token").has(t, "viewer.email", "new@example.com")
		user.do("confirmEmailChange", "secret", secret).
			named("a second time").fails(t, "confirmEmailChange", "secret:INVALID_TOKEN")
		phone.do("resetPassword", "token", reset, "password", password).
			named("an earlier reset").fails(t, "resetPassword", "token:INVALID_TOKEN")
		if mails := a.mailsTo("old@example.com"); mails != "sign_up email_requested email_requested email_changed" &&
			mails != "email_requested email_requested email_changed" {
			t.Errorf("the old address got %s", mails)
		}

		phone.signIn("old@example.com", password).named("the old address signs in").fails(t, "signIn", ":WRONG_CREDENTIALS")
		phone.signIn("new@example.com", password).ok(t, "signIn")

		// An hour later, a secret has expired. A change of the password revokes it.
		user.done("requestEmailChange", "email", "next@example.com", "password", password)
		a.clock.Add(model.EmailChangeLifetime)
		user.do("confirmEmailChange", "secret", a.mailedSecret("next@example.com")).
			named("after an hour").fails(t, "confirmEmailChange", "secret:INVALID_TOKEN")

		user.done("requestEmailChange", "email", "next@example.com", "password", password)
		revoked := a.mailedSecret("next@example.com")
		user.done("changePassword", "currentPassword", password, "password", "a new long password")
		user.do("confirmEmailChange", "secret", revoked).
			named("after a change of the password").fails(t, "confirmEmailChange", "secret:INVALID_TOKEN")

		// Without a session, or in that of another user, the secret is enough; that session goes
		// on.
		user.done("requestEmailChange", "email", "last@example.com", "password", "a new long password")
		other.done("confirmEmailChange", "secret", a.mailedSecret("last@example.com"))
		if other.viewer() != "other@example.com" || user.viewer() != "" {
			t.Errorf("sessions of %q and %q", other.viewer(), user.viewer())
		}
	})
}

// TestChangeToAnAddressOfAnotherUser: the caller cannot see that the address is known, before or
// after the mail.
func TestChangeToAnAddressOfAnotherUser(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		statements := dbtest.WatchStatements(d)
		a := newApp(t, d)
		user := a.owner("user@example.com")
		a.owner("known@example.com")

		// Each of the two requests below replaces an earlier one.
		user.done("requestEmailChange", "email", "first@example.com", "password", password)

		var bodies []string
		var taken []int
		for _, email := range []string{"unknown@example.com", "known@example.com"} {
			a.clock.Add(time.Hour)
			statements.Take()
			bodies = append(bodies, user.done("requestEmailChange", "email", email, "password", password).Body)
			taken = append(taken, len(statements.Take()))
		}
		if bodies[0] != bodies[1] || taken[0] != taken[1] {
			t.Errorf("answers %v with %v statements", bodies, taken)
		}

		if mails := a.mailsTo("known@example.com"); !strings.HasSuffix(mails, "email_known") {
			t.Errorf("the known address gets %s", mails)
		}
		data, err := dbtest.Rows[string](d, "SELECT data FROM mails WHERE kind = 'email_known'")
		if err != nil || len(data) != 1 || strings.Contains(data[0], model.EmailPrefix) {
			t.Errorf("the notice holds %v, %v", data, err)
		}

		// Another user gets the address before the confirmation.
		user.done("requestEmailChange", "email", "raced@example.com", "password", password)
		secret := a.mailedSecret("raced@example.com")
		a.owner("raced@example.com")
		user.do("confirmEmailChange", "secret", secret).named("a race").fails(t, "confirmEmailChange", "secret:EMAIL_TAKEN")
		equal(t, user.viewer(), "user@example.com", "the address")
	})
}

// TestChangesOfAddressesAreThrottled bounds the mails to one address, and of one user.
func TestChangesOfAddressesAreThrottled(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		user, other := a.owner("user@example.com"), a.owner("other@example.com")
		ask := func(c *client, email string) string {
			a.clock.Add(5 * time.Second) // within the rate limit
			return c.do("requestEmailChange", "email", email, "password", password).codes()
		}

		var codes []string
		for range 4 {
			codes = append(codes, ask(user, "victim@example.com"))
		}
		if got := strings.Join(codes, ","); got != ",,," {
			// The fourth waits for a second, which has passed.
			t.Errorf("four requests: %q", got)
		}
		if got := ask(other, "victim@example.com"); got != "" && got != "RATE_LIMITED" {
			t.Errorf("another user: %q", got)
		}

		refused := false
		for range 8 {
			refused = refused || ask(user, "victim@example.com") == "RATE_LIMITED"
		}
		if !refused {
			t.Error("12 requests for one address are accepted within a minute")
		}
	})
}

// Without mail no address can be confirmed.
func TestChangeOfAddressWithoutMail(t *testing.T) {
	eachAppWith(t, noMail, func(t *testing.T, a *app) {
		user := a.owner("user@example.com")
		user.do("requestEmailChange", "email", "new@example.com", "password", password).
			fails(t, "requestEmailChange", ":NO_MAIL_SERVER")
	})
}
