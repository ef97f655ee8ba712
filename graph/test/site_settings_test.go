package graph_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

const settingsFields = `domain name extraDomains registeredEvents keyEvents excludedAddresses measureSiteSearch measureEcommerce
	allowPseudonymousUserId automaticEvents conversionWebhookUrl conversionWebhookSigned dailyExportUrl serverSecretHint plan usage { quota }`

// change runs a mutation of one site; input is its input without the id.
func (c *client) change(mutation, siteID, input string) *answer {
	c.t.Helper()
	return c.query(`mutation($id: ID!) { `+mutation+`(input: {siteId: $id `+input+`}) {
		site { `+settingsFields+` } userErrors { field code message } } }`, "id", siteID)
}

func TestSiteSettings(t *testing.T) {
	list := func(items ...any) any { return append([]any{}, items...) }
	steps := []struct {
		mutation, input string
		wrong           string // userErrors; then nothing changes
		field           string // of the site
		want            any
	}{
		{"updateSite", ``, "", "name", "example.com"},
		{"updateSite", `name: " Shop "`, "", "name", "Shop"},
		{"updateSite", `name: null, measureSiteSearch: true`, "", "measureSiteSearch", true},
		{"updateSite", `measureEcommerce: true`, "", "measureEcommerce", true},
		{"updateSite", `allowPseudonymousUserId: true`, "", "allowPseudonymousUserId", true},
		{"updateSite", `automaticEvents: false`, "", "automaticEvents", false},
		{"updateSite", `excludedAddresses: ["2001:db8::1", "192.0.2.7", "198.51.100.9/24", "::ffff:192.0.2.7"]`, "", "excludedAddresses",
			list("192.0.2.7/32", "198.51.100.0/24", "2001:db8::1/128")},
		{
			mutation: "updateSite", input: `name: "", excludedAddresses: ["x"], measureSiteSearch: false`,
			wrong: "name:INVALID_NAME excludedAddresses.0:INVALID_NETWORK", field: "measureSiteSearch", want: true,
		},
		{"updateSite", `excludedAddresses: ["10.0.0.0/33"]`, "excludedAddresses.0:INVALID_NETWORK", "", nil},
		{
			mutation: "updateSite", input: `excludedAddresses: ["192.0.2.1", "x", "10.0.0.0/8", ""]`,
			wrong: "excludedAddresses.1:INVALID_NETWORK excludedAddresses.3:INVALID_NETWORK", field: "", want: nil,
		},
		{"updateSite", `excludedAddresses: [` + strings.Repeat(`"x", `, 100) + `]`, wrongItems("excludedAddresses", "INVALID_NETWORK"), "", nil},
		{"updateSite", `excludedAddresses: ["::ffff:198.51.100.0/120"]`, "", "excludedAddresses", list("198.51.100.0/24")},
		{"updateSite", `excludedAddresses: ["::ffff:0.0.0.0/90"]`, "excludedAddresses.0:INVALID_NETWORK", "", nil},
		{"updateSite", `excludedAddresses: []`, "", "excludedAddresses", list()},
		{"addSiteDomain", `domain: "WWW.Example.NET."`, "", "extraDomains", list("www.example.net")},
		{"addSiteDomain", `domain: "www.example.net"`, "", "extraDomains", list("www.example.net")},
		{"addSiteDomain", `domain: "a.example"`, "", "extraDomains", list("a.example", "www.example.net")},
		{"addSiteDomain", `domain: "example.com"`, "domain:OWN_DOMAIN", "", nil},
		{"addSiteDomain", `domain: "localhost"`, "domain:INVALID_DOMAIN", "", nil},
		{"addSiteDomain", `domain: "127.0.0.1"`, "domain:INVALID_DOMAIN", "", nil},
		{"removeSiteDomain", `domain: "A.example"`, "", "extraDomains", list("www.example.net")},
		{"removeSiteDomain", `domain: "never.example"`, "", "extraDomains", list("www.example.net")},
		{"removeSiteDomain", `domain: "/"`, "domain:INVALID_DOMAIN", "", nil},
		{"registerEvent", `name: "signup"`, "", "registeredEvents", list("signup")},
		{"registerEvent", `name: "lead"`, "", "registeredEvents", list("lead", "signup")},
		{"registerEvent", `name: "Sign up"`, "name:INVALID_EVENT_NAME", "", nil},
		{"registerEvent", `name: ""`, "name:INVALID_EVENT_NAME", "", nil},
		{"registerEvent", `name: "purchase"`, "name:RESERVED_EVENT_NAME", "", nil},
		{"registerEvent", `name: "scroll"`, "name:RESERVED_EVENT_NAME", "", nil},
		{"markKeyEvent", `name: "signup"`, "", "keyEvents", list("purchase", "signup")},
		{"markKeyEvent", `name: "file_download"`, "", "keyEvents", list("file_download", "purchase", "signup")},
		{"markKeyEvent", `name: "purchase"`, "", "keyEvents", list("file_download", "purchase", "signup")},
		{"markKeyEvent", `name: "unknown"`, "name:EVENT_NOT_REGISTERED", "", nil},
		{"unmarkKeyEvent", `name: "purchase"`, "name:ALWAYS_KEY_EVENT", "", nil},
		{"unmarkKeyEvent", `name: "file_download"`, "", "keyEvents", list("purchase", "signup")},
		{"unregisterEvent", `name: "signup"`, "", "keyEvents", list("purchase")},
		{"unregisterEvent", `name: "signup"`, "", "registeredEvents", list("lead")},
		{"setConversionWebhook", `url: "https://example.com/hook?a=b"`, "", "conversionWebhookUrl", "https://example.com/hook?a=b"},
		{"setConversionWebhook", `url: "http://example.com/hook"`, "url:INVALID_URL", "", nil},
		{"setConversionWebhook", `url: "https://user:password@example.com/"`, "url:INVALID_URL", "", nil},
		{"setConversionWebhook", `url: "https://"`, "url:INVALID_URL", "", nil},
		{"setConversionWebhook", `url: "javascript:alert(1)"`, "url:INVALID_URL", "", nil},
		{"setConversionWebhook", `url: "https://10.0.0.1/"`, "url:INVALID_URL", "", nil},
		{"setConversionWebhook", `url: "https://example.com:444/"`, "url:INVALID_URL", "", nil},
		{"setConversionWebhook", `url: "https://example.com/hook", secret: "whsec_!234567890123456"`, "", "conversionWebhookSigned", true},
		{"setConversionWebhook", `url: "https://example.com/other"`, "", "conversionWebhookSigned", true},
		{"setConversionWebhook", `url: "http://", secret: "a\u0000"`, "url:INVALID_URL secret:INVALID_SECRET", "", nil},
		{"setConversionWebhook", `url: "https://example.com/", secret: "` + strings.Repeat("ü", 257) + `"`, "secret:INVALID_SECRET", "", nil},
		{
			mutation: "setConversionWebhook",
			input:    `url: "https://example.com/", secret: "` + strings.Repeat("ü", 256) + `"`, wrong: "",
			field: "conversionWebhookUrl", want: "https://example.com/",
		},
		{"setConversionWebhook", `url: "https://example.com/", secret: ""`, "", "conversionWebhookSigned", false},
		{"setConversionWebhook", `secret: "another secret!!"`, "", "conversionWebhookUrl", "https://example.com/"},
		{"setConversionWebhook", `secret: "a"`, "secret:SECRET_TOO_SHORT", "", nil},
		{"setConversionWebhook", `url: "https://example.com/other", secret: "15 characters.."`, "secret:SECRET_TOO_SHORT", "", nil},
		{"setConversionWebhook", `secret: "whsec_15 characters.."`, "secret:SECRET_TOO_SHORT", "", nil},
		{"setConversionWebhook", `secret: "16 characters..."`, "", "conversionWebhookSigned", true},
		{"setConversionWebhook", `secret: "ÄÖÜ sixteen char"`, "", "conversionWebhookSigned", true},
		{"setConversionWebhook", `secret: "a\u0000"`, "secret:INVALID_SECRET", "", nil},
		{"setConversionWebhook", ``, "", "conversionWebhookSigned", true},
		{"setConversionWebhook", `url: null`, "", "conversionWebhookUrl", nil},
		{"setConversionWebhook", ``, "", "conversionWebhookSigned", true},
		{"setConversionWebhook", `url: "", secret: ""`, "", "conversionWebhookSigned", false},
		{"setDailyExportWebhook", `url: "https://example.com/daily"`, "", "dailyExportUrl", "https://example.com/daily"},
		{"setDailyExportWebhook", `url: "https://localhost/"`, "url:INVALID_URL", "", nil},
		{"setDailyExportWebhook", ``, "", "dailyExportUrl", "https://example.com/daily"},
		{"setDailyExportWebhook", `url: ""`, "", "dailyExportUrl", nil},
		{"setDailyExportWebhook", `url: "https://example.com/daily"`, "", "dailyExportUrl", "https://example.com/daily"},
		{"setDailyExportWebhook", `url: null`, "", "dailyExportUrl", nil},
	}

	eachApp(t, func(t *testing.T, a *app) {
		// This client is the operator too.
		c := a.owner("owner@example.com")
		id := c.createSite("example.com").ok(t, "createSite").at("createSite.site.id").(string)
		read := func() string {
			return c.site(id, ``+settingsFields+``).ok(t, "").Body
		}
		for _, step := range steps {
			before := read()
			got := c.change(step.mutation, id, step.input)
			name := step.mutation + " " + step.input

			got.named("%s", name).code(t, "").fails(t, step.mutation, step.wrong)

			if step.wrong != "" {
				if after := read(); after != before || got.at(step.mutation+".site") != nil {
					t.Errorf("%s changed the site to %s, or answers it: %s", name, after, got.Body)
				}

				continue
			}

			testkit.DeepEqual(t, got.at(step.mutation+".site."+step.field), step.want, "%s: %s", name, step.field)
			if answer := read(); !strings.Contains(got.Body, strings.TrimSuffix(strings.TrimPrefix(answer, `{"data":{"site":`), "}}")) {
				t.Errorf("%s answers %s, reading %s", name, got.Body, answer)
			}
		}
	})
}

