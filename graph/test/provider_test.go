package graph_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/provider"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestProviderSignIn checks that a new person of a verified domain joins the account, signs in
// again, and signs out at the provider as well.
func TestProviderSignIn(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		p, dns := newFakeProvider(t), testkit.NewDNS(t)
		a := newApp(t, d, withProviders(p, dns))
		owner := a.owner("owner@corp.example")

		// Without the record, no one signs in.
		input := map[string]any{
			"password": password, "issuer": p.issuer(), "clientId": "tallygate", "clientSecret": "s3cret", "domain": "CORP.example",
		}
		owner.query(setProviderMutation, "input", input).ok(t, "setAccountProvider")
		equal(t, owner.do("verifyProviderDomain").userErrors("verifyProviderDomain"), ":NO_DNS_RECORD", "without a record")
		unknown := a.client()
		unknown.do("startProviderSignIn", "email", "anna@corp.example").
			named("an unverified domain").fails(t, "startProviderSignIn", "email:NO_PROVIDER")
		input["required"] = true
		owner.query(setProviderMutation, "input", input).
			named("required before the domain is verified").fails(t, "setAccountProvider", "required:DOMAIN_NOT_VERIFIED")
		owner.provide(p, dns, nil)

		// Only the address of the account's provider is the account's.
		own := owner.query(`{ account { id providerRedirectUrl } }`).ok(t, "")
		want := strings.TrimSuffix(a.url, "graphql") + "sign-in/callback/" + own.at("account.id").(string)
		used := a.client().started("anna@corp.example").Query().Get("redirect_uri")
		if own.at("account.providerRedirectUrl") != want || used != want {
			t.Errorf("the redirect address is shown as %v and used as %s, want %s", own.at("account.providerRedirectUrl"), used, want)
		}

		for round := range 2 {
			anna := a.client()
			query := anna.callback(p, "Anna@corp.example", nil)
			if query.Get("provider") != "finish" || query.Get("next") != "/sites/new" {
				t.Fatalf("round %d: the callback leads to %v\n%s", round, query, a.log)
			}
			done := anna.finish(map[string]any{}).ok(t, "finishProviderSignIn")
			if done.at("finishProviderSignIn.viewer.email") != "anna@corp.example" || done.at("finishProviderSignIn.viewer.role") != "VIEWER" {
				t.Fatalf("round %d: %s", round, done.Body)
			}
			anna.query(`{ viewer { email account { name } } sessions { current } }`).ok(t, "").
				named("round %d", round).has(t, "sessions.0.current", true)

			// The same sign-in counts once.
			equal(t, anna.finish(map[string]any{}).userErrors("finishProviderSignIn"), ":PROVIDER_EXPIRED", "a repeated end")

			out := anna.query(`mutation { signOut { providerUrl userErrors { code } } }`).ok(t, "signOut").at("signOut.providerUrl")
			want := p.issuer() + "/logout?client_id=tallygate&post_logout_redirect_uri=" +
				url.QueryEscape(strings.TrimSuffix(a.url, "/graphql")+"/sign-in")
			if out != want {
				t.Errorf("the sign-out leads to %v, want %v", out, want)
			}
			anna.query(`{ viewer { email } }`).named("after the sign-out").has(t, "viewer", nil)
		}

		log := owner.query(`{ account { auditLog(first: 50) { nodes { action } } } }`)
		for _, action := range []string{"finishProviderSignIn", "setAccountProvider", "verifyProviderDomain"} {
			log.named("the audit log has no %s", action).shows(t, action)
		}
		equal(t, value(dbtest.Count(d, "identities"))(t), 1, "rows of identities")
	})
}

