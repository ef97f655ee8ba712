package graph_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// connection is a list of the schema in one order, with what identifies its rows.
type connection struct {
	name   string
	query  string // with %s for the arguments; it selects edges with a cursor and a field as "key"
	path   string // of the connection in the data
	order  string // the value of orderBy
	others []string
	want   []string // the keys of all rows
}

// page is one page of a connection.
type page struct {
	keys, cursors []string
	next, prev    bool
	total         float64
}

func (c *client) page(t *testing.T, list connection, siteID, arguments string) page {
	t.Helper()

	got := c.query(fmt.Sprintf(list.query, "orderBy: "+list.order+" "+arguments), "id", siteID).ok(t, "")
	at := func(path string) any { return got.at(list.path + "." + path) }
	p := page{next: at("pageInfo.hasNextPage").(bool), prev: at("pageInfo.hasPreviousPage").(bool), total: at("totalCount").(float64)}
	for _, edge := range at("edges").([]any) {
		edge := edge.(map[string]any)
		p.keys = append(p.keys, edge["node"].(map[string]any)["key"].(string))
		p.cursors = append(p.cursors, edge["cursor"].(string))
	}

	var nodes []string
	for _, node := range at("nodes").([]any) {
		nodes = append(nodes, node.(map[string]any)["key"].(string))
	}

	if !slices.Equal(nodes, p.keys) {
		t.Errorf("%s(%s): nodes %v, edges %v", list.name, arguments, nodes, p.keys)
	}
	if n := len(p.cursors); n > 0 && (at("pageInfo.startCursor") != p.cursors[0] || at("pageInfo.endCursor") != p.cursors[n-1]) {
		t.Errorf("%s(%s): %s, cursors %v", list.name, arguments, got.Body, p.cursors)
	}

	return p
}

