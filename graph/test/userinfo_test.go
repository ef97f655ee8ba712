package graph_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestClaims checks which claims sign a person in, by where the provider has them: in the ID token
// or at its userinfo endpoint. Each case is a sign-in of its own.
func TestClaims(t *testing.T) {
	t.Parallel()
	const anna = "anna@corp.example"
	type object = map[string]any

	tests := []struct {
		name     string
		token    object // claims of the ID token; nil removes one
		userinfo object // nil: there is no such endpoint
		status   int    // of the endpoint; 0: 200
		trusts   bool
		claim    string // that sets roles
		want     string // problem, or role
		asked    bool
	}{
		{name: "a token with all", want: "VIEWER", userinfo: object{"sub": "person-1"}},
		{name: "a thin token", token: object{"email": nil, "email_verified": nil}, asked: true, want: "VIEWER",
			userinfo: object{"sub": "person-1", "email": anna, "email_verified": true}},
		{name: "verified by a text", token: object{"email": nil, "email_verified": nil}, asked: true, want: "VIEWER",
			userinfo: object{"sub": "person-1", "email": anna, "email_verified": "true"}},
		{name: "only the address in the token", token: object{"email_verified": nil}, asked: true, want: "VIEWER",
			userinfo: object{"sub": "person-1", "email": anna, "email_verified": true}},
		{name: "another person's userinfo", token: object{"email": nil}, asked: true, want: "token",
			userinfo: object{"sub": "person-2", "email": anna, "email_verified": true}},
		{name: "userinfo without a person", token: object{"email": nil}, asked: true, want: "token",
			userinfo: object{"email": anna, "email_verified": true}},
		{name: "another address verified", token: object{"email_verified": nil}, asked: true, want: "email",
			userinfo: object{"sub": "person-1", "email": "other@corp.example", "email_verified": true}},
		{name: "the token says no", token: object{"email": nil, "email_verified": false}, asked: true, want: "email",
			userinfo: object{"sub": "person-1", "email": anna, "email_verified": true}},
		{name: "userinfo says no of its own address", token: object{"email": nil}, asked: true, want: "email",
			userinfo: object{"sub": "person-1", "email": anna, "email_verified": false}},
		{name: "userinfo says no", token: object{"email_verified": nil}, asked: true, want: "email",
			userinfo: object{"sub": "person-1", "email": anna, "email_verified": false}},
		{name: "an address of another domain", token: object{"email": nil, "email_verified": nil}, asked: true, want: "email",
			userinfo: object{"sub": "person-1", "email": "anna@other.example", "email_verified": true}},
		{name: "an object for the address", token: object{"email": object{}, "email_verified": nil}, asked: true, want: "email",
			userinfo: object{"sub": "person-1", "email": anna, "email_verified": true}},
		{name: "a userinfo that cannot be read", token: object{"email": nil}, asked: true, want: "unavailable",
			userinfo: object{"sub": "person-1", "email": object{}, "email_verified": true}},
		{name: "userinfo fails", token: object{"email": nil}, asked: true, status: 500, want: "unavailable", userinfo: object{}},
		{name: "a huge userinfo", token: object{"email": nil}, asked: true, want: "unavailable",
			userinfo: object{"sub": "person-1", "email": anna, "more": strings.Repeat("x", 1<<20)}},
		{name: "no userinfo", token: object{"email": nil}, want: "email"},
		{name: "no word about the address", token: object{"email_verified": nil}, want: "email"},

		{name: "trusted without a word", trusts: true, token: object{"email_verified": nil}, want: "VIEWER", userinfo: object{"sub": "person-1"}},
		{name: "trusted with the word no", trusts: true, token: object{"email_verified": false}, want: "email"},
		{name: "trusted, but of another domain", trusts: true, token: object{"email": "a@other.example", "email_verified": nil}, want: "email"},

		{name: "a role in a path", claim: "realm_access.roles", token: object{"realm_access": object{"roles": []any{"staff"}}}, want: "MEMBER"},
		{name: "a name with dots", claim: "https://corp.example/roles", token: object{"https://corp.example/roles": "staff"}, want: "MEMBER"},
		{name: "a path through a name with dots", claim: "access.my.app.roles", want: "MEMBER",
			token: object{"access": object{"my.app": object{"roles": []any{"staff"}}}}},
		{name: "a role of userinfo", claim: "realm_access.roles", asked: true, want: "MEMBER",
			userinfo: object{"sub": "person-1", "realm_access": object{"roles": []any{"guest", "staff"}}}},
		{name: "no role anywhere", claim: "realm_access.roles", asked: true, want: "VIEWER",
			userinfo: object{"sub": "person-1", "realm_access": "staff"}},
		{name: "a role that could not be read", claim: "groups", asked: true, status: 502, want: "unavailable", userinfo: object{}},
	}

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p, dns := newFakeProvider(t), testkit.NewDNS(t)
		a := newApp(t, d, withProviders(p, dns))
		owner := a.owner("owner@corp.example")
		owner.provide(p, dns, nil)

		for i, test := range tests {
			asked := false
			p.subject = "person-1"
			p.claims = func(c map[string]any) {
				maps.Copy(c, test.token)
				maps.DeleteFunc(c, func(_ string, value any) bool { return value == nil })
			}
			p.userinfo = nil
			if test.userinfo != nil {
				p.userinfo = func(w http.ResponseWriter) {
					asked = true
					w.WriteHeader(max(http.StatusOK, test.status))
					_ = json.NewEncoder(w).Encode(test.userinfo)
				}
			}

			// The metadata, which names the endpoint, is read again.
			a.clock.Add(25 * time.Hour)
			more := map[string]any{"trustsEmails": test.trusts}
			if test.claim != "" {
				more["roleClaim"], more["roles"] = test.claim, []any{map[string]any{"value": "staff", "role": "MEMBER"}}
			}
			owner.provide(p, dns, more)

			c := a.client()
			c.address = fmt.Sprintf("192.0.2.%d", i+1)
			got := c.callback(p, anna, nil).Get("problem")
			if got == "" {
				got = c.finish(map[string]any{}).ok(t, "finishProviderSignIn").at("finishProviderSignIn.viewer.role").(string)
			}
			if got != test.want || asked != test.asked {
				t.Errorf("%s: %s, want %s; userinfo asked: %v, want %v\n%s", test.name, got, test.want, asked, test.asked, a.log)
			}
		}
	})
}

