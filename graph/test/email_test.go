package graph_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

const (
	requestEmailMutation = `mutation($email: String!, $password: String!) { requestEmailChange(input: {email: $email, password: $password}) {
		userErrors { field code } } }`
	confirmEmailMutation = `mutation($secret: String!) { confirmEmailChange(input: {secret: $secret}) { email userErrors { field code } } }`
)

// mailsTo returns the kinds of the mails to an address, oldest first.
func (a *app) mailsTo(recipient string) string {
	a.t.Helper()
	rows, err := dbtest.Rows[string](a.db, "SELECT kind FROM mails WHERE recipient = ? ORDER BY id", recipient)
	if err != nil {
		a.t.Fatal(err)
	}
	return strings.Join(rows, " ")
}

func TestChangeOfAddress(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		user, other := a.owner("old@example.com"), a.owner("other@example.com")
		phone := a.client()
		phone.signIn("old@example.com", password).ok(t, "signIn")
		token := user.createToken("READ")

		for _, try := range []struct{ email, password, want string }{
			{"no-domain", password, "email:INVALID_EMAIL"}, {"OLD@example.com", password, "email:INVALID_EMAIL"},
			{"new@example.com", "not the password", "password:WRONG_CREDENTIALS"}, {"new@example.com", "", "password:WRONG_CREDENTIALS"},
		} {
			if got := user.query(requestEmailMutation, "email", try.email, "password", try.password); got.userErrors("requestEmailChange") != try.want {
				t.Errorf("%s with %q: %s", try.email, try.password, got.Body)
			}
		}
		if mails := a.mailsTo("new@example.com"); mails != "" {
			t.Errorf("refused requests mail %s", mails)
		}

		// A second request revokes the first one's secret.
		user.query(requestEmailMutation, "email", "mistyped@example.com", "password", password).ok(t, "requestEmailChange")
		replaced := a.mailedSecret("mistyped@example.com")
		user.query(requestEmailMutation, "email", " New@example.com ", "password", password).ok(t, "requestEmailChange")
		secret := a.mailedSecret("new@example.com")

		if rows, err := dbtest.Dump(d, "email_changes"); err != nil || len(rows) != 1 || strings.Contains(rows[0], secret) {
			t.Errorf("the table: %v, %v", rows, err)
		}
		if mails := a.mailsTo("new@example.com"); mails != "email_change" {
			t.Errorf("the new address gets %s", mails)
		}

		phone.query(requestResetMutation, "email", "old@example.com").ok(t, "requestPasswordReset")
		reset := a.mailedSecret("old@example.com")

		for name, wrong := range map[string]string{
			"replaced": replaced, "unknown": model.NewSecret(model.EmailPrefix), "empty": "", "of another kind": reset,
		} {
			if got := user.query(confirmEmailMutation, "secret", wrong); got.userErrors("confirmEmailChange") != "secret:INVALID_TOKEN" {
				t.Errorf("a secret that is %s: %s", name, got.Body)
			}
		}

		got := user.query(confirmEmailMutation, "secret", secret).ok(t, "confirmEmailChange")
		if got.at("confirmEmailChange.email") != "new@example.com" || user.viewer() != "new@example.com" {
			t.Errorf("confirming: %s", got.Body)
		}
		if phone.viewer() != "" {
			t.Error("another session goes on")
		}
		if got := a.with(token.secret, `{ viewer { email } }`); got.at("viewer.email") != "new@example.com" {
			t.Errorf("the token: %s", got.Body)
		}
		if got := user.query(confirmEmailMutation, "secret", secret); got.userErrors("confirmEmailChange") != "secret:INVALID_TOKEN" {
			t.Errorf("a second time: %s", got.Body)
		}
		if got := phone.query(resetMutation, "token", reset, "password", password); got.userErrors("resetPassword") != "token:INVALID_TOKEN" {
			t.Errorf("an earlier reset: %s", got.Body)
		}
		if mails := a.mailsTo("old@example.com"); mails != "sign_up email_requested email_requested email_changed" &&
			mails != "email_requested email_requested email_changed" {
			t.Errorf("the old address got %s", mails)
		}

		if got := phone.signIn("old@example.com", password); got.userErrors("signIn") != ":WRONG_CREDENTIALS" {
			t.Errorf("the old address signs in: %s", got.Body)
		}
		phone.signIn("new@example.com", password).ok(t, "signIn")

		// An hour later, a secret has expired. A change of the password revokes it.
		user.query(requestEmailMutation, "email", "next@example.com", "password", password).ok(t, "requestEmailChange")
		a.clock.Add(model.EmailChangeLifetime)
		if got := user.query(confirmEmailMutation, "secret", a.mailedSecret("next@example.com")); got.userErrors("confirmEmailChange") != "secret:INVALID_TOKEN" {
			t.Errorf("after an hour: %s", got.Body)
		}

		user.query(requestEmailMutation, "email", "next@example.com", "password", password).ok(t, "requestEmailChange")
		revoked := a.mailedSecret("next@example.com")
		user.query(`mutation($was: String!, $new: String!) { changePassword(input: {currentPassword: $was, password: $new}) { userErrors { code } } }`,
			"was", password, "new", "a new long password").ok(t, "changePassword")
		if got := user.query(confirmEmailMutation, "secret", revoked); got.userErrors("confirmEmailChange") != "secret:INVALID_TOKEN" {
			t.Errorf("after a change of the password: %s", got.Body)
		}

		// Without a session, or in that of another user, the secret is enough; that session goes
		// on.
		user.query(requestEmailMutation, "email", "last@example.com", "password", "a new long password").ok(t, "requestEmailChange")
		other.query(confirmEmailMutation, "secret", a.mailedSecret("last@example.com")).ok(t, "confirmEmailChange")
		if other.viewer() != "other@example.com" || user.viewer() != "" {
			t.Errorf("sessions of %q and %q", other.viewer(), user.viewer())
		}
	})
}

