package graph_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
)

const (
	createLinkMutation = `mutation($site: ID!, $password: String, $segment: ID, $expires: DateTime) {
		createSharedLink(input: {siteId: $site, name: "link", password: $password, segmentId: $segment, expiresAt: $expires}) {
			sharedLink { id name hint hasPassword segment { id name } expiresAt lastUsedAt } token userErrors { field code } } }`
	sharedSiteQuery = `{ sharedSite { name domain timeZone } }`
)

// reader creates a shared link of a site and returns a viewer token for it.
func (c *client) reader(siteID string) string {
	c.t.Helper()
	token := c.query(createLinkMutation, "site", siteID).ok(c.t, "createSharedLink").at("createSharedLink.token").(string)
	opened := c.app.client().done("openSharedLink", "token", token)
	return opened.at("openSharedLink.viewerToken").(string)
}

func TestTimeZoneOfASite(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		c := newApp(t, d).owner("owner@example.com")
		c.do("createSite", "domain", "zone.example", "timeZone", "Mars/Olympus").
			named("an unknown zone").fails(t, "createSite", "timeZone:INVALID_TIME_ZONE")

		got := c.done("createSite", "domain", "zone.example", "timeZone", "Asia/Kolkata")
		id := got.at("createSite.site.id")
		got.named("a new site").has(t, "createSite.site.timeZone", "Asia/Kolkata")

		for _, test := range []struct{ zone, want, errors any }{
			{"Pacific/Auckland", "Pacific/Auckland", ""},
			{nil, "Pacific/Auckland", ""},
			{"Local", nil, "timeZone:INVALID_TIME_ZONE"},
		} {
			got := c.do("updateSite", "siteId", id, "timeZone", test.zone)
			if got.at("updateSite.site.timeZone") != test.want || got.userErrors("updateSite") != test.errors {
				t.Errorf("%v: %s", test.zone, got.Body)
			}
		}
	})
}

// TestAnnotationsArePagedByDay: pages follow each other without a gap, newest day first, while
// notes of the same day are created and deleted.
func TestAnnotationsArePagedByDay(t *testing.T) {
	t.Parallel()
	const page = `query($site: ID!, $first: Int!, $after: String) { site(id: $site) { annotations(first: $first, after: $after) {
		edges { cursor node { id day text } } pageInfo { hasNextPage endCursor } } } }`

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c := newApp(t, d).owner("owner@example.com")
		site := c.siteOf("example.com")
		for _, test := range []struct{ day, text, errors string }{
			{"2026-11-18", "b", ""}, {"2026-11-20", "d", ""}, {"1970-01-01", "a", ""}, {"2026-11-18", "c", ""},
			{"1969-12-31", "x", "day:INVALID_DAY"}, {"2099-01-01", "\n", "day:INVALID_DAY text:INVALID_TEXT"},
			{"2026-11-18", strings.Repeat("x", 501), "text:INVALID_TEXT"},
		} {
			c.do("createAnnotation", "siteId", site, "day", test.day, "text", test.text).
				named("%s %q", test.day, test.text).fails(t, "createAnnotation", test.errors)
		}

		var texts string
		var after any
		for range 10 {
			got := c.query(page, "site", site, "first", 1, "after", after).ok(t, "")
			texts += got.at("site.annotations.edges.0.node.text").(string)
			if after = got.at("site.annotations.pageInfo.endCursor"); got.at("site.annotations.pageInfo.hasNextPage") == false {
				break
			}

			if texts == "d" {
				// It belongs before the position and must not appear.
				c.done("createAnnotation", "siteId", site, "day", "2026-11-20", "text", "e")
			}
		}
		equal(t, texts, "dcba", "the pages have")

		c.query(page, "site", site, "first", 1, "after", "after_x").named("an invalid cursor").code(t, "INVALID_ARGUMENT")
		c.query(page, "site", site, "first", 101).named("a page of 101").code(t, "INVALID_ARGUMENT")

		id := c.query(page, "site", site, "first", 1).at("site.annotations.edges.0.node.id")
		const change = `mutation($id: ID!) { updateAnnotation(input: {annotationId: $id, text: "changed"}) { annotation { day text } userErrors { code } }
			deleteAnnotation(input: {annotationId: $id}) { annotation { id text } userErrors { code } } }`
		got := c.query(change, "id", id).ok(t, "updateAnnotation")
		if got.at("updateAnnotation.annotation.day") != "2026-11-20" || got.at("deleteAnnotation.annotation.text") != "changed" {
			t.Errorf("changed and deleted: %s", got.Body)
		}
	})
}

