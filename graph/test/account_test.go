package graph_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/tools/dbtest"
)

const (
	sessionCookie = "tallygate_session"
	deviceCookie  = "tallygate_device"
)

func TestSignUpInAndOut(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		c := a.client()
		equal(t, c.viewer(), "", "before anything: viewer")

		got := c.query(signUpMutation, "email", " Owner@Example.COM ", "password", password, "name", "Example Ltd").ok(t, "signUp")

		want := map[string]any{
			"signUp.viewer.id":           a.ids.Of(nodeid.User, 1),
			"signUp.viewer.email":        "owner@example.com",
			"signUp.viewer.operator":     true,
			"signUp.viewer.account.id":   a.ids.Of(nodeid.Account, 1),
			"signUp.viewer.account.name": "Example Ltd",
		}
		for path, value := range want {
			got.named("%s", path).has(t, path, value)
		}

		equal(t, c.viewer(), "owner@example.com", "after sign-up: viewer")

		c.signOut().ok(t, "signOut")

		equal(t, c.viewer(), "", "after sign-out: viewer")

		// No user has these credentials.
		c.signOut().ok(t, "signOut")

		c.signIn("OWNER@example.com", password).ok(t, "signIn").
			named("sign-in answers").has(t, "signIn.viewer.email", "owner@example.com")
		equal(t, c.viewer(), "owner@example.com", "after sign-in: viewer")
		a.owner("second@example.com").query(`{ viewer { operator } }`).
			named("the second user is an operator as well").has(t, "viewer.operator", false)
	})
}

func TestSignUpReportsEveryMistake(t *testing.T) {
	tests := []struct{ name, email, password, account, want string }{
		{"address", "owner", password, "Example", "email:INVALID_EMAIL"},
		{"address with a name", "Owner <owner@example.com>", password, "Example", "email:INVALID_EMAIL"},
		{"long address", strings.Repeat("a", 250) + "@example.com", password, "Example", "email:INVALID_EMAIL"},
		{"short password", "owner@example.com", "1234567", "Example", "password:INVALID_PASSWORD"},
		{"long password", "owner@example.com", strings.Repeat("x", 1025), "Example", "password:INVALID_PASSWORD"},
		{"empty name", "owner@example.com", password, " ", "accountName:INVALID_NAME"},
		{"control character", "owner@example.com", password, "a\x00b", "accountName:INVALID_NAME"},
		{"web address", "owner@example.com", password, "Win at https://example.com", "accountName:INVALID_NAME"},
		{"another web address", "owner@example.com", password, "Win at WWW.example.com", "accountName:INVALID_NAME"},
		{"everything", "", "", "", "email:INVALID_EMAIL password:INVALID_PASSWORD accountName:INVALID_NAME"},
		{"taken", "TAKEN@example.com", password, "Example", "email:EMAIL_TAKEN"},
	}

	eachAppWith(t, noMail, func(t *testing.T, a *app) {
		a.owner("taken@example.com")

		for _, test := range tests {
			c := a.client()
			got := c.query(signUpMutation, "email", test.email, "password", test.password, "name", test.account)
			if codes := got.userErrors("signUp"); codes != test.want || len(got.Errors) > 0 || got.at("signUp.viewer") != nil {
				t.Errorf("%s: got %s, want userErrors %s and no viewer", test.name, got.Body, test.want)
			}
			equal(t, c.viewer(), "", "%s: signed in all the same", test.name)
		}
	})
}

func TestSignUpPolicies(t *testing.T) {
	t.Parallel()
	tests := []struct {
		policy model.SignupPolicy
		want   [2]string // userErrors of the first and second sign-up
	}{
		{model.SignupsOpen, [2]string{"", ""}},
		{model.SignupsFirstOnly, [2]string{"", ":SIGNUPS_CLOSED"}},
		{model.SignupsClosed, [2]string{":SIGNUPS_CLOSED", ":SIGNUPS_CLOSED"}},
	}
	for _, test := range tests {
		t.Run(test.policy.String(), func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				a := newApp(t, d, func(s *settings) { s.auth.Signups = test.policy })
				for i, want := range test.want {
					got := a.client().signUp(fmt.Sprintf("u%d@example.com", i))
					if codes := got.userErrors("signUp"); codes != want || len(got.Errors) > 0 {
						t.Errorf("sign-up %d: %s, want userErrors %q", i+1, got.Body, want)
					}
				}
			})
		})
	}
}

