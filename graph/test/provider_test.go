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
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p, dns := newFakeProvider(t), testkit.NewDNS(t)
		a := newApp(t, d, withProviders(p, dns))
		owner := a.owner("owner@corp.example")

		// Without the record, no one signs in.
		input := map[string]any{
			"password": password, "issuer": p.issuer(), "clientId": "tallygate", "clientSecret": "s3cret", "domain": "CORP.example",
		}
		owner.query(setProviderMutation, "input", input).ok(t, "setAccountProvider")
		if got := owner.query(verifyDomainMutation).userErrors("verifyProviderDomain"); got != ":NO_DNS_RECORD" {
			t.Errorf("without a record: %s", got)
		}
		unknown := a.client()
		if got := unknown.query(startProviderMutation, "email", "anna@corp.example").userErrors("startProviderSignIn"); got != "email:NO_PROVIDER" {
			t.Errorf("an unverified domain: %s", got)
		}
		input["required"] = true
		if got := owner.query(setProviderMutation, "input", input).userErrors("setAccountProvider"); got != "required:DOMAIN_NOT_VERIFIED" {
			t.Errorf("required before the domain is verified: %s", got)
		}
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
			if got := anna.query(`{ viewer { email account { name } } sessions { current } }`).ok(t, ""); got.at("sessions.0.current") != true {
				t.Errorf("round %d: %s", round, got.Body)
			}

			// The same sign-in counts once.
			if got := anna.finish(map[string]any{}).userErrors("finishProviderSignIn"); got != ":PROVIDER_EXPIRED" {
				t.Errorf("a repeated end: %s", got)
			}

			out := anna.query(`mutation { signOut { providerUrl userErrors { code } } }`).ok(t, "signOut").at("signOut.providerUrl")
			want := p.issuer() + "/logout?client_id=tallygate&post_logout_redirect_uri=" +
				url.QueryEscape(strings.TrimSuffix(a.url, "/graphql")+"/sign-in")
			if out != want {
				t.Errorf("the sign-out leads to %v, want %v", out, want)
			}
			if got := anna.query(`{ viewer { email } }`).at("viewer"); got != nil {
				t.Errorf("after the sign-out: %v", got)
			}
		}

		log := owner.query(`{ account { auditLog(first: 50) { nodes { action } } } }`)
		for _, action := range []string{"finishProviderSignIn", "setAccountProvider", "verifyProviderDomain"} {
			if !strings.Contains(log.Body, action) {
				t.Errorf("the audit log has no %s: %s", action, log.Body)
			}
		}
		if n, err := dbtest.Count(d, "identities"); err != nil || n != 1 {
			t.Errorf("%d identities, %v", n, err)
		}
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
			if got := c.finish(map[string]any{}).userErrors("finishProviderSignIn"); got != ":PROVIDER_EXPIRED" {
				t.Errorf("%s: the end of the sign-in answers %s", test.name, got)
			}
		}
		if n, err := dbtest.Count(d, "identities"); err != nil || n != 0 {
			t.Errorf("%d identities, %v", n, err)
		}

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
		if p.calls != calls {
			t.Errorf("a replayed answer calls the provider")
		}
		c.finish(map[string]any{}).ok(t, "finishProviderSignIn")

		// It does not outlive its time either.
		c = a.client()
		c.callback(p, "anna@corp.example", nil)
		a.clock.Add(model.ProviderSignInLifetime)
		if got := c.finish(map[string]any{}).userErrors("finishProviderSignIn"); got != ":PROVIDER_EXPIRED" {
			t.Errorf("a late end: %s", got)
		}
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
				if got := a.client().query(startProviderMutation, "email", "anna@"+domain).userErrors("startProviderSignIn"); got != test.start {
					t.Errorf("%s, want %s", got, test.start)
				}
			}
			if calls != 1 {
				t.Errorf("two requests make %d calls", calls)
			}

			a.clock.Add(time.Minute)
			got := owner.query(setProviderMutation, "input", map[string]any{
				"password": password, "issuer": p.issuer(), "clientId": "tallygate", "clientSecret": "s", "domain": domain,
			})
			if got := got.userErrors("setAccountProvider"); got != test.save {
				t.Errorf("saving: %s, want %s", got, test.save)
			}
		})
	}

	t.Run("a private address", func(t *testing.T) {
		p, dns := newFakeProvider(t), testkit.NewDNS(t)
		a := newApp(t, d, withProviders(p, dns, func(o *provider.Options) { o.Allowed = nil }))
		got := a.owner("owner@private.example").query(setProviderMutation, "input", map[string]any{
			"password": password, "issuer": p.issuer(), "clientId": "c", "clientSecret": "s", "domain": "private.example",
		}).userErrors("setAccountProvider")
		if got != "issuer:INVALID_URL" {
			t.Errorf("an issuer on this machine: %s", got)
		}
	})

	t.Run("an address that became private", func(t *testing.T) {
		p, dns, calls := newFakeProvider(t), testkit.NewDNS(t), 0
		newApp(t, d, withProviders(p, dns)).owner("owner@moved.example").provide(p, dns, map[string]any{"domain": "moved.example"})
		p.wrap = func(http.ResponseWriter, *http.Request) bool { calls++; return false }
		a := newApp(t, d, withProviders(p, dns, func(o *provider.Options) { o.Allowed = nil }))
		got := a.client().query(startProviderMutation, "email", "anna@moved.example").userErrors("startProviderSignIn")
		if got != ":PROVIDER_UNAVAILABLE" || calls != 0 {
			t.Errorf("%s after %d calls", got, calls)
		}
	})
}