// Exceeded limits of an account are userErrors. Owners other than the operator have lower ones.
func TestSitesAndSitekeysAreBounded(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		// This client is the operator.
		c := a.owner("owner@example.com")
		other := a.owner("other@example.com")

		for i := range 50 {
			// Advance the clock to reset the rate limit.
			a.clock.Add(4 * time.Second)

			for name, c := range map[string]*client{"operator": c, "other": other} {
				c.createSite(fmt.Sprintf("%s-%d.example", name, i)).ok(t, "createSite")
			}
		}

		if got := other.createSite("example.com"); got.userErrors("createSite") != ":TOO_MANY_SITES" || got.at("createSite.site") != nil ||
			!strings.Contains(got.Body, "at most 50 sites on the plan FREE") {
			t.Errorf("the 51st of an owner: %s", got.Body)
		}

		c.createSite("operator-51.example").ok(t, "createSite")

		must(t, dbtest.Exec(a.db, "DELETE FROM sites WHERE account_id = 1"))

		for _, statement := range []string{
			`INSERT INTO sites (account_id, site_key, domain, name, plan, monthly_pageviews, created_at) SELECT 1, 'k' || i, 's' || i, 's', 'FREE', 1, 1 FROM n`,
			`INSERT INTO sitekeys (account_id, sitekey, name, domains, secret_hash, secret_hint, created_at)
				SELECT 1, 'k' || i, 'k', '[]', CAST('h' || i AS ` + map[string]string{"postgres": "bytea", "sqlite": "blob"}[a.db.Dialect()] + `), '', 1 FROM n`,
		} {
			must(t, dbtest.Exec(a.db, "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) "+statement))
		}

		c.createSite("example.com").named("createSite").fails(t, "createSite", ":TOO_MANY_SITES").has(t, "createSite.site", nil)
		c.createSitekey("form").
			named("createSitekey").fails(t, "createSitekey", ":TOO_MANY_SITEKEYS").has(t, "createSitekey.secret", nil)
	})
}

