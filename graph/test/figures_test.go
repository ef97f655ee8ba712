package graph_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/inprocess"
	"github.com/tallygate/tallygate/graph/plain"
	"github.com/tallygate/tallygate/tools/oracle"
)

// plainAnswer is an answer to a request for plain figures.
type plainAnswer struct {
	*http.Response
	body string
}

// figures sends a GET for a file of figures. token is an API token, or "".
func (a *app) figures(t *testing.T, file, token string, header ...string) plainAnswer {
	t.Helper()
	request := value(http.NewRequest(http.MethodGet, strings.TrimSuffix(a.url, "/graphql")+plain.Path+file, nil))(t)
	request.Header.Set(addressHeader, "192.0.2.1")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}

	response := value(a.client().http.Do(request))(t)
	defer response.Body.Close()
	return plainAnswer{response, string(value(io.ReadAll(response.Body))(t))}
}

// object decodes figures as JSON.
func (p plainAnswer) object(t *testing.T) map[string]any {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(p.body), &object); err != nil || p.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v: %s", p.StatusCode, err, p.body)
	}
	return object
}

// refuses checks the status and the code of a refused request.
func (p plainAnswer) refuses(t *testing.T, name string, status int, code string) {
	t.Helper()
	var refused struct{ Error, Message string }
	if err := json.Unmarshal([]byte(p.body), &refused); err != nil || p.StatusCode != status || refused.Error != code || refused.Message == "" {
		t.Errorf("%s: status %d, %v: %s, want %d %s", name, p.StatusCode, err, p.body, status, code)
	}
}

// figuresShop is an account with two sites and rows in one of them, by the id of the site.
func figuresShop(t *testing.T, a *app) (owner *client, site string) {
	t.Helper()
	owner = a.owner("owner@example.com")
	site = owner.siteOf("shop.example")
	owner.siteOf("other.example")
	owner.done("registerEvent", "siteId", site, "name", "signup")
	owner.done("markKeyEvent", "siteId", site, "name", "signup")
	a.storeWorld(site, oracle.World(rand.New(rand.NewPCG(8, 8)), model.At(a.clock.Now()).Day()-8, 8))
	a.work(a.clock.Now())
	return owner, site
}

// TestPlainFiguresEqualGraphQL asks 50 random questions as an owner, with a token of one site,
// through a link without revenue and as a guest, and compares each figure with GraphQL's.
func TestPlainFiguresEqualGraphQL(t *testing.T) {
	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		owner, site := figuresShop(t, a)
		link := owner.done("createSharedLink", "siteId", site, "name", "client", "hideRevenue", true).at("createSharedLink.token").(string)
		viewer := a.client().done("openSharedLink", "token", link).at("openSharedLink.viewerToken").(string)
		of := owner.done("createApiToken", "name", "one", "scopes", []string{"READ"}, "siteIds", []string{site})
		id := fmt.Sprintf("site(id: %q)", site)

		random := rand.New(rand.NewPCG(58, 58))
		for _, caller := range []struct{ name, site, token, graphQL, root string }{
			{"owner", site, owner.createToken("READ").secret, "", id},
			{"owner by domain", "shop.example", owner.createToken("READ").secret, "", id},
			{"token of one site", site, of.at("createApiToken.token").(string), "", id},
			{"link without revenue", link, "", viewer, "sharedSite"},
			{"guest", site, a.guest(owner, "guest@example.com", site).createToken("READ").secret, "", id},
		} {
			for n := range 10 {
				if caller.graphQL == "" {
					caller.graphQL = caller.token
				}
				q := randomQuestion(a.clock.Now(), random)
				got := a.figures(t, caller.site+".json?"+q.address.Encode(), caller.token).object(t)
				want := a.with(caller.graphQL, q.graphQL(caller.root)).ok(t, "")
				root, _, _ := strings.Cut(caller.root, "(")
				q.compare(t, fmt.Sprintf("%s, question %d", caller.name, n), got, want.at(root+".report"))
				if caller.name == "link without revenue" && strings.Contains(fmt.Sprint(got), "revenue") {
					t.Errorf("revenue through a link without revenue: %v", got)
				}
			}
		}
	})
}

// plainQuestion is the same question as an address and as GraphQL.
type plainQuestion struct {
	address                    url.Values
	period, filters, by, order string // of GraphQL
}

