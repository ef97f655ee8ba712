package graph_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/oracle"
	"github.com/tallygate/tallygate/tools/testkit"
)

// metricsFragment selects every figure.
const metricsFragment = `
fragment all on ReportMetrics { visitors visits pageviews viewsPerVisit bounceRate engagementTime timeOnPage scrollDepth exitRate share
  events conversions conversionRate revenue { currency net gross refunded purchases refunds averageOrder } }`

const reportQuery = `
query($id: ID!, $from: Date!, $to: Date!, $other: Date!, $filters: [ReportFilterInput!]!, $by: ReportDimension!, $property: String,
  $interval: ReportInterval) {
  site(id: $id) {
    report(period: {from: $from, to: $to}, filters: $filters, compare: {from: $other, matchDayOfWeek: false}) {
      from to comparedFrom comparedTo timeZone asOf
      totals { ...all comparison { ...all } }
      series(interval: $interval) { start comparedStart metrics { ...all comparison { ...all } } }
      breakdown(by: $by, property: $property, first: 100) { totalCount edges { node { value metrics { ...all comparison { ...all } } } } }
    }
  }
}` + metricsFragment

// visitorsQuery asks for the same breakdown with the figures that are counted faster.
const visitorsQuery = `
query($id: ID!, $from: Date!, $to: Date!, $other: Date!, $filters: [ReportFilterInput!]!, $by: ReportDimension!, $property: String) {
  site(id: $id) {
    report(period: {from: $from, to: $to}, filters: $filters, compare: {from: $other, matchDayOfWeek: false}) {
      breakdown(by: $by, property: $property, first: 100) {
        totalCount edges { node { value metrics { visitors share comparison { visitors share } } } }
      }
    }
  }
}`

// siteNumber returns the row of a site's global id.
func (a *app) siteNumber(id string) model.SiteID {
	a.t.Helper()
	number, ok := nodeid.Parse[model.SiteID](a.ids, id)
	if !ok {
		a.t.Fatalf("%q is no site", id)
	}
	return number
}

// work builds the reports that are due.
func (a *app) work(at time.Time) {
	a.t.Helper()
	dbtest.SetClock(a.db, a.clock.Now)
	store := reports.New(a.db)
	if _, err := store.Plan(a.t.Context(), model.At(at)); err != nil {
		a.t.Fatal(err)
	}
	if _, err := store.BuildDue(a.t.Context()); err != nil {
		a.t.Fatal(err)
	}
}

// storeWorld stores rows of a site, with user ids of a length that the data plane accepts.
func (a *app) storeWorld(site string, world []segment.Rows) {
	a.t.Helper()
	for i := range world {
		for j := range world[i].Visits {
			if v := &world[i].Visits[j]; v.UserID != "" {
				v.UserID = (v.UserID + "..........")[:16]
			}
		}
	}
	must(a.t, oracle.Store(a.t.Context(), a.db, int64(a.siteNumber(site)), world...))
}

// dimensionNames returns the names of all dimensions, in order.
func dimensionNames() (names []string) {
	for dimension := range reports.Dimensions {
		names = append(names, string(dimension))
	}
	slices.Sort(names)
	return names
}

// recount counts a report by days from the export's rows.
func recount(zone *time.Location, from, to scan.Date, by, property string, matching []scan.Filter, rows []segment.Rows) *oracle.Result {
	q := &scan.Query{Zone: zone, From: from, To: to, Filters: matching, KeyEvents: map[string]bool{"signup": true, "purchase": true},
		Breakdowns: []scan.Breakdown{{By: reports.Dimensions[model.ReportDimension(by)], Property: property}}}
	for day := from; day.Compare(to.AddDays(1)) <= 0; day = day.AddDays(1) {
		q.Points = append(q.Points, day.Start(zone))
	}
	return oracle.Count(q, rows)
}

// TestReportsEqualTheExport asks for 200 random reports and counts each again from the export's
// rows, by a program that knows nothing else.
func TestReportsEqualTheExport(t *testing.T) {
	testkit.SkipLong(t, "a recount of an export")
	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		c := a.owner("owner@example.com")
		random := rand.New(rand.NewPCG(7, 7))

		zones := []string{"UTC", "America/New_York"}
		sites := make([]string, len(zones))
		for n, zone := range zones {
			site := c.siteOf(strings.ToLower(strings.ReplaceAll(zone, "/", ".")) + ".example")
			c.done("updateSite", "siteId", site, "timeZone", zone)
			c.query(`mutation($id: ID!) {
	registerEvent(input: {siteId: $id, name: "signup"}) { userErrors { code } }
	markKeyEvent(input: {siteId: $id, name: "signup"}) { userErrors { code } } }`, "id", site).ok(t, "markKeyEvent")

			// Daylight saving ends in New York on 1 November.
			first := model.At(time.Date(2026, 10, 29, 0, 0, 0, 0, time.UTC)).Day()
			a.storeWorld(site, oracle.World(random, first, 6))
			sites[n] = site
		}
		a.work(a.clock.Now())

		for n, zone := range zones {
			site := sites[n]
			rows := value(oracle.Exported(t.Context(), a.db, int64(a.siteNumber(site))))(t)
			location := value(time.LoadLocation(zone))(t)
			for i := range 50 {
				compareReport(t, c, site, location, random, rows, fmt.Sprintf("%s, report %d", zone, i))
			}
		}
	})
}

