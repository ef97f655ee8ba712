package graph_test

import (
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
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
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		a := newApp(t, d)
		c := a.owner("owner@example.com")
		site := c.siteOf("example.com")
		yesterday := model.At(a.clock.Now().Add(-24 * time.Hour))
		storeDay(t, d, a.siteNumber(site), yesterday)
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
				if got := r.at("site.report." + path); got != want[i] {
					t.Errorf("%s is %v, want %s", path, got, want[i])
				}
			}
		}

		before := ask([]any{}, "DAY")
		states(before, "NONE", "NONE", "NONE", "NONE")
		own := before.at("site.report.totals").(map[string]any)

		stored, err := reports.New(d).Import(t.Context(), a.siteNumber(site), &reports.Import{
			Source: model.ImportPlausible, First: day, Last: day, Dimensions: []model.ReportDimension{model.DimensionPage},
			Figures: []reports.ImportFigure{
				{Day: day, Visitors: 10, Visits: 12, Pageviews: 30, Bounces: 6},
				{Dimension: model.DimensionPage, Day: day, Value: "/imported", Visitors: 10, Visits: 12, Unbounced: 12, Pageviews: 30},
			},
		}, model.At(a.clock.Now()), sites.RecordImport, func(float64) {})
		if err != nil {
			t.Fatal(err)
		}

		r := ask([]any{}, "DAY")
		states(r, "INCLUDED", "INCLUDED", "INCLUDED", "NO_VALUES")
		totals := r.at("site.report.totals").(map[string]any)
		for name, more := range map[string]float64{"visitors": 10, "visits": 12, "pageviews": 30} {
			if totals[name] != own[name].(float64)+more {
				t.Errorf("%s: %v after %v, want %v more", name, totals[name], own[name], more)
			}
		}
		for _, name := range []string{"engagementTime", "conversionRate"} {
			if totals[name] != own[name] {
				t.Errorf("%s: %v, want %v as without the import", name, totals[name], own[name])
			}
		}
		if first := r.at("site.report.series.0.metrics.visitors"); first != 10.0 {
			t.Errorf("%v visitors on the first day, want 10", first)
		}
		if page := r.at("site.report.pages.edges.0.node.value"); page != "/imported" {
			t.Errorf("the first page is %v", page)
		}

		states(ask([]any{map[string]any{"dimension": "PAGE", "operator": "IS_NOT", "values": []string{"/x"}}}, "DAY"),
			"FILTERED", "FILTERED", "FILTERED", "FILTERED")
		states(ask([]any{}, "HOUR"), "INCLUDED", "WHOLE_DAYS", "INCLUDED", "NO_VALUES")

		if service := r.at("site.report.imports.0.service"); service != "Plausible" {
			t.Errorf("the service is %v", service)
		}
		if to := r.at("site.report.imports.0.to"); to != day.String() {
			t.Errorf("the last imported day is %v, want %s", to, day)
		}
		if only := r.at("site.report.pages.edges.0.node.onlyImported"); only != true {
			t.Errorf("onlyImported of /imported is %v", only)
		}
		if only := r.at("site.report.pages.edges.1.node.onlyImported"); only != false {
			t.Errorf("onlyImported of an own page is %v", only)
		}

		// A day of daily sums has no hours: by default, its series is the day.
		one := c.query(importedQuery, "id", site, "from", day.String(), "to", day.String(), "filters", []any{}, "interval", nil).ok(t, "")
		states(one, "INCLUDED", "INCLUDED", "INCLUDED", "NO_VALUES")
		if points := one.at("site.report.series").([]any); len(points) != 1 {
			t.Errorf("%d points, want the day", len(points))
		}
		if first := one.at("site.report.series.0.metrics.visitors"); first != 10.0 {
			t.Errorf("%v visitors in the series of the day, want 10", first)
		}

		if err := reports.New(d).UndoImport(t.Context(), a.siteNumber(site), stored.ID, sites.RecordImport); err != nil {
			t.Fatal(err)
		}
		after := ask([]any{}, "DAY")
		states(after, "NONE", "NONE", "NONE", "NONE")
		if got := after.at("site.report.totals").(map[string]any); got["visitors"] != own["visitors"] || got["bounceRate"] != own["bounceRate"] {
			t.Errorf("after the import was undone: %v, want %v", got, own)
		}
	})
}