// randomQuestion asks for some days of the last eight.
func randomQuestion(now time.Time, random *rand.Rand) *plainQuestion {
	from := now.AddDate(0, 0, -1-random.IntN(8))
	to := from.AddDate(0, 0, random.IntN(3))
	first, last := from.Format(time.DateOnly), to.Format(time.DateOnly)
	q := &plainQuestion{address: url.Values{"from": {first}, "to": {last}, "compare": {"previous"}, "first": {"5"}, "interval": {"day"}}}
	q.period = fmt.Sprintf("{from: %q, to: %q}", first, last)

	names := []string{"PAGE", "CHANNEL", "SOURCE", "LANGUAGE", "EVENT", "ENTRY_PAGE"}
	q.by = names[random.IntN(len(names))]
	q.address.Set("by", strings.ToLower(q.by))

	orders := map[string]string{"visits": "VISITS", "pageviews.asc": "PAGEVIEWS, direction: ASC", "bounceRate": "BOUNCE_RATE"}
	name := []string{"visits", "pageviews.asc", "bounceRate"}[random.IntN(3)]
	q.address.Set("order", name)
	q.order = "{metric: " + orders[name] + "}"

	if random.IntN(2) == 0 {
		q.address.Add("f", "page:contains_not:/pricing")
		q.filters = `{dimension: PAGE, operator: CONTAINS_NOT, values: ["/pricing"]}`
	}
	return q
}

// graphQL returns the query of the same question.
func (q *plainQuestion) graphQL(root string) string {
	const figures = `visitors visits pageviews viewsPerVisit bounceRate engagementTime timeOnPage scrollDepth events conversions conversionRate
		revenue { currency net }`
	both := figures + " comparison { " + figures + " }"
	return "{ " + root + " { report(period: " + q.period + ", filters: [" + q.filters + "], compare: {kind: PREVIOUS_PERIOD}) {" +
		" from to comparedFrom comparedTo totals { " + both + " } series(interval: DAY) { start metrics { " + both + " } }" +
		" breakdown(by: " + q.by + ", orderBy: " + q.order + ", first: 5) { totalCount nodes { value metrics { " + both + " } } } } } }"
}

// compare compares the figures of an address with GraphQL's report.
func (q *plainQuestion) compare(t *testing.T, name string, got map[string]any, want any) {
	t.Helper()
	report := want.(map[string]any)
	for _, field := range []string{"from", "to", "comparedFrom", "comparedTo"} {
		equal(t, got[field], report[field], "%s: %s", name, field)
	}
	sameFigures(t, name+": totals", got, report["totals"].(map[string]any), "")

	points := report["series"].([]any)
	for i, point := range got["series"].([]any) {
		of := points[i].(map[string]any)
		equal(t, point.(map[string]any)["start"], of["start"], "%s: point %d", name, i)
		sameFigures(t, fmt.Sprintf("%s: point %d", name, i), point.(map[string]any), of["metrics"].(map[string]any), "")
	}

	breakdown := report["breakdown"].(map[string]any)
	equal(t, got["rowCount"], breakdown["totalCount"], "%s: number of rows", name)
	nodes, rows := breakdown["nodes"].([]any), got["rows"].([]any)
	equal(t, len(rows), len(nodes), "%s: rows", name)
	for i := range min(len(rows), len(nodes)) {
		row, node := rows[i].(map[string]any), nodes[i].(map[string]any)
		equal(t, row["value"], node["value"], "%s: row %d", name, i)
		sameFigures(t, fmt.Sprintf("%s: row %d", name, i), row, node["metrics"].(map[string]any), "")
	}
}

// sameFigures compares flat figures with GraphQL's.
func sameFigures(t *testing.T, name string, flat, metrics map[string]any, prefix string) {
	t.Helper()
	named := func(figure string) string {
		if prefix == "" {
			return figure
		}
		return prefix + strings.ToUpper(figure[:1]) + figure[1:]
	}
	for figure, want := range metrics {
		switch figure {
		case "revenue":
			for _, r := range want.([]any) {
				of := r.(map[string]any)
				equal(t, fmt.Sprint(flat[named("revenue"+of["currency"].(string))]), trimmed(of["net"].(string)), "%s: revenue", name)
			}
		case "comparison":
			sameFigures(t, name, flat, want.(map[string]any), "previous")
		default:
			equal(t, flat[named(figure)], want, "%s: %s", name, named(figure))
		}
	}
}

// trimmed returns a decimal number as Go prints the float that JSON makes of it.
func trimmed(decimal string) string {
	var number float64
	_, _ = fmt.Sscan(decimal, &number)
	return fmt.Sprint(number)
}