// TestSitePlans: the operator can set the plan of any site, and can read nothing else of another
// account's site.
func TestSitePlans(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		operator := a.owner("operator@example.com")
		owner := a.owner("owner@example.com")
		id := owner.createSite("secret.example").ok(t, "createSite").at("createSite.site.id").(string)
		owner.change("setConversionWebhook", id, `url: "https://secret.example/hook"`).ok(t, "setConversionWebhook")

		must(t, dbtest.Exec(a.db, "INSERT INTO site_usage (site_id, month, used) VALUES (1, 202611, 7)"))

		var quota any = 10_000.0
		for _, step := range []struct {
			input, wrong string
			want         any // the quota
		}{
			{`plan: PRO_500K`, "", 500_000.0},
			{`plan: PRO_500K, monthlyPageviews: 500000`, "", 500_000.0},
			{`plan: PRO_1M, monthlyPageviews: 7`, "monthlyPageviews:INVALID_VOLUME", 0},
			{`plan: PRO_1M, monthlyPageviews: 0`, "monthlyPageviews:INVALID_VOLUME", 0},
			{`plan: ENTERPRISE`, "", nil},
			{`plan: ENTERPRISE, monthlyPageviews: 0`, "monthlyPageviews:INVALID_VOLUME", 0},
			{`plan: ENTERPRISE, monthlyPageviews: -5`, "monthlyPageviews:INVALID_VOLUME", 0},
			{`plan: ENTERPRISE, monthlyPageviews: 9007199254740993`, "monthlyPageviews:INVALID_VOLUME", 0},
			{`plan: ENTERPRISE, monthlyPageviews: 70000000`, "", 70_000_000.0},
		} {
			const selection = `{ siteId plan usage { period pageviews quota } userErrors { field code } }`
			got := operator.query(`mutation($id: ID!) { setSitePlan(input: {siteId: $id, `+step.input+`}) `+selection+` }`, "id", id)
			got.named("%s", step.input).fails(t, "setSitePlan", step.wrong).code(t, "")

			if step.wrong == "" {
				quota = step.want
				if got.at("setSitePlan.siteId") != id || got.at("setSitePlan.usage.quota") != quota || got.at("setSitePlan.usage.pageviews") != 7.0 {
					t.Errorf("%s: %s", step.input, got.Body)
				}
			} else if got.at("setSitePlan.siteId") != nil || got.at("setSitePlan.plan") != nil || got.at("setSitePlan.usage") != nil {
				t.Errorf("%s, refused: %s", step.input, got.Body)
			}

			owner.site(id, `usage { quota }`).named("after %s", step.input).has(t, "site.usage.quota", quota)
		}

		set := schema.Mutation.Fields.ForName("setSitePlan")
		ids := func(string) string { return id }
		operator.call(t, ast.Mutation, set, ids).
			named("all there is of another account's site").hides(t, "secret").has(t, "setSitePlan.plan", "ENTERPRISE")
		operator.call(t, ast.Mutation, set, func(string) string { return a.unknown(id) }).
			named("an unknown site").fails(t, "setSitePlan", "siteId:NOT_FOUND")
	})
}