// TestChangeToAnAddressOfAnotherUser: the caller cannot see that the address is known, before or
// after the mail.
func TestChangeToAnAddressOfAnotherUser(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		statements := dbtest.WatchStatements(d)
		a := newApp(t, d)
		user := a.owner("user@example.com")
		a.owner("known@example.com")

		// Each of the two requests below replaces an earlier one.
		user.query(requestEmailMutation, "email", "first@example.com", "password", password).ok(t, "requestEmailChange")

		var bodies []string
		var taken []int
		for _, email := range []string{"unknown@example.com", "known@example.com"} {
			a.clock.Add(time.Hour)
			statements.Take()
			bodies = append(bodies, user.query(requestEmailMutation, "email", email, "password", password).ok(t, "requestEmailChange").Body)
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
		user.query(requestEmailMutation, "email", "raced@example.com", "password", password).ok(t, "requestEmailChange")
		secret := a.mailedSecret("raced@example.com")
		a.owner("raced@example.com")
		if got := user.query(confirmEmailMutation, "secret", secret); got.userErrors("confirmEmailChange") != "secret:EMAIL_TAKEN" {
			t.Errorf("a race: %s", got.Body)
		}
		if user.viewer() != "user@example.com" {
			t.Errorf("the address is %s", user.viewer())
		}
	})
}

// TestChangesOfAddressesAreThrottled bounds the mails to one address, and of one user.
func TestChangesOfAddressesAreThrottled(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		user, other := a.owner("user@example.com"), a.owner("other@example.com")
		ask := func(c *client, email string) string {
			a.clock.Add(5 * time.Second) // within the rate limit
			return c.query(requestEmailMutation, "email", email, "password", password).codes()
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
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d, noMail)
		user := a.owner("user@example.com")
		if got := user.query(requestEmailMutation, "email", "new@example.com", "password", password); got.userErrors("requestEmailChange") != ":NO_MAIL_SERVER" {
			t.Errorf("got %s", got.Body)
		}
	})
}