// TestHostileTokens checks that no answer of a provider signs anyone in that OpenID Connect
// forbids.
func TestHostileTokens(t *testing.T) {
	t.Parallel()
	claim := func(name string, value any) func(*fakeProvider) {
		return func(p *fakeProvider) { p.claims = func(c map[string]any) { c[name] = value } }
	}
	tests := []struct {
		name   string
		lie    func(*fakeProvider)
		answer func(url.Values)
		want   string
	}{
		{name: "wrong audience", lie: claim("aud", "another client"), want: "token"},
		{name: "two audiences without azp", lie: claim("aud", []string{"tallygate", "other"}), want: "token"},
		{name: "azp of another client", lie: claim("azp", "another client"), want: "token"},
		{name: "wrong issuer", lie: claim("iss", "https://accounts.example"), want: "token"},
		{name: "wrong nonce", lie: claim("nonce", "another"), want: "token"},
		{name: "no nonce", lie: func(p *fakeProvider) { p.claims = func(c map[string]any) { delete(c, "nonce") } }, want: "token"},
		{name: "no subject", lie: claim("sub", ""), want: "token"},
		{name: "long subject", lie: claim("sub", strings.Repeat("x", 256)), want: "token"},
		{name: "expired", lie: claim("exp", start.Add(-2*time.Minute).Unix()), want: "clock"},
		{name: "not valid yet", lie: claim("nbf", start.Add(time.Hour).Unix()), want: "clock"},
		{name: "issued in the future", lie: claim("iat", start.Add(time.Hour).Unix()), want: "clock"},
		{name: "unverified address", lie: claim("email_verified", false), want: "email"},
		{name: "address verified by a text", lie: claim("email_verified", "yes"), want: "email"},
		{name: "no word about the address", lie: func(p *fakeProvider) {
			p.claims = func(c map[string]any) { delete(c, "email_verified") }
		}, want: "email"},
		{name: "no address", lie: func(p *fakeProvider) { p.claims = func(c map[string]any) { delete(c, "email") } }, want: "email"},
		{name: "address of another domain", lie: claim("email", "owner@other.example"), want: "email"},
		{name: "address of a subdomain", lie: claim("email", "anna@sub.corp.example"), want: "email"},
		{name: "two addresses", lie: claim("email", "owner@other.example, anna@corp.example"), want: "email"},
		{name: "unknown key", lie: func(p *fakeProvider) { p.sign = signRS256(strangeKey) }, want: "token"},
		{name: "algorithm none", lie: func(p *fakeProvider) { p.sign = unsigned }, want: "token"},
		{name: "HMAC with the public key", lie: func(p *fakeProvider) { p.sign = signHMAC(publicPEM()) }, want: "token"},
		{name: "HMAC with the secret", lie: func(p *fakeProvider) { p.sign = signHMAC([]byte("the client secret")) }, want: "token"},
		{name: "no token", lie: func(p *fakeProvider) { p.sign = func(_, _ string) string { return "" } }, want: "misconfigured"},
		{name: "mix-up", answer: func(q url.Values) { q.Set("iss", "https://accounts.example") }, want: "token"},
		{name: "wrong state", answer: func(q url.Values) { q.Set("state", "another") }, want: "expired"},
		{name: "no state", answer: func(q url.Values) { q.Del("state") }, want: "expired"},
		{name: "unknown code", answer: func(q url.Values) { q.Set("code", "another") }, want: "misconfigured"},
		{name: "refusal", answer: func(q url.Values) { q.Set("error", "access_denied") }, want: "refused"},
		{name: "huge answer", lie: func(p *fakeProvider) {
			p.wrap = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/token" {
					fmt.Fprintf(w, `{"access_token": %q}`, strings.Repeat("x", 2<<20))
				}
				return r.URL.Path == "/token"
			}
		}, want: "misconfigured"},
		{name: "redirect to a private address", lie: func(p *fakeProvider) {
			p.wrap = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/token" {
					http.Redirect(w, r, "https://10.0.0.1/", http.StatusTemporaryRedirect)
				}
				return r.URL.Path == "/token"
			}
		}, want: "misconfigured"},
	}

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p, dns := newFakeProvider(t), testkit.NewDNS(t)
		a := newApp(t, d, withProviders(p, dns))
		a.owner("owner@corp.example").provide(p, dns, nil)

		for i, test := range tests {
			p.claims, p.sign, p.wrap = nil, nil, nil
			if test.lie != nil {
				test.lie(p)
			}
			c := a.client()
			c.address = fmt.Sprintf("192.0.2.%d", i+1)
			if got := c.callback(p, "anna@corp.example", test.answer); got.Get("problem") != test.want || got.Has("provider") {
				t.Errorf("%s: the page gets %v, want %s", test.name, got, test.want)
			}
			c.finish(map[string]any{}).
				named("%s: the end of the sign-in answers", test.name).fails(t, "finishProviderSignIn", ":PROVIDER_EXPIRED")
		}
		equal(t, value(dbtest.Count(d, "identities"))(t), 0, "rows of identities")

		// A replayed answer calls no provider, and another browser's answer is none.
		p.claims, p.sign, p.wrap = nil, nil, nil
		c := a.client()
		var sent url.Values
		if got := c.callback(p, "anna@corp.example", func(q url.Values) { sent = q }); got.Get("provider") != "finish" {
			t.Fatalf("an honest answer: %v", got)
		}
		calls, redirect := p.calls, a.client().started("anna@corp.example").Query().Get("redirect_uri")
		if got := a.client().answer(redirect, sent); got.Get("problem") != "expired" {
			t.Errorf("an answer to another browser: %v", got)
		}

		// A reload, and a forged answer, do not end the browser's sign-in.
		for _, answer := range []url.Values{sent, {"state": {"forged"}}} {
			if got := c.answer(redirect, answer); got.Get("provider") != "finish" || got.Has("problem") {
				t.Errorf("a repeated answer: %v", got)
			}
		}
		equal(t, p.calls, calls, "a replayed answer calls the provider")
		c.finish(map[string]any{}).ok(t, "finishProviderSignIn")

		// It does not outlive its time either.
		c = a.client()
		c.callback(p, "anna@corp.example", nil)
		a.clock.Add(model.ProviderSignInLifetime)
		equal(t, c.finish(map[string]any{}).userErrors("finishProviderSignIn"), ":PROVIDER_EXPIRED", "a late end")
	})
}