func TestLimitsOfLists(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		id := c.createSite("example.com").ok(t, "createSite").at("createSite.site.id").(string)
		for i := range model.MaxExtraDomains {
			c.change("addSiteDomain", id, fmt.Sprintf(`domain: "d%d.example"`, i)).ok(t, "addSiteDomain")
		}

		for i := range model.MaxRegisteredEvents {
			c.change("registerEvent", id, fmt.Sprintf(`name: "e%d"`, i)).ok(t, "registerEvent")
		}

		networks := func(n int) string {
			var list []string
			for i := range n {
				list = append(list, fmt.Sprintf(`"10.0.%d.%d"`, i/250, i%250))
			}
			return "excludedAddresses: [" + strings.Join(list, ",") + "]"
		}

		c.change("updateSite", id, networks(model.MaxExcludedNetworks)).ok(t, "updateSite")

		for _, test := range [][3]string{
			{"addSiteDomain", `domain: "more.example"`, "domain:TOO_MANY_DOMAINS"},
			{"registerEvent", `name: "more"`, "name:TOO_MANY_EVENTS"},
			{"updateSite", networks(model.MaxExcludedNetworks + 1), "excludedAddresses:TOO_MANY_NETWORKS"},
		} {
			c.change(test[0], id, test[1]).named("%s", test[0]).fails(t, test[0], test[2])
		}
	})
}

