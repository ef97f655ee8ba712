package graph_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// Only the first account is created before its address is verified.
func TestSignUpVerifiesTheAddress(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		a.client().signUp("operator@example.com").ok(t, "signUp").
			named("the first account").has(t, "signUp.viewer.operator", true).has(t, "signUp.verificationSent", false)

		c := a.client()
		got := c.query(signUpMutation, "email", " New@Example.com ", "password", password, "name", "Example Ltd").ok(t, "signUp")
		if got.at("signUp.viewer") != nil || got.at("signUp.verificationSent") != true || got.Header.Get("Set-Cookie") != "" || c.viewer() != "" {
			t.Fatalf("before the verification: %s", got.Body)
		}
		if n, err := dbtest.Count(a.db, "accounts"); n != 1 || err != nil {
			t.Fatalf("%d accounts, %v; want the operator's", n, err)
		}
		c.signIn("new@example.com", password).named("sign-in before the verification").fails(t, "signIn", ":WRONG_CREDENTIALS")

		secret := a.mailedSecret("new@example.com")
		if rows, err := dbtest.Dump(a.db, "pending_sign_ups"); err != nil || len(rows) != 1 || strings.Contains(rows[0], secret) ||
			strings.Contains(rows[0], password) {
			t.Errorf("the table: %v, %v", rows, err)
		}

		for name, try := range map[string][2]string{
			"unknown": {model.NewSecret("tgs_"), password}, "of another kind": {model.NewSecret("tgi_"), password}, "empty": {"", password},
			"cut off": {secret[:len(secret)-1], password},
		} {
			c.confirm(try[0], try[1]).named("a secret that is %s", name).fails(t, "confirmSignUp", "secret:INVALID_TOKEN")
		}

		for _, wrong := range []string{"another password", "short"} {
			c.confirm(secret, wrong).named("the password %q", wrong).fails(t, "confirmSignUp", "password:WRONG_CREDENTIALS")
			equal(t, c.viewer(), "", "the password %q", wrong)
		}

		a.clock.Add(model.SignUpLifetime - time.Second)

		// The link can be opened in any browser.
		phone := a.client()
		got = phone.confirm(secret, password).ok(t, "confirmSignUp")
		if got.at("confirmSignUp.viewer.email") != "new@example.com" || got.at("confirmSignUp.viewer.operator") != false ||
			got.at("confirmSignUp.viewer.account.name") != "Example Ltd" || phone.viewer() != "new@example.com" {
			t.Errorf("the confirmation: %s", got.Body)
		}

		c.confirm(secret, password).named("a second time").fails(t, "confirmSignUp", "secret:INVALID_TOKEN")

		c.signIn("new@example.com", password).ok(t, "signIn")

		c.query(signUpMutation, "email", "late@example.com", "password", password, "name", "Late").ok(t, "signUp")
		late := a.mailedSecret("late@example.com")
		a.clock.Add(model.SignUpLifetime)

		c.confirm(late, password).named("after a day").fails(t, "confirmSignUp", "secret:INVALID_TOKEN")
		if n, err := accounts.New(a.db).DeleteExpiredSecrets(t.Context(), model.At(a.clock.Now())); n != 1 || err != nil {
			t.Errorf("housekeeping deletes %d, %v", n, err)
		}
	})
}

// An address with an account gets the same response, by the same statements and with as many rows,
// as an unknown one.
func TestASignUpHidesWhoHasAnAccount(t *testing.T) {
	t.Parallel()
	values := regexp.MustCompile(`'[^']*'|\\x[0-9a-f]+|X?\d+`)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		statements := dbtest.WatchStatements(d)
		a := newApp(t, d)
		a.owner("operator@example.com")
		a.owner("known@example.com")
		c := a.client()
		c.address = "198.51.100.7"
		ask := func(email string) (string, string, string) {
			before := rowCounts(t, d)
			statements.Take()
			got := c.signUp(email)
			list := values.ReplaceAllString(strings.Join(statements.Take(), "\n"), "?")

			var made []string
			for table, n := range rowCounts(t, d) {
				if n != before[table] {
					made = append(made, fmt.Sprintf("%s %+d", table, n-before[table]))
				}
			}

			slices.Sort(made)
			return got.Body, list, strings.Join(made, ", ")
		}

		// The last request for each address is throttled; each address was counted as often before.
		for i := range 6 {
			if i == 0 {
				c.address = "198.51.100.8"

				// Count the other address as often as known@example.com.
				ask("unknown@example.com")
				c.address = "198.51.100.7"
			}

			body, known, rows := ask("known@example.com")
			other, unknown, otherRows := ask("unknown@example.com")

			if i == 0 {
				// The first of the two requests has created the counter of the network.
				continue
			}

			if body != other || known != unknown || rows != otherRows {
				t.Errorf("sign-up %d: %s, %s by\n%s\nand %s, %s by\n%s", i, body, rows, known, other, otherRows, unknown)
			}
			if throttled := strings.Contains(body, "RATE_LIMITED"); throttled != (i >= 4) || !throttled && rows != "mails +1, pending_sign_ups +1" {
				t.Errorf("sign-up %d: %s, %s", i, body, rows)
			}
		}

		mails, err := dbtest.Rows[model.Mail](d, "SELECT * FROM mails WHERE recipient = 'known@example.com' AND kind = 'sign_up_known'")
		if err != nil || len(mails) == 0 {
			t.Fatalf("mails %v, %v", mails, err)
		}

		for _, mail := range mails {
			if strings.Contains(mail.Data, "tgs_") || mail.State != model.MailPending {
				t.Errorf("the address that has an account gets %+v", mail)
			}
		}

		owner := a.client()
		owner.address = "203.0.113.9"

		// The user signs in with the old password.
		owner.signIn("known@example.com", password).ok(t, "signIn")
	})
}

