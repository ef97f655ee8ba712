package graph_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/sites"
)

// importedQuery asks for ten days with imported and own figures. $filters decides whether daily
// sums can be counted.
const importedQuery = `query($id: ID!, $from: Date!, $to: Date!, $filters: [ReportFilterInput!]!, $interval: ReportInterval) {
  site(id: $id) { report(period: {from: $from, to: $to}, filters: $filters) {
    imported seriesImported imports { service from to hasVisitors }
    totals { visitors visits pageviews bounceRate engagementTime conversionRate }
    series(interval: $interval) { metrics { visitors } }
    pages: breakdown(by: PAGE) { imported totalCount edges { node { value onlyImported metrics { visitors } } } }
    languages: breakdown(by: LANGUAGE) { imported totalCount }
  } }
}`

// TestImportedFigures checks that a report says whether imported figures are in it, and that its
// rates leave out what the import does not know.
func TestImportedFigures(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		site := c.siteOf("example.com")
		yesterday := model.At(a.clock.Now().Add(-24 * time.Hour))
		storeDay(t, a.db, a.siteNumber(site), yesterday)
		a.work(a.clock.Now())

		day := yesterday.Day() - 5
		ask := func(filters []any, interval string) *answer {
			t.Helper()
			return c.query(importedQuery, "id", site, "from", day.String(), "to", yesterday.Day().String(), "filters", filters,
				"interval", interval).ok(t, "")
		}
		states := func(r *answer, want ...string) {
			t.Helper()
			for i, path := range []string{"imported", "seriesImported", "pages.imported", "languages.imported"} {
				r.named("%s", path).has(t, "site.report."+path, want[i])
			}
		}

		before := ask([]any{}, "DAY")
		states(before, "NONE", "NONE", "NONE", "NONE")
		own := before.at("site.report.totals").(map[string]any)

		stored := value(reports.New(a.db).Import(t.Context(), a.siteNumber(site), &reports.Import{
			Source: model.ImportPlausible, First: day, Last: day, Dimensions: []model.ReportDimension{model.DimensionPage},
			Figures: []reports.ImportFigure{
				{Day: day, Visitors: 10, Visits: 12, Pageviews: 30, Bounces: 6},
				{Dimension: model.DimensionPage, Day: day, Value: "/imported", Visitors: 10, Visits: 12, Unbounced: 12, Pageviews: 30},
			},
		}, model.At(a.clock.Now()), sites.RecordImport, func(float64) {}))(t)

		r := ask([]any{}, "DAY")
		states(r, "INCLUDED", "INCLUDED", "INCLUDED", "NO_VALUES")
		totals := r.at("site.report.totals").(map[string]any)
		for name, more := range map[string]float64{"visitors": 10, "visits": 12, "pageviews": 30} {
			if totals[name] != own[name].(float64)+more {
				t.Errorf("%s: %v after %v, want %v more", name, totals[name], own[name], more)
			}
		}
		for _, name := range []string{"engagementTime", "conversionRate"} {
			equal(t, totals[name], own[name], "%s", name)
		}
		r.named("visitors on the first day").has(t, "site.report.series.0.metrics.visitors", 10.0)
		equal(t, r.at("site.report.pages.edges.0.node.value"), "/imported", "the first page")

		states(ask([]any{map[string]any{"dimension": "PAGE", "operator": "IS_NOT", "values": []string{"/x"}}}, "DAY"),
			"FILTERED", "FILTERED", "FILTERED", "FILTERED")
		states(ask([]any{}, "HOUR"), "INCLUDED", "WHOLE_DAYS", "INCLUDED", "NO_VALUES")

		equal(t, r.at("site.report.imports.0.service"), "Plausible", "the service")
		if to := r.at("site.report.imports.0.to"); to != day.String() {
			t.Errorf("the last imported day is %v, want %s", to, day)
		}
		equal(t, r.at("site.report.pages.edges.0.node.onlyImported"), true, "onlyImported of /imported")
		equal(t, r.at("site.report.pages.edges.1.node.onlyImported"), false, "onlyImported of an own page")

		// A day of daily sums has no hours: by default, its series is the day.
		one := c.query(importedQuery, "id", site, "from", day.String(), "to", day.String(), "filters", []any{}, "interval", nil).ok(t, "")
		states(one, "INCLUDED", "INCLUDED", "INCLUDED", "NO_VALUES")
		if points := one.at("site.report.series").([]any); len(points) != 1 {
			t.Errorf("%d points, want the day", len(points))
		}
		one.named("visitors in the series of the day").has(t, "site.report.series.0.metrics.visitors", 10.0)

		must(t, reports.New(a.db).UndoImport(t.Context(), a.siteNumber(site), stored.ID, sites.RecordImport))
		after := ask([]any{}, "DAY")
		states(after, "NONE", "NONE", "NONE", "NONE")
		if got := after.at("site.report.totals").(map[string]any); got["visitors"] != own["visitors"] || got["bounceRate"] != own["bounceRate"] {
			t.Errorf("after the import was undone: %v, want %v", got, own)
		}
	})
}
