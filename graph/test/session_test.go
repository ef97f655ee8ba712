package graph_test

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestSessionsList(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		laptop := a.owner("owner@example.com")
		a.clock.Add(time.Hour)
		phone := a.client()
		phone.signIn("owner@example.com", password).ok(t, "signIn")

		got := phone.query(`{ sessions { id current createdAt lastSeenAt expiresAt } }`).ok(t, "")
		for i, want := range []string{
			"true 2026-11-20T10:30:00Z 2026-11-20T10:30:00Z 2026-12-04T10:30:00Z",
			"false 2026-11-20T09:30:00Z 2026-11-20T09:30:00Z 2026-12-04T09:30:00Z",
		} {
			s := got.at(fmt.Sprintf("sessions.%d", i)).(map[string]any)
			if line := fmt.Sprintf("%v %v %v %v", s["current"], s["createdAt"], s["lastSeenAt"], s["expiresAt"]); line != want {
				t.Errorf("session %d: %s, want %s", i, line, want)
			}
		}

		revoke := func(c *client, id any) *answer {
			return c.do("revokeSession", "sessionId", id)
		}

		other, own := got.at("sessions.1.id"), got.at("sessions.0.id")
		revoke(phone, other).ok(t, "revokeSession")

		if laptop.viewer() != "" || phone.viewer() == "" {
			t.Error("the other session did not end, or not it alone")
		}
		revoke(phone, other).named("a second time").fails(t, "revokeSession", "sessionId:NOT_FOUND")

		for _, id := range []string{
			"", "session_", "session_qw", "session_q6ur", own.(string) + "=", a.unknownOf(nodeid.Site),
			strings.TrimPrefix(own.(string), "session_"),
		} {
			revoke(phone, id).named("%q", id).fails(t, "revokeSession", "sessionId:NOT_FOUND")
		}

		revoke(phone, own).ok(t, "revokeSession")

		if phone.viewer() != "" || phone.cookies()[sessionCookie] != "" {
			t.Error("the own session continues, or its cookie remains")
		}
	})
}

func TestChangePassword(t *testing.T) {
	const next = "a new password"
	eachApp(t, func(t *testing.T, a *app) {
		laptop := a.owner("owner@example.com")
		phone := a.client()
		phone.signIn("owner@example.com", password).ok(t, "signIn")
		before := laptop.cookies()[sessionCookie]

		for _, test := range []struct{ current, password, want string }{
			{"wrong password", next, "currentPassword:WRONG_CREDENTIALS"},
			{"short", next, "currentPassword:WRONG_CREDENTIALS"},
			{password, "short", "password:INVALID_PASSWORD"},
			{password, strings.Repeat("x", 1025), "password:INVALID_PASSWORD"},
		} {
			if got := laptop.do("changePassword", "currentPassword", test.current, "password",
				test.password); got.userErrors("changePassword") != test.want || phone.viewer() == "" {
				t.Errorf("%+v: %s", test, got.Body)
			}
		}

		laptop.done("changePassword", "currentPassword", password, "password", next)

		if laptop.viewer() == "" || laptop.cookies()[sessionCookie] == before {
			t.Error("the session ended, or kept its id")
		}
		equal(t, phone.viewer(), "", "another session outlived the change")

		thief := a.client()
		thief.setCookie(sessionCookie, before)

		equal(t, thief.viewer(), "", "the old id still works")
		phone.signIn("owner@example.com", password).named("the old password").fails(t, "signIn", ":WRONG_CREDENTIALS")

		phone.signIn("owner@example.com", next).ok(t, "signIn")
	})
}

// TestRemainingAPITokensAreListed: a password change and a reset both return the API tokens, which
// remain valid.
func TestRemainingAPITokensAreListed(t *testing.T) {
	const fields = `{ apiTokens { id name scopes hint lastUsedAt } userErrors { field code } } }`
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		token := c.createToken("READ", "WRITE")
		a.owner("other@example.com").createToken("READ")
		a.with(token.secret, `{ viewer { id } }`).ok(t, "")
		want := []any{map[string]any{
			"id": token.id, "name": "test", "scopes": []any{"READ", "WRITE"}, "hint": token.secret[len(token.secret)-4:],
			"lastUsedAt": "2026-11-20T09:30:00Z",
		}}

		change := `mutation($current: String!, $password: String!) { changePassword(input: {currentPassword: $current, password: $password}) ` + fields
		if got := c.query(change, "current", "wrong password", "password",
			"a new password"); !reflect.DeepEqual(got.at("changePassword.apiTokens"), []any{}) {
			t.Errorf("a wrong password: %s", got.Body)
		}

		got := c.query(change, "current", password, "password", "a new password").ok(t, "changePassword")
		testkit.DeepEqual(t, got.at("changePassword.apiTokens"), want, "a change lists")

		c.done("requestPasswordReset", "email", "owner@example.com")
		reset := `mutation($token: String!, $password: String!) { resetPassword(input: {token: $token, password: $password}) ` + fields
		got = c.query(reset, "token", a.mailedSecret("owner@example.com"), "password", "another password").ok(t, "resetPassword")
		testkit.DeepEqual(t, got.at("resetPassword.apiTokens"), want, "a reset lists")
		if got := c.query(reset, "token", "tgr_wrong", "password", "another password"); !reflect.DeepEqual(got.at("resetPassword.apiTokens"), []any{}) {
			t.Errorf("a wrong link: %s", got.Body)
		}
	})
}

