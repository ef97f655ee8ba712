package graph_test

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestCreateSite(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		got := c.createSite(" Shop.Example.COM. ").ok(t, "createSite")
		key, _ := got.at("createSite.site.siteKey").(string)
		if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(key) {
			t.Errorf("site key %q", key)
		}

		want := map[string]any{
			"id":              a.ids.Of(nodeid.Site, 1),
			"domain":          "shop.example.com",
			"name":            "shop.example.com",
			"plan":            "FREE",
			"scriptTag":       `<script defer src="https://stats.example.net/svc.js" data-site="` + key + `"></script>`,
			"createdAt":       "2026-11-20T09:30:00Z",
			"usage.period":    "2026-11",
			"usage.pageviews": 0.0,
			"usage.quota":     10000.0,
			"usage.percent":   0.0,
			"usage.resetsAt":  "2026-12-01T00:00:00Z",
		}
		for path, value := range want {
			got.named("%s", path).has(t, "createSite.site."+path, value)
		}

		if site, err := sites.New(a.db).Lookup.SiteRulesByKey(t.Context(), key); err != nil || site.Domain != "shop.example.com" {
			t.Errorf("stored: %+v, error %v", site, err)
		}

		tag := c.query(`{ site(domain: "shop.example.com") { scriptTag(kind: UMAMI) } }`).ok(t, "")
		tag.has(t, "site.scriptTag", `<script defer src="https://stats.example.net/script.js" data-website-id="`+key+`"></script>`)

		named := c.query(createSiteMutation, "domain", "example.org", "name", " My shop ").ok(t, "createSite")
		equal(t, named.at("createSite.site.name"), "My shop", "name")
	})
}

func TestCreateSiteDomains(t *testing.T) {
	tests := []struct{ domain, want string }{ // want is the stored domain; "" for invalid_domain
		{"example.com", "example.com"},
		{"EXAMPLE.org", "example.org"},
		{"bücher.example", "xn--bcher-kva.example"},
		{"BÜCHER.example.net", "xn--bcher-kva.example.net"},
		{"παράδειγμα.δοκιμή", "xn--hxajbheg2az3al.xn--jxalpdlp"},
		{"xn--bcher-kva.example.de", "xn--bcher-kva.example.de"},
		{"WWW.bare.example", "bare.example"},
		{"www.gov.uk", "www.gov.uk"},
		{"gov.uk", ""},
		{"co.uk", ""},
		{"", ""},
		{" ", ""},
		{"example", ""},
		{"localhost", ""},
		{"shop.localhost", ""},
		{"127.0.0.1", ""},
		{"[::1]", ""},
		{"2001:db8::1", ""},
		{"127.1", ""},
		{"example.com:8080", ""},
		{"https://example.com", ""},
		{"example.com/shop", ""},
		{"user@example.com", ""},
		{"exam ple.com", ""},
		{"example..com", ""},
		{".example.com", ""},
		{"*.example.com", ""},
		{"xn--a.example", ""},
		{"-shop.example", ""},
		{"shop-.example", ""},
		{"www.-.example", ""},
		{"shop-1.exa--mple.org", "shop-1.exa--mple.org"},
		{"example.com\u0000", ""},
		{strings.Repeat("a", 64) + ".example", ""},
		{strings.Repeat("a.", 130) + "example", ""},
	}

	eachOwner(t, func(t *testing.T, a *app, c *client) {
		for _, test := range tests {
			got := c.createSite(test.domain)

			if test.want == "" {
				if got.userErrors("createSite") != "domain:INVALID_DOMAIN" || len(got.Errors) > 0 || got.at("createSite.site") != nil {
					t.Errorf("%q: %s", test.domain, got.Body)
				}
			} else if got.userErrors("createSite") != "" || got.at("createSite.site.domain") != test.want {
				t.Errorf("%q: %s, want %s", test.domain, got.Body, test.want)
			}
		}

		both := c.query(createSiteMutation, "domain", "localhost", "name", "")
		equal(t, both.userErrors("createSite"), "domain:INVALID_DOMAIN name:INVALID_NAME", "two mistakes: %s", both.Body)

		// Every notation of a domain is the same domain.
		for _, again := range []string{"example.com", "Example.Com.", "bücher.example", "XN--bcher-kva.example", "www.example.com"} {
			c.createSite(again).named("%q a second time", again).fails(t, "createSite", "domain:DOMAIN_TAKEN")
		}

		if got := c.query(`{ site(domain: "bücher.example") { domain displayDomain } }`); got.at("site.domain") != "xn--bcher-kva.example" ||
			got.at("site.displayDomain") != "bücher.example" {
			t.Errorf("a domain for people: %s", got.Body)
		}

		// Another account can have the same domain.
		a.owner("other@example.com").createSite("example.com").ok(t, "createSite")
	})
}