func TestServerSecret(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		id := c.createSite("example.com").ok(t, "createSite").at("createSite.site.id").(string)
		rotate := func() string {
			got := c.done("rotateServerSecret", "siteId", id)
			secret := got.at("rotateServerSecret.serverSecret").(string)
			if !model.IsSecret("svcs_", secret) || got.at("rotateServerSecret.site.serverSecretHint") != model.SecretHint(secret) {
				t.Errorf("got %s", got.Body)
			}
			return secret
		}

		works := func(secret string) bool {
			_, err := sites.New(a.db).Lookup.SiteRulesByServerSecret(t.Context(), model.HashToken(secret))
			return err == nil
		}

		first := rotate()
		if !works(first) {
			t.Error("the first secret does not work")
		}

		second := rotate()
		if works(first) || !works(second) || first == second {
			t.Error("the second secret did not replace the first")
		}
		if rows, err := dbtest.Dump(a.db, "sites"); err != nil || strings.Contains(strings.Join(rows, ""), second) {
			t.Errorf("the table holds the secret itself, or %v", err)
		}

		got := c.change("revokeServerSecret", id, "").ok(t, "revokeServerSecret")
		if got.at("revokeServerSecret.site.serverSecretHint") != nil || works(second) {
			t.Errorf("after revoking: %s", got.Body)
		}

		if got := c.query(`mutation { rotateServerSecret(input: {siteId: "site_x"}) { serverSecret site { id } userErrors { field code } } }`); got.Body !=
			`{"data":{"rotateServerSecret":{"serverSecret":null,"site":null,"userErrors":[{"field":["input","siteId"],"code":"NOT_FOUND"}]}}}` {
			t.Errorf("of an unknown site: %s", got.Body)
		}
	})
}

