package graph_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
)

const (
	openedQuery = `query($id: ID!) { site(id: $id) {
		reportView { preset compare matchDayOfWeek } report { from to comparedFrom comparedTo } } }`
)

// TestReportOpensOnTodayAtFirst: until a site has hits of a day that is over in its time zone, its
// report opens on today. The times of its hits decide, not their UTC days.
func TestReportOpensOnTodayAtFirst(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		now := a.clock.Now() // 09:30 UTC

		for i, test := range []struct {
			name, zone string
			hit        time.Duration // before now; 0: none
			preset     string
			from, to   string
		}{
			{"no hits", "UTC", 0, "TODAY", "2026-11-20", "2026-11-20"},
			{"today", "UTC", time.Hour, "TODAY", "2026-11-20", "2026-11-20"},
			{"yesterday", "UTC", 10 * time.Hour, "LAST_28_DAYS", "2026-10-23", "2026-11-19"},
			{"today, of the UTC day before", "Pacific/Auckland", 22 * time.Hour, "TODAY", "2026-11-20", "2026-11-20"},
			{"yesterday, of the same UTC day", "Pacific/Auckland", 23 * time.Hour, "LAST_28_DAYS", "2026-10-23", "2026-11-19"},
			{"yesterday, of UTC's today", "America/Los_Angeles", 2 * time.Hour, "LAST_28_DAYS", "2026-10-23", "2026-11-19"},
			{"today in the west", "America/Los_Angeles", time.Hour, "TODAY", "2026-11-20", "2026-11-20"},
		} {
			site := c.siteOf(string(rune('a'+i)) + ".example")
			c.done("updateSite", "siteId", site, "timeZone", test.zone)
			if test.hit > 0 {
				storeDay(t, a.db, a.siteNumber(site), model.At(now.Add(-test.hit)))
			}

			got := c.query(openedQuery, "id", site)
			if got.codes() == "UNAVAILABLE" { // the days are not built yet
				a.work(now)
				got = c.query(openedQuery, "id", site)
			}
			got.ok(t, "")
			if got.at("site.reportView.preset") != test.preset || got.at("site.report.from") != test.from || got.at("site.report.to") != test.to {
				t.Errorf("%s: %s, want %s from %s to %s", test.name, got.Body, test.preset, test.from, test.to)
			}
			shared := a.with(c.reader(site), `{ sharedSite { reportView { preset } report { from } } }`).ok(t, "")
			if shared.at("sharedSite.reportView.preset") != test.preset || shared.at("sharedSite.report.from") != test.from {
				t.Errorf("%s, shared: %s", test.name, shared.Body)
			}
		}
	})
}

// TestReportOpensOnImports: without own hits, the report opens on the shortest period with the last
// imported day. With hits of today alone, it opens on the imports of the last 28 days, or on today.
// Readers of a link see the same.
func TestReportOpensOnImports(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		now := model.At(a.clock.Now())
		today := now.Day()

		for i, test := range []struct {
			age    int // of the last imported day
			hit    bool
			preset string
		}{
			{1, false, "LAST_28_DAYS"}, {28, false, "LAST_28_DAYS"}, {29, false, "LAST_91_DAYS"}, {91, false, "LAST_91_DAYS"},
			{92, false, "LAST_12_MONTHS"}, {364, false, "LAST_12_MONTHS"}, {365, false, "ALL_TIME"}, {3_000, false, "ALL_TIME"},
			{28, true, "LAST_28_DAYS"}, {29, true, "TODAY"},
		} {
			site := c.siteOf(string(rune('a'+i)) + ".example")
			if test.hit {
				storeDay(t, a.db, a.siteNumber(site), now)
			}
			last := today - model.Day(test.age)
			if _, err := reports.New(a.db).Import(t.Context(), a.siteNumber(site), &reports.Import{
				Source: model.ImportPlausible, First: last - 1, Last: last,
				Figures: []reports.ImportFigure{
					{Day: last - 1, Visitors: 1, Visits: 1, Pageviews: 1},
					{Day: last, Visitors: 7, Visits: 7, Pageviews: 7},
				},
			}, now, sites.RecordImport, func(float64) {}); err != nil {
				t.Fatal(err)
			}

			const fields = `reportView { preset } report { totals { visitors } }`
			got := c.site(site, ``+fields+` imports { lastDay visitors }`)
			if got.codes() == "UNAVAILABLE" { // the days are not built yet
				a.work(now.Time())
				got = c.site(site, ``+fields+``)
			}
			got.ok(t, "")
			visitors, _ := got.at("site.report.totals.visitors").(float64)
			if got.at("site.reportView.preset") != test.preset || !test.hit && visitors < 7 {
				t.Errorf("%d days ago, with a hit %t: %s, want %s", test.age, test.hit, got.Body, test.preset)
			}
			shared := a.with(c.reader(site), `{ sharedSite { `+fields+` } }`).ok(t, "")
			if shared.at("sharedSite.reportView.preset") != test.preset || shared.at("sharedSite.report.totals.visitors") != visitors {
				t.Errorf("%d days ago, shared: %s", test.age, shared.Body)
			}
		}
	})
}