// TestSegmentsAndFunnels: they are returned as they were saved, and refused ones change nothing.
func TestSegmentsAndFunnels(t *testing.T) {
	t.Parallel()
	const read = `query($id: ID!) { site(id: $id) { segments { id name filters { dimension property event operator values } }
		funnels { id name steps { page event label } } } }`

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c := newApp(t, d).owner("owner@example.com")
		site := c.siteOf("example.com")
		segment := func(name, filters string) *answer {
			return c.query(`mutation($id: ID!) { createSegment(input: {siteId: $id, name: "`+name+`", filters: [`+filters+`]}) {
				segment { id } userErrors { field code } } }`, "id", site)
		}
		funnel := func(name, steps string) *answer {
			return c.query(`mutation($id: ID!) { createFunnel(input: {siteId: $id, name: "`+name+`", steps: [`+steps+`]}) {
				funnel { id } userErrors { field code } } }`, "id", site)
		}

		made := segment("Blog", `{dimension: PAGE, operator: MATCHES, values: ["/blog/**"]},
			{dimension: PROPERTY, property: "plan", event: "signup", values: ["pro", ""]}`).ok(t, "createSegment").at("createSegment.segment.id")
		steps := funnel("Sign-up", `{page: "/"}, {event: "signup", label: "Signed up"}`).ok(t, "createFunnel").at("createFunnel.funnel.id")
		want := `{"data":{"site":{"segments":[{"id":"` + made.(string) + `","name":"Blog","filters":[` +
			`{"dimension":"PAGE","property":null,"event":null,"operator":"MATCHES","values":["/blog/**"]},` +
			`{"dimension":"PROPERTY","property":"plan","event":"signup","operator":"IS","values":["pro",""]}]}],` +
			`"funnels":[{"id":"` + steps.(string) + `","name":"Sign-up","steps":[{"page":"/","event":null,"label":"/"},` +
			`{"page":null,"event":"signup","label":"Signed up"}]}]}}}`

		for what, test := range map[string]struct {
			got            *answer
			mutation, want string
		}{
			"a name that exists": {segment("Blog", `{dimension: PAGE, values: ["/"]}`), "createSegment", "name:NAME_TAKEN"},
			"too many wildcards": {
				got:      segment("x", `{dimension: PAGE, operator: MATCHES, values: ["`+strings.Repeat("*a", 101)+`"]}`),
				mutation: "createSegment", want: "filters:INVALID_FILTER",
			},
			"too much in a funnel": {
				got: funnel("x", `{page: "`+strings.Repeat("*a", 101)+`"}, {event: "signup"}`), mutation: "createFunnel",
				want: "steps:INVALID_STEP",
			},
			"no filter": {segment("x", ``), "createSegment", "filters:INVALID_FILTER"},
			"a filter without value": {
				got:      segment("x", `{dimension: PAGE, values: ["/"]}, {dimension: PAGE, values: []}`),
				mutation: "createSegment", want: "filters.1:INVALID_FILTER",
			},
			"name and filter": {
				got: segment("", `{dimension: PAGE, property: "x", values: ["/"]}`), mutation: "createSegment",
				want: "name:INVALID_NAME filters.0:INVALID_FILTER",
			},
			"a funnel's name": {funnel("Sign-up", `{page: "/"}, {page: "/b"}`), "createFunnel", "name:NAME_TAKEN"},
			"one step":        {funnel("x", `{page: "/"}`), "createFunnel", "steps:INVALID_STEP"},
			"steps of 16 KB": {
				got:      funnel("x", strings.Repeat(`{page: "/`+strings.Repeat("\u65e5", 1_400)+`"}, `, 4)),
				mutation: "createFunnel", want: "steps:INVALID_STEP",
			},
			"an event as a page":     {funnel("x", `{page: "/"}, {page: "add_to_cart"}`), "createFunnel", "steps.1:INVALID_STEP"},
			"a step without content": {funnel("x", `{page: "/"}, {label: "x"}`), "createFunnel", "steps.1:INVALID_STEP"},
			"a change to a bad filter": {
				got:      c.do("updateSegment", "segmentId", made, "name", "New", "filters", []any{map[string]any{"dimension": "EVENT", "values": []string{}}}),
				mutation: "updateSegment", want: "filters.0:INVALID_FILTER",
			},
			"a change to one step": {
				got:      c.do("updateFunnel", "funnelId", steps, "name", "New", "steps", []string{}),
				mutation: "updateFunnel", want: "steps:INVALID_STEP",
			},
		} {
			if test.got.userErrors(test.mutation) != test.want || test.got.codes() != "" {
				t.Errorf("%s: %s, want %s", what, test.got.Body, test.want)
			}
		}

		c.query(read, "id", site).named("saved").is(t, want)

		got := c.query(`mutation($segment: ID!, $funnel: ID!) {
			updateSegment(input: {segmentId: $segment, name: "News"}) { segment { name filters { dimension } } userErrors { code } }
			updateFunnel(input: {funnelId: $funnel, steps: [{page: "/a"}, {page: "/b"}]}) { funnel { name steps { label } } userErrors { code } }
			deleteSegment(input: {segmentId: $segment}) { segment { name } userErrors { code } }
			deleteFunnel(input: {funnelId: $funnel}) { funnel { name } userErrors { code } } }`, "segment", made, "funnel", steps).ok(t, "deleteSegment")
		if got.at("updateSegment.segment.filters.1.dimension") != "PROPERTY" || got.at("deleteSegment.segment.name") != "News" ||
			got.at("updateFunnel.funnel.steps.1.label") != "/b" || got.at("deleteFunnel.funnel.name") != "Sign-up" {
			t.Errorf("changed and deleted: %s", got.Body)
		}
	})
}