func TestLocalDomainsAreASetting(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		c := newApp(t, d, func(s *settings) { s.graph.AllowLocalDomains = true }).owner("owner@example.com")
		c.createSite("demo.localhost").ok(t, "createSite")
		c.createSite("localhost").named("localhost itself").fails(t, "createSite", "domain:INVALID_DOMAIN")
	})
}

func TestUsageIsReadFromTheCounter(t *testing.T) {
	tests := []struct {
		used    int64
		percent float64
	}{{0, 0}, {1, 0}, {10, 0.1}, {2_500, 25}, {9_999, 99.9}, {10_000, 100}}

	eachOwner(t, func(t *testing.T, a *app, c *client) {
		for i, test := range tests {
			c.createSite(fmt.Sprintf("s%d.example.com", i)).ok(t, "createSite")
			id := model.SiteID(i + 1)
			addUsage(t, a.db, map[model.UsageKey]int64{{SiteID: id, Month: 202611}: test.used, {SiteID: id, Month: 202610}: 77})
		}

		got := c.query(`{ viewer { account { sites { edges { node { usage { pageviews percent } } } } } } }`).ok(t, "")
		for i, test := range tests {
			usage := got.at(fmt.Sprintf("viewer.account.sites.edges.%d.node.usage", i)).(map[string]any)
			if usage["pageviews"] != float64(test.used) || usage["percent"] != test.percent {
				t.Errorf("used %d: got %v, want %v percent", test.used, usage, test.percent)
			}
		}
	})
}

func addUsage(t *testing.T, d *db.DB, used map[model.UsageKey]int64) {
	t.Helper()
	hits := ingest.NewHitStore(dbtest.SitesCell(t, d))
	defer hits.Close()

	for key, n := range used {
		err := hits.Update(t.Context(), ingest.HitKeys{Usage: []model.UsageKey{key}}, func(*ingest.HitState) *ingest.HitChanges {
			return &ingest.HitChanges{Used: map[model.UsageKey]int64{key: n}}
		})
		testkit.NoError(t, err)
	}
}

func TestAnotherAccountsObjectsAnswerLikeUnknownOnes(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, owner *client) {
		site := owner.createSite("example.com").ok(t, "createSite").at("createSite.site.id")
		other := a.owner("other@example.com")

		ids := map[string]any{
			"another account's site": site,
			"another user":           "VXNlcjox",
			"another account":        "QWNjb3VudDox",
			"unknown site":           base64.StdEncoding.EncodeToString([]byte("Site:999")),
			"site number 0":          base64.StdEncoding.EncodeToString([]byte("Site:0")),
			"leading zero":           base64.StdEncoding.EncodeToString([]byte("Site:01")),
			"unknown type":           base64.StdEncoding.EncodeToString([]byte("Thing:1")),
			"huge number":            base64.StdEncoding.EncodeToString([]byte("Site:99999999999999999999")),
			"plain number":           "1",
			"empty":                  "",
			"not base64":             "!!!",
			"long":                   strings.Repeat("A", 4000),
		}
		for name, id := range ids {
			got := other.query(`query($id: ID!) { site(id: $id) { domain } node(id: $id) { id } }`, "id", id)
			got.named("%s", name).is(t, `{"data":{"site":null,"node":null}}`)
		}

		other.query(`{ sites { totalCount edges { node { id } } } }`).
			named("the other account's list").is(t, `{"data":{"sites":{"totalCount":0,"edges":[]}}}`)

		// The owner can read each of them; a user's id does not return a site.
		got := owner.query(`query($site: ID!, $user: ID!, $account: ID!) {
			site(id: $site) { domain }
			a: node(id: $site) { __typename id ... on Site { domain } }
			b: node(id: $user) { __typename ... on User { email } }
			c: node(id: $account) { __typename ... on Account { name } }
			d: site(id: $user) { domain } }`, "site", site, "user", owner.id(), "account", a.ids.Of(nodeid.Account, 1)).ok(t, "")

		want := `{"data":{"site":{"domain":"example.com"},"a":{"__typename":"Site","id":"` + site.(string) + `","domain":"example.com"},` +
			`"b":{"__typename":"User","email":"owner@example.com"},"c":{"__typename":"Account","name":"Example"},"d":null}}`
		got.named("the owner: got").is(t, want)
	})
}

