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
)

func TestSessionsList(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		laptop := a.owner("owner@example.com")
		a.clock.Add(time.Hour)
		phone := a.client()
		phone.signIn("owner@example.com", password).ok(t, "signIn")

		got := phone.query(`{ sessions { id current createdAt lastSeenAt expiresAt } }`).ok(t, "")
		for i, want := range []string{"true 2026-11-20T10:30:00Z 2026-11-20T10:30:00Z 2026-12-04T10:30:00Z", "false 2026-11-20T09:30:00Z 2026-11-20T09:30:00Z 2026-12-04T09:30:00Z"} {
			s := got.at(fmt.Sprintf("sessions.%d", i)).(map[string]any)
			if line := fmt.Sprintf("%v %v %v %v", s["current"], s["createdAt"], s["lastSeenAt"], s["expiresAt"]); line != want {
				t.Errorf("session %d: %s, want %s", i, line, want)
			}
		}

		revoke := func(c *client, id any) *answer {
			return c.query(`mutation($id: ID!) { revokeSession(input: {sessionId: $id}) { sessionId userErrors { field code } } }`, "id", id)
		}

		other, own := got.at("sessions.1.id"), got.at("sessions.0.id")
		revoke(phone, other).ok(t, "revokeSession")

		if laptop.viewer() != "" || phone.viewer() == "" {
			t.Error("the other session did not end, or not it alone")
		}
		if got := revoke(phone, other); got.userErrors("revokeSession") != "sessionId:NOT_FOUND" {
			t.Errorf("a second time: %s", got.Body)
		}

		for _, id := range []string{"", "session_", "session_qw", "session_q6ur", own.(string) + "=", a.unknownOf(nodeid.Site), strings.TrimPrefix(own.(string), "session_")} {
			if got := revoke(phone, id); got.userErrors("revokeSession") != "sessionId:NOT_FOUND" {
				t.Errorf("%q: %s", id, got.Body)
			}
		}

		revoke(phone, own).ok(t, "revokeSession")

		if phone.viewer() != "" || phone.cookies()[sessionCookie] != "" {
			t.Error("the own session continues, or its cookie remains")
		}
	})
}

const changePasswordMutation = `mutation($current: String!, $password: String!) {
	changePassword(input: {currentPassword: $current, password: $password}) { viewer { email } userErrors { field code } } }`

func TestChangePassword(t *testing.T) {
	t.Parallel()
	const next = "a new password"
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
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
			if got := laptop.query(changePasswordMutation, "current", test.current, "password", test.password); got.userErrors("changePassword") != test.want || phone.viewer() == "" {
				t.Errorf("%+v: %s", test, got.Body)
			}
		}

		laptop.query(changePasswordMutation, "current", password, "password", next).ok(t, "changePassword")

		if laptop.viewer() == "" || laptop.cookies()[sessionCookie] == before {
			t.Error("the session ended, or kept its id")
		}
		if phone.viewer() != "" {
			t.Error("another session outlived the change")
		}

		thief := a.client()
		thief.setCookie(sessionCookie, before)

		if thief.viewer() != "" {
			t.Error("the old id still works")
		}
		if got := phone.signIn("owner@example.com", password); got.userErrors("signIn") != ":WRONG_CREDENTIALS" {
			t.Errorf("the old password: %s", got.Body)
		}

		phone.signIn("owner@example.com", next).ok(t, "signIn")
	})
}

// TestRemainingAPITokensAreListed: a password change and a reset both return the API tokens, which
// remain valid.
func TestRemainingAPITokensAreListed(t *testing.T) {
	t.Parallel()
	const fields = `{ apiTokens { id name scopes hint lastUsedAt } userErrors { field code } } }`
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		c := a.owner("owner@example.com")
		token := c.createToken("READ", "WRITE")
		a.owner("other@example.com").createToken("READ")
		a.with(token.secret, `{ viewer { id } }`).ok(t, "")
		want := []any{map[string]any{"id": token.id, "name": "test", "scopes": []any{"READ", "WRITE"}, "hint": token.secret[len(token.secret)-4:], "lastUsedAt": "2026-11-20T09:30:00Z"}}

		change := `mutation($current: String!, $password: String!) { changePassword(input: {currentPassword: $current, password: $password}) ` + fields
		if got := c.query(change, "current", "wrong password", "password", "a new password"); !reflect.DeepEqual(got.at("changePassword.apiTokens"), []any{}) {
			t.Errorf("a wrong password: %s", got.Body)
		}

		got := c.query(change, "current", password, "password", "a new password").ok(t, "changePassword")
		if list := got.at("changePassword.apiTokens"); !reflect.DeepEqual(list, want) {
			t.Errorf("a change lists %v, want %v", list, want)
		}

		c.query(requestResetMutation, "email", "owner@example.com").ok(t, "requestPasswordReset")
		reset := `mutation($token: String!, $password: String!) { resetPassword(input: {token: $token, password: $password}) ` + fields
		got = c.query(reset, "token", a.mailedSecret("owner@example.com"), "password", "another password").ok(t, "resetPassword")
		if list := got.at("resetPassword.apiTokens"); !reflect.DeepEqual(list, want) {
			t.Errorf("a reset lists %v, want %v", list, want)
		}
		if got := c.query(reset, "token", "tgr_wrong", "password", "another password"); !reflect.DeepEqual(got.at("resetPassword.apiTokens"), []any{}) {
			t.Errorf("a wrong link: %s", got.Body)
		}
	})
}