// TestSharedLinkLifecycle: a link is opened with its token and password, until it expires or is
// revoked.
func TestSharedLinkLifecycle(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		site := c.siteOf("example.com")
		reader := a.client()
		open := func(token string, password any) *answer {
			return reader.do("openSharedLink", "token", token, "password", password)
		}
		read := func(viewer string) *answer { return a.with(viewer, sharedSiteQuery) }

		for field, variables := range map[string][]any{
			"password:INVALID_PASSWORD": {"password", "short"},
			"expiresAt:INVALID_EXPIRY":  {"expires", "2020-01-01T00:00:00Z"},
			"segmentId:NOT_FOUND":       {"segment", site},
		} {
			c.query(createLinkMutation, append([]any{"site", site}, variables...)...).
				named("%v", variables).fails(t, "createSharedLink", field).has(t, "createSharedLink.token", nil)
		}

		// In UTC this is the year 10000, which RFC 3339 cannot write.
		c.query(createLinkMutation, "site", site, "expires", "9999-12-31T23:59:59-12:00").
			named("a link until the year 10000").code(t, "INVALID_ARGUMENT")

		expires := a.clock.Now().Add(30 * time.Hour).Format(time.RFC3339)
		made := c.query(createLinkMutation, "site", site, "password", "the link's password", "expires", expires).ok(t, "createSharedLink")
		token := made.at("createSharedLink.token").(string)
		if made.at("createSharedLink.sharedLink.hasPassword") != true || made.at("createSharedLink.sharedLink.lastUsedAt") != nil ||
			!strings.HasSuffix(token, made.at("createSharedLink.sharedLink.hint").(string)) {
			t.Errorf("a new link: %s", made.Body)
		}
		if dump := a.dump(); strings.Contains(dump, token) || strings.Contains(dump, "the link's password") {
			t.Error("the token or the password is stored")
		}

		for _, test := range []struct {
			token          string
			password, want any
		}{
			{token, nil, "password:PASSWORD_REQUIRED"}, {token, "", "password:PASSWORD_REQUIRED"},
			{token, "another password", "password:WRONG_CREDENTIALS"}, {token, "x", "password:WRONG_CREDENTIALS"},
			{token + "x", "the link's password", "token:INVALID_LINK"}, {"tgl_" + strings.Repeat("0", 36), nil, "token:INVALID_LINK"},
		} {
			if got := open(test.token, test.password); got.userErrors("openSharedLink") != test.want || got.at("openSharedLink.viewerToken") != nil {
				t.Errorf("%s with %v: %s, want %s", test.token, test.password, got.Body, test.want)
			}
		}

		viewer := open(token, "the link's password").ok(t, "openSharedLink").at("openSharedLink.viewerToken").(string)
		read(viewer).named("a reader sees").has(t, "sharedSite.domain", "example.com").has(t, "sharedSite.timeZone", "UTC")
		c.site(site, `sharedLinks { lastUsedAt }`).named("the use is not recorded").set(t, "site.sharedLinks.0.lastUsedAt")

		// The same browser needs the password once; another browser needs it, too.
		reopened := open(token, nil).ok(t, "openSharedLink").at("openSharedLink.viewerToken").(string)
		read(reopened).named("opened again without the password").has(t, "sharedSite.domain", "example.com")
		open(token, "another password").
			named("a wrong password of a known reader").fails(t, "openSharedLink", "password:WRONG_CREDENTIALS")
		a.client().do("openSharedLink", "token", token, "password", nil).
			named("another browser").fails(t, "openSharedLink", "password:PASSWORD_REQUIRED")

		// Another token of the same form, and one with a changed character, are refused.
		for _, wrong := range []string{viewer[:len(viewer)-6] + "AAAAA=", "tgv_x", "tgv_"} {
			read(wrong).named("the viewer token %q", wrong).code(t, "UNAUTHENTICATED")
		}

		a.clock.Add(12*time.Hour + time.Second)
		read(viewer).named("after 12 hours").code(t, "UNAUTHENTICATED")
		open(token, nil).named("a known reader after 12 hours").fails(t, "openSharedLink", "password:PASSWORD_REQUIRED")

		a.clock.Add(12 * time.Hour)
		again := open(token, "the link's password").ok(t, "openSharedLink")
		again.
			named("a viewer token of a link that ends at %s is valid until", expires).has(t, "openSharedLink.expiresAt", expires)

		a.clock.Add(6 * time.Hour)
		read(again.at("openSharedLink.viewerToken").(string)).named("after the link has expired").code(t, "UNAUTHENTICATED")
		open(token, "the link's password").named("an expired link").fails(t, "openSharedLink", "token:INVALID_LINK")

		c = a.client()
		c.signIn("owner@example.com", password).ok(t, "signIn")
		open2 := c.reader(site)
		read(open2).ok(t, "")

		links := c.site(site, `sharedLinks { id }`).ok(t, "")
		c.done("revokeSharedLink", "sharedLinkId", links.at("site.sharedLinks.1.id"))
		read(open2).named("after the link was revoked").code(t, "UNAUTHENTICATED")

		third := c.reader(site)
		c.done("deleteSite", "siteId", site)
		read(third).named("after the site was deleted").code(t, "UNAUTHENTICATED")
	})
}