// TestProviderMetadata checks what is refused before a browser is sent anywhere, that failures are
// kept, so that requests do not repeat calls, and that the owner reads the reason.
func TestProviderMetadata(t *testing.T) {
	t.Parallel()
	with := func(name string, value any) func(*fakeProvider) {
		return func(p *fakeProvider) { p.discovery = func(m map[string]any) { m[name] = value } }
	}
	tests := map[string]struct {
		lie         func(*fakeProvider)
		start, save string
	}{
		"another issuer": {with("issuer", "https://accounts.example"), ":PROVIDER_MISCONFIGURED", "issuer:OTHER_ISSUER"},
		"only HMAC": {
			with("id_token_signing_alg_values_supported", []string{"HS256", "none"}),
			":PROVIDER_MISCONFIGURED", "issuer:PROVIDER_MISCONFIGURED",
		},
		"no PKCE": {with("code_challenge_methods_supported", []string{"plain"}), ":PROVIDER_MISCONFIGURED", "issuer:NO_PKCE"},
		"a sign-in page without TLS": {
			with("authorization_endpoint", "http://accounts.example/"), ":PROVIDER_MISCONFIGURED", "issuer:PROVIDER_MISCONFIGURED",
		},
		"userinfo without TLS": {
			with("userinfo_endpoint", "http://accounts.example/"), ":PROVIDER_MISCONFIGURED", "issuer:PROVIDER_MISCONFIGURED",
		},
		"a script as the sign-in page": {
			with("authorization_endpoint", "javascript:alert(1)"), ":PROVIDER_MISCONFIGURED", "issuer:PROVIDER_MISCONFIGURED",
		},
		"huge": {with("more", strings.Repeat("x", 2<<20)), ":PROVIDER_MISCONFIGURED", "issuer:PROVIDER_MISCONFIGURED"},
		"a redirect": {func(p *fakeProvider) {
			p.wrap = func(w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, "https://10.0.0.1/", http.StatusFound)
				return true
			}
		}, ":PROVIDER_MISCONFIGURED", "issuer:PROVIDER_MISCONFIGURED"},
		"slow": {func(p *fakeProvider) {
			p.wrap = func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }
		}, ":PROVIDER_UNAVAILABLE", "issuer:PROVIDER_UNAVAILABLE"},
	}

	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p, calls := newFakeProvider(t), 0
			dns := testkit.NewDNS(t)
			a := newApp(t, d, withProviders(p, dns, func(o *provider.Options) { o.Timeout = 3 * time.Second }))
			domain := strings.ReplaceAll(strings.ToLower(name), " ", "-") + ".example"
			owner := a.owner("owner@" + domain)
			owner.provide(p, dns, map[string]any{"domain": domain})

			// The provider changes, and its metadata is no longer kept.
			test.lie(p)
			a.clock.Add(25 * time.Hour)
			answer := p.wrap
			p.wrap = func(w http.ResponseWriter, r *http.Request) bool {
				calls++
				return answer != nil && answer(w, r)
			}
			for range 2 {
				if got := a.client().do("startProviderSignIn", "email", "anna@"+domain).userErrors("startProviderSignIn"); got != test.start {
					t.Errorf("%s, want %s", got, test.start)
				}
			}
			equal(t, calls, 1, "two requests make")

			a.clock.Add(time.Minute)
			got := owner.query(setProviderMutation, "input", map[string]any{
				"password": password, "issuer": p.issuer(), "clientId": "tallygate", "clientSecret": "s", "domain": domain,
			})
			equal(t, got.userErrors("setAccountProvider"), test.save, "saving")
		})
	}

	t.Run("a private address", func(t *testing.T) {
		p, dns := newFakeProvider(t), testkit.NewDNS(t)
		a := newApp(t, d, withProviders(p, dns, func(o *provider.Options) { o.Allowed = nil }))
		got := a.owner("owner@private.example").query(setProviderMutation, "input", map[string]any{
			"password": password, "issuer": p.issuer(), "clientId": "c", "clientSecret": "s", "domain": "private.example",
		}).userErrors("setAccountProvider")
		equal(t, got, "issuer:INVALID_URL", "an issuer on this machine")
	})

	t.Run("an address that became private", func(t *testing.T) {
		p, dns, calls := newFakeProvider(t), testkit.NewDNS(t), 0
		newApp(t, d, withProviders(p, dns)).owner("owner@moved.example").provide(p, dns, map[string]any{"domain": "moved.example"})
		p.wrap = func(http.ResponseWriter, *http.Request) bool { calls++; return false }
		a := newApp(t, d, withProviders(p, dns, func(o *provider.Options) { o.Allowed = nil }))
		got := a.client().do("startProviderSignIn", "email", "anna@moved.example").userErrors("startProviderSignIn")
		if got != ":PROVIDER_UNAVAILABLE" || calls != 0 {
			t.Errorf("%s after %d calls", got, calls)
		}
	})
}