// TestConnections reads every list in every order forwards and backwards, page by page, and between
// two cursors, by Relay's rules.
func TestConnections(t *testing.T) {
	const fields = "totalCount nodes { key: %s } edges { cursor node { key: %[1]s } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor }"
	eachApp(t, func(t *testing.T, a *app) {
		c, other := a.owner("owner@example.com"), a.owner("other@example.com")
		other.createSite("another.example").ok(t, "createSite")
		other.createSitekey("another").ok(t, "createSitekey")

		names := []string{"delta", "Äpfel", "Bravo", "alpha", "alpha", "Charlie", "zulu"}
		domains := []string{"d", "g", "b", "a", "f", "c", "e"}
		for i := range domains {
			domains[i] += ".example"
			c.query(createSiteMutation, "domain", domains[i], "name", names[i]).ok(t, "createSite")
			c.createSitekey(names[i]).ok(t, "createSitekey")
		}

		siteID := c.query(`{ sites(first: 1) { nodes { id } } }`).at("sites.nodes.0.id").(string)
		var events, days []string
		for i := range 7 {
			events = append(events, fmt.Sprintf("event-%d", i))
			must(t, dbtest.Exec(a.db, `INSERT INTO deliveries (site_id, id, kind, event, state, attempts, created_at, next_attempt_at, body)
				VALUES (?, ?, 'conversion', ?, 'delivered', 1, ?, 0, '{}')`, a.siteNumber(siteID), model.NewTimeID(model.At(start)+model.Instant(i)),
				events[i], model.At(start)))

			// Two annotations of a day.
			days = append(days, fmt.Sprintf("note %d", i))
			c.done("createAnnotation", "siteId", siteID, "day", fmt.Sprintf("2026-11-%02d", 10+i/2), "text", days[i])
		}

		reversed := func(list []string) []string {
			list = slices.Clone(list)
			slices.Reverse(list)
			return list
		}

		// The two sites named alpha follow in the order of their creation.
		byName := []string{"a.example", "f.example", "b.example", "c.example", "d.example", "e.example", "g.example"}
		folded := []string{"alpha", "alpha", "Bravo", "Charlie", "delta", "zulu", "Äpfel"}
		siteList := "{ sites(%s) { " + fmt.Sprintf(fields, "domain") + " } }"
		accountList := "{ viewer { account { sites(%s) { " + fmt.Sprintf(fields, "domain") + " } } } }"
		keyList := "{ sitekeys(%s) { " + fmt.Sprintf(fields, "name") + " } }"
		sent := "query($id: ID!) { site(id: $id) { deliveries(%s) { " + fmt.Sprintf(fields, "event") + " } } }"
		notes := "query($id: ID!) { site(id: $id) { annotations(%s) { " + fmt.Sprintf(fields, "text") + " } } }"
		for _, list := range []connection{
			{"sites", siteList, "sites", "OLDEST", []string{"NEWEST", "NAME", "DOMAIN"}, domains},
			{"sites", siteList, "sites", "NEWEST", []string{"OLDEST", "NAME", "DOMAIN"}, reversed(domains)},
			{"sites", siteList, "sites", "NAME", []string{"OLDEST", "NEWEST", "DOMAIN"}, byName},
			{"sites", siteList, "sites", "DOMAIN", []string{"OLDEST", "NEWEST", "NAME"}, slices.Sorted(slices.Values(domains))},
			{"account.sites", accountList, "viewer.account.sites", "NAME", []string{"OLDEST"}, byName},
			{"sitekeys", keyList, "sitekeys", "OLDEST", []string{"NEWEST", "NAME"}, names},
			{"sitekeys", keyList, "sitekeys", "NEWEST", []string{"OLDEST", "NAME"}, reversed(names)},
			{"sitekeys", keyList, "sitekeys", "NAME", []string{"OLDEST", "NEWEST"}, folded},
			{"deliveries", sent, "site.deliveries", "NEWEST", []string{"OLDEST"}, reversed(events)},
			{"deliveries", sent, "site.deliveries", "OLDEST", []string{"NEWEST"}, events},
			{"annotations", notes, "site.annotations", "NEWEST", []string{"OLDEST"}, reversed(days)},
			{"annotations", notes, "site.annotations", "OLDEST", []string{"NEWEST"}, days},
		} {
			t.Run(list.name+"/"+list.order, func(t *testing.T) {
				a.clock.Add(time.Minute)
				if !strings.Contains(list.query, "$id") {
					list.query = strings.Replace(list.query, "{", "query($id: ID!) { __typename site(id: $id) { id } ", 1)
				}

				read := func(arguments string) page {
					t.Helper()
					return c.page(t, list, siteID, arguments)
				}

				check := func(arguments string, from, to int, prev, next bool) {
					t.Helper()
					got := read(arguments)
					if !slices.Equal(got.keys, list.want[from:to]) || got.prev != prev || got.next != next || got.total != 7 {
						t.Errorf("%s: %+v, want %v, previous %v, next %v", arguments, got, list.want[from:to], prev, next)
					}
				}

				cursors := read("").cursors
				if len(cursors) != 7 {
					t.Fatalf("%d rows", len(cursors))
				}

				after := func(i int) string { return fmt.Sprintf(" after: %q", cursors[i]) }
				before := func(i int) string { return fmt.Sprintf(" before: %q", cursors[i]) }
				check("", 0, 7, false, false)
				check("first: 3", 0, 3, false, true)
				check("first: 3"+after(2), 3, 6, true, true)
				check("first: 3"+after(5), 6, 7, true, false)
				check("first: 1"+after(6), 7, 7, true, false)
				check("last: 3", 4, 7, true, false)
				check("last: 3"+before(4), 1, 4, true, true)
				check("last: 3"+before(1), 0, 1, false, true)
				check("last: 1"+before(0), 0, 0, false, true)
				check("first: 2"+after(1)+before(5), 2, 4, true, true)
				check("last: 2"+after(1)+before(5), 3, 5, true, true)
				check("last: 100"+after(1)+before(5), 2, 5, true, true)
				check(after(1)+before(5), 2, 5, true, true)

				for _, arguments := range []string{
					"first: 2 last: 2", "first: 0", "last: 0", "first: 101", "last: 101", "last: -1", `after: "x"`, `before: ""`,
				} {
					c.query(fmt.Sprintf(list.query, arguments), "id", siteID).named("%s", arguments).code(t, "INVALID_ARGUMENT")
				}

				for _, order := range list.others {
					for _, argument := range []string{"after", "before"} {
						arguments := fmt.Sprintf("orderBy: %s %s: %q", order, argument, cursors[2])
						c.query(fmt.Sprintf(list.query, arguments), "id", siteID).
							named("a cursor of %s is accepted: %s", list.order, arguments).code(t, "INVALID_ARGUMENT")
					}
				}
			})
		}

		// Without first and last a page has 20 rows.
		makeSites(t, a.db, 25)

		equal(t, len(c.query(`{ sites { nodes { id } } }`).at("sites.nodes").([]any)), 20, "sites on a page by default")
	})
}

// TestPagesSurviveChanges: a cursor keeps its place when its row is renamed or deleted.
func TestPagesSurviveChanges(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		for _, name := range []string{"a", "b", "c", "d"} {
			c.createSite(name+".example").ok(t, "createSite")
		}

		for _, order := range []string{"NAME", "DOMAIN", "OLDEST"} {
			first := c.query(`{ sites(first: 2, orderBy: `+order+`) { nodes { id } pageInfo { endCursor } } }`).ok(t, "")
			second := first.at("sites.nodes.1.id")
			if order == "NAME" {
				c.change("updateSite", second.(string), `name: "zz"`).ok(t, "updateSite")
			}
			if order == "OLDEST" {
				must(t, dbtest.Exec(a.db, "DELETE FROM sites WHERE id = ?", a.siteNumber(second.(string))))
			}

			next := c.query(`query($after: String) { sites(first: 1, orderBy: `+order+`, after: $after) { nodes { domain } } }`,
				"after", first.at("sites.pageInfo.endCursor")).ok(t, "")
			equal(t, next.at("sites.nodes.0.domain"), "c.example", "%s: after b comes", order)

			if order == "NAME" {
				c.change("updateSite", second.(string), `name: "b.example"`).ok(t, "updateSite")
			}
		}
	})
}