// TestSharedLinkKeepsItsSegment: a segment of a link must belong to the same site, and is not
// deleted before the link.
func TestSharedLinkKeepsItsSegment(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		site, other := c.siteOf("example.com"), c.siteOf("other.example")
		own := c.done("createSegment", "siteId", site, "name", "s", "filters",
			[]any{map[string]any{"dimension": "PAGE", "values": []string{"/"}}}).at("createSegment.segment.id")
		foreign := c.done("createSegment", "siteId", other, "name", "s", "filters",
			[]any{map[string]any{"dimension": "PAGE", "values": []string{"/"}}}).at("createSegment.segment.id")

		c.query(createLinkMutation, "site", site, "segment", foreign).
			named("another site's segment").fails(t, "createSharedLink", "segmentId:NOT_FOUND")

		link := c.query(createLinkMutation, "site", site, "segment", own).ok(t, "createSharedLink")
		equal(t, link.at("createSharedLink.sharedLink.segment.name"), "s", "the link's segment: %s", link.Body)
		c.do("deleteSegment", "segmentId", own).named("a segment in use").fails(t, "deleteSegment", "segmentId:SEGMENT_IN_USE")

		c.done("revokeSharedLink", "sharedLinkId", link.at("createSharedLink.sharedLink.id"))
		c.done("deleteSegment", "segmentId", own)
	})
}