// TestProviderTakesOverNobody checks that the provider of an account gives access to nothing but
// that account, and to no user who has not proved the address.
func TestProviderTakesOverNobody(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		p, dns := newFakeProvider(t), testkit.NewDNS(t)
		a := newApp(t, d, withProviders(p, dns))

		// The operator owns one account and is a member of another one, whose provider lies.
		victim := a.owner("victim@corp.example")
		token := victim.createToken("READ")
		own := victim.query(`{ viewer { account { id } } }`).at("viewer.account.id")
		hostile := a.owner("owner@hostile.example")
		victim.query(joinMutation, "token", a.invite(hostile, "victim@corp.example", model.RoleViewer)).ok(t, "acceptInvitation")
		hostile.provide(p, dns, nil)
		p.email = "victim@corp.example"

		attacker := a.client()
		attacker.callback(p, "victim@corp.example", nil)
		if got := attacker.finish(map[string]any{}).ok(t, "finishProviderSignIn"); got.at("finishProviderSignIn.needsPassword") != true ||
			got.at("finishProviderSignIn.viewer") != nil {
			t.Fatalf("without a proof: %s", got.Body)
		}
		attacker.finish(map[string]any{"password": "a wrong password"}).
			named("a wrong password").fails(t, "finishProviderSignIn", "password:WRONG_CREDENTIALS")
		attacker.query(`{ viewer { email } }`).named("the attacker is signed in as").has(t, "viewer", nil)

		// The victim proves the address once. From then on the provider signs in, with its account
		// alone.
		attacker.finish(map[string]any{"password": password}).ok(t, "finishProviderSignIn")
		attacker = a.client()
		attacker.callback(p, "victim@corp.example", nil)
		got := attacker.finish(map[string]any{}).ok(t, "finishProviderSignIn")
		if got.at("finishProviderSignIn.viewer.operator") != false || len(got.at("finishProviderSignIn.viewer.accounts").([]any)) != 1 {
			t.Errorf("the provider's session reaches %s", got.Body)
		}
		for _, query := range []string{
			`query($id: ID!) { account(id: $id) { name } }`,
			`mutation($id: ID!) { leaveAccount(input: {accountId: $id}) { userErrors { code } } }`,
			`mutation($id: ID!) { createApiToken(input: {accountId: $id, name: "x", scopes: [READ]}) { apiToken { id } userErrors { code } } }`,
		} {
			attacker.query(query, "id", own).named("%s", query).has(t, "account", nil).hides(t, `"userErrors":[]`)
		}
		attacker.query(`{ apiTokens { id } }`).named("the provider's session lists tokens of another account").hides(t, token.id)
		attacker.do("revokeApiToken", "apiTokenId", token.id).
			named("the provider's session revokes a token of another account").shows(t, "NOT_FOUND")
		if got := attacker.query(`{ sessions { id } }`).ok(t, "").at("sessions").([]any); len(got) != 2 {
			t.Errorf("the provider's session lists %d sessions, want its own 2", len(got))
		}
		attacker.do("createAccount", "name", "mine").named("the provider's session creates an account").code(t, "FORBIDDEN")
		attacker.done("signOut", "everywhere", true)
		victim.query(`{ viewer { email } }`).
			named("the provider's session has ended the victim's").has(t, "viewer.email", "victim@corp.example")

		// A second factor is asked for in addition.
		secret, _ := victim.enableTOTP()
		attacker = a.client()
		attacker.callback(p, "victim@corp.example", nil)
		attacker.finish(map[string]any{}).
			named("without the second factor").has(t, "finishProviderSignIn.viewer", nil).shows(t, "TOTP")
		attacker.finish(map[string]any{"secondFactor": "000000"}).
			named("a wrong second factor").fails(t, "finishProviderSignIn", "secondFactor:INVALID_SECOND_FACTOR")
		attacker.finish(map[string]any{"secondFactor": a.nextCode(secret)}).ok(t, "finishProviderSignIn")
		equal(t, attacker.query(`{ viewer { email } }`).at("viewer.email"), "victim@corp.example", "with the second factor")

		// Its wrong second factors do not delay the victim's own sign-in.
		attacker = a.client()
		attacker.callback(p, "victim@corp.example", nil)
		for range 7 {
			attacker.finish(map[string]any{"secondFactor": "000000"})
		}
		got = a.client().do("signIn", "email", "victim@corp.example", "password", password, "secondFactor", "000000")
		got.named("the victim's sign-in after the provider's failures").fails(t, "signIn", "secondFactor:INVALID_SECOND_FACTOR")
		attacker = a.client()
		a.clock.Add(24 * time.Hour)
		attacker.callback(p, "victim@corp.example", nil)
		attacker.finish(map[string]any{"secondFactor": a.nextCode(secret)}).ok(t, "finishProviderSignIn")

		// The session ends with the provider, and another issuer or client knows no one.
		hostile.query(setProviderMutation, "input", map[string]any{
			"password": password, "issuer": p.issuer(), "clientId": "another", "clientSecret": "s", "domain": "corp.example",
		}).ok(t, "setAccountProvider")
		equal(t, value(dbtest.Count(d, "identities"))(t), 0, "rows of identities")
		hostile.done("deleteAccountProvider", "password", password)
		attacker.query(`{ viewer { email } }`).named("a session outlives its provider").has(t, "viewer", nil)
	})
}