func TestGuessingTheCurrentPasswordIsThrottled(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		c := a.client()
		stolen := a.owner("owner@example.com").cookies()[sessionCookie]
		c.setCookie(sessionCookie, stolen)

		for range 5 {
			if got := c.query(changePasswordMutation, "current", "wrong password", "password", "a new password"); got.userErrors("changePassword") == "" {
				t.Fatalf("got %s", got.Body)
			}
		}

		if got := c.query(changePasswordMutation, "current", password, "password", "a new password"); got.codes() != "RATE_LIMITED" {
			t.Errorf("got %s", got.Body)
		}
	})
}

const (
	requestResetMutation = `mutation($email: String!) { requestPasswordReset(input: {email: $email}) { userErrors { field code } } }`
	resetMutation        = `mutation($token: String!, $password: String!) { resetPassword(input: {token: $token, password: $password}) { userErrors { field code } } }`
)

func TestPasswordReset(t *testing.T) {
	t.Parallel()
	const next = "a new password"
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		laptop := a.owner("owner@example.com")
		c := a.client()
		request := func() string {
			c.query(requestResetMutation, "email", " Owner@Example.com").ok(t, "requestPasswordReset")
			return a.mailedSecret("owner@example.com")
		}

		reset := func(token, password string) string {
			return c.query(resetMutation, "token", token, "password", password).userErrors("resetPassword")
		}

		first := request()
		second := request()
		for name, token := range map[string]string{
			"replaced": first, "unknown": model.NewSecret("tgr_"), "of another kind": model.NewSecret("tgi_"), "empty": "", "cut off": second[:len(second)-1],
		} {
			if got := reset(token, next); got != "token:INVALID_TOKEN" {
				t.Errorf("a token that is %s: %q", name, got)
			}
		}

		if got := reset(second, "short"); got != "password:INVALID_PASSWORD" {
			t.Errorf("a short password: %q", got)
		}
		if laptop.viewer() == "" {
			t.Error("what failed ended the session")
		}

		a.clock.Add(model.ResetLifetime - time.Second)

		if got := reset(second, next); got != "" {
			t.Fatalf("just in time: %q", got)
		}
		if c.viewer() != "" || laptop.viewer() != "" {
			t.Error("a user is signed in after the reset")
		}
		if got := reset(second, "yet another password"); got != "token:INVALID_TOKEN" {
			t.Errorf("a second time: %q", got)
		}

		c.signIn("owner@example.com", next).ok(t, "signIn")

		late := request()
		a.clock.Add(model.ResetLifetime)

		if got := reset(late, next); got != "token:INVALID_TOKEN" {
			t.Errorf("after an hour: %q", got)
		}
		if n, err := accounts.New(d).DeleteExpiredSecrets(t.Context(), model.At(a.clock.Now())); err != nil || n != 1 {
			t.Errorf("housekeeping: %d, %v", n, err)
		}

		// Another password change invalidates the mailed secret too.
		pending := request()
		c.query(changePasswordMutation, "current", next, "password", password).ok(t, "changePassword")

		if got := reset(pending, next); got != "token:INVALID_TOKEN" {
			t.Errorf("after another change: %q", got)
		}
	})
}

// A password that changes after it was checked starts no session. On SQLite the session may come
// first; the change then ends it.
func TestASignInMeetsAChangeOfThePassword(t *testing.T) {
	t.Parallel()
	const next = "a new password"
	for name, change := range map[string]func(*app, *client) *answer{
		"a reset": func(a *app, _ *client) *answer {
			return a.client().query(resetMutation, "token", a.mailedSecret("owner@example.com"), "password", next).ok(a.t, "resetPassword")
		},
		"a change": func(a *app, owner *client) *answer {
			return owner.query(changePasswordMutation, "current", password, "password", next).ok(a.t, "changePassword")
		},
	} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				a := newApp(t, d)
				owner, thief := a.owner("owner@example.com"), a.client()
				owner.query(requestResetMutation, "email", "owner@example.com").ok(t, "requestPasswordReset")
				var got *answer

				// The password has been checked and is right.
				dbtest.Race(t, d, `DELETE FROM "signin_failures"`,
					func() error { got = thief.signIn("owner@example.com", password); return nil },
					func() error { change(a, owner); return nil })

				if wrong := got.userErrors("signIn"); wrong != ":WRONG_CREDENTIALS" && (wrong != "" || d.Dialect() == "postgres") {
					t.Errorf("the sign-in: %s", got.Body)
				}
				if thief.viewer() != "" {
					t.Error("the old password has a session after the change")
				}

				owner.signIn("owner@example.com", next).ok(t, "signIn")
			})
		})
	}
}