func TestPagingThroughManySites(t *testing.T) {
	const many = 250
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		user := value(accounts.New(a.db).UserByEmail(t.Context(), "owner@example.com"))(t)

		for i := range many {
			_, err := sites.New(a.db).Sites.CreateSite(t.Context(), model.Site{
				AccountID: user.AccountID, SiteKey: model.NewSiteKey(), Domain: fmt.Sprintf("s%03d.example.com", i),
				Name: "s", Plan: model.PlanFree, MonthlyPageviews: 10_000,
			})
			testkit.NoError(t, err)
		}

		for _, first := range []int{100, 50, 33} {
			var seen []string
			var after any
			for page := 0; ; page++ {
				got := c.query(`query($first: Int!, $after: String) { sites(first: $first, after: $after) {
					totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
					edges { cursor node { domain usage { quota } } } } }`, "first", first, "after", after).ok(t, "")

				edges := got.at("sites.edges").([]any)
				for _, edge := range edges {
					seen = append(seen, edge.(map[string]any)["node"].(map[string]any)["domain"].(string))
				}

				info := got.at("sites.pageInfo").(map[string]any)
				if got.at("sites.totalCount") != float64(many) || info["hasPreviousPage"] != (page > 0) ||
					info["startCursor"] != got.at("sites.edges.0.cursor") ||
					info["endCursor"] != got.at(fmt.Sprintf("sites.edges.%d.cursor", len(edges)-1)) {
					t.Fatalf("page %d of %d: %s", page, first, got.Body)
				}

				after = info["endCursor"]

				if info["hasNextPage"] == false {
					break
				}
			}

			equal(t, len(seen), many, "by %d", first)

			for i, domain := range seen {
				equal(t, domain, fmt.Sprintf("s%03d.example.com", i), "by %d: site %d is", first, i)
			}
		}

		c.query(`query($after: String) { sites(after: $after) { pageInfo { hasNextPage startCursor endCursor } edges { cursor } } }`,
			"after", a.ids.Of(nodeid.AfterSite, 99999)).named("after the end").is(t,
			`{"data":{"sites":{"pageInfo":{"hasNextPage":false,"startCursor":null,"endCursor":null},"edges":[]}}}`)
		equal(t, len(c.query(`{ sites { edges { cursor } } }`).at("sites.edges").([]any)), 20, "without first")
	})
}

func TestPagingArguments(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		for _, arguments := range []string{
			"first: 0", "first: -1", "first: 101", "first: 2147483648", "first: 9223372036854775807",
			`after: ""`, `after: "x"`, `after: "after_"`, `after: "after_AAAAAAAAAAAAAAAAAAAAAA"`, `after: "` + a.ids.Of(nodeid.Site, 1) + `"`,
			`after: "` + a.ids.Of(nodeid.AfterSite, 0) + `"`,
		} {
			got := c.query(`{ sites(` + arguments + `) { totalCount } }`)
			got.named("%s", arguments).code(t, "INVALID_ARGUMENT").status(t, 200)
		}

		for _, arguments := range []string{
			`first: "1"`, "first: 1.5", "first: 9223372036854775808", "after: 1", "last: 1.5",
		} {
			got := c.query(`{ sites(` + arguments + `) { totalCount } }`)
			got.named("%s", arguments).code(t, "VALIDATION_FAILED").status(t, 400)
		}
	})
}