func TestGuessingTheCurrentPasswordIsThrottled(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		c := a.client()
		stolen := a.owner("owner@example.com").cookies()[sessionCookie]
		c.setCookie(sessionCookie, stolen)

		for range 5 {
			if got := c.do("changePassword", "currentPassword", "wrong password", "password", "a new password"); got.userErrors("changePassword") == "" {
				t.Fatalf("got %s", got.Body)
			}
		}

		c.do("changePassword", "currentPassword", password, "password", "a new password").code(t, "RATE_LIMITED")
	})
}

func TestPasswordReset(t *testing.T) {
	const next = "a new password"
	eachApp(t, func(t *testing.T, a *app) {
		laptop := a.owner("owner@example.com")
		c := a.client()
		request := func() string {
			c.done("requestPasswordReset", "email", " Owner@Example.com")
			return a.mailedSecret("owner@example.com")
		}

		reset := func(token, password string) string {
			return c.do("resetPassword", "token", token, "password", password).userErrors("resetPassword")
		}

		first := request()
		second := request()
		for name, token := range map[string]string{
			"replaced": first, "unknown": model.NewSecret("tgr_"), "of another kind": model.NewSecret("tgi_"), "empty": "", "cut off": second[:len(second)-1],
		} {
			equal(t, reset(token, next), "token:INVALID_TOKEN", "a token that is %s", name)
		}

		equal(t, reset(second, "short"), "password:INVALID_PASSWORD", "a short password")
		differ(t, laptop.viewer(), "", "what failed ended the session")

		a.clock.Add(model.ResetLifetime - time.Second)

		equal(t, reset(second, next), "", "just in time")
		if c.viewer() != "" || laptop.viewer() != "" {
			t.Error("a user is signed in after the reset")
		}
		equal(t, reset(second, "yet another password"), "token:INVALID_TOKEN", "a second time")

		c.signIn("owner@example.com", next).ok(t, "signIn")

		late := request()
		a.clock.Add(model.ResetLifetime)

		equal(t, reset(late, next), "token:INVALID_TOKEN", "after an hour")
		if n, err := accounts.New(a.db).DeleteExpiredSecrets(t.Context(), model.At(a.clock.Now())); err != nil || n != 1 {
			t.Errorf("housekeeping: %d, %v", n, err)
		}

		// Another password change invalidates the mailed secret too.
		pending := request()
		c.done("changePassword", "currentPassword", next, "password", password)

		equal(t, reset(pending, next), "token:INVALID_TOKEN", "after another change")
	})
}

// A password that changes after it was checked starts no session. On SQLite the session may come
// first; the change then ends it.
func TestASignInMeetsAChangeOfThePassword(t *testing.T) {
	t.Parallel()
	const next = "a new password"
	for name, change := range map[string]func(*app, *client) *answer{
		"a reset": func(a *app, _ *client) *answer {
			return a.client().done("resetPassword", "token", a.mailedSecret("owner@example.com"), "password", next)
		},
		"a change": func(a *app, owner *client) *answer {
			return owner.done("changePassword", "currentPassword", password, "password", next)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				a := newApp(t, d)
				owner, thief := a.owner("owner@example.com"), a.client()
				owner.done("requestPasswordReset", "email", "owner@example.com")
				var got *answer

				// The password has been checked and is right.
				dbtest.Race(t, d, `DELETE FROM "signin_failures"`,
					func() error { got = thief.signIn("owner@example.com", password); return nil },
					func() error { change(a, owner); return nil })

				if wrong := got.userErrors("signIn"); wrong != ":WRONG_CREDENTIALS" && (wrong != "" || d.Dialect() == "postgres") {
					t.Errorf("the sign-in: %s", got.Body)
				}
				equal(t, thief.viewer(), "", "the old password has a session after the change")

				owner.signIn("owner@example.com", next).ok(t, "signIn")
			})
		})
	}
}

// A password with a hash of lower cost is rehashed when it is checked, and can be changed right
// after.
func TestChangePasswordRenewsAnOldHash(t *testing.T) {
	eachAppWith(t, productHash, func(t *testing.T, a *app) {
		c := a.owner("owner@example.com")
		setOldHash(t, a.db, "owner@example.com")
		c.done("changePassword", "currentPassword", password, "password", "a new password")

		differ(t, c.viewer(), "", "the session has ended")

		c.signIn("owner@example.com", "a new password").ok(t, "signIn")
	})
}

// Two concurrent sign-ins that renew the same old hash both succeed.
func TestTwoSignInsRenewAnOldHash(t *testing.T) {
	eachAppWith(t, productHash, func(t *testing.T, a *app) {
		a.owner("owner@example.com")
		setOldHash(t, a.db, "owner@example.com")
		phone, laptop := a.client(), a.client()
		dbtest.Race(t, a.db, `SET password_hash`,
			func() error { phone.signIn("owner@example.com", password).ok(t, "signIn"); return nil },
			func() error { laptop.signIn("owner@example.com", password).ok(t, "signIn"); return nil })

		if phone.viewer() == "" || laptop.viewer() == "" {
			t.Error("one of them is not signed in")
		}
	})
}