func rowCounts(t *testing.T, d *db.DB) map[string]int {
	t.Helper()

	counts := map[string]int{}
	tables, err := dbtest.Tables(d)
	testkit.NoError(t, err)

	for table := range tables {
		if counts[table], err = dbtest.Count(d, table); err != nil {
			t.Fatal(err)
		}
	}

	return counts
}

// A sign-up with another person's address is useless: its link requires the password of the
// sign-up.
func TestASignUpReservesNothing(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		operator := a.owner("operator@example.com")
		attacker, victim := a.client(), a.client()
		signUp := func(c *client, email, password string) string {
			t.Helper()
			c.query(signUpMutation, "email", email, "password", password, "name", "Example").ok(t, "signUp")
			return a.mailedSecret(email)
		}

		first := signUp(attacker, "victim@example.com", "the attacker's password")
		second := signUp(victim, "victim@example.com", password)

		victim.confirm(first, password).
			named("the link of another one's sign-up").fails(t, "confirmSignUp", "password:WRONG_CREDENTIALS")

		victim.confirm(second, password).ok(t, "confirmSignUp")

		attacker.confirm(first, "the attacker's password").
			named("after the address was confirmed").fails(t, "confirmSignUp", "secret:INVALID_TOKEN")

		// An invitation to an address with a pending sign-up works. Confirming the sign-up then
		// returns a clear error.
		third := signUp(attacker, "guest@example.com", password)
		a.join(operator, "guest@example.com", model.RoleViewer)

		got := attacker.confirm(third, password)
		got.named("after the invitation was accepted").fails(t, "confirmSignUp", "secret:EMAIL_TAKEN")
		equal(t, attacker.viewer(), "", "after the invitation was accepted")
		dbtest.HasRows(t, a.db, "accounts", 2, "accounts")
	})
}

// A link works once, also with concurrent uses, and not after sign-ups were closed.
func TestOneConfirmationWinsOfMany(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		a.owner("operator@example.com")
		a.client().signUp("new@example.com").ok(t, "signUp")
		secret := a.mailedSecret("new@example.com")

		closed := newApp(t, a.db, func(s *settings) { s.auth.Signups = model.SignupsFirstOnly })
		closed.client().confirm(secret, password).named("with sign-ups closed since").fails(t, "confirmSignUp", ":SIGNUPS_CLOSED")

		const people = 6
		answers := make([]string, people)

		var wg sync.WaitGroup
		for i := range people {
			c := a.client()
			wg.Go(func() { answers[i] = c.confirm(secret, password).userErrors("confirmSignUp") })
		}

		wg.Wait()
		slices.Sort(answers)

		if got := strings.Join(slices.Compact(answers), ","); answers[0] != "" || answers[1] == "" || got != ",secret:INVALID_TOKEN" {
			t.Errorf("the answers are %q", answers)
		}
		dbtest.HasRows(t, a.db, "accounts", 2, "accounts")
	})
}

// Stored sign-ups are bounded: the newest 10 per address, and 10,000 per installation.
func TestPendingSignUpsAreBounded(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		a.owner("operator@example.com")
		c := a.client()

		var secrets []string
		for range 12 {
			c.signUp("new@example.com").ok(t, "signUp")
			secrets = append(secrets, a.mailedSecret("new@example.com"))

			// Move the clock beyond the wait of every throttle.
			a.clock.Add(15 * time.Minute)
		}

		dbtest.HasRows(t, a.db, "pending_sign_ups", 10, "sign-ups of one address")
		c.confirm(secrets[1], password).named("the second of 12").fails(t, "confirmSignUp", "secret:INVALID_TOKEN")

		now := model.At(a.clock.Now())
		blob := "x'00'"

		if a.db.Dialect() == "postgres" {
			blob = "''::bytea"
		}

		fill := `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9990)
			INSERT INTO pending_sign_ups (email, account_name, password_hash, token_hash, created_at, expires_at)
			SELECT 'x', 'x', 'x', ` + blob + ` || CAST(CAST(i AS text) AS ` +
			map[string]string{"sqlite": "blob", "postgres": "bytea"}[a.db.Dialect()] + `), ?, ? FROM n`
		must(t, dbtest.Exec(a.db, fill, now, now.Add(time.Hour)))

		mails := value(dbtest.Count(a.db, "mails"))(t)

		c.signUp("another@example.com").named("with 10,000 sign-ups").code(t, "UNAVAILABLE").retries(t, 3600.0)
		if n, err := dbtest.Count(a.db, "mails"); n != mails || err != nil {
			t.Errorf("%d mails, were %d, %v", n, mails, err)
		}

		// A stored sign-up can still be confirmed.
		c.confirm(secrets[11], password).ok(t, "confirmSignUp")
		a.clock.Add(time.Hour)
		c.signUp("another@example.com").ok(t, "signUp")
	})
}

// An installation without a mail server creates accounts immediately.
func TestSignUpWithoutMail(t *testing.T) {
	eachAppWith(t, noMail, func(t *testing.T, a *app) {
		a.owner("operator@example.com")
		c := a.client()
		got := c.signUp("new@example.com").ok(t, "signUp")
		if got.at("signUp.viewer.email") != "new@example.com" || got.at("signUp.verificationSent") != false || c.viewer() != "new@example.com" {
			t.Errorf("got %s", got.Body)
		}
		dbtest.HasRows(t, a.db, "mails", 0, "mails")
	})
}