// compareReport asks for one random report.
func compareReport(
	t *testing.T, c *client, site string, zone *time.Location, random *rand.Rand, rows []segment.Rows, name string,
) {
	t.Helper()
	names := dimensionNames()
	from := scan.DateOf(time.Date(2026, 10, 28+random.IntN(6), 0, 0, 0, 0, time.UTC))
	to, other := from.AddDays(random.IntN(5)), from.AddDays(random.IntN(7)-3)
	by := names[random.IntN(len(names))]
	property := map[bool]any{true: "plan", false: nil}[by == "PROPERTY"]
	filters, matching := randomFilters(random, names)

	variables := []any{"id", site, "from", from.String(), "to", to.String(), "other", other.String(), "by", by, "property", property,
		"filters", filters}
	visitors := c.query(visitorsQuery, variables...).ok(t, "")
	variables = append(variables, "interval", "DAY")
	got := c.query(reportQuery, variables...).ok(t, "")

	want := recount(zone, from, to, by, textOf(property), matching, rows)
	compared := recount(zone, other, other.AddDays(from.DaysUntil(to)), by, textOf(property), matching, rows)

	label := fmt.Sprintf("%s (%v)", name, variables)
	kind := map[string]string{"PAGE": "page", "EVENT": "event"}[by]
	wantMetrics(t, label+" totals", got.at("site.report.totals"), "", want.Totals, want.Totals)
	wantMetrics(t, label+" compared", got.at("site.report.totals.comparison"), "", compared.Totals, compared.Totals)
	for i := range want.Points {
		path := fmt.Sprintf("site.report.series.%d.metrics", i)
		wantMetrics(t, label+path, got.at(path), "", want.Points[i], want.Totals)
		wantMetrics(t, label+path+" compared", got.at(path+".comparison"), "", compared.Points[i], compared.Totals)
	}

	edges := got.at("site.report.breakdown.edges").([]any)
	if len(edges) != len(want.Breakdowns[0]) || got.at("site.report.breakdown.totalCount") != float64(len(edges)) {
		t.Errorf("%s: %d rows, want %d", label, len(edges), len(want.Breakdowns[0]))
	}
	last := math.Inf(1)
	for i := range edges {
		path := fmt.Sprintf("site.report.breakdown.edges.%d.node", i)
		value := got.at(path + ".value").(string)
		wantMetrics(t, label+" row "+value, got.at(path+".metrics"), kind, want.Breakdowns[0][value], want.Totals)
		wantMetrics(t, label+" compared row "+value, got.at(path+".metrics.comparison"), kind, compared.Breakdowns[0][value], compared.Totals)

		count := got.at(path + ".metrics.visitors").(float64)
		if count > last {
			t.Errorf("%s: the row %q is not in order", label, value)
		}
		last = count

		for _, field := range []string{".value", ".metrics.visitors", ".metrics.share", ".metrics.comparison.visitors", ".metrics.comparison.share"} {
			if all, only := got.at(path+field), visitors.at(path+field); all != only {
				t.Errorf("%s: row %d: %s is %v with all figures, %v with visitors only", label, i, field, all, only)
			}
		}
	}
	if rows := visitors.at("site.report.breakdown.totalCount"); rows != float64(len(edges)) {
		t.Errorf("%s: %v rows with visitors only, want %d", label, rows, len(edges))
	}
	if t.Failed() {
		t.FailNow()
	}
}

func textOf(value any) string {
	text, _ := value.(string)
	return text
}

// randomFilters returns filters for the API and for the recount.
func randomFilters(random *rand.Rand, names []string) (inputs []map[string]any, matching []scan.Filter) {
	inputs = []map[string]any{}
	for range random.IntN(3) {
		by := names[random.IntN(len(names))]
		property := map[bool]any{true: "plan", false: nil}[by == "PROPERTY"]
		value := []string{"/", "/a", "/A", "direct", "Rect", "news", "NEWS", "signup", "pro", "1", "en", "a.example"}[random.IntN(12)]
		operator := []string{"IS", "IS_NOT", "CONTAINS", "CONTAINS_NOT", "MATCHES"}[random.IntN(5)]
		if strings.HasPrefix(operator, "IS") && random.IntN(4) == 0 {
			value = ""
		}
		inputs = append(inputs, map[string]any{"dimension": by, "property": property, "operator": operator, "values": []string{value, "de"}})

		matching = append(matching, scan.Filter{
			Breakdown: scan.Breakdown{By: reports.Dimensions[model.ReportDimension(by)], Property: textOf(property)},
			Operator:  model.ReportOperator(operator), Values: []string{value, "de"},
		})
	}
	return inputs, matching
}

// wantMetrics compares figures of an answer with sums.
func wantMetrics(t *testing.T, name string, got any, kind string, f, totals scan.Figures) {
	t.Helper()
	ratio := func(part, whole int64, factor float64) any {
		if whole == 0 {
			return nil
		}
		return float64(part) / float64(whole) * factor
	}
	number := func(n int64) any { return float64(n) }

	want := map[string]any{
		"visitors": number(f.Visitors), "visits": number(f.Visits), "pageviews": number(f.Pageviews), "events": number(f.Events),
		"conversions": number(f.Conversions), "viewsPerVisit": ratio(f.Pageviews, f.Visits, 1), "bounceRate": ratio(f.Bounces, f.Visits, 100),
		"engagementTime": ratio(f.VisitMS, f.Visits, 0.001), "timeOnPage": ratio(f.ViewMS, f.Pageviews, 0.001),
		"scrollDepth": ratio(f.ScrollSum, f.Scrolled, 1), "exitRate": any(nil), "share": ratio(f.Visitors, totals.Visitors, 100),
		"conversionRate": ratio(f.Converted, f.Visitors, 100),
	}
	switch kind {
	case "page":
		want["exitRate"] = ratio(f.Exits, f.Pageviews, 100)
	case "event":
		want["conversionRate"] = ratio(f.Visitors, totals.Visitors, 100)
	}

	currencies := slices.Sorted(func(yield func(string) bool) {
		for currency := range f.Revenue {
			if !yield(currency) {
				return
			}
		}
	})
	revenue := []any{}
	for _, currency := range currencies {
		r := f.Revenue[currency]
		one := map[string]any{"currency": currency, "net": (r.Gross - r.Refunded).String(), "gross": r.Gross.String(),
			"refunded": r.Refunded.String(), "purchases": number(r.Purchases), "refunds": number(r.Refunds), "averageOrder": any(nil)}
		if r.Purchases > 0 {
			one["averageOrder"] = model.Money(math.Round(float64(r.Gross) / float64(r.Purchases))).String()
		}
		revenue = append(revenue, one)
	}
	want["revenue"] = revenue

	metrics, _ := got.(map[string]any)
	for figure, value := range want {
		testkit.DeepEqual(t, metrics[figure], value, "%s: %s", name, figure)
	}
}