// failsAt answers one path of a provider as a proxy without the server behind it.
func failsAt(path string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == path {
			http.Error(w, "a word of the proxy", http.StatusBadGateway)
		}
		return r.URL.Path == path
	}
}

// TestOwnerReadsWhatIsWrong checks that a provider is asked when it is saved with a secret, and
// that nothing is stored if it refuses.
func TestOwnerReadsWhatIsWrong(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		p, dns := newFakeProvider(t), testkit.NewDNS(t)
		a := newApp(t, d, withProviders(p, dns))
		owner := a.owner("owner@corp.example")
		input := map[string]any{
			"password": password, "issuer": p.issuer(), "clientId": "tallygate", "clientSecret": "right", "domain": "corp.example",
		}
		save := func(more map[string]any) *answer {
			changed := maps.Clone(input)
			maps.Copy(changed, more)
			return owner.query(setProviderMutation, "input", changed)
		}

		p.secret = "right"
		redirect := owner.query(`{ account { providerRedirectUrl } }`).at("account.providerRedirectUrl").(string)
		for _, test := range []struct {
			name   string
			change map[string]any
			lie    func()
			want   string
			says   string
		}{
			{"a slash", map[string]any{"issuer": p.issuer() + "/"}, nil, "issuer:OTHER_ISSUER", fmt.Sprintf("%q", p.issuer())},
			{"a wrong secret", map[string]any{"clientSecret": "wrong"}, nil, "clientId:PROVIDER_REFUSES_CLIENT", "invalid_client"},
			{"another redirect address", nil, func() { p.registered = redirect + "/" }, "clientId:PROVIDER_REFUSES_CLIENT", "400"},
			{"a client that may not sign in", nil, func() {
				p.wrap = func(w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path != "/authorize" {
						return false
					}
					http.Redirect(w, r, r.URL.Query().Get("redirect_uri")+"?error=unauthorized_client", http.StatusFound)
					return true
				}
			}, "clientId:PROVIDER_REFUSES_CLIENT", "unauthorized_client"},
			{"a page with a fault", nil, func() { p.wrap = failsAt("/authorize") }, "issuer:PROVIDER_UNAVAILABLE", "502"},
			{"metadata with a fault", nil, func() { p.wrap = failsAt("/.well-known/openid-configuration") }, "issuer:PROVIDER_UNAVAILABLE", "502"},
		} {
			p.registered, p.wrap = "", nil
			if test.lie != nil {
				test.lie()
			}
			got := save(test.change)
			if code := got.userErrors("setAccountProvider"); code != test.want || !strings.Contains(got.Body, strings.Trim(test.says, `"`)) ||
				strings.Contains(got.Body, "a word of the proxy") {
				t.Errorf("%s: %s", test.name, got.Body)
			}
		}
		equal(t, value(dbtest.Count(d, "account_providers"))(t), 0, "rows of account_providers")

		// A provider that answers each code with tokens refuses nothing.
		p.wrap = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/token" {
				fmt.Fprint(w, `{"access_token": "access", "token_type": "Bearer"}`)
			}
			return r.URL.Path == "/token"
		}
		save(nil).ok(t, "setAccountProvider")

		// With the right settings it is stored. Without a secret no call is made, so that an owner
		// can change the rest while the provider is away.
		p.registered, p.wrap = "", nil
		save(nil).ok(t, "setAccountProvider")
		p.server.Close()
		save(map[string]any{"clientSecret": nil, "defaultRole": "MEMBER"}).ok(t, "setAccountProvider")
		save(map[string]any{"clientSecret": "right"}).
			named("a provider that is away").fails(t, "setAccountProvider", "issuer:PROVIDER_UNAVAILABLE")
	})
}
