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

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// with runs a document with an API token and no cookie.
func (a *app) with(secret, query string, header ...string) *answer {
	a.t.Helper()
	body, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		a.t.Fatal(err)
	}
	return a.client().send(http.MethodPost, "application/json", string(body), append([]string{"Authorization", "Bearer " + secret}, header...)...)
}

func TestAPITokens(t *testing.T) {
	t.Parallel()
	const list = `{ apiTokens { id name scopes hint createdAt lastUsedAt } }`
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		c := a.owner("owner@example.com")
		if got := c.query(`{ apiTokens { id } account { apiTokens { id } } }`); got.Body != `{"data":{"apiTokens":[],"account":{"apiTokens":[]}}}` {
			t.Errorf("without tokens: %s", got.Body)
		}

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
		if rows, err := dbtest.Dump(d, "api_tokens"); err != nil || strings.Contains(strings.Join(rows, ""), secret) {
			t.Errorf("the table holds the token itself, or %v", err)
		}

		made := a.with(secret, `mutation { createSite(input: {domain: "example.com"}) { site { domain } userErrors { code } } }`).ok(t, "createSite")
		if made.Header.Get("Set-Cookie") != "" {
			t.Errorf("a token sets a cookie: %s", made.Header.Get("Set-Cookie"))
		}
		if got := a.with(secret, `{ viewer { email } sites { totalCount } }`); got.Body != `{"data":{"viewer":{"email":"owner@example.com"},"sites":{"totalCount":1}}}` {
			t.Errorf("reading: %s", got.Body)
		}

		// The last use is stored once per minute.
		for _, step := range []struct {
			later time.Duration
			want  string
		}{{0, "2026-11-20T09:30:00Z"}, {59 * time.Second, "2026-11-20T09:30:00Z"}, {time.Second, "2026-11-20T09:31:00Z"}} {
			a.clock.Add(step.later)
			a.with(secret, `{ viewer { id } }`).ok(t, "")

			if last := c.query(list).ok(t, "").at("apiTokens.0.lastUsedAt"); last != step.want {
				t.Errorf("last used %v, want %s", last, step.want)
			}
		}

		// The token takes precedence over the cookie: it is refused although the cookie is valid.
		for name, bad := range map[string]string{
			"revoked or unknown": model.NewSecret("tga_"), "mistyped": secret[:len(secret)-1] + "-", "empty": "", "a server secret": model.NewSecret("svcs_"),
			"long": strings.Repeat("a", 5000),
		} {
			got := c.send("POST", "application/json", `{"query":"{ viewer { id } }"}`, "Authorization", "Bearer "+bad)
			if got.codes() != "UNAUTHENTICATED" || got.at("viewer") != nil {
				t.Errorf("%s: %s", name, got.Body)
			}
		}

		if got := c.send("POST", "application/json", `{"query":"{ viewer { id } }"}`, "Authorization", "Basic b3duZXI6eA=="); got.at("viewer.id") == nil {
			t.Errorf("a proxy's password in the header: %s", got.Body)
		}

		id := c.query(list).at("apiTokens.0.id")
		c.query(`mutation($id: ID!) { revokeApiToken(input: {apiTokenId: $id}) { apiToken { name } userErrors { code } } }`, "id", id).ok(t, "revokeApiToken")

		if got := a.with(secret, `{ viewer { id } }`); got.codes() != "UNAUTHENTICATED" {
			t.Errorf("a revoked token: %s", got.Body)
		}
		if got := c.query(list); got.Body != `{"data":{"apiTokens":[]}}` {
			t.Errorf("after revoking: %s", got.Body)
		}
	})
}