// TestWholeLists replaces the lists of a site: completely or not at all, with every wrong item
// reported.
func TestWholeLists(t *testing.T) {
	t.Parallel()
	many := func(n int, format string) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(`"`+format+`"`, i)
		}
		return strings.Join(list, ", ")
	}

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c := newApp(t, d).owner("owner@example.com")
		id := c.createSite("example.com").ok(t, "createSite").at("createSite.site.id").(string)

		// lists are the stored ones after a step.
		lists := func() string {
			site := c.site(id, `extraDomains registeredEvents keyEvents`)
			return fmt.Sprint(site.at("site.extraDomains"), site.at("site.registeredEvents"), site.at("site.keyEvents"))
		}

		for _, step := range []struct{ input, wrong, want string }{
			{`extraDomains: ["WWW.b.example", "a.example", "a.example"]`, "", "[a.example www.b.example] [] [purchase]"},
			{`extraDomains: ["c.example", "127.0.0.1", "example.com", "localhost"]`,
				"extraDomains.1:INVALID_DOMAIN extraDomains.2:OWN_DOMAIN extraDomains.3:INVALID_DOMAIN", "[a.example www.b.example] [] [purchase]"},
			{`extraDomains: [` + many(model.MaxExtraDomains+1, "d%d.example") + `]`, "extraDomains:TOO_MANY_DOMAINS",
				"[a.example www.b.example] [] [purchase]"},
			{`extraDomains: [` + many(100, "d%d") + `]`, wrongItems("extraDomains", "INVALID_DOMAIN"),
				"[a.example www.b.example] [] [purchase]"},
			{`extraDomains: []`, "", "[] [] [purchase]"},

			{`registeredEvents: ["signup", "lead", "lead", "trial"]`, "", "[] [lead signup trial] [purchase]"},
			{`keyEvents: ["scroll", "signup", "refund", "purchase", "lead"]`, "",
				"[] [lead signup trial] [lead purchase refund scroll signup]"},
			{`keyEvents: ["signup", "no", "pageview", ""]`,
				"keyEvents.1:EVENT_NOT_REGISTERED keyEvents.2:EVENT_NOT_REGISTERED keyEvents.3:EVENT_NOT_REGISTERED",
				"[] [lead signup trial] [lead purchase refund scroll signup]"},
			{`registeredEvents: ["new", "Signup", "scroll"]`, "registeredEvents.1:INVALID_EVENT_NAME registeredEvents.2:RESERVED_EVENT_NAME",
				"[] [lead signup trial] [lead purchase refund scroll signup]"},
			{`registeredEvents: [` + many(model.MaxRegisteredEvents+1, "e%d") + `]`, "registeredEvents:TOO_MANY_EVENTS",
				"[] [lead signup trial] [lead purchase refund scroll signup]"},
			{`registeredEvents: ["signup", "other"]`, "", "[] [other signup] [purchase refund scroll signup]"},
			{`keyEvents: ["other"]`, "", "[] [other signup] [other purchase]"},
			{`keyEvents: []`, "", "[] [other signup] [purchase]"},
			{`registeredEvents: []`, "", "[] [] [purchase]"},

			// Key events may be registered by the same change, also where another name is refused.
			{`registeredEvents: ["signup"], keyEvents: ["signup"], extraDomains: ["a.example"]`, "", "[a.example] [signup] [purchase signup]"},
			{`keyEvents: ["new", "no"], registeredEvents: ["new", "Signup"]`,
				"registeredEvents.1:INVALID_EVENT_NAME keyEvents.1:EVENT_NOT_REGISTERED", "[a.example] [signup] [purchase signup]"},
			{`name: "", extraDomains: ["b.example", "x"], smallGroup: 0, excludedAddresses: ["y"]`,
				"name:INVALID_NAME smallGroup:INVALID_SMALL_GROUP extraDomains.1:INVALID_DOMAIN excludedAddresses.0:INVALID_NETWORK",
				"[a.example] [signup] [purchase signup]"},
			{`extraDomains: null, registeredEvents: null, keyEvents: null`, "", "[a.example] [signup] [purchase signup]"},
			{`extraDomains: [], registeredEvents: []`, "", "[] [] [purchase]"},
		} {
			got := c.change("updateSite", id, step.input)
			if got.userErrors("updateSite") != step.wrong || lists() != step.want {
				t.Errorf("%.60s: %s, then %s; want %s", step.input, got.Body, lists(), step.want)
			}
		}

		// A full list is replaced by another full one.
		full := many(model.MaxRegisteredEvents, "e%d")
		c.change("updateSite", id, `registeredEvents: [`+full+`]`).ok(t, "updateSite")
		c.change("updateSite", id, `keyEvents: [`+full+`]`).ok(t, "updateSite")
		c.change("updateSite", id, `registeredEvents: [`+many(model.MaxRegisteredEvents, "f%d")+`]`).ok(t, "updateSite")
		if got := lists(); !strings.Contains(got, "f49") || !strings.HasSuffix(got, "[purchase]") {
			t.Errorf("after another full list: %s", got)
		}
	})
}