// TestProviderTakesOverNobody checks that the provider of an account gives access to nothing but
// that account, and to no user who has not proved the address.
func TestProviderTakesOverNobody(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
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
		if got := attacker.finish(map[string]any{"password": "a wrong password"}).userErrors("finishProviderSignIn"); got != "password:WRONG_CREDENTIALS" {
			t.Errorf("a wrong password: %s", got)
		}
		if got := attacker.query(`{ viewer { email } }`).at("viewer"); got != nil {
			t.Errorf("the attacker is signed in as %v", got)
		}

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
			got := attacker.query(query, "id", own)
			if got.at("account") != nil || strings.Contains(got.Body, `"userErrors":[]`) {
				t.Errorf("%s: %s", query, got.Body)
			}
		}
		if got := attacker.query(`{ apiTokens { id } }`); strings.Contains(got.Body, token.id) {
			t.Errorf("the provider's session lists tokens of another account: %s", got.Body)
		}
		if got := attacker.query(`mutation($id: ID!) { revokeApiToken(input: {apiTokenId: $id}) { userErrors { code } } }`, "id", token.id); !strings.Contains(got.Body, "NOT_FOUND") {
			t.Errorf("the provider's session revokes a token of another account: %s", got.Body)
		}
		if got := attacker.query(`{ sessions { id } }`).ok(t, "").at("sessions").([]any); len(got) != 2 {
			t.Errorf("the provider's session lists %d sessions, want its own 2", len(got))
		}
		if got := attacker.query(`mutation { createAccount(input: {name: "mine"}) { account { id } userErrors { code } } }`); got.codes() != "FORBIDDEN" {
			t.Errorf("the provider's session creates an account: %s", got.Body)
		}
		attacker.query(`mutation { signOut(input: {everywhere: true}) { userErrors { code } } }`).ok(t, "signOut")
		if got := victim.query(`{ viewer { email } }`).at("viewer.email"); got != "victim@corp.example" {
			t.Errorf("the provider's session has ended the victim's: %v", got)
		}

		// A second factor is asked for in addition.
		secret, _ := victim.enableTOTP()
		attacker = a.client()
		attacker.callback(p, "victim@corp.example", nil)
		if got := attacker.finish(map[string]any{}); got.at("finishProviderSignIn.viewer") != nil || !strings.Contains(got.Body, "TOTP") {
			t.Errorf("without the second factor: %s", got.Body)
		}
		if got := attacker.finish(map[string]any{"secondFactor": "000000"}).userErrors("finishProviderSignIn"); got != "secondFactor:INVALID_SECOND_FACTOR" {
			t.Errorf("a wrong second factor: %s", got)
		}
		attacker.finish(map[string]any{"secondFactor": a.nextCode(secret)}).ok(t, "finishProviderSignIn")
		if got := attacker.query(`{ viewer { email } }`).at("viewer.email"); got != "victim@corp.example" {
			t.Errorf("with the second factor: %v", got)
		}

		// Its wrong second factors do not delay the victim's own sign-in.
		attacker = a.client()
		attacker.callback(p, "victim@corp.example", nil)
		for range 7 {
			attacker.finish(map[string]any{"secondFactor": "000000"})
		}
		got = a.client().query(`mutation($e: String!, $p: String!) { signIn(input: {email: $e, password: $p, secondFactor: "000000"}) {
			viewer { email } userErrors { field code } } }`, "e", "victim@corp.example", "p", password)
		if got.userErrors("signIn") != "secondFactor:INVALID_SECOND_FACTOR" {
			t.Errorf("the victim's sign-in after the provider's failures: %s", got.Body)
		}
		attacker = a.client()
		a.clock.Add(24 * time.Hour)
		attacker.callback(p, "victim@corp.example", nil)
		attacker.finish(map[string]any{"secondFactor": a.nextCode(secret)}).ok(t, "finishProviderSignIn")

		// The session ends with the provider, and another issuer or client knows no one.
		hostile.query(setProviderMutation, "input", map[string]any{
			"password": password, "issuer": p.issuer(), "clientId": "another", "clientSecret": "s", "domain": "corp.example",
		}).ok(t, "setAccountProvider")
		if n, err := dbtest.Count(d, "identities"); err != nil || n != 0 {
			t.Errorf("%d identities after another client, %v", n, err)
		}
		hostile.query(`mutation($p: String!) { deleteAccountProvider(input: {password: $p}) { account { requireProvider } userErrors { code } } }`, "p", password).ok(t, "deleteAccountProvider")
		if got := attacker.query(`{ viewer { email } }`).at("viewer"); got != nil {
			t.Errorf("a session outlives its provider: %v", got)
		}
	})
}