func TestAPITokenMistakes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c := newApp(t, d).owner("owner@example.com")
		create := func(name string, scopes ...string) *answer {
			return c.query(`mutation($name: String!, $scopes: [ApiTokenScope!]!) { createApiToken(input: {name: $name, scopes: $scopes}) {
				apiToken { id } token userErrors { field code } } }`, "name", name, "scopes", append([]string{}, scopes...))
		}
		if got := create(""); got.userErrors("createApiToken") != "name:INVALID_NAME scopes:INVALID_SCOPES" || got.at("createApiToken.token") != nil {
			t.Errorf("two mistakes: %s", got.Body)
		}

		for i := range model.MaxAPITokens {
			create(fmt.Sprint(i), "READ").ok(t, "createApiToken")
		}

		if got := create("more", "READ"); got.userErrors("createApiToken") != ":TOO_MANY_TOKENS" || got.at("createApiToken.token") != nil {
			t.Errorf("one too many: %s", got.Body)
		}

		// Tokens that have expired make room.
		if err := dbtest.Exec(d, "UPDATE api_tokens SET expires_at = ? WHERE id <= 2", model.At(start)); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			create(fmt.Sprint("later ", i), "READ").ok(t, "createApiToken")
		}
		if got := create("more", "READ"); got.userErrors("createApiToken") != ":TOO_MANY_TOKENS" {
			t.Errorf("one too many after expired ones were replaced: %s", got.Body)
		}
	})
}

// A page of another origin cannot use a token although it needs no cookie: the same origin check
// applies.
func TestTokensDoNotWeakenTheOriginCheck(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		token := a.owner("owner@example.com").createToken("READ")
		for _, header := range [][]string{
			{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"},
			{"Sec-Fetch-Site", "same-site", "Origin", "https://evil.example"},
			{"Origin", "https://evil.example"},
		} {
			if got := a.with(token.secret, `{ viewer { id } }`, header...); got.Status != 403 || got.codes() != "CROSS_ORIGIN" {
				t.Errorf("%v: status %d, %s", header, got.Status, got.Body)
			}
		}
	})
}

func TestDownloadsByToken(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		c := a.owner("owner@example.com")
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
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		c := a.owner("owner@example.com")
		id := c.createSite("example.com").ok(t, "createSite").at("createSite.site.id").(string)
		write, both := c.createToken("READ", "WRITE"), c.createToken("WRITE", "EXPORT")

		set := func(token apiToken, mutation, input string) *answer {
			return a.with(token.secret, fmt.Sprintf(`mutation { %s(input: {siteId: %q, %s}) { site { conversionWebhookUrl dailyExportUrl } userErrors { code } } }`, mutation, id, input))
		}
		for mutation, field := range map[string]string{"setConversionWebhook": "conversionWebhookUrl", "setDailyExportWebhook": "dailyExportUrl"} {
			path := mutation + ".site." + field
			before := a.dump("api_tokens", "users", "sessions")

			if got := set(write, mutation, `url: "https://attacker.example/drop"`); got.codes() != "FORBIDDEN" || !strings.Contains(got.Body, "EXPORT") || got.at(mutation) != nil {
				t.Errorf("%s with WRITE: %s", mutation, got.Body)
			}
			if after := a.dump("api_tokens", "users", "sessions"); after != before {
				t.Errorf("%s was refused and changed\n%s\nto\n%s", mutation, before, after)
			}
			if got := set(both, mutation, `url: "https://example.com/drop?secret"`).ok(t, mutation); got.at(path) != "https://example.com/drop?secret" {
				t.Errorf("%s with both: %s", mutation, got.Body)
			}

			for _, none := range []string{`url: null`, `url: ""`} {
				c.change(mutation, id, `url: "https://example.com/"`).ok(t, mutation)

				if got := set(write, mutation, none).ok(t, mutation); got.at(path) != nil {
					t.Errorf("%s with WRITE and %s: %s", mutation, none, got.Body)
				}
			}
		}

		set(write, "setConversionWebhook", `secret: "a secret of 20 letters"`).ok(t, "setConversionWebhook")

		type row struct{ Recipient, Data string }
		mails, err := dbtest.Rows[row](d, "SELECT recipient, data FROM mails WHERE kind = ? ORDER BY id", model.MailWebhookChanged)
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
	t.Parallel()
	const create = `mutation { createSite(input: {domain: "example.com"}) { userErrors { code } } }`
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		owner := a.owner("owner@example.com")
		member := a.join(owner, "member@example.com", model.RoleMember)
		token := member.createToken("WRITE")
		id := member.query(`{ viewer { id } }`).at("viewer.id")
		a.with(token.secret, create).ok(t, "createSite")
		owner.query(`mutation($id: ID!) { setMemberRole(input: {userId: $id, role: VIEWER}) { member { role } userErrors { code } } }`, "id", id).ok(t, "setMemberRole")

		if got := a.with(token.secret, create); got.codes() != "FORBIDDEN" {
			t.Errorf("of a viewer: %s", got.Body)
		}

		owner.query(`mutation($id: ID!) { removeMember(input: {userId: $id}) { userErrors { code } } }`, "id", id).ok(t, "removeMember")

		if got := a.with(token.secret, `{ viewer { id } }`); got.codes() != "UNAUTHENTICATED" {
			t.Errorf("without a user: %s", got.Body)
		}
		if member.viewer() != "" {
			t.Error("the session outlived its user")
		}
	})
}