// TestOldServerSecret checks the fields and errors of a rotation with overlap.
func TestOldServerSecret(t *testing.T) {
	const fields = `{ serverSecretHint oldServerSecretHint oldServerSecretValidUntil }`

	eachOwner(t, func(t *testing.T, a *app, c *client) {
		id := c.createSite("example.com").ok(t, "createSite").at("createSite.site.id").(string)
		rotate := func(keep int) *answer {
			return c.query(`mutation($id: ID!, $keep: Int!) { rotateServerSecret(input: {siteId: $id, keepOldFor: $keep}) {
				serverSecret site `+fields+` userErrors { field code } } }`, "id", id, "keep", keep)
		}

		// want compares the hints of the current and the old secret, and the end of the old one.
		want := func(what, current, old, until string) {
			t.Helper()
			got := c.query(`query($id: ID!) { site(id: $id) `+fields+` }`, "id", id)
			for field, want := range map[string]string{
				"serverSecretHint": current, "oldServerSecretHint": old, "oldServerSecretValidUntil": until,
			} {
				if text, _ := got.at("site." + field).(string); text != want {
					t.Errorf("%s: %s, want the %s %q", what, got.Body, field, want)
				}
			}
		}

		for _, keep := range []int{-1, 8, 1 << 30} {
			if got := rotate(keep); got.userErrors("rotateServerSecret") != "keepOldFor:INVALID_DURATION" ||
				got.at("rotateServerSecret.serverSecret") != nil {
				t.Errorf("%d days: %s", keep, got.Body)
			}
		}

		secret := func(got *answer) string {
			t.Helper()
			return model.SecretHint(got.ok(t, "rotateServerSecret").at("rotateServerSecret.serverSecret").(string))
		}

		first := secret(rotate(7))
		want("the first one", first, "", "")
		second := secret(rotate(7))
		want("rotated", second, first, "2026-11-27T09:30:00Z")

		a.clock.Add(24 * time.Hour)
		third := secret(rotate(1))
		want("rotated again", third, second, "2026-11-22T09:30:00Z")
		a.clock.Add(24*time.Hour - time.Microsecond)
		want("just before the end", third, second, "2026-11-22T09:30:00Z")
		a.clock.Add(time.Microsecond)
		want("at the end", third, "", "")

		fourth := secret(rotate(1))
		c.change("revokeOldServerSecret", id, "").ok(t, "revokeOldServerSecret")
		want("ended early", fourth, "", "")
		c.change("revokeOldServerSecret", id, "").ok(t, "revokeOldServerSecret")

		rotate(1)
		fifth := secret(rotate(0))
		want("without overlap", fifth, "", "")
		rotate(1)
		c.change("revokeServerSecret", id, "").ok(t, "revokeServerSecret")
		want("revoked", "", "", "")
	})
}

// TestOldWebhookSecret checks until when the old webhook secret signs.
func TestOldWebhookSecret(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		id := c.createSite("example.com").ok(t, "createSite").at("createSite.site.id").(string)

		for _, step := range []struct {
			secret string
			pass   time.Duration
			want   any
		}{
			{"the first secret of 16", 0, nil},
			{"the second secret of 16", 0, "2026-11-21T09:30:00Z"},
			{"the second secret of 16", 24*time.Hour - time.Microsecond, "2026-11-21T09:30:00Z"},
			{"the second secret of 16", time.Microsecond, nil},
			{"the third secret of 16", 0, "2026-11-22T09:30:00Z"},
			{"", 0, nil},
			{"the first secret of 16", 0, nil},
		} {
			a.clock.Add(step.pass)
			got := c.done("setConversionWebhook", "siteId", id, "secret", step.secret)
			got.
				named("%q after %v", step.secret, step.pass).has(t, "setConversionWebhook.site.oldWebhookSecretValidUntil", step.want)
		}
	})
}

