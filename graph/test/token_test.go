package graph_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// with runs a document with an API token and no cookie.
func (a *app) with(secret, query string, header ...string) *answer {
	a.t.Helper()
	body := value(json.Marshal(map[string]string{"query": query}))(a.t)
	return a.client().send(http.MethodPost, "application/json", string(body), append([]string{"Authorization", "Bearer " + secret}, header...)...)
}

func TestAPITokens(t *testing.T) {
	const list = `{ apiTokens { id name scopes hint createdAt lastUsedAt } }`
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		c.query(`{ apiTokens { id } account { apiTokens { id } } }`).
			named("without tokens").is(t, `{"data":{"apiTokens":[],"account":{"apiTokens":[]}}}`)

		got := c.query(`mutation { createApiToken(input: {name: " Deploy ", scopes: [WRITE, READ, WRITE]}) {
			apiToken { name scopes hint createdAt lastUsedAt } token userErrors { code } } }`).ok(t, "createApiToken")

		secret := got.at("createApiToken.token").(string)
		want := map[string]any{
			"name": "Deploy", "scopes": []any{"READ", "WRITE"}, "hint": secret[len(secret)-4:],
			"createdAt": "2026-11-20T09:30:00Z", "lastUsedAt": nil,
		}
		if token := got.at("createApiToken.apiToken"); !reflect.DeepEqual(token, want) || !model.IsSecret("tga_", secret) {
			t.Errorf("got %v with %s, want %v", token, secret, want)
		}
		if rows, err := dbtest.Dump(a.db, "api_tokens"); err != nil || strings.Contains(strings.Join(rows, ""), secret) {
			t.Errorf("the table holds the token itself, or %v", err)
		}

		made := a.with(secret, `mutation { createSite(input: {domain: "example.com"}) { site { domain } userErrors { code } } }`).ok(t, "createSite")
		equal(t, made.Header.Get("Set-Cookie"), "", "a token sets a cookie")
		a.with(secret, `{ viewer { email } sites { totalCount } }`).
			named("reading").is(t, `{"data":{"viewer":{"email":"owner@example.com"},"sites":{"totalCount":1}}}`)

		// The last use is stored once per minute.
		for _, step := range []struct {
			later time.Duration
			want  string
		}{{0, "2026-11-20T09:30:00Z"}, {59 * time.Second, "2026-11-20T09:30:00Z"}, {time.Second, "2026-11-20T09:31:00Z"}} {
			a.clock.Add(step.later)
			a.with(secret, `{ viewer { id } }`).ok(t, "")

			c.query(list).ok(t, "").named("last used").has(t, "apiTokens.0.lastUsedAt", step.want)
		}

		// The token takes precedence over the cookie: it is refused although the cookie is valid.
		for name, bad := range map[string]string{
			"revoked or unknown": model.NewSecret("tga_"), "mistyped": secret[:len(secret)-1] + "-", "empty": "", "a server secret": model.NewSecret("svcs_"),
			"long": strings.Repeat("a", 5000),
		} {
			got := c.send("POST", "application/json", `{"query":"{ viewer { id } }"}`, "Authorization", "Bearer "+bad)
			got.named("%s", name).code(t, "UNAUTHENTICATED").has(t, "viewer", nil)
		}

		c.send("POST", "application/json", `{"query":"{ viewer { id } }"}`, "Authorization", "Basic b3duZXI6eA==").
			named("a proxy's password in the header").set(t, "viewer.id")

		id := c.query(list).at("apiTokens.0.id")
		c.done("revokeApiToken", "apiTokenId", id)

		a.with(secret, `{ viewer { id } }`).named("a revoked token").code(t, "UNAUTHENTICATED")
		c.query(list).named("after revoking").is(t, `{"data":{"apiTokens":[]}}`)
	})
}