// TestRequiredProvider checks the rule of an account that members sign in through its provider,
// roles of a claim, and people who are invited, guests, or barred by the account's second factor.
func TestRequiredProvider(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p, dns := newFakeProvider(t), testkit.NewDNS(t)
		a := newApp(t, d, withProviders(p, dns))
		owner := a.owner("owner@corp.example")
		local := a.join(owner, "local@corp.example", model.RoleMember)
		owner.provide(p, dns, map[string]any{
			"required": true, "roleClaim": "groups",
			"roles": []any{map[string]any{"value": "staff", "role": "MEMBER"}, map[string]any{"value": "boss", "role": "OWNER"}},
		})

		if got := local.query(`{ viewer { email } }`).at("viewer"); got != nil {
			t.Errorf("a member's session of a password goes on: %v", got)
		}
		if got := a.client().signIn("local@corp.example", password).userErrors("signIn"); got != ":PROVIDER_REQUIRED" {
			t.Errorf("a member signs in by password: %s", got)
		}
		a.client().signIn("owner@corp.example", password).ok(t, "signIn")

		// An invitation is not consumed by a person who could not sign in.
		invited := a.invite(owner, "invited@corp.example", model.RoleMember)
		for range 2 {
			got := a.client().query(joinMutation, "token", invited, "password", password).userErrors("acceptInvitation")
			if got != ":PROVIDER_REQUIRED" {
				t.Errorf("a new person accepts an invitation: %s", got)
			}
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
			if got := groups("guest@corp.example", "boss"); got.at("finishProviderSignIn.viewer.role") != "VIEWER" {
				t.Errorf("a guest: %s", got.Body)
			}
		}
		if n, err := dbtest.Count(d, "guests"); err != nil || n != 1 {
			t.Errorf("%d guests, %v", n, err)
		}

		// The account's rule of second factors is not weakened.
		owner.enableTOTP()
		owner.query(securityMutation, "password", password, "require", true).ok(t, "setAccountSecurity")
		p.email, p.subject = "new@corp.example", "subject of new@corp.example"
		c := a.client()
		c.callback(p, "new@corp.example", nil)
		c.finish(map[string]any{}).ok(t, "finishProviderSignIn")
		if got := c.query(`{ sites(first: 1) { edges { node { id } } } }`); got.codes() != "SECOND_FACTOR_REQUIRED" {
			t.Errorf("a member without a second factor: %s", got.Body)
		}

		// New people cannot join a suspended account, and members go on reading.
		user, err := accounts.New(d).UserByEmail(t.Context(), "owner@corp.example")
		if err != nil {
			t.Fatal(err)
		}
		if err := dbtest.Exec(d, "UPDATE accounts SET suspended_at = 1, require_second_factor = ? WHERE id = ?", false, user.AccountID); err != nil {
			t.Fatal(err)
		}
		if got := groups("late@corp.example").userErrors("finishProviderSignIn"); got != ":NO_ACCOUNT" {
			t.Errorf("a new person of a suspended account: %s", got)
		}
		if got := groups("new@corp.example"); got.at("finishProviderSignIn.viewer.email") != "new@corp.example" {
			t.Errorf("a member of a suspended account: %s", got.Body)
		}
	})
}