// TestRequiredProvider checks the rule of an account that members sign in through its provider,
// roles of a claim, and people who are invited, guests, or barred by the account's second factor.
func TestRequiredProvider(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		p, dns := newFakeProvider(t), testkit.NewDNS(t)
		a := newApp(t, d, withProviders(p, dns))
		owner := a.owner("owner@corp.example")
		local := a.join(owner, "local@corp.example", model.RoleMember)
		owner.provide(p, dns, map[string]any{
			"required": true, "roleClaim": "groups",
			"roles": []any{map[string]any{"value": "staff", "role": "MEMBER"}, map[string]any{"value": "boss", "role": "OWNER"}},
		})

		local.query(`{ viewer { email } }`).named("a member's session of a password goes on").has(t, "viewer", nil)
		a.client().signIn("local@corp.example", password).
			named("a member signs in by password").fails(t, "signIn", ":PROVIDER_REQUIRED")
		a.client().signIn("owner@corp.example", password).ok(t, "signIn")

		// An invitation is not consumed by a person who could not sign in.
		invited := a.invite(owner, "invited@corp.example", model.RoleMember)
		for range 2 {
			got := a.client().query(joinMutation, "token", invited, "password", password).userErrors("acceptInvitation")
			equal(t, got, ":PROVIDER_REQUIRED", "a new person accepts an invitation")
		}

		// A user of another account joins, and reaches the account only through the provider.
		elsewhere := a.owner("elsewhere@other.example")
		joined := elsewhere.query(joinMutation, "token", a.invite(owner, "elsewhere@other.example", model.RoleMember)).ok(t, "acceptInvitation")
		if list := joined.at("acceptInvitation.viewer.accounts").([]any); len(list) != 1 || joined.at("acceptInvitation.viewer.role") != "OWNER" {
			t.Errorf("the joined user reaches %s", joined.Body)
		}

		groups := func(email string, values ...any) *answer {
			t.Helper()
			p.email, p.subject = email, "subject of "+email
			p.claims = func(c map[string]any) { c["groups"] = values }
			c := a.client()
			c.callback(p, email, nil)
			return c.finish(map[string]any{"password": password})
		}
		for i, test := range []struct {
			email  string
			groups []any
			want   string
		}{
			{"local@corp.example", []any{"staff"}, "MEMBER"},
			{"local@corp.example", []any{"boss", "staff"}, "OWNER"},
			{"local@corp.example", []any{"other", 7}, "VIEWER"},
			{"owner@corp.example", []any{"staff"}, "OWNER"}, // the last owner stays
			{"new@corp.example", nil, "VIEWER"},
			{"new@corp.example", []any{"staff"}, "MEMBER"},
		} {
			got := groups(test.email, test.groups...)
			if role := got.at("finishProviderSignIn.viewer.role"); role != test.want {
				t.Errorf("%d: %s with %v is %v, want %s: %s", i, test.email, test.groups, role, test.want, got.Body)
			}
		}

		// An invitation that waits makes a guest, whose rights no claim changes.
		site := owner.createSite("corp.example").ok(t, "createSite").at("createSite.site.id")
		owner.query(`mutation($id: ID!) { inviteMember(input: {email: "guest@corp.example", role: VIEWER, siteIds: [$id]}) {
			invitation { id } userErrors { code } } }`, "id", site).ok(t, "inviteMember")
		for range 2 {
			groups("guest@corp.example", "boss").named("a guest").has(t, "finishProviderSignIn.viewer.role", "VIEWER")
		}
		equal(t, value(dbtest.Count(d, "guests"))(t), 1, "rows of guests")

		// The account's rule of second factors is not weakened.
		owner.enableTOTP()
		owner.done("setAccountSecurity", "password", password, "requireSecondFactor", true)
		p.email, p.subject = "new@corp.example", "subject of new@corp.example"
		c := a.client()
		c.callback(p, "new@corp.example", nil)
		c.finish(map[string]any{}).ok(t, "finishProviderSignIn")
		c.query(`{ sites(first: 1) { edges { node { id } } } }`).
			named("a member without a second factor").code(t, "SECOND_FACTOR_REQUIRED")

		// New people cannot join a suspended account, and members go on reading.
		user := value(accounts.New(d).UserByEmail(t.Context(), "owner@corp.example"))(t)
		must(t, dbtest.Exec(d, "UPDATE accounts SET suspended_at = 1, require_second_factor = ? WHERE id = ?", false, user.AccountID))
		groups("late@corp.example").named("a new person of a suspended account").fails(t, "finishProviderSignIn", ":NO_ACCOUNT")
		groups("new@corp.example").
			named("a member of a suspended account").has(t, "finishProviderSignIn.viewer.email", "new@corp.example")
	})
}