func TestRateLimitOfAMinute(t *testing.T) {
	t.Parallel()
	const page = `{ rateLimit { limit cost remaining resetAt } sites(first: 100) { edges { node { id domain name siteKey plan scriptTag createdAt cspLines notice
		usage { period pageviews quota percent resetsAt } rejections(days: 7) { day code count } } } } }`

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		c := a.owner("owner@example.com")
		token, other := c.createToken("READ"), c.createToken("READ")
		a.clock.Add(time.Hour)
		got := a.with(token.secret, page).ok(t, "")
		cost := got.at("rateLimit.cost").(float64)
		if cost < 3_000 || got.at("rateLimit.limit") != 60_000.0 || got.at("rateLimit.remaining") != 60_000-cost || got.at("rateLimit.resetAt") != "2026-11-20T10:31:00Z" {
			t.Fatalf("the first request: %s", got.Body)
		}

		for left := 60_000 - 2*cost; left >= 0; left -= cost {
			if got := a.with(token.secret, page).ok(t, ""); got.at("rateLimit.remaining") != left {
				t.Fatalf("%s; want %v left", got.Body, left)
			}
		}

		a.clock.Add(15 * time.Second)
		refused := a.with(token.secret, page)
		if refused.codes() != "RATE_LIMITED RATE_LIMITED" && refused.codes() != "RATE_LIMITED" || refused.Errors[0].Extensions["retryAfter"] != 45.0 || refused.at("sites") != nil {
			t.Errorf("over the rate limit: %s", refused.Body)
		}

		// A refused request costs nothing, and a small one still fits.
		if got := a.with(token.secret, `{ rateLimit { cost } }`); got.at("rateLimit.cost") != 2.0 {
			t.Errorf("a small request: %s", got.Body)
		}

		// The rate limit belongs to the account: its users and other tokens share it. Another
		// account has its own.
		if got := c.query(page); !strings.HasPrefix(got.codes(), "RATE_LIMITED") {
			t.Errorf("the user: %s", got.Body)
		}
		if got := a.with(other.secret, page); !strings.HasPrefix(got.codes(), "RATE_LIMITED") {
			t.Errorf("another token: %s", got.Body)
		}
		if got := a.owner("other@example.com").query(page).ok(t, ""); got.at("rateLimit.remaining") != 60_000-cost {
			t.Errorf("another account: %s", got.Body)
		}

		a.clock.Add(45 * time.Second)

		if got := a.with(token.secret, page).ok(t, ""); got.at("rateLimit.remaining") != 60_000-cost {
			t.Errorf("after the minute: %s", got.Body)
		}
	})
}