// Of concurrent sign-ups on an empty installation, one becomes the operator. The others create
// accounts if no mail is sent, and verify their addresses otherwise.
func TestConcurrentFirstSignUps(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string][]setting{"mail": nil, "no mail": {noMail}} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				a := newApp(t, d, settings...)
				const people = 8
				answers := make([]*answer, people)

				var wg sync.WaitGroup
				for i := range people {
					c := a.client()
					wg.Go(func() { answers[i] = c.signUp(fmt.Sprintf("u%d@example.com", i)) })
				}

				wg.Wait()

				operators, others, waiting := 0, 0, 0

				for _, got := range answers {
					got.ok(t, "signUp")

					switch {
					case got.at("signUp.viewer.operator") == true && got.at("signUp.verificationSent") == false:
						operators++
					case got.at("signUp.viewer.operator") == false && got.at("signUp.verificationSent") == false:
						others++
					case got.at("signUp.viewer") == nil && got.at("signUp.verificationSent") == true:
						waiting++
					}
				}

				if operators != 1 || others+waiting != people-1 || (waiting == 0) != (name == "no mail") || others > 0 && waiting > 0 {
					t.Errorf("%d operators, %d others, %d wait for verification", operators, others, waiting)
				}
			})
		})
	}
}

func TestWrongPasswordAndUnknownAddressAnswerAlike(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		a.owner("owner@example.com")
		c := a.client()

		var bodies []string
		for _, try := range [][2]string{
			{"owner@example.com", "wrong password"},
			{"unknown@example.com", "wrong password"},
			{"no address", "wrong password"},
			{"owner@example.com", "short"},
			{"owner@example.com", strings.Repeat("x", 1025)},
		} {
			got := c.signIn(try[0], try[1])
			got.named("%q", try).fails(t, "signIn", ":WRONG_CREDENTIALS").code(t, "").has(t, "signIn.viewer", nil)
			equal(t, got.Header.Get("Set-Cookie"), "", "%q: a cookie was set", try)

			bodies = append(bodies, got.Body)
		}

		for _, body := range bodies {
			equal(t, body, bodies[0], "answers differ: %s and", bodies[0])
		}
	})
}

func TestSignInRenewsAnOldHash(t *testing.T) {
	eachAppWith(t, productHash, func(t *testing.T, a *app) {
		c := a.owner("owner@example.com")
		setOldHash(t, a.db, "owner@example.com")

		for _, try := range []struct {
			password string
			renewed  bool
		}{{"wrong password", false}, {password, true}, {password, true}} {
			c.signIn("owner@example.com", try.password)
			user, err := accounts.New(a.db).UserByEmail(t.Context(), "owner@example.com")
			if err != nil || strings.HasPrefix(user.PasswordHash, "$argon2id$v=19$m=19456,t=2,p=1$") != try.renewed {
				t.Errorf("after %q the hash is %s, error %v; renewed should be %v", try.password, user.PasswordHash, err, try.renewed)
			}
		}
	})
}

func TestSignInThrottle(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		owner.signOut()
		attacker := a.client()
		attacker.address = "198.51.100.7"
		for i := range 5 {
			attacker.signIn("owner@example.com", "wrong password").named("guess %d", i+1).fails(t, "signIn", ":WRONG_CREDENTIALS")
		}

		// The right password is not checked either, from any network.
		for _, address := range []string{"198.51.100.7", "203.0.113.9", "2001:db8::1"} {
			other := a.client()
			other.address = address
			got := other.signIn("owner@example.com", password)
			got.named("during the wait").code(t, "RATE_LIMITED").status(t, http.StatusOK).has(t, "signIn", nil)
			equal(t, got.Errors[0].Extensions["retryAfter"], 1.0, "retryAfter")
		}

		// An unknown address is throttled in the same way.
		for range 5 {
			attacker.signIn("unknown@example.com", "wrong password")
		}

		attacker.signIn("unknown@example.com", "wrong password").named("unknown address").code(t, "RATE_LIMITED")

		// The browser that the owner has used before is not locked out.
		owner.signIn("owner@example.com", password).ok(t, "signIn").
			named("the owner's own browser").has(t, "signIn.viewer.email", "owner@example.com")

		// That did not help the attacker.
		attacker.signIn("owner@example.com", password).named("after the owner signed in").code(t, "RATE_LIMITED")

		// After the wait the right password works, and clears the counter.
		a.clock.Add(time.Second)
		fresh := a.client()
		fresh.address = "203.0.113.9"
		fresh.signIn("owner@example.com", password).ok(t, "signIn")

		for i := range 5 {
			attacker.signIn("owner@example.com", "wrong password").
				named("guess %d after a success", i+1).fails(t, "signIn", ":WRONG_CREDENTIALS")
		}

		attacker.signIn("owner@example.com", "wrong password").named("the sixth").code(t, "RATE_LIMITED")
	})
}