// TestReportArguments checks the errors of reports, which name the argument's rule.
func TestReportArguments(t *testing.T) {
	a := sqliteApp(t)
	c := a.owner("owner@example.com")
	site := c.siteOf("example.com")
	report := func(args, fields string) *answer {
		return c.site(site, `report(`+args+`) { `+fields+` }`)
	}

	most := strings.Repeat("*a", model.MaxReportWildcards)
	tooMany := most + "*"
	for _, test := range []struct{ args, fields, code string }{
		{`period: {preset: TODAY}`, `asOf`, ""},
		{`period: {}`, `asOf`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY, from: "2026-11-01"}`, `asOf`, "INVALID_ARGUMENT"},
		{`period: {from: "2026-11-02", to: "2026-11-01"}`, `asOf`, "INVALID_ARGUMENT"},
		{`period: {from: "2020-11-02", to: "2026-11-01"}`, `asOf`, "INVALID_ARGUMENT"},
		{`period: {preset: ALL_TIME}`, `from to`, ""},
		{`period: {from: "1969-12-31", to: "1970-01-01"}`, `asOf`, "INVALID_ARGUMENT"},
		{`period: {from: "0000-01-01", to: "0000-01-01"}`, `asOf`, "INVALID_ARGUMENT"},
		{`period: {from: "0000-01-01", to: "9999-12-31"}`, `asOf`, "INVALID_ARGUMENT"},
		{`period: {from: "9999-12-31", to: "9999-12-31"}`, `asOf`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}, compare: {from: "0000-01-01"}`, `asOf`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}, compare: {from: "9999-12-31"}`, `asOf`, "INVALID_ARGUMENT"},
		{`period: {from: "1970-01-01", to: "1970-01-01"}, compare: {kind: PREVIOUS_PERIOD}`, `asOf`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}, compare: {}`, `asOf`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}, compare: {kind: PREVIOUS_YEAR, from: "2026-01-01"}`, `asOf`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}, compare: {kind: PREVIOUS_YEAR}`, `comparedFrom`, ""},
		{`period: {preset: TODAY}, filters: [{dimension: PROPERTY, values: ["x"]}]`, `asOf`, "INVALID_ARGUMENT"},
		{`period: {preset: LAST_91_DAYS}`, `series(interval: HOUR) { start }`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}`, `a: series(interval: HOUR) { start } b: series(interval: DAY) { start }`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}`, `breakdown(by: PROPERTY) { totalCount }`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}`, `breakdown(by: PAGE, event: "x") { totalCount }`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}`, `breakdown(by: PAGE, first: 0) { totalCount }`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}`, `breakdown(by: PAGE, first: 1001) { totalCount }`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}`, `breakdown(by: PAGE, after: "x") { totalCount }`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}`, `funnel(steps: {page: "/"}) { visitors }`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}`, `funnel(steps: [{page: "/"}, {event: "x", page: "/"}]) { visitors }`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}`, `funnel(steps: [{page: "/"}, {event: "x"}]) { visitors }`, ""},
		{`period: {preset: TODAY}, filters: [{dimension: PAGE, operator: MATCHES, values: ["` + tooMany + `"]}]`, `asOf`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}, filters: [{dimension: PAGE, operator: MATCHES, values: ["` + most + `"]}]`, `asOf`, ""},
		{`period: {preset: TODAY}, filters: [{dimension: PAGE, operator: MATCHES, values: ["` + most + `"]}]`,
			`funnel(steps: [{page: "/*"}, {event: "x"}]) { visitors }`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}`, `funnel(steps: [{page: "` + tooMany + `"}, {event: "x"}]) { visitors }`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}`, `a: funnel(steps: [{page: "` + most + `"}, {event: "x"}]) { visitors }
			b: funnel(steps: [{event: "x"}, {page: "` + most + `"}]) { visitors }`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}`, `numbers(event: "x", property: "n") { totals { sum } }`, ""},
		{`period: {preset: TODAY}`, `numbers(event: "X y", property: "n") { totals { sum } }`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}`, `numbers(event: "x", property: "") { totals { sum } }`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}`, `numbers(event: "x", property: "` + strings.Repeat("n", 2_049) + `") { totals { sum } }`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}`, `numbers(event: "x", property: "n") { breakdown(by: EVENT) { totalCount } }`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}`, `numbers(event: "x", property: "n") { breakdown(by: PROPERTY) { totalCount } }`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}`, `numbers(event: "x", property: "n") { breakdown(by: PAGE, first: 0) { totalCount } }`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}`, `numbers(event: "x", property: "n") { breakdown(by: PAGE, after: "x") { totalCount } }`, "INVALID_ARGUMENT"},
		{
			args:   `period: {preset: TODAY}`,
			fields: `series(interval: HOUR) { start } numbers(event: "x", property: "n") { series(interval: DAY) { start } }`,
			code:   "INVALID_ARGUMENT",
		},
		{`period: {preset: LAST_91_DAYS}`, `numbers(event: "x", property: "n") { series(interval: HOUR) { start } }`, "INVALID_ARGUMENT"},
		{`period: {preset: TODAY}`, `a: propertyNames { name } b: propertyNames(event: "x") { name }`, "INVALID_ARGUMENT"},
	} {
		report(test.args, test.fields).named("%s { %s }", test.args, test.fields).code(t, test.code)
	}
}

// TestReportOfADay checks pages, search, order, funnel, properties and live figures of one day.
func TestReportOfADay(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		site := c.siteOf("example.com")
		storeDay(t, a.db, a.siteNumber(site), model.At(a.clock.Now()))

		got := c.query(`query($id: ID!) { site(id: $id) {
	live { visitors pageviews pages { value visitors } sources { value visitors } latest { event path channel } }
	report(period: {preset: TODAY}) {
		pages: breakdown(by: PAGE, orderBy: {metric: PAGEVIEWS, direction: ASC}, first: 1) { totalCount pageInfo { hasNextPage endCursor } edges { node { value } } }
		search: breakdown(by: PAGE, search: "PRI") { edges { node { value metrics { visitors } } } nodes { value metrics { pageviews } } }
		series { partial metrics { visitors } }
		propertyNames { name events values }
		funnel(steps: [{page: "/*"}, {page: "/pricing", label: "Prices"}, {event: "signup"}]) {
			visitors conversionRate steps { visitors fromPrevious step { label } } }
	} } }`, "id", site).ok(t, "")

		for path, want := range map[string]any{
			"site.live.visitors": 2.0, "site.live.pageviews.29": 3.0, "site.live.pages.0.value": "/", "site.live.pages.0.visitors": 2.0,
			"site.live.sources.1.value": "news", "site.live.latest.0.event": "signup", "site.live.latest.0.channel": "email",
			"site.report.pages.totalCount": 2.0, "site.report.pages.edges.0.node.value": "/pricing", "site.report.pages.pageInfo.hasNextPage": true,
			"site.report.search.nodes.0.value": "/pricing", "site.report.search.nodes.0.metrics.pageviews": 1.0,
			"site.report.search.edges.0.node.value": "/pricing", "site.report.search.edges.0.node.metrics.visitors": 1.0,
			"site.report.series.9.metrics.visitors": 2.0, "site.report.series.9.partial": true, "site.report.series.8.partial": false,
			"site.report.propertyNames.0.name": "plan", "site.report.propertyNames.0.values": 1.0,
			"site.report.funnel.visitors": 2.0, "site.report.funnel.steps.1.visitors": 1.0, "site.report.funnel.steps.1.step.label": "Prices",
			"site.report.funnel.steps.1.fromPrevious": 50.0, "site.report.funnel.steps.2.visitors": 1.0, "site.report.funnel.conversionRate": 50.0,
		} {
			equal(t, got.at(path), want, "%s", path)
		}

		next := c.query(`query($id: ID!, $after: String) { site(id: $id) { report(period: {preset: TODAY}) {
	breakdown(by: PAGE, orderBy: {metric: PAGEVIEWS, direction: ASC}, after: $after) { pageInfo { hasNextPage hasPreviousPage } edges { node { value } } } } } }`,
			"id", site, "after", got.at("site.report.pages.pageInfo.endCursor")).ok(t, "")
		if next.at("site.report.breakdown.edges.0.node.value") != "/" || next.at("site.report.breakdown.pageInfo.hasNextPage") != false {
			t.Errorf("the next page: %s", next.Body)
		}
	})
}

// TestSameTimeOfDay checks that a day that is not over is compared up to the same time of day, and
// each hour with the same hour, although the clocks changed on one of the days.
func TestSameTimeOfDay(t *testing.T) {
	berlin := value(time.LoadLocation("Europe/Berlin"))(t)

	eachApp(t, func(t *testing.T, a *app) {
		a.clock.Add(time.Date(2027, 3, 20, 12, 0, 0, 0, time.UTC).Sub(a.clock.Now()))
		c := a.owner("owner@example.com")
		site := c.siteOf("example.com")
		c.done("updateSite", "siteId", site, "timeZone", "Europe/Berlin")

		// One page view every ten minutes.
		first := model.At(time.Date(2027, 3, 19, 0, 0, 0, 0, time.UTC)).Day()
		for day := first; day < first+18; day++ {
			rows := segment.Rows{Day: day}
			key := segment.VisitKey{Visitor: model.VisitorID{byte(day)}, N: 1}
			rows.Visits = append(rows.Visits, segment.Visit{VisitKey: key, StartedAt: day.Start(), Channel: "direct"})
			for at := day.Start(); at.Day() == day; at = at.Add(10 * time.Minute) {
				rows.Views = append(rows.Views, segment.View{VisitKey: key, At: at, ID: int64(at), Path: "/", Width: model.UnknownWidth})
			}
			must(t, oracle.Store(t.Context(), a.db, int64(a.siteNumber(site)), rows))
		}

		// Clocks go from 2:00 to 3:00 on 28 March.
		for _, test := range []struct {
			now       time.Time
			pageviews float64 // of the day a week before, until 14:30
			hours     map[int]float64
		}{
			{time.Date(2027, 3, 28, 14, 30, 0, 0, berlin), 87, map[int]float64{1: 12, 2: 6, 12: 6, 13: 3, 14: 0}},
			{time.Date(2027, 4, 4, 14, 30, 0, 0, berlin), 81, map[int]float64{1: 6, 2: 0, 3: 6, 13: 6, 14: 3, 15: 0}},
		} {
			a.clock.Add(test.now.Sub(a.clock.Now()))
			a.work(test.now)
			got := c.site(site, `report(period: {preset: TODAY}, compare: {kind: PREVIOUS_PERIOD}) {
	comparedFrom totals { comparison { pageviews } } series(interval: HOUR) { comparedStart metrics { comparison { pageviews } } } }`).ok(t, "")
			got.named("%v", test.now).has(t, "site.report.totals.comparison.pageviews", test.pageviews)
			for hour, want := range test.hours {
				if n := got.at(fmt.Sprintf("site.report.series.%d.metrics.comparison.pageviews", hour)); n != want {
					t.Errorf("%v: part %d is compared with %v page views, want %v", test.now, hour, n, want)
				}
			}
		}
	})
}

// TestFilterByNoValue checks that an empty value of IS keeps the visits without such an event,
// property or attribute, and that IS_NOT drops them.
func TestFilterByNoValue(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		site := c.siteOf("example.com")

		// The first visitor has all values, the second one none.
		storeDay(t, a.db, a.siteNumber(site), model.At(a.clock.Now()))
		for filter, want := range map[string]float64{
			`dimension: EVENT, values: [""]`:                                                   1,
			`dimension: EVENT, operator: IS_NOT, values: [""]`:                                 2,
			`dimension: EVENT, values: ["", "signup"]`:                                         3,
			`dimension: EVENT, operator: IS_NOT, values: ["", "signup"]`:                       0,
			`dimension: EVENT, operator: MATCHES, values: ["**"]`:                              2,
			`dimension: PROPERTY, property: "plan", values: [""]`:                              1,
			`dimension: PROPERTY, property: "plan", operator: IS_NOT, values: [""]`:            2,
			`dimension: PROPERTY, property: "plan", event: "other", values: [""]`:              3,
			`dimension: PROPERTY, property: "unknown", values: [""]`:                           3,
			`dimension: PROPERTY, property: "unknown", operator: IS_NOT, values: [""]`:         0,
			`dimension: PAGE, values: [""]`:                                                    0,
			`dimension: PAGE, operator: IS_NOT, values: [""]`:                                  3,
			`dimension: UTM_SOURCE, values: [""]`:                                              1,
			`dimension: UTM_SOURCE, operator: IS_NOT, values: [""]`:                            2,
			`dimension: PROPERTY, property: "plan", values: ["", "pro"], operator: IS`:         3,
			`dimension: PROPERTY, property: "plan", operator: IS_NOT, values: ["", "another"]`: 2,
		} {
			c.site(site, `report(period: {preset: TODAY}, filters: [{`+filter+`}]) {
	totals { pageviews } }`).ok(t, "").named("%s", filter).has(t, "site.report.totals.pageviews", want)
		}
	})
}

// TestHoursAndDaysOfTheWeek checks that their rows count like parts of a series, page views at
// their own time and visits at their start, and that their filters keep visits by their start.
func TestHoursAndDaysOfTheWeek(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		site := c.siteOf("example.com")
		c.done("updateSite", "siteId", site, "timeZone", "Europe/Berlin")

		// A visit of Sunday 23:50 goes on until Monday 0:20.
		sunday := time.Date(2026, 11, 15, 22, 50, 0, 0, time.UTC)
		at := func(minutes int) model.Instant { return model.At(sunday.Add(time.Duration(minutes) * time.Minute)) }
		key := segment.VisitKey{Visitor: model.VisitorID{1}, N: 1}
		err := oracle.Store(t.Context(), a.db, int64(a.siteNumber(site)), segment.Rows{
			Day:    at(0).Day(),
			Visits: []segment.Visit{{VisitKey: key, StartedAt: at(0), Channel: "direct"}},
			Views: []segment.View{{VisitKey: key, At: at(0), ID: 1, Path: "/", Width: model.UnknownWidth},
				{VisitKey: key, At: at(20), ID: 2, Path: "/a", Width: model.UnknownWidth}},
			Events: []segment.Event{{VisitKey: key, At: at(30), ID: 3, Name: "signup", Path: "/a"}},
		})
		testkit.NoError(t, err)
		a.work(a.clock.Now())

		const figures = `{ visits visitors pageviews events }`
		got := c.site(site, `report(period: {from: "2026-11-15", to: "2026-11-16"}) {
	series(interval: HOUR) { metrics `+figures+` }
	hours: breakdown(by: HOUR_OF_DAY, orderBy: {metric: VISITS}) { edges { node { value metrics `+figures+` } } }
	days: breakdown(by: DAY_OF_WEEK, orderBy: {metric: VISITS}) { edges { node { value metrics `+figures+` } } } }`).ok(t, "")
		sundays := map[string]any{"visits": 1.0, "visitors": 1.0, "pageviews": 1.0, "events": 0.0}
		mondays := map[string]any{"visits": 0.0, "visitors": 1.0, "pageviews": 1.0, "events": 1.0}
		for path, want := range map[string]any{
			"series.23.metrics": sundays, "series.24.metrics": mondays,
			"hours.edges.0.node": map[string]any{"value": "23", "metrics": sundays},
			"hours.edges.1.node": map[string]any{"value": "00", "metrics": mondays}, "hours.edges.2": nil,
			"days.edges.0.node": map[string]any{"value": "7", "metrics": sundays},
			"days.edges.1.node": map[string]any{"value": "1", "metrics": mondays}, "days.edges.2": nil,
		} {
			testkit.DeepEqual(t, got.at("site.report."+path), want, "%s", path)
		}

		for filter, want := range map[string]float64{
			`dimension: HOUR_OF_DAY, values: ["23"]`: 2, `dimension: HOUR_OF_DAY, values: ["00"]`: 0,
			`dimension: DAY_OF_WEEK, values: ["7"]`: 2, `dimension: DAY_OF_WEEK, values: ["1"]`: 0,
		} {
			c.site(site, `report(period: {from: "2026-11-15", to: "2026-11-16"}, filters: [{`+filter+`}]) {
	totals { pageviews } }`).ok(t, "").named("%s", filter).has(t, "site.report.totals.pageviews", want)
		}
	})
}

// storeDay stores two visitors of the last minute: one saw / and /pricing and signed up, one saw /.
func storeDay(t *testing.T, d *db.DB, siteID model.SiteID, now model.Instant) {
	t.Helper()
	first, second := segment.VisitKey{Visitor: model.VisitorID{1}, N: 1}, segment.VisitKey{Visitor: model.VisitorID{2}, N: 1}
	at := func(seconds int) model.Instant { return now.Add(time.Duration(seconds-60) * time.Second) }
	view := func(key segment.VisitKey, seconds int, path string) segment.View {
		return segment.View{VisitKey: key, At: at(seconds), ID: int64(seconds), Path: path, Width: model.UnknownWidth}
	}
	visit := func(key segment.VisitKey, seconds int, channel, source string) segment.Visit {
		return segment.Visit{VisitKey: key, StartedAt: at(seconds), Channel: channel, Campaign: model.Campaign{Source: source}}
	}
	err := oracle.Store(t.Context(), d, int64(siteID), segment.Rows{
		Day:    now.Day(),
		Visits: []segment.Visit{visit(first, 10, "email", "news"), visit(second, 20, "direct", "")},
		Views:  []segment.View{view(first, 10, "/"), view(second, 20, "/"), view(first, 30, "/pricing")},
		Events: []segment.Event{{VisitKey: first, At: at(40), Name: "signup", Path: "/pricing", Properties: `{"plan":"pro"}`}},
	})
	testkit.NoError(t, err)
}

// TestSharedReport checks that a reader of a shared link sees the reports of its site, only within
// the link's segment, and is charged apart from the account.
func TestSharedReport(t *testing.T) {
	a := sqliteApp(t)
	c := a.owner("owner@example.com")
	site, other := c.siteOf("example.com"), c.siteOf("other.example")
	storeDay(t, a.db, a.siteNumber(site), model.At(a.clock.Now()))
	storeDay(t, a.db, a.siteNumber(other), model.At(a.clock.Now()))

	const query = `{ sharedSite { live { visitors } report(period: {preset: TODAY}, filters: [{dimension: UTM_TERM, values: [""]}]) {
	totals { visitors } breakdown(by: CHANNEL) { edges { node { value } } } } } }`
	a.with(c.reader(site), query).ok(t, "").
		named("without a segment").has(t, "sharedSite.report.totals.visitors", 2.0).has(t, "sharedSite.live.visitors", 2.0)

	made := c.done("createSegment", "siteId", site, "name", "s", "filters", []any{map[string]any{"dimension": "CHANNEL", "values": []string{"email"}}})
	link := c.query(createLinkMutation, "site", site, "segment", made.at("createSegment.segment.id")).ok(t, "createSharedLink")
	opened := a.client().done("openSharedLink", "token", link.at("createSharedLink.token"))

	got := a.with(opened.at("openSharedLink.viewerToken").(string), query).ok(t, "")
	if got.at("sharedSite.report.totals.visitors") != 1.0 || got.at("sharedSite.live") != nil ||
		got.at("sharedSite.report.breakdown.edges.0.node.value") != "email" || got.at("sharedSite.report.breakdown.edges.1") != nil {
		t.Errorf("with a segment: %s", got.Body)
	}

	// A segment can have been stored before a limit.
	filters := `[{"dimension":"PAGE","operator":"MATCHES","values":["` + strings.Repeat("*a", model.MaxReportWildcards+1) + `"]}]`
	must(t, dbtest.Exec(a.db, "UPDATE segments SET filters = ?", filters))
	got = a.with(opened.at("openSharedLink.viewerToken").(string), query)
	if got.codes() != "INVALID_ARGUMENT" || !strings.Contains(got.Body, "The segment of the link exceeds a limit. The patterns") {
		t.Errorf("with a segment over a limit: %s", got.Body)
	}
	c.site(site, `segments { name filters { values } }`).named("the segment over a limit cannot be read").code(t, "")
}

// TestReportCost checks that a report is charged for its page views, and refused beyond the limits.
func TestReportCost(t *testing.T) {
	a := sqliteApp(t)
	c := a.owner("owner@example.com")
	site := c.siteOf("example.com")
	yesterday := model.At(a.clock.Now().Add(-24 * time.Hour))
	storeDay(t, a.db, a.siteNumber(site), yesterday)
	a.work(a.clock.Now())

	const query = `query($id: ID!) { site(id: $id) { report(period: {preset: YESTERDAY}) { totals { visits } } } rateLimit { cost } }`
	usual := c.query(query, "id", site).ok(t, "").at("rateLimit.cost").(float64)

	// An answer that is kept is not counted again, and costs no page views.
	must(t, dbtest.Exec(a.db, "UPDATE report_days SET pageviews = 50000001"))
	c.query(query, "id", site).ok(t, "")
	a.clock.Add(11 * time.Second)
	c.query(query, "id", site).named("50,000,001 page views").code(t, "TOO_EXPENSIVE")

	must(t, dbtest.Exec(a.db, "UPDATE report_days SET pageviews = 5000000"))
	remaining := func() float64 { return c.query(`{ rateLimit { remaining } }`).at("rateLimit.remaining").(float64) }
	before := remaining()
	for _, most := range []float64{1_000, 0} {
		c.query(query, "id", site).ok(t, "")
		after := remaining()
		// The processor time of a report differs between calls.
		if spent := before - after; spent <= most || spent > most+200+10*usual {
			t.Errorf("%v points were spent on 5 million page views, want about %v; one report costs %v", spent, most+usual, usual)
		}
		before = after
	}
}

// TestSearchOfRowsIsCharged checks that each search in the rows of a report is charged for their
// texts, also in an answer that is kept, and that a list of rows is not.
func TestSearchOfRowsIsCharged(t *testing.T) {
	const pages, text = 200, 2_000
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		site := c.siteOf("example.com")

		storePages(t, a.db, a.siteNumber(site), model.At(a.clock.Now()), pages, strings.Repeat("a", text))

		remaining := func() float64 { return c.query(`{ rateLimit { remaining } }`).at("rateLimit.remaining").(float64) }
		cost := func(fields string) float64 {
			t.Helper()
			before := remaining()
			c.site(site, `report(period: {preset: TODAY}) { `+fields+` }`).ok(t, "")
			return before - remaining()
		}
		const list, search = `a: breakdown(by: PAGE, first: 1) { totalCount }`, `a: breakdown(by: PAGE, first: 1, search: "B") { totalCount }`
		const twice = search + ` b: breakdown(by: PAGE, first: 1, search: "007") { totalCount }`
		cost(list) // counts the answer, which is kept
		plain, once := cost(list), cost(search)
		if least := float64(pages * text / (16 << 10)); once < plain+least || once > plain+3*least {
			t.Errorf("a search costs %v, a list %v; want at least %v more", once, plain, least)
		}
		if both := cost(twice); both < plain+2*(once-plain) {
			t.Errorf("two searches cost %v, one costs %v", both, once)
		}
	})
}

// storePages stores page views of many pages in the last minute, whose paths end with a text.
func storePages(t *testing.T, d *db.DB, siteID model.SiteID, now model.Instant, pages int, text string) {
	t.Helper()
	key := segment.VisitKey{Visitor: model.VisitorID{1}, N: 1}
	rows := segment.Rows{Day: now.Day()}
	rows.Visits = []segment.Visit{{VisitKey: key, StartedAt: now.Add(-time.Minute), Channel: "direct"}}
	for i := range pages {
		rows.Views = append(rows.Views, segment.View{
			VisitKey: key, At: now.Add(time.Duration(i)*time.Millisecond - time.Minute), ID: int64(i + 1),
			Path: fmt.Sprintf("/%03d/%s", i, text), Width: model.UnknownWidth,
		})
	}
	must(t, oracle.Store(t.Context(), d, int64(siteID), rows))
}

// TestRowsOfAResponseAreBounded asks for more bytes of rows than a response has, at once and with
// several fields.
func TestRowsOfAResponseAreBounded(t *testing.T) {
	a := sqliteApp(t)
	c := a.owner("owner@example.com")
	site := c.siteOf("example.com")
	storePages(t, a.db, a.siteNumber(site), model.At(a.clock.Now()), 400, strings.Repeat("<", 2_000))

	for fields, code := range map[string]string{
		"a: breakdown(by: PAGE, first: 300) { edges { node { value } } }":                                                                 "",
		"a: breakdown(by: PAGE, first: 400) { edges { node { value } } }":                                                                 "TOO_EXPENSIVE",
		"a: breakdown(by: PAGE, first: 200) { edges { node { value } } } b: breakdown(by: PAGE, first: 200) { edges { node { value } } }": "TOO_EXPENSIVE",
	} {
		got := c.site(site, `report(period: {preset: TODAY}) { `+fields+` }`)

		// Two fields are counted at the same time, so one of them is refused, or both.
		first, _, _ := strings.Cut(got.codes(), " ")
		if first != code || len(got.Body) > 5<<20 {
			t.Errorf("%s: %d bytes, %.200s; want %q", fields, len(got.Body), got.Body, code)
		}
	}
}

// TestChangesShowAtOnce checks that what a report depends on is not hidden by an answer that is
// kept: each query is asked once before, in the same second.
func TestChangesShowAtOnce(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		site, other := c.siteOf("example.com"), c.siteOf("other.example")
		yesterday := model.At(a.clock.Now().Add(-24 * time.Hour))
		storeDay(t, a.db, a.siteNumber(site), yesterday)
		c.done("registerEvent", "siteId", site, "name", "signup")
		a.work(a.clock.Now())

		const report = `report(period: {from: "2026-11-18", to: "2026-11-20"}, filters: $filters) {
	totals { visitors conversions } hours: breakdown(by: HOUR_OF_DAY) { edges { node { value } } } }`
		none := []any{}
		ask := func(site string, filters any) *answer {
			t.Helper()
			return c.query(`query($id: ID!, $filters: [ReportFilterInput!]!) { site(id: $id) { `+report+` } }`, "id", site, "filters", filters).ok(t, "")
		}
		want := func(name string, got *answer, path string, want any) {
			t.Helper()
			equal(t, got.at(path), want, "%s: %s", name, path)
		}

		want("at first", ask(site, none), "site.report.totals.visitors", 2.0)
		want("at first", ask(site, none), "site.report.hours.edges.0.node.value", "09")
		want("another site", ask(other, none), "site.report.totals.visitors", 0.0)
		byChannel := func(operator string) []any {
			return []any{map[string]any{"dimension": "CHANNEL", "operator": operator, "values": []string{"email"}}}
		}
		want("a filter", ask(site, byChannel("IS")), "site.report.totals.visitors", 1.0)
		want("another filter", ask(site, []any{map[string]any{"dimension": "PAGE", "values": []string{"/"}}}), "site.report.totals.visitors", 2.0)

		c.done("markKeyEvent", "siteId", site, "name", "signup")
		want("a key event", ask(site, none), "site.report.totals.conversions", 1.0)
		c.done("updateSite", "siteId", site, "timeZone", "Asia/Tokyo")
		want("a time zone", ask(site, none), "site.report.hours.edges.0.node.value", "18")

		// A reader of a shared link asks within its segment, before and after a change of the
		// segment.
		made := c.done("createSegment", "siteId", site, "name", "s", "filters", []any{map[string]any{"dimension": "CHANNEL", "values": []string{"email"}}})
		segment := made.at("createSegment.segment.id")
		link := c.query(createLinkMutation, "site", site, "segment", segment).ok(t, "createSharedLink")
		opened := a.client().done("openSharedLink", "token", link.at("createSharedLink.token"))
		read := func() *answer {
			t.Helper()
			return a.with(opened.at("openSharedLink.viewerToken").(string),
				`query { sharedSite { `+strings.Replace(report, "$filters", "[]", 1)+` } }`).ok(t, "")
		}
		want("a link's segment", read(), "sharedSite.report.totals.visitors", 1.0)
		c.done("updateSegment", "segmentId", segment, "filters", []any{map[string]any{"dimension": "CHANNEL", "values": []string{"paid search"}}})
		want("a changed segment", read(), "sharedSite.report.totals.visitors", 0.0)
		want("the owner after that", ask(site, none), "site.report.totals.visitors", 2.0)
	})
}

// TestDashboard checks that the document of the whole dashboard is within the schema's limits.
func TestDashboard(t *testing.T) {
	t.Parallel()
	document := value(os.ReadFile("testdata/dashboard.graphql"))(t)
	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	a := newApp(t, d)
	c := a.owner("owner@example.com")
	site := c.siteOf("example.com")
	storeDay(t, d, a.siteNumber(site), model.At(a.clock.Now()))

	got := c.query(string(document), "id", site, "period", map[string]any{"preset": "TODAY"}, "filters", []any{},
		"compare", map[string]any{"kind": "PREVIOUS_PERIOD"}).ok(t, "")
	if got.at("site.report.totals.visitors") != 2.0 || got.at("site.report.totals.comparison.visitors") != 0.0 ||
		len(got.at("site.report.series").([]any)) != 24 {
		t.Errorf("the dashboard: %s", got.Body)
	}
}

// TestWhoReadsReports asks for every field of a report and of the live figures as every kind of
// caller. Another tenant gets what an unknown site gives.
func TestWhoReadsReports(t *testing.T) {
	const depth = 6
	site := "query($id: ID!) { site(id: $id) { live " + selection("LiveReport", depth) +
		" report(period: {preset: TODAY}, compare: {kind: PREVIOUS_PERIOD}) " + selection("Report", depth, "numbers") + " } }"
	shared := strings.Replace("{ sharedSite "+selection("SharedSite", depth, "numbers")+" }", " report {", " report(period: {preset: TODAY}) {", 1)

	// All fields in one query would be too complex.
	numbers := `report(period: {preset: TODAY}) { totals { visitors } numbers(property: "plan") ` + selection("ReportNumbers", depth) + " }"
	siteNumbers, sharedNumbers := "query($id: ID!) { site(id: $id) { "+numbers+" } }", "{ sharedSite { domain "+numbers+" } }"

	// Every type of the two fields is selected down to its leaves.
	for _, want := range []string{
		"breakdown(by: PAGE) {", "funnel(steps:", "journey(from:", "cohorts {", "propertyNames", "series",
		"averageOrder", "endCursor", "fromPrevious", "latest",
	} {
		if !strings.Contains(site, want) || !strings.Contains(shared, want) {
			t.Fatalf("%q is not selected in\n%s\n%s", want, site, shared)
		}
	}

	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		first, second := a.tenant("first.example"), a.tenant("second.example")
		id := first.ids["siteId"]
		storeDay(t, a.db, a.siteNumber(id), model.At(a.clock.Now()))

		viewer := a.join(first.owner, "viewer@first.example", model.RoleViewer)
		bearer := func(secret string) []string { return []string{"Authorization", "Bearer " + secret} }
		reader := bearer(first.owner.reader(id))

		ask := func(c *client, query, id string, header ...string) *answer {
			body := value(json.Marshal(map[string]any{"query": query, "variables": map[string]any{"id": id}}))(t)
			return c.send(http.MethodPost, "application/json", string(body), header...)
		}

		for _, test := range []struct {
			name   string
			client *client
			header []string
			codes  string
		}{
			{"owner", first.owner, nil, ""},
			{"viewer", viewer, nil, ""},
			{"token to read", a.client(), bearer(first.owner.createToken("READ").secret), ""},
			{"token to export", a.client(), bearer(first.owner.createToken("EXPORT").secret), "FORBIDDEN"},
			{"unauthenticated", a.client(), nil, "UNAUTHENTICATED"},
			{"reader of a shared link", a.client(), reader, "FORBIDDEN"},
		} {
			if got := ask(test.client, siteNumbers, id, test.header...); got.codes() != test.codes ||
				test.codes == "" && got.at("site.report.numbers.totals.visitors") != 1.0 {
				t.Errorf("%s, numbers: %s, want %q", test.name, got.Body, test.codes)
			}
			got := ask(test.client, site, id, test.header...)
			got.named("%s", test.name).code(t, test.codes)
			if test.codes == "" && (got.at("site.report.totals.visitors") != 2.0 || got.at("site.live.visitors") != 2.0) {
				t.Errorf("%s: %s", test.name, got.Body)
			}
		}

		for _, query := range []string{site, siteNumbers} {
			foreign, unknown := ask(second.owner, query, id), ask(second.owner, query, a.unknown(id))
			foreign.named("another tenant's report").is(t, unknown.Body).has(t, "site", nil)
		}

		// The link shows its own site alone, with the same figures.
		for _, query := range []string{shared, sharedNumbers} {
			body := value(json.Marshal(map[string]any{"query": query}))(t)
			got := a.client().send(http.MethodPost, "application/json", string(body), reader...)
			if got.codes() != "" || got.at("sharedSite.domain") != "first.example" || got.at("sharedSite.report.totals.visitors") != 2.0 {
				t.Errorf("the shared link's report: %s", got.Body)
			}
			for _, other := range []*client{a.client(), second.owner} {
				other.send(http.MethodPost, "application/json", string(body)).
					named("without the link").hides(t, "first").has(t, "sharedSite", nil)
			}
		}
	})
}
