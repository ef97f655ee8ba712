package graph_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/oracle"
)

// storeNumbers stores a visit with an event of 19 November for each value, on the hours of the day,
// and one visit of the day before.
func storeNumbers(t *testing.T, d *db.DB, a *app, site string, values ...string) {
	t.Helper()
	for on, list := range map[int][]string{18: {"1000"}, 19: values} {
		rows := segment.Rows{Day: model.At(time.Date(2026, 11, on, 0, 0, 0, 0, time.UTC)).Day()}
		for i, value := range list {
			key := segment.VisitKey{Visitor: model.VisitorID{byte(i + 1), byte(on)}, N: 1}
			at := rows.Day.Start().Add(time.Duration(i) * time.Hour)
			rows.Visits = append(rows.Visits, segment.Visit{VisitKey: key, StartedAt: at, Channel: "direct",
				Client: model.Client{Country: []string{"DE", "DE", "DE", "DE", "CH", "CH", "AT"}[i]}})
			rows.Views = append(rows.Views, segment.View{VisitKey: key, At: at, ID: int64(on)<<20 | int64(i), Path: "/", Width: -1})
			rows.Events = append(rows.Events, segment.Event{VisitKey: key, At: at, ID: int64(on)<<20 | int64(i), Name: "vitals",
				Path: fmt.Sprintf("/%c", 'a'+i%3), Properties: `{"cls":` + value + `}`})
		}
		must(t, oracle.Store(t.Context(), d, int64(a.siteNumber(site)), rows))
	}
}

const numbersDays = `period: {from: "2026-11-19", to: "2026-11-19"}, compare: {kind: PREVIOUS_PERIOD, matchDayOfWeek: false}`

// vitalsFields selects everything of numbers.
const vitalsFields = `numbers(event: "vitals", property: "cls") {
  totals { ...n comparison { ...n } }
  series(interval: HOUR) { start comparedStart partial figures { events sum comparison { sum } } }
  breakdown(by: PAGE, orderBy: {metric: SUM}, first: 2) { totalCount hasOther pageInfo { hasNextPage endCursor } nodes { value figures { ...n comparison { sum } } } }
  devices: breakdown(by: DEVICE, orderBy: {metric: P75}) { nodes { value figures { p75 } } } }`

const numbersFragment = ` fragment n on NumberFigures { visitors events numbers withoutNumber unknown sum average min max p50 p75 p90 p95 p99 }`

// TestNumbers checks totals, series, rows, pages of rows and the comparison of one day, and that
// sites count apart.
func TestNumbers(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		site, other := c.siteOf("example.com"), c.siteOf("other.example")
		storeNumbers(t, a.db, a, site, "0.1", "0.2", `"0.3"`, "true", "0.0123456789", `"many"`)
		storeNumbers(t, a.db, a, other, "77")
		a.work(a.clock.Now())

		got := c.query(`query($id: ID!) { site(id: $id) { report(`+numbersDays+`) { `+vitalsFields+` } } }`+numbersFragment, "id", site).ok(t, "")
		for path, want := range map[string]any{
			"totals.visitors": 6.0, "totals.events": 6.0, "totals.numbers": 4.0, "totals.withoutNumber": 2.0, "totals.unknown": 0.0,
			"totals.sum": 0.6123456789, "totals.average": 0.153086419725, "totals.min": 0.0123456789, "totals.max": 0.3,
			"totals.p50": 0.1, "totals.p75": 0.2, "totals.p90": 0.3, "totals.p95": 0.3, "totals.p99": 0.3,
			"totals.comparison.sum": 1000.0, "totals.comparison.events": 1.0,
			"series.0.start": "2026-11-19T00:00:00Z", "series.0.comparedStart": "2026-11-18T00:00:00Z", "series.0.partial": false,
			"series.0.figures.sum": 0.1, "series.0.figures.comparison.sum": 1000.0, "series.1.figures.sum": 0.2,
			"series.3.figures.events": 1.0, "series.3.figures.sum": nil, "series.23.figures.events": 0.0,
			"breakdown.totalCount": 3.0, "breakdown.hasOther": false, "breakdown.pageInfo.hasNextPage": true,
			"breakdown.nodes.0.value": "/c", "breakdown.nodes.0.figures.sum": 0.3, "breakdown.nodes.0.figures.comparison.sum": nil,
			"breakdown.nodes.1.value": "/b", "breakdown.nodes.1.figures.sum": 0.2123456789, "breakdown.nodes.2": nil,
			"devices.nodes.0.figures.p75": 0.2, "devices.nodes.1": nil,
		} {
			equal(t, got.at("site.report.numbers."+path), want, "%s", path)
		}

		next := c.query(`query($id: ID!, $after: String) { site(id: $id) { report(`+numbersDays+`) { numbers(event: "vitals", property: "cls") {
	breakdown(by: PAGE, orderBy: {metric: SUM}, first: 2, after: $after) { pageInfo { hasNextPage hasPreviousPage } nodes { value figures { sum comparison { sum } } } }
	found: breakdown(by: PAGE, search: "B") { totalCount nodes { value } } } } } }`,
			"id", site, "after", got.at("site.report.numbers.breakdown.pageInfo.endCursor")).ok(t, "")
		page := "site.report.numbers.breakdown."
		if next.at(page+"nodes.0.value") != "/a" || next.at(page+"nodes.0.figures.comparison.sum") != 1000.0 ||
			next.at(page+"pageInfo.hasNextPage") != false || next.at("site.report.numbers.found.nodes.0.value") != "/b" {
			t.Errorf("the second page: %s", next.Body)
		}

		filtered := c.site(site, `report(`+numbersDays+`, filters: [{dimension: COUNTRY, values: ["CH"]}]) {
	numbers(event: "vitals", property: "cls") { totals { events sum } } none: numbers(event: "vitals", property: "lcp") { totals { events numbers withoutNumber sum p75 } } }`).ok(t, "")
		if filtered.at("site.report.numbers.totals.sum") != 0.0123456789 || filtered.at("site.report.none.totals.withoutNumber") != 2.0 ||
			filtered.at("site.report.none.totals.p75") != nil {
			t.Errorf("with a filter: %s", filtered.Body)
		}
		alone := c.site(other, `report(`+numbersDays+`) { numbers(event: "vitals", property: "cls") { totals { sum } } }`).ok(t, "")
		equal(t, alone.at("site.report.numbers.totals.sum"), 77.0, "the other site: %s", alone.Body)
		elsewhere := a.owner("second@example.com")
		elsewhere.site(site, `report(`+numbersDays+`) { numbers(event: "vitals", property: "cls") { totals { sum } } }`).
			named("another account sees").hides(t, "0.6")
	})
}