// setOldHash stores the hash of the test password at a lower cost.
func setOldHash(t *testing.T, d *db.DB, email string) {
	t.Helper()
	setHash(t, d, email, password)
}

// setHash stores the hash of a password at a lower cost.
func setHash(t *testing.T, d *db.DB, email, password string) {
	t.Helper()

	user := value(accounts.New(d).UserByEmail(t.Context(), email))(t)

	old := value(argon2id.CreateHash(password, &argon2id.Params{Memory: 8 * 1024, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}))(t)
	if done, err := accounts.New(d).SetPasswordHash(t.Context(), user.ID, user.PasswordHash, old); !done || err != nil {
		t.Fatal(done, err)
	}
}

func TestOneResetWinsOfMany(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		a.owner("owner@example.com").done("requestPasswordReset", "email", "owner@example.com")
		token := a.mailedSecret("owner@example.com")
		const people = 6
		answers := make([]string, people)

		var wg sync.WaitGroup
		for i := range people {
			c := a.client()
			wg.Go(func() {
				answers[i] = c.do("resetPassword", "token", token, "password", fmt.Sprintf("password %d", i)).userErrors("resetPassword")
			})
		}

		wg.Wait()
		won := 0

		for i, wrong := range answers {
			switch wrong {
			case "":
				won++
				a.client().signIn("owner@example.com", fmt.Sprintf("password %d", i)).ok(t, "signIn")
			case "token:INVALID_TOKEN":
			default:
				t.Errorf("got %q", wrong)
			}
		}

		equal(t, won, 1, "resets by one token")
	})
}

// An unknown address gets the same response by the same statements; only the values differ.
func TestAResetTellsNobodyWhoHasAnAccount(t *testing.T) {
	t.Parallel()
	values := regexp.MustCompile(`'[^']*'|\\x[0-9a-f]+|X?\d+`)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		statements := dbtest.WatchStatements(d)
		a := newApp(t, d)
		a.owner("owner@example.com")
		c := a.client()
		ask := func(email string) (string, string) {
			statements.Take()
			got := c.do("requestPasswordReset", "email", email)
			return got.Body, values.ReplaceAllString(strings.Join(statements.Take(), "\n"), "?")
		}

		// The last two requests are throttled.
		for i := range 5 {
			body, known := ask("owner@example.com")
			other, unknown := ask("unknown@example.com")
			if body != other || known != unknown {
				t.Errorf("request %d: %s by\n%s\nand %s by\n%s", i, body, known, other, unknown)
			}
			equal(t, strings.Contains(body, "RATE_LIMITED"), (i >= 3), "request %d: %s", i, body)
		}

		rows, err := dbtest.Rows[model.Mail](d, "SELECT * FROM mails ORDER BY id")
		if err != nil || len(rows) != 4 {
			t.Fatalf("%d mails, %v; want the last one of the owner, and three to unknown addresses", len(rows), err)
		}

		for _, m := range rows {
			if nobodys := m.Recipient == ""; nobodys != (m.State == model.MailSkipped) || nobodys != (m.Data == "{}") {
				t.Errorf("a mail %+v", m)
			}
		}

		c.do("requestPasswordReset", "email", "no address").
			named("no address").fails(t, "requestPasswordReset", "email:INVALID_EMAIL")

		// The throttle of resets does not delay sign-ins.
		c.signIn("owner@example.com", password).ok(t, "signIn")
	})
}

// An attacker can change IPv6 networks of 64 bits freely, so those of 48 bits count as well.
func TestAWideNetworkIsThrottledAsWell(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		c := a.client()
		request := func(address string, i int) *answer {
			c.address = address
			return c.do("requestPasswordReset", "email", fmt.Sprintf("u%d@example.com", i))
		}

		// Send 20 from each of 10 narrow networks.
		for i := range 200 {
			request(fmt.Sprintf("2001:db8:1:%x::1", i/20), i).ok(t, "requestPasswordReset")
		}

		request("2001:db8:1:ffff::1", 201).named("from a fresh network of 64 bits").code(t, "RATE_LIMITED")

		request("2001:db8:2:ffff::1", 202).ok(t, "requestPasswordReset")
	})
}

func TestSignUpThrottle(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		a.owner("taken@example.com")
		c := a.client()
		c.address = "198.51.100.7"

		// This is the fifth request for this address.
		for range 4 {
			c.signUp("taken@example.com")
		}

		c.signUp("taken@example.com").named("many times one address").code(t, "RATE_LIMITED")

		for i := range 16 {
			c.signUp(fmt.Sprintf("u%d@example.com", i)).ok(t, "signUp")
		}

		c.signUp("one-more@example.com").named("many from one network").code(t, "RATE_LIMITED")

		c.address = "203.0.113.9"
		c.signUp("one-more@example.com").ok(t, "signUp")
	})
}
