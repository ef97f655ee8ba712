package graph_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

const sitekeyFields = `{ id sitekey name domains secretHint widgetTag cspLines optionalCspLines createdAt }`

// createSitekey creates a sitekey for domains.
func (c *client) createSitekey(name string, domains ...string) *answer {
	c.t.Helper()
	return c.query(`mutation($name: String!, $domains: [String!]!) { createSitekey(input: {name: $name, domains: $domains}) {
		sitekey `+sitekeyFields+` secret userErrors { field code message } } }`, "name", name, "domains", append([]string{}, domains...))
}

// TestSitekeyDomains: sitekeys accept localhost, which sites do not. IP addresses and wildcards are
// rejected with a reason.
func TestSitekeyDomains(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		c.createSitekey("Development", "shop.example", " LocalHost. ").
			named("with localhost").prints(t, "createSitekey.sitekey.domains", "[localhost shop.example]")

		wildcard := c.createSitekey("Wildcard", "*.shop.example")
		if got := fmt.Sprint(wildcard.at("createSitekey.userErrors")); !strings.Contains(got, `"*.shop.example" has a wildcard`) ||
			!strings.Contains(got, "subdomains are implied") {
			t.Errorf("of a wildcard the error says %s", got)
		}
		c.createSitekey("Address", "127.0.0.1").named("with an address").fails(t, "createSitekey", "domains.0:INVALID_DOMAIN")

		site := c.do("createSite", "domain", "localhost")
		equal(t, site.userErrors("createSite"), "domain:INVALID_DOMAIN", "a site on localhost: %s", site.Body)
	})
}

// TestOldSitekeySecret checks the fields and errors of a rotation with overlap.
func TestOldSitekeySecret(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		made := c.createSitekey("Form").ok(t, "createSitekey")
		id := made.at("createSitekey.sitekey.id").(string)
		first := model.SecretHint(made.at("createSitekey.secret").(string))
		rotate := func(keep int) *answer {
			return c.do("rotateSitekeySecret", "sitekeyId", id, "keepOldFor", keep)
		}

		want := func(what string, old, until any) {
			t.Helper()
			got := c.query(`query($id: ID!) { sitekey(id: $id) { oldSecretHint oldSecretValidUntil } }`, "id", id)
			got.named("%s", what).has(t, "sitekey.oldSecretHint", old).has(t, "sitekey.oldSecretValidUntil", until)
		}

		if got := rotate(8); got.userErrors("rotateSitekeySecret") != "keepOldFor:INVALID_DURATION" || got.at("rotateSitekeySecret.secret") != nil {
			t.Errorf("8 days: %s", got.Body)
		}

		want("new", nil, nil)
		rotate(7).ok(t, "rotateSitekeySecret")
		want("rotated", first, "2026-11-27T09:30:00Z")
		a.clock.Add(7 * 24 * time.Hour)
		want("at the end", nil, nil)

		rotate(1).ok(t, "rotateSitekeySecret")
		ended := c.done("revokeOldSitekeySecret", "sitekeyId", id)
		ended.named("ended early").has(t, "revokeOldSitekeySecret.sitekey.oldSecretHint", nil)
		want("ended early", nil, nil)

		rotate(1).ok(t, "rotateSitekeySecret")
		rotate(0).ok(t, "rotateSitekeySecret")
		want("without overlap", nil, nil)
	})
}