// TestSearch finds sites and sitekeys by parts of their names and domains: the same on both
// databases, whatever the case and language, with no wildcards, and only within the account.
func TestSearch(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		c, other := a.owner("owner@example.com"), a.owner("other@example.com")
		other.query(createSiteMutation, "domain", "shop.example", "name", "Shop").ok(t, "createSite")
		other.createSitekey("Shop").ok(t, "createSitekey")

		for _, site := range [][2]string{
			{"www-shop.example", "Online SHOP"}, {"blog.example", "Ärzteblog"}, {"müller.example", "Bäckerei"},
			{"rates.example", "100 % fair_trade"}, {"plain.example", "ΟΔΟΣ"},
		} {
			c.query(createSiteMutation, "domain", site[0], "name", site[1]).ok(t, "createSite")
			c.createSitekey(site[1], site[0]).ok(t, "createSitekey")
		}

		for search, want := range map[string]string{
			"shop": "www-shop.example", "SHOP": "www-shop.example", "Example": "5 of them", "ärzte": "blog.example", "ÄRZTE": "blog.example",
			"MÜLLER": "xn--mller-kva.example", "xn--mller": "xn--mller-kva.example", "bäckerei": "xn--mller-kva.example",
			"%": "rates.example", "_": "rates.example", "0 %": "rates.example", `\`: "", "100_": "", "οδο": "plain.example",
			"nowhere": "", "": "5 of them", "'": "",
		} {
			got := c.query(`query($search: String) { sites(search: $search) { totalCount nodes { domain } }
				sitekeys(search: $search) { totalCount nodes { domains } } }`, "search", search).ok(t, "")

			var domains, keys []string
			for _, node := range got.at("sites.nodes").([]any) {
				domains = append(domains, node.(map[string]any)["domain"].(string))
			}
			for _, node := range got.at("sitekeys.nodes").([]any) {
				keys = append(keys, node.(map[string]any)["domains"].([]any)[0].(string))
			}

			found := strings.Join(domains, " ")
			if len(domains) == 5 {
				found = "5 of them"
			}

			if found != want || !slices.Equal(domains, keys) || got.at("sites.totalCount") != float64(len(domains)) ||
				got.at("sitekeys.totalCount") != float64(len(domains)) {
				t.Errorf("%q finds the sites %v and the sitekeys of %v, want %s: %s", search, domains, keys, want, got.Body)
			}
		}

		// Pages of what a search finds.
		got := c.query(`{ sites(search: "example", last: 2, orderBy: NEWEST) { totalCount nodes { domain } pageInfo { hasPreviousPage hasNextPage } } }`).ok(t, "")
		if got.Body != `{"data":{"sites":{"totalCount":5,"nodes":[{"domain":"blog.example"},{"domain":"www-shop.example"}],"pageInfo":{"hasPreviousPage":true,"hasNextPage":false}}}}` {
			t.Errorf("the last page: %s", got.Body)
		}

		for _, search := range []string{strings.Repeat("ä", 254), "a\nb"} {
			c.query(`query($search: String) { sites(search: $search) { totalCount } }`, "search", search).
				named("%q", search).code(t, "INVALID_ARGUMENT")
		}
	})
}

// TestSiteByDomain: a site is found by its own domain in any form, and only in its account.
func TestSiteByDomain(t *testing.T) {
	eachApp(t, func(t *testing.T, a *app) {
		c, other := a.owner("owner@example.com"), a.owner("other@example.com")
		id := c.createSite("müller.example").ok(t, "createSite").at("createSite.site.id")
		c.change("addSiteDomain", id.(string), `domain: "extra.example"`).ok(t, "addSiteDomain")
		other.createSite("other.example").ok(t, "createSite")

		const query = `query($id: ID, $domain: String) { site(id: $id, domain: $domain) { id } }`
		for _, domain := range []string{"müller.example", "MÜLLER.example", "xn--mller-kva.example"} {
			c.query(query, "domain", domain).ok(t, "").named("%s", domain).has(t, "site.id", id)
		}

		for _, domain := range []string{"other.example", "extra.example", "www.müller.example", "nowhere.example", "", "no domain"} {
			c.query(query, "domain", domain).ok(t, "").named("%q", domain).is(t, `{"data":{"site":null}}`)
		}

		other.query(query, "domain", "müller.example").ok(t, "").named("another account's site").has(t, "site", nil)
		account := other.query(`{ viewer { account { id } } }`).at("viewer.account.id")
		got := c.query(`query($account: ID) { site(domain: "other.example", accountId: $account) { id } }`, "account", account)
		got.named("in another account").is(t, `{"data":{"site":null}}`)
		c.query(query).named("neither").code(t, "INVALID_ARGUMENT")
		c.query(query, "id", id, "domain", "müller.example").named("both").code(t, "INVALID_ARGUMENT")
		a.client().query(query, "domain", "müller.example").named("not signed in").code(t, "UNAUTHENTICATED")
	})
}