func TestAPITokenMistakes(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		create := func(name string, scopes ...string) *answer {
			return c.do("createApiToken", "name", name, "scopes", append([]string{}, scopes...))
		}
		if got := create(""); got.userErrors("createApiToken") != "name:INVALID_NAME scopes:INVALID_SCOPES" || got.at("createApiToken.token") != nil {
			t.Errorf("two mistakes: %s", got.Body)
		}

		for i := range model.MaxAPITokens {
			create(fmt.Sprint(i), "READ").ok(t, "createApiToken")
		}

		create("more", "READ").
			named("one too many").fails(t, "createApiToken", ":TOO_MANY_TOKENS").has(t, "createApiToken.token", nil)

		// Tokens that have expired make room.
		must(t, dbtest.Exec(a.db, "UPDATE api_tokens SET expires_at = ? WHERE id <= 2", model.At(start)))
		for i := range 2 {
			create(fmt.Sprint("later ", i), "READ").ok(t, "createApiToken")
		}
		create("more", "READ").
			named("one too many after expired ones were replaced").fails(t, "createApiToken", ":TOO_MANY_TOKENS")
	})
}

// A page of another origin cannot use a token although it needs no cookie: the same origin check
// applies.
func TestTokensDoNotWeakenTheOriginCheck(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		token := a.owner("owner@example.com").createToken("READ")
		for _, header := range [][]string{
			{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"},
			{"Sec-Fetch-Site", "same-site", "Origin", "https://evil.example"},
			{"Origin", "https://evil.example"},
		} {
			a.with(token.secret, `{ viewer { id } }`, header...).named("%v", header).status(t, 403).code(t, "CROSS_ORIGIN")
		}
	})
}

func TestDownloadsByToken(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		for _, test := range []struct {
			secret string
			want   model.Kind
		}{
			{c.createToken("EXPORT").secret, model.Internal}, // no error at all
			{c.createToken("READ", "WRITE").secret, model.Forbidden},
			{model.NewSecret("tga_"), model.Unauthenticated},
		} {
			request := httptest.NewRequest(http.MethodGet, "/export", nil)
			request.Header.Set("Authorization", "bearer "+test.secret)
			request.AddCookie(&http.Cookie{Name: sessionCookie, Value: c.cookies()[sessionCookie]})

			user, err := a.auth.Downloader(request)
			if model.KindOf(err) != test.want || (err == nil) != (test.want == model.Internal) || err == nil && user.Email != "owner@example.com" {
				t.Errorf("got %+v, %v; want kind %d", user, err, test.want)
			}
		}
	})
}

// TestSendingEventsOutNeedsExport: a token with WRITE alone cannot set a webhook URL. It can remove
// one and change the secret. The mails name the token.
func TestSendingEventsOutNeedsExport(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		id := c.createSite("example.com").ok(t, "createSite").at("createSite.site.id").(string)
		write, both := c.createToken("READ", "WRITE"), c.createToken("WRITE", "EXPORT")

		set := func(token apiToken, mutation, input string) *answer {
			return a.with(token.secret, fmt.Sprintf(`mutation { %s(input: {siteId: %q, %s}) { site { conversionWebhookUrl dailyExportUrl } userErrors { code } } }`, mutation, id, input))
		}
		for mutation, field := range map[string]string{"setConversionWebhook": "conversionWebhookUrl", "setDailyExportWebhook": "dailyExportUrl"} {
			path := mutation + ".site." + field
			before := a.dump("api_tokens", "users", "sessions")

			set(write, mutation, `url: "https://attacker.example/drop"`).
				named("%s with WRITE", mutation).code(t, "FORBIDDEN").shows(t, "EXPORT").has(t, mutation, nil)
			equal(t, a.dump("api_tokens", "users", "sessions"), before, "%s was refused and changed\n%s\nto", mutation, before)
			set(both, mutation, `url: "https://example.com/drop?secret"`).ok(t, mutation).
				named("%s with both", mutation).has(t, path, "https://example.com/drop?secret")

			for _, none := range []string{`url: null`, `url: ""`} {
				c.change(mutation, id, `url: "https://example.com/"`).ok(t, mutation)

				set(write, mutation, none).ok(t, mutation).named("%s with WRITE and %s", mutation, none).has(t, path, nil)
			}
		}

		set(write, "setConversionWebhook", `secret: "a secret of 20 letters"`).ok(t, "setConversionWebhook")

		type row struct{ Recipient, Data string }
		mails, err := dbtest.Rows[row](a.db, "SELECT recipient, data FROM mails WHERE kind = ? ORDER BY id", model.MailWebhookChanged)
		if err != nil || len(mails) != outbox.MaxWebhookMails {
			t.Fatalf("mails %+v, %v", mails, err)
		}

		for i, by := range []string{`"by":"owner@example.com","token":"test","at"`, `"by":"owner@example.com","at"`} {
			if m := mails[i]; m.Recipient != "owner@example.com" || !strings.Contains(m.Data, by) || strings.Contains(m.Data, "secret") {
				t.Errorf("mail %d: %+v", i, m)
			}
		}
	})
}