// TestReportViewOfEachUser: each member has a choice for each site. It opens the report, is stored
// once, is not in the audit log, and goes with the membership and with the site.
func TestReportViewOfEachUser(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		site, other := c.siteOf("example.com"), c.siteOf("other.example")
		viewer := a.join(c, "viewer@example.com", model.RoleViewer)
		entries := func() int {
			t.Helper()
			n := value(dbtest.Count(a.db, "audit_log"))(t)
			return n
		}
		before := entries()

		set := func(c *client, site, preset string, compare any, match bool) *answer {
			t.Helper()
			return c.done("setReportView", "siteId", site, "preset", preset, "compare", compare, "matchDayOfWeek", match)
		}
		got := set(viewer, site, "LAST_7_DAYS", "PREVIOUS_YEAR", false)
		if got.Body != `{"data":{"setReportView":{"reportView":{"preset":"LAST_7_DAYS","compare":"PREVIOUS_YEAR","matchDayOfWeek":false},"userErrors":[]}}}` {
			t.Errorf("the viewer's choice: %s", got.Body)
		}
		got = viewer.query(openedQuery, "id", site).ok(t, "")
		want := `{"data":{"site":{"reportView":{"preset":"LAST_7_DAYS","compare":"PREVIOUS_YEAR","matchDayOfWeek":false},` +
			`"report":{"from":"2026-11-13","to":"2026-11-19","comparedFrom":"2025-11-13","comparedTo":"2025-11-19"}}}}`
		got.named("the viewer's report").is(t, want)

		// The period of a request has precedence, and comes without the comparison of the choice.
		got = viewer.site(site, `report(period: {preset: YESTERDAY}) { from comparedFrom }`).ok(t, "")
		got.named("with a period").has(t, "site.report.from", "2026-11-19").has(t, "site.report.comparedFrom", nil)
		got = viewer.site(site, `report(compare: {kind: PREVIOUS_PERIOD}) { from comparedFrom }`).ok(t, "")
		got.named("with a comparison").has(t, "site.report.from", "2026-11-13").has(t, "site.report.comparedFrom", "2026-11-06")
		for _, got := range []*answer{c.query(openedQuery, "id", site), viewer.query(openedQuery, "id", other)} {
			got.named("another user or site").has(t, "site.reportView.preset", "TODAY")
		}

		// All time is never compared.
		set(viewer, site, "ALL_TIME", "PREVIOUS_PERIOD", true)
		got = viewer.query(openedQuery, "id", site).ok(t, "")
		got.named("all time").has(t, "site.reportView.compare", nil).has(t, "site.report.comparedFrom", nil)

		set(viewer, site, "TODAY", nil, true)
		set(c, site, "TODAY", nil, true)
		set(c, other, "TODAY", nil, true)
		if after := entries(); after != before {
			t.Errorf("the audit log has %d entries more", after-before)
		}
		rows := func(want int, when string) {
			t.Helper()
			equal(t, value(dbtest.Count(a.db, "report_views"))(t), want, "%s, rows", when)
		}
		rows(3, "after four choices of two users")
		viewer.query(leaveMutation, "id", c.account()).ok(t, "leaveAccount")
		rows(2, "after a user has left")
		c.done("deleteSite", "siteId", other, "confirm", "other.example", "immediately", true)
		must(t, dbtest.Exec(a.db, "DELETE FROM sites WHERE domain = 'other.example'"))
		rows(1, "after a site was deleted")
	})
}

// TestAllTimeHasNoLimit: all time begins with the first day, imported ones included, also more than
// 5 years ago.
func TestAllTimeHasNoLimit(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		site := c.siteOf("example.com")
		const query = `query($id: ID!) { site(id: $id) { report(period: {preset: ALL_TIME}, compare: {kind: PREVIOUS_YEAR}) {
			from to totals { visitors } series { start metrics { visitors } } } } }`

		first := model.At(time.Date(2011, 3, 20, 0, 0, 0, 0, time.UTC)).Day()
		if _, err := reports.New(a.db).Import(t.Context(), a.siteNumber(site), &reports.Import{
			Source: model.ImportPlausible, First: first, Last: first + 1,
			Figures: []reports.ImportFigure{
				{Day: first, Visitors: 10, Visits: 12, Pageviews: 30},
				{Day: first + 1, Visitors: 7, Visits: 7, Pageviews: 7},
			},
		}, model.At(a.clock.Now()), sites.RecordImport, func(float64) {}); err != nil {
			t.Fatal(err)
		}

		got := c.query(query, "id", site).ok(t, "")
		points, _ := got.at("site.report.series").([]any)
		if got.at("site.report.from") != "2011-03-20" || got.at("site.report.to") != "2026-11-20" ||
			got.at("site.report.totals.visitors") != 17.0 || got.at("site.report.series.0.metrics.visitors") != 17.0 || len(points) != 189 {
			t.Errorf("%d months: %.400s", len(points), got.Body)
		}

		got = c.site(site, `report(period: {from: "2011-03-20", to: "2026-11-20"}) { from }`)
		got.named("the same days by their dates").code(t, "INVALID_ARGUMENT")
	})
}