// sharedTypes are the object types that a reader of a shared link can reach.
const sharedTypes = "[ChangeCircumstance Cohort CohortReport CohortReturn FunnelReport FunnelStep FunnelStepReport Journey JourneyNode " +
	"LiveHit LiveReport LiveRow NumberFigures PageInfo Report ReportChange ReportChangeName ReportChanges ReportDimensionChanges " +
	"ReportImportedDays ReportMetrics " +
	"ReportNumberPoint ReportNumberRow ReportNumberRowConnection ReportNumberRowEdge ReportNumbers ReportPoint ReportProperty ReportRevenue ReportRow ReportRowConnection ReportRowEdge ReportView SharedSite]"

// TestReadersReachNothingElse: a reader reads no other root field, uses up no budget of the
// account, and downloads nothing. A session in the same browser gives no rights to a viewer token.
func TestReadersReachNothingElse(t *testing.T) {
	const perMinute = 15_000
	eachAppWith(t, func(s *settings) { s.graph.CostPerMinute = perMinute }, func(t *testing.T, a *app) {
		tenant := a.tenant("first.example")
		a.clock.Add(time.Minute)
		viewer := tenant.owner.reader(tenant.ids["siteId"])
		a.clock.Add(time.Minute)
		bearer := []string{"Authorization", "Bearer " + viewer}

		for op, def := range map[ast.Operation]*ast.Definition{ast.Query: schema.Query, ast.Mutation: schema.Mutation} {
			for _, f := range fieldsOf(def) {
				id := func(name string) string {
					if name == "id" && f.Name == "sitekey" {
						return tenant.ids["sitekeyId"]
					}
					if name == "id" {
						return tenant.ids["siteId"]
					}
					return tenant.ids[name]
				}

				got := tenant.owner.call(t, op, f, id, bearer...)
				switch f.Name {
				case "sharedSite":
					got.named("sharedSite").has(t, "sharedSite.domain", "first.example")
				case "viewer":
					got.named("viewer").is(t, `{"data":{"viewer":null}}`)
				default:
					want := "FORBIDDEN"
					if fieldRules[f.Name].public {
						want = ""
					}
					got.named("%s", f.Name).code(t, want)
				}
			}
		}

		// The fields of the type are all that a reader can select.
		var fields []string
		for _, f := range fieldsOf(schema.Types["SharedSite"]) {
			fields = append(fields, f.Name)
		}
		equal(t, fmt.Sprint(fields), "[name domain timeZone hidesRevenue report live reportView]", "a shared site")

		// Nor do the types of these fields lead to anything else.
		equal(t, fmt.Sprint(reachable("SharedSite")), sharedTypes, "a shared site leads to")

		var often string
		for i := range 10 {
			often += fmt.Sprintf("x%d: sharedSite { name domain timeZone } ", i)
		}
		// Each of these costs 40.
		var last *answer
		for range 1 + perMinute/40 {
			last = a.with(viewer, "{ "+often+"}")
		}

		if !strings.HasPrefix(last.codes(), "RATE_LIMITED") {
			t.Errorf("the links' budget is not used up: %s", last.Body)
		}
		tenant.owner.query(`{ viewer { email } }`).ok(t, "")
	})
}

// TestWrongLinkPasswordsAreDelayed: after 30 wrong passwords of one network the next one waits, and
// readers of other networks do not.
func TestWrongLinkPasswordsAreDelayed(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		token := c.query(createLinkMutation, "site", c.siteOf("example.com"), "password", "the link's password").
			ok(t, "createSharedLink").at("createSharedLink.token").(string)

		guesser, reader := a.client(), a.client()
		guesser.address, reader.address = "198.51.100.1", "198.51.100.2"
		refused := 0
		for refused = 0; refused < 40; refused++ {
			if guesser.do("openSharedLink", "token", token, "password", "a wrong guess").codes() == "RATE_LIMITED" {
				break
			}
		}
		if refused != 30 && refused != 31 {
			t.Errorf("%d guesses before the first delay", refused)
		}

		reader.done("openSharedLink", "token", token, "password", "the link's password")
		guesser.do("openSharedLink", "token", token, "password", "the link's password").
			named("the right password during the delay").code(t, "RATE_LIMITED")
	})
}