func TestSignInThrottleOfOneNetwork(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		attacker := a.client()
		for i := range 30 {
			// All attempts come from one network of 64 bits.
			attacker.address = fmt.Sprintf("2001:db8:0:1::%x", i+1)
			attacker.signIn(fmt.Sprintf("u%d@example.com", i), "wrong password").
				named("guess %d", i+1).fails(t, "signIn", ":WRONG_CREDENTIALS")
		}

		attacker.signIn("another@example.com", "wrong password").named("guess 31").code(t, "RATE_LIMITED")

		attacker.address = "2001:db8:0:2::1"
		attacker.signIn("another@example.com", "wrong password").
			named("from another network").fails(t, "signIn", ":WRONG_CREDENTIALS")
	})
}

func TestADeviceCookieIsGoodForItsOwnAddressOnly(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		a.owner("owner@example.com")

		// The browser has a device cookie of another address.
		attacker := a.owner("attacker@example.com")
		forger := a.client()
		forger.setCookie(deviceCookie, attacker.cookies()[deviceCookie]+"x")

		for range 5 {
			attacker.signIn("owner@example.com", "wrong password")
		}

		for name, c := range map[string]*client{"another address's": attacker, "a forged": forger} {
			c.signIn("owner@example.com", "wrong password").named("with %s device cookie", name).code(t, "RATE_LIMITED")
		}

		// A known device has a counter of its own.
		for i := range 5 {
			attacker.signIn("attacker@example.com", "wrong password").
				named("guess %d on a known device", i+1).fails(t, "signIn", ":WRONG_CREDENTIALS")
		}

		attacker.signIn("attacker@example.com", password).named("guess 6 on a known device").code(t, "RATE_LIMITED")
	})
}

// TestANewPasswordEndsKnownDevices: a browser that knew the old password is unknown after the
// change; the one that made the change is not.
func TestANewPasswordEndsKnownDevices(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		laptop, thief := a.owner("owner@example.com"), a.client()
		thief.signIn("owner@example.com", password).ok(t, "signIn")
		exhaust := func(c *client) {
			t.Helper()
			for range 5 {
				c.signIn("owner@example.com", "wrong password")
			}
		}

		refused := func(c *client, what string, want bool) {
			t.Helper()
			if got := c.signIn("owner@example.com", "wrong password"); (got.codes() == "RATE_LIMITED") != want {
				t.Errorf("%s: %s", what, got.Body)
			}
		}

		exhaust(a.client())
		refused(a.client(), "an unknown device", true)
		refused(thief, "a known device", false)

		laptop.done("changePassword", "currentPassword", password, "password", "a new password")
		refused(thief, "a device that knew the old password", true)
		refused(laptop, "the device of the change", false)

		// A sign-in with the new password makes a device known again until the next change.
		a.clock.Add(25 * time.Hour)
		thief.signIn("owner@example.com", "a new password").ok(t, "signIn")
		laptop.signIn("owner@example.com", "a new password").ok(t, "signIn")
		exhaust(a.client())
		refused(thief, "known again", false)
		laptop.done("requestPasswordReset", "email", "owner@example.com")
		laptop.done("resetPassword", "token", a.mailedSecret("owner@example.com"), "password", password)
		refused(thief, "after a reset", true)
		refused(laptop, "the device of the reset", true)
	})
}

func TestCookieAttributes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		https           bool
		session, device string
	}{
		{false, "tallygate_session", "tallygate_device"},
		{true, "__Host-tallygate", "__Host-tallygate-device"},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("https %v", test.https), func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				a := newApp(t, d, func(s *settings) { s.https = test.https })
				c := a.client()
				cookies := (&http.Response{Header: c.signUp("owner@example.com").ok(t, "signUp").Header}).Cookies()
				maxAge := map[string]int{test.session: 90 * 24 * 3600, test.device: 365 * 24 * 3600}

				equal(t, len(cookies), 2, "cookies were set")

				for _, cookie := range cookies {
					if maxAge[cookie.Name] == 0 || cookie.MaxAge != maxAge[cookie.Name] || cookie.Path != "/" || cookie.Domain != "" ||
						!cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Secure != test.https {
						t.Errorf("cookie %s", cookie)
					}
				}

				equal(t, c.viewer(), "owner@example.com", "the browser did not keep the cookie")

				ended := (&http.Response{Header: c.signOut().Header}).Cookies()
				if len(ended) != 1 || ended[0].Name != test.session || ended[0].MaxAge >= 0 || ended[0].Value != "" {
					t.Errorf("sign-out sets %v, want the session cookie to end", ended)
				}
			})
		})
	}
}