func TestSitekeys(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		made := c.createSitekey(" Form ", "WWW.Example.com", "a.example").ok(t, "createSitekey")
		id, key := made.at("createSitekey.sitekey.id").(string), made.at("createSitekey.sitekey.sitekey").(string)
		secret := made.at("createSitekey.secret").(string)
		want := map[string]any{
			"id": id, "sitekey": key, "name": "Form", "domains": []any{"a.example", "www.example.com"}, "secretHint": model.SecretHint(secret),
			"widgetTag": `<div class="service-captcha" data-sitekey="` + key + `"></div>` + "\n" +
				`<script defer src="https://captcha.example.net/captcha.js"></script>`,
			"cspLines":         []any{"script-src https://captcha.example.net", "connect-src https://captcha.example.net", "worker-src blob:"},
			"optionalCspLines": []any{"script-src 'wasm-unsafe-eval'", "style-src https://captcha.example.net"},
			"createdAt":        "2026-11-20T09:30:00Z",
		}
		if got := made.at("createSitekey.sitekey"); !model.IsSitekey(key) || !model.IsSecret(model.CaptchaSecretPrefix, secret) ||
			!reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}

		for _, query := range []string{`sitekey(id: $id)`, `node(id: $id)`} {
			got := c.query(`query($id: ID!) { key: `+query+` { ... on Sitekey `+sitekeyFields+` } }`, "id", id).ok(t, "")
			testkit.DeepEqual(t, got.at("key"), want, "%s: %s", query, got.Body)
		}

		works := func(secret string) bool {
			_, err := sites.New(a.db).Lookup.SitekeyBySecret(t.Context(), model.HashToken(secret))
			return err == nil
		}

		rotated := c.done("rotateSitekeySecret", "sitekeyId", id)
		second := rotated.at("rotateSitekeySecret.secret").(string)
		if !works(second) || works(secret) || rotated.at("rotateSitekeySecret.sitekey.secretHint") != model.SecretHint(second) {
			t.Errorf("rotated: %s", rotated.Body)
		}

		// A duplicate counts once.
		many := strings.Repeat(`"a.example", `, model.MaxSitekeyDomains)
		for i := range model.MaxSitekeyDomains {
			many += fmt.Sprintf(`"d%d.example", `, i)
		}

		for _, step := range []struct{ input, wrong, field, want string }{
			{`name: "Other"`, "", "name", "Other"},
			{`name: null, domains: []`, "", "domains", "[]"},
			{`domains: ["b.example"]`, "", "domains", "[b.example]"},
			{`name: "", domains: ["127.0.0.1"]`, "name:INVALID_NAME domains.0:INVALID_DOMAIN", "", ""},
			{`name: "x", domains: [` + many + `]`, "domains:TOO_MANY_DOMAINS", "", ""},
			{`name: "Last"`, "", "domains", "[b.example]"},
		} {
			got := c.query(`mutation($id: ID!) { updateSitekey(input: {sitekeyId: $id `+step.input+`}) { sitekey `+sitekeyFields+
				` userErrors { field code } } }`, "id", id)
			if got.userErrors("updateSitekey") != step.wrong || step.wrong == "" && fmt.Sprint(got.at("updateSitekey.sitekey."+step.field)) != step.want {
				t.Errorf("%s: %s", step.input, got.Body)
			}
		}

		several := c.createSitekey("Several", "good.example", "-bad.example", "also-good.example", "app.localhost")
		if got := fmt.Sprint(several.at("createSitekey.userErrors")); several.userErrors("createSitekey") != "domains.1:INVALID_DOMAIN domains.3:INVALID_DOMAIN" || !strings.Contains(got, `"-bad.example" is not a domain name`) {
			t.Errorf("of several domains the error names %s, want -bad.example", got)
		}
		if got := c.createSitekey("", "app.localhost"); got.userErrors("createSitekey") != "name:INVALID_NAME domains.0:INVALID_DOMAIN" ||
			got.at("createSitekey.secret") != nil {
			t.Errorf("a wrong one: %s", got.Body)
		}

		all := slices.Repeat([]string{"app.localhost"}, 100)
		c.createSitekey("All", all...).
			named("a hundred wrong ones").fails(t, "createSitekey", wrongItems("domains", "INVALID_DOMAIN"))

		c.createSitekey("Unbound").ok(t, "createSitekey")
		list := c.query(`{ sitekeys(first: 1) { totalCount edges { cursor node { name domains } } pageInfo { hasNextPage endCursor } } }`).ok(t, "")
		if list.at("sitekeys.totalCount") != 2.0 || list.at("sitekeys.edges.0.node.name") != "Last" || list.at("sitekeys.pageInfo.hasNextPage") != true {
			t.Errorf("the first page: %s", list.Body)
		}

		list = c.query(`query($after: String) { sitekeys(after: $after) { edges { node { name domains } } pageInfo { hasNextPage hasPreviousPage } } }`,
			"after", list.at("sitekeys.pageInfo.endCursor")).ok(t, "")
		if list.Body != `{"data":{"sitekeys":{"edges":[{"node":{"name":"Unbound","domains":[]}}],"pageInfo":{"hasNextPage":false,"hasPreviousPage":true}}}}` {
			t.Errorf("the second page: %s", list.Body)
		}

		notified := watchSitekeys(t, a.db)
		deleted := c.done("deleteSitekey", "sitekeyId", id)
		if <-notified != 1 || works(second) || deleted.at("deleteSitekey.sitekey.name") != "Last" {
			t.Errorf("deleted: %s", deleted.Body)
		}
	})
}

func TestCaptchaPlanAndUsage(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		operator, c := a.owner("operator@example.com"), a.owner("owner@example.com")
		read := func() string {
			return c.query(`{ viewer { account { captchaPlan captchaUsage {
				period verifications quota percent reserve reserveEndsAt standing resetsAt } } } }`).ok(t, "").Body
		}

		expect := func(plan, usage string) {
			t.Helper()
			want := `{"data":{"viewer":{"account":{"captchaPlan":"` + plan + `","captchaUsage":{"period":"2026-11",` + usage +
				`,"resetsAt":"2026-12-01T00:00:00Z"}}}}}`
			if got := read(); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}

		account := a.ids.Of(nodeid.Account, 2)
		set := func(plan string) {
			t.Helper()
			got := operator.done("setCaptchaPlan", "accountId", account, "plan", plan)
			got.named("set to %s", plan).has(t, "setCaptchaPlan.captchaPlan", plan).has(t, "setCaptchaPlan.accountId", account)
		}

		expect("FREE", `"verifications":0,"quota":10000,"percent":0,"reserve":1000,"reserveEndsAt":null,"standing":"WITHIN_QUOTA"`)

		err := dbtest.Exec(a.db, "INSERT INTO captcha_usage (account_id, month, used, reserve_from, over_quota) VALUES (2, 202611, 10500, ?, 10000)",
			model.At(start.Add(-24*time.Hour)))
		testkit.NoError(t, err)

		expect("FREE", `"verifications":10500,"quota":10000,"percent":105,"reserve":1000,"reserveEndsAt":"2026-11-26T09:30:00Z","standing":"IN_RESERVE"`)
		a.clock.Add(6 * 24 * time.Hour)
		c.signIn("owner@example.com", password).ok(t, "signIn")
		expect("FREE", `"verifications":10500,"quota":10000,"percent":105,"reserve":1000,"reserveEndsAt":"2026-11-26T09:30:00Z","standing":"EXHAUSTED"`)
		operator.signIn("operator@example.com", password).ok(t, "signIn")
		set("PRO_100K")
		expect("PRO_100K", `"verifications":10500,"quota":100000,"percent":10.5,"reserve":10000,"reserveEndsAt":null,"standing":"WITHIN_QUOTA"`)
		set("ENTERPRISE")
		expect("ENTERPRISE", `"verifications":10500,"quota":null,"percent":null,"reserve":null,"reserveEndsAt":null,"standing":"WITHIN_QUOTA"`)
	})
}