// A token loses the rights that its user loses.
func TestATokenNeverMayMoreThanItsUser(t *testing.T) {
	const create = `mutation { createSite(input: {domain: "example.com"}) { userErrors { code } } }`
	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		member := a.join(owner, "member@example.com", model.RoleMember)
		token := member.createToken("WRITE")
		id := member.query(`{ viewer { id } }`).at("viewer.id")
		a.with(token.secret, create).ok(t, "createSite")
		owner.done("setMemberRole", "userId", id, "role", "VIEWER")

		a.with(token.secret, create).named("of a viewer").code(t, "FORBIDDEN")

		owner.done("removeMember", "userId", id)

		a.with(token.secret, `{ viewer { id } }`).named("without a user").code(t, "UNAUTHENTICATED")
		equal(t, member.viewer(), "", "the session outlived its user")
	})
}

func TestRateLimitOfAMinute(t *testing.T) {
	const page = `{ rateLimit { limit cost remaining resetAt } sites(first: 100) { edges { node { id domain name siteKey plan scriptTag createdAt cspLines notice
		usage { period pageviews quota percent resetsAt } rejections(days: 7) { day code count } } } } }`

	eachOwner(t, func(t *testing.T, a *app, c *client) {
		token, other := c.createToken("READ"), c.createToken("READ")
		a.clock.Add(time.Hour)
		got := a.with(token.secret, page).ok(t, "")
		cost := got.at("rateLimit.cost").(float64)
		if cost < 3_000 || got.at("rateLimit.limit") != 60_000.0 || got.at("rateLimit.remaining") != 60_000-cost ||
			got.at("rateLimit.resetAt") != "2026-11-20T10:31:00Z" {
			t.Fatalf("the first request: %s", got.Body)
		}

		for left := 60_000 - 2*cost; left >= 0; left -= cost {
			a.with(token.secret, page).ok(t, "").has(t, "rateLimit.remaining", left)
		}

		a.clock.Add(15 * time.Second)
		refused := a.with(token.secret, page)
		if refused.codes() != "RATE_LIMITED RATE_LIMITED" && refused.codes() != "RATE_LIMITED" ||
			refused.Errors[0].Extensions["retryAfter"] != 45.0 || refused.at("sites") != nil {
			t.Errorf("over the rate limit: %s", refused.Body)
		}

		// A refused request costs nothing, and a small one still fits.
		a.with(token.secret, `{ rateLimit { cost } }`).named("a small request").has(t, "rateLimit.cost", 2.0)

		// The rate limit belongs to the account: its users and other tokens share it. Another
		// account has its own.
		if got := c.query(page); !strings.HasPrefix(got.codes(), "RATE_LIMITED") {
			t.Errorf("the user: %s", got.Body)
		}
		if got := a.with(other.secret, page); !strings.HasPrefix(got.codes(), "RATE_LIMITED") {
			t.Errorf("another token: %s", got.Body)
		}
		a.owner("other@example.com").query(page).ok(t, "").named("another account").has(t, "rateLimit.remaining", 60_000-cost)

		a.clock.Add(45 * time.Second)

		a.with(token.secret, page).ok(t, "").named("after the minute").has(t, "rateLimit.remaining", 60_000-cost)
	})
}