// TestNumbersOfSmallGroups checks that readers of a shared link see no numbers of few visitors:
// neither in rows of a personal dimension, nor under a personal filter.
func TestNumbersOfSmallGroups(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		site, few := c.siteOf("example.com"), c.siteOf("few.example")
		storeNumbers(t, a.db, a, site, "1", "2", "3", "4", "50", "60", "70") // 4 of Germany, 2 of Switzerland, 1 of Austria
		storeNumbers(t, a.db, a, few, "77", `"x"`, `"x"`, `"x"`, "1", "2", "3")
		a.work(a.clock.Now())
		reader := c.reader(site)

		rows := func(by string) string {
			got := a.with(reader, `{ sharedSite { report(`+numbersDays+`) { numbers(event: "vitals", property: "cls") {
	breakdown(by: `+by+`, orderBy: {metric: SUM}) { hasOther nodes { value figures { sum comparison { sum } } } } } } } }`).ok(t, "")
			text := value(json.Marshal(got.at("sharedSite.report.numbers.breakdown")))(t)
			return string(text)
		}
		if got, want := rows("COUNTRY"), `{"hasOther":true,"nodes":[{"figures":{"comparison":{"sum":1000},"sum":180},"value":"(other)"},`+
			`{"figures":{"comparison":null,"sum":10},"value":"DE"}]}`; got != want {
			t.Errorf("countries are %s, want %s", got, want)
		}
		if got := rows("PAGE"); !strings.Contains(got, `"/c"`) || strings.Contains(got, "(other)") {
			t.Errorf("pages are %s", got)
		}

		for filters, want := range map[string]string{
			`[{dimension: COUNTRY, values: ["DE"]}, {dimension: COUNTRY, values: ["DE"]}]`: "",
			`[{dimension: COUNTRY, values: ["CH"]}]`:                                       "GROUP_TOO_SMALL",
		} {
			a.with(reader, `{ sharedSite { report(period: {from: "2026-11-19", to: "2026-11-19"}, filters: `+filters+`) {
	numbers(event: "vitals", property: "cls") { totals { sum } } } } }`).named("%s", filters).code(t, want)
		}

		// Hours with one visitor of the country have no numbers, neither as points nor as rows.
		hours := a.with(reader, `{ sharedSite { report(period: {from: "2026-11-19", to: "2026-11-19"}, filters: [{dimension: COUNTRY, values: ["DE"]}]) {
	numbers(event: "vitals", property: "cls") { totals { sum } series(interval: HOUR) { figures { numbers sum max } }
	breakdown(by: HOUR_OF_DAY, orderBy: {metric: SUM}) { hasOther nodes { value figures { numbers sum p50 } } } } } } }`).ok(t, "")
		for path, want := range map[string]any{
			"totals.sum": 10.0, "series.1.figures.numbers": 1.0, "series.1.figures.sum": nil, "series.1.figures.max": nil,
			"breakdown.hasOther": false, "breakdown.nodes.1.figures.numbers": 1.0, "breakdown.nodes.1.figures.sum": nil,
			"breakdown.nodes.1.figures.p50": nil,
		} {
			equal(t, hours.at("sharedSite.report.numbers."+path), want, "%s", path)
		}

		// The group is large enough, but no visitor of it has such an event.
		got := a.with(reader, `{ sharedSite { report(period: {from: "2026-11-19", to: "2026-11-19"}, filters: [{dimension: COUNTRY, values: ["DE"]}]) {
	totals { visitors } numbers(event: "rare", property: "cls") { totals { sum } } } } }`)
		if got.codes() != "GROUP_TOO_SMALL" || got.at("sharedSite.report.totals.visitors") != 4.0 || got.at("sharedSite.report.numbers") != nil {
			t.Errorf("an event without visitors: %s", got.Body)
		}

		// Three of the four visitors of the country have the event without a number.
		reader = c.reader(few)
		if got := rows("COUNTRY"); strings.Contains(got, "DE") || !strings.Contains(got, `"sum":83`) {
			t.Errorf("countries with few numbers are %s", got)
		}
		got = a.with(reader, `{ sharedSite { report(period: {from: "2026-11-19", to: "2026-11-19"}, filters: [{dimension: COUNTRY, values: ["DE"]}]) {
	totals { visitors } numbers(event: "vitals", property: "cls") { totals { sum } } } } }`)
		if got.codes() != "GROUP_TOO_SMALL" || got.at("sharedSite.report.totals.visitors") != 4.0 || got.at("sharedSite.report.numbers") != nil {
			t.Errorf("few numbers: %s", got.Body)
		}
	})
}