// TestInstallationProvider checks the provider of the whole installation.
func TestInstallationProvider(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
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
		if got := through(map[string]any{}).userErrors("finishProviderSignIn"); got != ":NO_ACCOUNT" {
			t.Errorf("the first user of an installation: %s", got)
		}

		owner := a.owner("owner@corp.example")
		if got := owner.query(`{ installation { provider } }`).at("installation.provider"); got != "Corp" {
			t.Errorf("the provider's name is %v", got)
		}
		if got := through(map[string]any{}).userErrors("finishProviderSignIn"); got != ":NO_ACCOUNT" {
			t.Errorf("an unknown person: %s", got)
		}
		owner.query(`mutation { inviteMember(input: {email: "anna@corp.example", role: MEMBER}) { userErrors { code } } }`).ok(t, "inviteMember")

		// An invitation of a suspended account waits, and is not consumed.
		suspend := func(at int) {
			if err := dbtest.Exec(d, "UPDATE accounts SET suspended_at = ?", at); err != nil {
				t.Fatal(err)
			}
		}
		suspend(1)
		if got := through(map[string]any{}).userErrors("finishProviderSignIn"); got != ":NO_ACCOUNT" {
			t.Errorf("an invited person of a suspended account: %s", got)
		}
		suspend(0)
		if got := through(map[string]any{}).at("finishProviderSignIn.viewer.role"); got != "MEMBER" {
			t.Errorf("an invited person has the role %v", got)
		}

		p.email, p.subject = "owner@corp.example", "person-2"
		if got := through(map[string]any{}).at("finishProviderSignIn.needsPassword"); got != true {
			t.Errorf("an existing user needs no proof: %v", got)
		}
		if got := through(map[string]any{"password": password}).at("finishProviderSignIn.viewer.operator"); got != true {
			t.Errorf("the operator's session does not operate: %v", got)
		}

		// A user who is deleted is unknown again.
		if err := dbtest.Exec(d, "DELETE FROM users WHERE email = ?", "anna@corp.example"); err != nil {
			t.Fatal(err)
		}
		p.email, p.subject = "anna@corp.example", "person-1"
		if got := through(map[string]any{}).userErrors("finishProviderSignIn"); got != ":NO_ACCOUNT" {
			t.Errorf("a deleted user: %s", got)
		}
	})
}