func TestSignInChangesTheSessionID(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		first := c.cookies()[sessionCookie]
		c.signIn("owner@example.com", password).ok(t, "signIn")

		second := c.cookies()[sessionCookie]
		differ(t, first, second, "the session id did not change")

		thief := a.client()
		thief.setCookie(sessionCookie, first)

		equal(t, thief.viewer(), "", "the old session still belongs to")

		// Session fixation: an attacker's session, stored in the victim's browser, does not become
		// the victim's.
		attacker := a.owner("attacker@example.com")
		planted := attacker.cookies()[sessionCookie]
		victim := a.client()
		victim.setCookie(sessionCookie, planted)
		victim.signIn("owner@example.com", password).ok(t, "signIn")

		differ(t, attacker.viewer(), "owner@example.com", "the attacker's session became the victim's")
		if got := victim.viewer(); got != "owner@example.com" || victim.cookies()[sessionCookie] == planted {
			t.Errorf("the victim is %q with a new id %v", got, victim.cookies()[sessionCookie] != planted)
		}
	})
}

func TestRevokedSessions(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		laptop := a.owner("owner@example.com")
		phone, stolen := a.client(), a.client()
		phone.signIn("owner@example.com", password).ok(t, "signIn")
		stolen.setCookie(sessionCookie, laptop.cookies()[sessionCookie])

		equal(t, stolen.viewer(), "owner@example.com", "the copied cookie does not work to begin with")

		laptop.signOut().ok(t, "signOut")

		equal(t, stolen.viewer(), "", "after sign-out the copied cookie still belongs to")
		equal(t, phone.viewer(), "owner@example.com", "sign-out ended another device's session")

		laptop.signIn("owner@example.com", password).ok(t, "signIn")
		laptop.done("signOut", "everywhere", true)

		if laptop.viewer() != "" || phone.viewer() != "" {
			t.Error("a session outlived signing out everywhere")
		}
	})
}

func TestSessionEndsAfterTwoIdleWeeks(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		a.clock.Add(model.SessionIdle - time.Second)

		differ(t, c.viewer(), "", "ended early")

		a.clock.Add(model.SessionIdle)

		equal(t, c.viewer(), "", "still there after two idle weeks")
		c.query(`{ sites { totalCount } }`).code(t, "UNAUTHENTICATED")
	})
}

func TestABadCookieIsNoSession(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		good := a.owner("owner@example.com").cookies()[sessionCookie]

		other := newApp(t, a.db, func(s *settings) { s.auth.Secret = []byte(strings.Repeat("another!", 4)) })
		for name, value := range map[string]string{
			"empty":          "",
			"garbage":        "%%%",
			"long":           strings.Repeat("A", 5000),
			"changed":        good[:len(good)-1],
			"of another key": other.owner("other@example.com").cookies()[sessionCookie],
			"a device's":     a.owner("device@example.com").cookies()[deviceCookie],
			"unsigned":       "tallygate",
		} {
			c := a.client()
			c.setCookie(sessionCookie, value)

			equal(t, c.viewer(), "", "%s: viewer", name)
			c.signIn("owner@example.com", password).named("%s: signing in over it", name).fails(t, "signIn", "").code(t, "")
			equal(t, c.viewer(), "owner@example.com", "%s: after signing in: viewer", name)
		}

		equal(t, a.log.String(), "", "logged")
	})
}

func TestOneRequestMaySignOutAndInAgain(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		a.owner("second@example.com")
		c := a.owner("owner@example.com")
		c.query(`mutation {
			signOut { userErrors { code } }
			signIn(input: {email: "second@example.com", password: "`+password+`"}) { userErrors { code } }
			createSite(input: {domain: "example.com"}) { userErrors { code } } }`).ok(t, "signIn")

		equal(t, c.viewer(), "second@example.com", "viewer")
		equal(t, c.query(`{ sites { totalCount } }`).at("sites.totalCount"), 1.0, "the site went elsewhere")
	})
}

func TestUserWithoutTheGraphQLHandler(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		request := httptest.NewRequest(http.MethodGet, "/export", nil)
		if user, err := a.auth.Downloader(request); user != nil || err != auth.ErrUnauthenticated {
			t.Errorf("without a cookie: %+v, %v", user, err)
		}

		request = httptest.NewRequest(http.MethodGet, "/export", nil)
		request.AddCookie(&http.Cookie{Name: sessionCookie, Value: c.cookies()[sessionCookie]})

		user, err := a.auth.Downloader(request)
		if err != nil || user == nil || user.Email != "owner@example.com" || user.Account == nil {
			t.Errorf("with the cookie: %+v, %v", user, err)
		}
	})
}