// TestInstallationProvider checks the provider of the whole installation.
func TestInstallationProvider(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		p, dns := newFakeProvider(t), testkit.NewDNS(t)
		a := newApp(t, d, withProviders(p, dns), func(s *settings) {
			s.auth.Signups = model.SignupsFirstOnly
			s.auth.ProviderName = "Corp"
			s.auth.Provider = provider.Settings{Issuer: p.issuer(), ClientID: "installation", ClientSecret: "s", Trusted: true}
		})

		through := func(input map[string]any) *answer {
			t.Helper()
			c := a.client()
			c.callback(p, nil, nil)
			return c.finish(input)
		}
		equal(t, through(map[string]any{}).userErrors("finishProviderSignIn"), ":NO_ACCOUNT", "the first user of an installation")

		owner := a.owner("owner@corp.example")
		equal(t, owner.query(`{ installation { provider } }`).at("installation.provider"), "Corp", "the provider's name")
		equal(t, through(map[string]any{}).userErrors("finishProviderSignIn"), ":NO_ACCOUNT", "an unknown person")
		owner.done("inviteMember", "email", "anna@corp.example", "role", "MEMBER")

		// An invitation of a suspended account waits, and is not consumed.
		suspend := func(at int) {
			must(t, dbtest.Exec(d, "UPDATE accounts SET suspended_at = ?", at))
		}
		suspend(1)
		through(map[string]any{}).
			named("an invited person of a suspended account").fails(t, "finishProviderSignIn", ":NO_ACCOUNT")
		suspend(0)
		equal(t, through(map[string]any{}).at("finishProviderSignIn.viewer.role"), "MEMBER", "an invited person has the role")

		p.email, p.subject = "owner@corp.example", "person-2"
		equal(t, through(map[string]any{}).at("finishProviderSignIn.needsPassword"), true, "an existing user needs no proof")
		through(map[string]any{"password": password}).
			named("the operator's session does not operate").has(t, "finishProviderSignIn.viewer.operator", true)

		// A user who is deleted is unknown again.
		must(t, dbtest.Exec(d, "DELETE FROM users WHERE email = ?", "anna@corp.example"))
		p.email, p.subject = "anna@corp.example", "person-1"
		equal(t, through(map[string]any{}).userErrors("finishProviderSignIn"), ":NO_ACCOUNT", "a deleted user")
	})
}