func TestRejectionsAndNotice(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		id := c.createSite("example.com").ok(t, "createSite").at("createSite.site.id").(string)
		read := func(days string) *answer {
			return c.site(id, `notice lastHitAt rejections`+days+` { day endpoint code count ignored recorded advice }`)
		}
		read("").ok(t, "").named("a new site").is(t, `{"data":{"site":{"notice":null,"lastHitAt":null,"rejections":[]}}}`)

		today := model.At(start).Day()
		add := func(day model.Day, endpoint, code string, n int64) {
			t.Helper()
			key := ingest.RejectionKey{SiteID: 1, Day: day, Endpoint: endpoint, Code: code}
			must(t, ingest.New(a.db).AddRejections(t.Context(), map[ingest.RejectionKey]int64{key: n}))
		}

		add(today, "collect", "bot", 50)

		read("").ok(t, "").named("ignored calls only").has(t, "site.notice", nil).has(t, "site.rejections.0.ignored", true)

		add(today-7, "collect", "domain_not_allowed", 9)

		read("(days: 8)").ok(t, "").named("rejected a week ago").has(t, "site.notice", nil).has(t, "site.rejections.1.count", 9.0)

		add(today-6, "server", "unknown_event", 1)

		if got := read("").ok(t, ""); !strings.HasPrefix(fmt.Sprint(got.at("site.notice")), "1 call was rejected in the last 7 days") {
			t.Errorf("one rejected call: %s", got.Body)
		}

		add(today, "collect", "domain_not_allowed", 2)
		got := read("").ok(t, "")
		if !strings.HasPrefix(fmt.Sprint(got.at("site.notice")), "3 calls were rejected in the last 7 days") {
			t.Errorf("three rejected calls: %s", got.Body)
		}

		want := map[string]any{
			"day": "2026-11-20", "endpoint": "collect", "code": "domain_not_allowed", "count": 2.0, "ignored": false, "recorded": false,
			"advice": "The page is on a domain that is not the site's: add it as an extra domain if it is yours.",
		}
		testkit.DeepEqual(t, got.at("site.rejections.1"), want, "got")

		add(today, "server", "private_ip", 1)
		got = read("").ok(t, "")
		want = map[string]any{
			"day": "2026-11-20", "endpoint": "server", "code": "private_ip", "count": 1.0, "ignored": false, "recorded": true,
			"advice": model.RejectionAdvice("private_ip"),
		}
		testkit.DeepEqual(t, got.at("site.rejections.2"), want, "got")
		if notice := "3 calls were rejected in the last 7 days. 1 recorded call of the last 7 days needs attention. " +
			"See rejections for the reasons and advice."; got.at("site.notice") != notice {
			t.Errorf("notice %q, want %q", got.at("site.notice"), notice)
		}

		must(t, dbtest.Exec(a.db, "DELETE FROM rejections WHERE code <> 'private_ip'"))
		if notice := "1 recorded call of the last 7 days needs attention. See rejections for the reason and advice."; read("").at("site.notice") != notice {
			t.Errorf("only recorded calls: %v, want %q", read("").at("site.notice"), notice)
		}

		for _, days := range []string{"(days: 0)", "(days: 91)", "(days: -1)"} {
			read(days).named("%s", days).code(t, "INVALID_ARGUMENT")
		}
	})
}

func TestLastHitTellsWhetherTheScriptIsInstalled(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		c.createSite("a.example").ok(t, "createSite")
		c.createSite("b.example").ok(t, "createSite")
		c.createSite("c.example").ok(t, "createSite")
		at := model.At(start)

		for _, statement := range []string{
			`INSERT INTO pageviews (site_id, at, id, visitor, n, width_range, manual, path) VALUES (1, ?, 1, 1, 1, 0, false, '/')`,
			`INSERT INTO events (site_id, at, id, visitor, n, name, path) VALUES (2, ?, 1, 1, 1, 'signup', '/')`,
		} {
			for _, earlier := range []time.Duration{0, time.Hour} {
				must(t, dbtest.Exec(a.db, statement, at.Add(-earlier)))
			}
		}

		must(t, dbtest.Exec(a.db, `INSERT INTO events (site_id, at, id, visitor, n, name, path) VALUES (1, ?, 1, 1, 1, 'signup', '/')`,
			at.Add(-time.Minute)))

		got := c.query(`{ sites { edges { node { domain lastHitAt cspLines } } } }`).ok(t, "")
		for i, want := range []any{"2026-11-20T09:30:00Z", "2026-11-20T09:30:00Z", nil} {
			equal(t, got.at(fmt.Sprintf("sites.edges.%d.node.lastHitAt", i)), want, "site %d", i)
		}

		if lines := got.at("sites.edges.0.node.cspLines"); !reflect.DeepEqual(lines, []any{
			"script-src https://stats.example.net", "connect-src https://stats.example.net",
		}) {
			t.Errorf("policy %v", lines)
		}
	})
}

// wrongItems returns the userErrors of a list of invalid items: the first 20.
func wrongItems(field, code string) string {
	var all []string
	for i := range model.MaxListErrors {
		all = append(all, fmt.Sprintf("%s.%d:%s", field, i, code))
	}
	return strings.Join(all, " ")
}
