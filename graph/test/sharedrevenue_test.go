package graph_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/oracle"
)

// hiddenLinkMutation creates a link without revenue.
const hiddenLinkMutation = `mutation($site: ID!) {
	createSharedLink(input: {siteId: $site, name: "hidden", hideRevenue: true}) {
		sharedLink { hidesRevenue } token userErrors { field code } } }`

// hiddenReader opens a new link of a site without revenue, and returns the viewer token.
func (c *client) hiddenReader(siteID string) string {
	c.t.Helper()
	made := c.done("createSharedLink", "siteId", siteID, "name", "hidden", "hideRevenue", true)
	equal(c.t, made.at("createSharedLink.sharedLink.hidesRevenue"), true, "a link without revenue: %s", made.Body)
	opened := c.app.client().done("openSharedLink", "token", made.at("createSharedLink.token"))
	return opened.at("openSharedLink.viewerToken").(string)
}

// sharedReports returns queries that together read each field of a shared report, with each
// dimension and each order of rows.
func sharedReports() []string {
	const days = `period: {from: "2026-11-19", to: "2026-11-19"}, compare: {kind: PREVIOUS_PERIOD, matchDayOfWeek: false}`

	// All fields in one query would be too complex.
	following := []string{"journey", "cohorts"}
	var others []string
	for _, f := range fieldsOf(schema.Types["Report"]) {
		if !slices.Contains(following, f.Name) {
			others = append(others, f.Name)
		}
	}

	list := []string{
		`{ sharedSite ` + selection("SharedSite", 3, "report", "name", "domain") + ` }`,
		`{ sharedSite { report(` + days + `) ` + selection("Report", 7, append(following, "numbers")...) + ` } }`,
		`{ sharedSite { report(` + days + `) ` + selection("Report", 7, others...) + ` } }`,
		`{ sharedSite { report(` + days + `) { propertyNames(event: "purchase") { name events values } } } }`,
	}
	rows := selection("ReportRowConnection", 6)
	for _, by := range schema.Types["ReportDimension"].EnumValues {
		if by.Name == "PROPERTY" {
			continue
		}
		// Only the order of the rows depends on the figure that orders them.
		var orders []string
		for _, metric := range schema.Types["ReportMetric"].EnumValues {
			for _, direction := range []string{"ASC", "DESC"} {
				orders = append(orders, fmt.Sprintf(`%s_%s: breakdown(by: %s, orderBy: {metric: %s, direction: %s}) { nodes { value } }`,
					metric.Name, direction, by.Name, metric.Name, direction))
			}
		}
		list = append(list, fmt.Sprintf(`{ sharedSite { report(%s) { breakdown(by: %s) %s } } }`, days, by.Name, rows))
		for some := range slices.Chunk(orders, 10) {
			list = append(list, fmt.Sprintf(`{ sharedSite { report(%s) { %s } } }`, days, strings.Join(some, " ")))
		}
	}
	return list
}

// TestHiddenRevenue checks that a link without revenue returns nothing of amounts: two sites
// that differ in amounts and currencies alone have equal answers, in all fields and orders. Links
// with revenue, with different answers, show that the check can fail.
func TestHiddenRevenue(t *testing.T) {
	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		c := a.owner("owner@example.com")
		cheap, dear := c.siteOf("cheap.example"), c.siteOf("dear.example")
		storeSales(t, a.db, a, cheap, 1, "EUR", "CHF")
		storeSales(t, a.db, a, dear, 1_000, "USD", "JPY")
		a.work(a.clock.Now())

		cheapReader, dearReader := c.hiddenReader(cheap), c.hiddenReader(dear)
		queries := sharedReports()
		for _, query := range queries {
			got, other := a.with(cheapReader, query).ok(t, ""), a.with(dearReader, query)
			got.named("%s has different answers", query).is(t, other.Body)
			got.named("%s shows", query).hides(t, `"currency":"`).hides(t, "price")
		}
		a.with(cheapReader, queries[0]).named("hidesRevenue").has(t, "sharedSite.hidesRevenue", true)

		// Amounts are also values of properties, whatever their names.
		for _, report := range []string{
			`report { breakdown(by: PROPERTY, property: "price") { totalCount } }`,
			`report { breakdown(by: PROPERTY, property: "price", event: "add_to_cart") { totalCount } }`,
			`report { numbers(event: "purchase", property: "price") { totals { sum } } }`,
			`report { totals { visitors } n: numbers(event: "add_to_cart", property: "quantity") { breakdown(by: PAGE) { totalCount } } }`,
			`report(filters: [{dimension: PROPERTY, property: "price", values: ["1"]}]) { totals { visitors } }`,
			`report(filters: [{dimension: PAGE, values: ["/"]}, {dimension: PROPERTY, property: "fee", operator: IS_NOT, values: ["1"]}]) { totals { visitors } }`,
		} {
			a.with(cheapReader, `{ sharedSite { `+report+` } }`).named("%s", report).code(t, "INVALID_ARGUMENT")
		}

		// The link with revenue shows it, also within the 10 seconds for which an equal report is
		// kept.
		open, openDear := c.reader(cheap), c.reader(dear)
		got := a.with(open, queries[1]).ok(t, "")
		if got.at("sharedSite.report.totals.revenue.0.currency") == nil || got.at("sharedSite.report.propertyNames.0.name") == nil {
			t.Errorf("a link with revenue: %s", got.Body)
		}
		if other := a.with(openDear, queries[1]); got.Body == other.Body {
			t.Error("the sites do not differ")
		}
		a.with(cheapReader, queries[1]).named("after a report with revenue").hides(t, `"currency":"`)
	})
}

// storeSales stores visits of two days with events of given amounts.
func storeSales(t *testing.T, d *db.DB, a *app, site string, factor int, first, second string) {
	t.Helper()
	day := func(on int) segment.Rows {
		at := model.At(time.Date(2026, 11, on, 12, 0, 0, 0, time.UTC))
		rows := segment.Rows{Day: at.Day()}
		for i, path := range []string{"/", "/kettle", "/teapot"} {
			key := segment.VisitKey{Visitor: model.VisitorID{byte(on), byte(i)}, N: 1}
			rows.Visits = append(rows.Visits, segment.Visit{VisitKey: key, StartedAt: at, Channel: "direct", Client: model.Client{Country: "DE"}})
			rows.Views = append(rows.Views, segment.View{VisitKey: key, At: at, ID: int64(i + 1), Path: path, Width: model.UnknownWidth})

			// The order of the paths by revenue depends on the factor.
			value := model.Money(1_000_000 * (factor + i*(500-factor)))
			event := segment.Event{VisitKey: key, At: at, ID: int64(10 * (i + 1)), Path: path}
			for n, e := range []segment.Event{
				{Name: model.EventPurchase, Value: value, Currency: first, Properties: fmt.Sprintf(`{"coupon":"c","fee":%d}`, factor)},
				{Name: model.EventRefund, Value: -value / 2, Currency: second},
				{Name: model.EventAddToCart, Properties: fmt.Sprintf(`{"price":%d}`, factor)},
			} {
				event.ID, event.Name, event.Value, event.Currency, event.Properties = event.ID+int64(n), e.Name, e.Value, e.Currency, e.Properties
				rows.Events = append(rows.Events, event)
			}
		}
		return rows
	}
	must(t, oracle.Store(t.Context(), d, int64(a.siteNumber(site)), day(18), day(19)))
}