// TestPlainFigures checks who reads figures, and what the answers say to caches and to scripts.
func TestPlainFigures(t *testing.T) {
	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		owner, site := figuresShop(t, a)
		token := owner.createToken("READ").secret
		another := a.owner("other@example.com").createToken("READ").secret

		for _, test := range []struct {
			name, file, token string
			status            int
			code              string
		}{
			{"no token", site + ".json", "", http.StatusUnauthorized, "unauthenticated"},
			{"a wrong token", site + ".json", "tga_wrong", http.StatusUnauthorized, "unauthenticated"},
			{"a token of another account", site + ".json", another, http.StatusNotFound, "not_found"},
			{"a domain of another account", "shop.example.json", another, http.StatusNotFound, "not_found"},
			{"an unknown link", "tgl_unknown.svg", "", http.StatusUnauthorized, "unauthenticated"},
			{"no format", site, token, http.StatusBadRequest, "invalid_argument"},
			{"an unknown format", site + ".xlsx", token, http.StatusBadRequest, "invalid_argument"},
			{"an unknown parameter", site + ".json?days=7", token, http.StatusBadRequest, "invalid_argument"},
			{"a token in the query", site + ".json?token=" + token, token, http.StatusBadRequest, "invalid_argument"},
			{"a wrong period", site + ".json?from=2026-11-02&to=2026-11-01", token, http.StatusBadRequest, "invalid_argument"},
		} {
			a.figures(t, test.file, test.token).refuses(t, test.name, test.status, test.code)
		}
		if strings.Contains(a.log.String(), token) {
			t.Error("a token of a query string is logged")
		}

		first := a.figures(t, site+".json?period=7d", token)
		first.object(t)
		equal(t, first.Header.Get("Cache-Control"), "private, max-age=60", "Cache-Control with a token")
		a.clock.Add(time.Second)
		again := a.figures(t, site+".json?period=7d", token, "If-None-Match", first.Header.Get("ETag"))
		equal(t, again.StatusCode, http.StatusNotModified, "the same figures")
		equal(t, again.body, "", "the body of the same figures")
		other := a.figures(t, site+".json?period=today", token, "If-None-Match", first.Header.Get("ETag"))
		equal(t, other.StatusCode, http.StatusOK, "other figures")

		// Only pages that may show the report read a link's figures by a script.
		const page = "https://www.client.example"
		made := owner.done("createSharedLink", "siteId", site, "name", "framed", "origins", []string{page})
		link := made.at("createSharedLink.token").(string)
		framed := a.figures(t, link+".svg?metric=pageviews&period=7d", "", "Origin", page)
		equal(t, framed.StatusCode, http.StatusOK, "a badge")
		equal(t, framed.Header.Get("Content-Type"), "image/svg+xml; charset=utf-8", "the type of a badge")
		equal(t, framed.Header.Get("Access-Control-Allow-Origin"), page, "the origin of the link")
		equal(t, framed.Header.Get("Cache-Control"), "public, max-age=60", "Cache-Control of a link")
		foreign := a.figures(t, link+".csv", "", "Origin", "https://other.example")
		equal(t, foreign.Header.Get("Access-Control-Allow-Origin"), "", "another origin")

		locked := owner.done("createSharedLink", "siteId", site, "name", "locked", "password", "open sesame").at("createSharedLink.token").(string)
		a.figures(t, locked+".json", "").refuses(t, "a link with a password", http.StatusUnauthorized, "unauthenticated")
		opened := a.figures(t, locked+".json", "", inprocess.PasswordHeader, "open sesame")
		opened.object(t)
		equal(t, opened.Header.Get("Cache-Control"), "private, max-age=60", "Cache-Control of a link with a password")
		owner.done("revokeSharedLink", "sharedLinkId", made.at("createSharedLink.sharedLink.id"))
		a.figures(t, link+".json", "").refuses(t, "a revoked link", http.StatusUnauthorized, "unauthenticated")
	})
}

// TestPlainFiguresAreCharged checks that figures share GraphQL's budget of the account.
func TestPlainFiguresAreCharged(t *testing.T) {
	a := sqliteApp(t, func(s *settings) { s.graph.CostPerMinute = 2000 })
	owner, site := figuresShop(t, a)
	token := owner.createToken("READ").secret
	a.clock.Add(time.Minute)

	for range 100 {
		got := a.figures(t, site+".json?by=page", token)
		if got.StatusCode == http.StatusOK {
			continue
		}
		got.refuses(t, "over the budget", http.StatusTooManyRequests, "rate_limited")
		if got.Header.Get("Retry-After") == "" {
			t.Error("refused without Retry-After")
		}
		return
	}
	t.Error("100 reports in a minute are not refused")
}