// A password with a hash of lower cost is rehashed when it is checked, and can be changed right
// after.
func TestChangePasswordRenewsAnOldHash(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d, productHash)
		c := a.owner("owner@example.com")
		setOldHash(t, d, "owner@example.com")
		c.query(changePasswordMutation, "current", password, "password", "a new password").ok(t, "changePassword")

		if c.viewer() == "" {
			t.Error("the session has ended")
		}

		c.signIn("owner@example.com", "a new password").ok(t, "signIn")
	})
}

// Two concurrent sign-ins that renew the same old hash both succeed.
func TestTwoSignInsRenewAnOldHash(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d, productHash)
		a.owner("owner@example.com")
		setOldHash(t, d, "owner@example.com")
		phone, laptop := a.client(), a.client()
		dbtest.Race(t, d, `SET password_hash`,
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

	user, err := accounts.New(d).UserByEmail(t.Context(), email)
	if err != nil {
		t.Fatal(err)
	}

	old, err := argon2id.CreateHash(password, &argon2id.Params{Memory: 8 * 1024, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32})
	if err != nil {
		t.Fatal(err)
	}
	if done, err := accounts.New(d).SetPasswordHash(t.Context(), user.ID, user.PasswordHash, old); !done || err != nil {
		t.Fatal(done, err)
	}
}

func TestOneResetWinsOfMany(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		a.owner("owner@example.com").query(requestResetMutation, "email", "owner@example.com").ok(t, "requestPasswordReset")
		token := a.mailedSecret("owner@example.com")
		const people = 6
		answers := make([]string, people)

		var wg sync.WaitGroup
		for i := range people {
			c := a.client()
			wg.Go(func() {
				answers[i] = c.query(resetMutation, "token", token, "password", fmt.Sprintf("password %d", i)).userErrors("resetPassword")
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

		if won != 1 {
			t.Errorf("%d resets by one token", won)
		}
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
			got := c.query(requestResetMutation, "email", email)
			return got.Body, values.ReplaceAllString(strings.Join(statements.Take(), "\n"), "?")
		}

		// The last two requests are throttled.
		for i := range 5 {
			body, known := ask("owner@example.com")
			other, unknown := ask("unknown@example.com")
			if body != other || known != unknown {
				t.Errorf("request %d: %s by\n%s\nand %s by\n%s", i, body, known, other, unknown)
			}
			if throttled := strings.Contains(body, "RATE_LIMITED"); throttled != (i >= 3) {
				t.Errorf("request %d: %s", i, body)
			}
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

		if got := c.query(requestResetMutation, "email", "no address"); got.userErrors("requestPasswordReset") != "email:INVALID_EMAIL" {
			t.Errorf("no address: %s", got.Body)
		}

		// The throttle of resets does not delay sign-ins.
		c.signIn("owner@example.com", password).ok(t, "signIn")
	})
}

// An attacker can change IPv6 networks of 64 bits freely, so those of 48 bits count as well.
func TestAWideNetworkIsThrottledAsWell(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		c := a.client()
		request := func(address string, i int) *answer {
			c.address = address
			return c.query(requestResetMutation, "email", fmt.Sprintf("u%d@example.com", i))
		}

		// Send 20 from each of 10 narrow networks.
		for i := range 200 {
			request(fmt.Sprintf("2001:db8:1:%x::1", i/20), i).ok(t, "requestPasswordReset")
		}

		if got := request("2001:db8:1:ffff::1", 201); got.codes() != "RATE_LIMITED" {
			t.Errorf("from a fresh network of 64 bits: %s", got.Body)
		}

		request("2001:db8:2:ffff::1", 202).ok(t, "requestPasswordReset")
	})
}

func TestSignUpThrottle(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		a.owner("taken@example.com")
		c := a.client()
		c.address = "198.51.100.7"

		// This is the fifth request for this address.
		for range 4 {
			c.signUp("taken@example.com")
		}

		if got := c.signUp("taken@example.com"); got.codes() != "RATE_LIMITED" {
			t.Errorf("many times one address: %s", got.Body)
		}

		for i := range 16 {
			c.signUp(fmt.Sprintf("u%d@example.com", i)).ok(t, "signUp")
		}

		if got := c.signUp("one-more@example.com"); got.codes() != "RATE_LIMITED" {
			t.Errorf("many from one network: %s", got.Body)
		}

		c.address = "203.0.113.9"
		c.signUp("one-more@example.com").ok(t, "signUp")
	})
}
