package graph_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/oracle"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestSmallGroups checks that readers of shared links see values of few visitors as (other) in
// dimensions of the visitor alone, that they get no report of a small group by filters, and that
// members see all unless their owner says otherwise.
func TestSmallGroups(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		site := c.siteOf("example.com")
		storeCountries(t, a.db, a, site)
		reader := c.reader(site)

		// The period has 4 visitors of Germany, 3 of Switzerland (2 the day before), 2 of Austria
		// (1 the day before) and 1 of Liechtenstein, who alone views /secret.
		const report = `report(period: {from: "2026-11-19", to: "2026-11-19"}, compare: {kind: PREVIOUS_PERIOD, matchDayOfWeek: false}, filters: $filters) {
  totals { visitors }
  countries: breakdown(by: COUNTRY) { hasOther totalCount nodes { value metrics { visitors comparison { visitors } } } }
  pages: breakdown(by: PAGE) { hasOther nodes { value metrics { visitors } } } }`
		rows := func(got *answer, at string) string {
			var list []string
			for i := 0; ; i++ {
				path := fmt.Sprintf("%s.nodes.%d", at, i)
				if got.at(path) == nil {
					return strings.Join(list, " ")
				}
				row := fmt.Sprintf("%v:%v", got.at(path+".value"), got.at(path+".metrics.visitors"))
				if compared := got.at(path + ".metrics.comparison"); compared != nil {
					row += fmt.Sprintf("/%v", got.at(path+".metrics.comparison.visitors"))
				}
				list = append(list, row)
			}
		}
		asMember := func(filters string) *answer {
			return c.query(`query($id: ID!) { site(id: $id) { `+strings.Replace(report, "$filters", filters, 1)+` } }`, "id", site)
		}
		asReader := func(filters string) *answer {
			return a.with(reader, `{ sharedSite { `+strings.Replace(report, "$filters", filters, 1)+` } }`)
		}

		all := "DE:4/3 CH:3/2 AT:2/1 LI:1/0"
		equal(t, rows(asMember("[]").ok(t, ""), "site.report.countries"), all, "a member sees")

		shared := asReader("[]").ok(t, "")
		if got, want := rows(shared, "sharedSite.report.countries"), "DE:4/3 (other):3/3 CH:3"; got != want {
			t.Errorf("a reader sees %q, want %q", got, want)
		}
		if shared.at("sharedSite.report.countries.hasOther") != true || shared.at("sharedSite.report.countries.totalCount") != 3.0 {
			t.Errorf("hasOther and totalCount are %v and %v", shared.at("sharedSite.report.countries.hasOther"),
				shared.at("sharedSite.report.countries.totalCount"))
		}
		if got, want := rows(shared, "sharedSite.report.pages"), "/:10 /secret:1"; got != want {
			t.Errorf("pages are %q, want %q", got, want)
		}

		for filters, want := range map[string]string{
			`[{dimension: COUNTRY, values: ["LI"]}]`:                                                                           "GROUP_TOO_SMALL",
			`[{dimension: COUNTRY, values: ["AT"]}]`:                                                                           "GROUP_TOO_SMALL",
			`[{dimension: COUNTRY, operator: IS_NOT, values: ["DE", "CH", "AT"]}]`:                                             "GROUP_TOO_SMALL",
			`[{dimension: COUNTRY, values: ["CH"]}]`:                                                                           "GROUP_TOO_SMALL", // 2 in the period compared with
			`[{dimension: COUNTRY, values: ["DE"]}]`:                                                                           "",
			`[{dimension: COUNTRY, operator: IS_NOT, values: ["DE"]}]`:                                                         "",
			`[{dimension: COUNTRY, operator: IS_NOT, values: ["LI"]}]`:                                                         "GROUP_TOO_SMALL", // the others are LI
			`[{dimension: COUNTRY, values: ["DE", "LI"]}]`:                                                                     "GROUP_TOO_SMALL", // more than DE by LI
			`[{dimension: COUNTRY, values: ["DE", "CH", "AT"]}]`:                                                               "GROUP_TOO_SMALL",
			`[{dimension: COUNTRY, operator: CONTAINS, values: ["I"]}]`:                                                        "GROUP_TOO_SMALL",
			`[{dimension: COUNTRY, operator: MATCHES_NOT, values: ["L*"]}]`:                                                    "GROUP_TOO_SMALL",
			`[{dimension: COUNTRY, values: ["DE"]}, {dimension: PAGE, values: ["/secret"]}]`:                                   "GROUP_TOO_SMALL",
			`[{dimension: COUNTRY, operator: IS_NOT, values: ["CH"]}, {dimension: COUNTRY, operator: IS_NOT, values: ["LI"]}]`: "GROUP_TOO_SMALL",
			`[{dimension: COUNTRY, values: ["DE"]}, {dimension: LANGUAGE, values: [""]}]`:                                      "",
			`[{dimension: COUNTRY, values: ["DE"]}, {dimension: PAGE, values: ["/"]}]`:                                         "",
			`[{dimension: PAGE, values: ["/secret"]}]`:                                                                         "",
			`[{dimension: COUNTRY, values: ["FR"]}]`:                                                                           "GROUP_TOO_SMALL", // no visitor
			`[{dimension: COUNTRY, values: ["UK"]}]`:                                                                           "INVALID_ARGUMENT",
			`[{dimension: COUNTRY, values: ["LI"]}, {dimension: PAGE, values: ["/secret"]}]`:                                   "GROUP_TOO_SMALL",
			`[{dimension: LANGUAGE, values: [""]}, {dimension: PAGE, values: ["/secret"]}]`:                                    "GROUP_TOO_SMALL",
			`[{dimension: SOURCE_GROUP, values: [""]}, {dimension: PAGE, values: ["/secret"]}]`:                                "",
			`[{dimension: PAGE, values: ["/secret"]}, {dimension: HOUR_OF_DAY, values: ["12", "13"]}]`:                         "",
		} {
			asReader(filters).named("a reader's report by %s", filters).code(t, want)
			if want == "GROUP_TOO_SMALL" {
				asMember(filters).ok(t, "")
			}
		}
		if got, want := rows(asReader(`[{dimension: PAGE, values: ["/secret"]}]`).ok(t, ""), "sharedSite.report.countries"), "(other):1/0"; got != want {
			t.Errorf("countries of one page are %q, want %q", got, want)
		}

		// Pages of visitors whom a country chooses are groups, too.
		const chosen = `[{dimension: COUNTRY, operator: IS_NOT, values: ["DE"]}]`
		if got, want := rows(asReader(chosen).ok(t, ""), "sharedSite.report.pages"), "/:6 (other):1"; got != want {
			t.Errorf("pages of all countries but one are %q, want %q", got, want)
		}
		if got, want := rows(asMember(chosen).ok(t, ""), "site.report.pages"), "/:6 /secret:1"; got != want {
			t.Errorf("pages of all countries but one are %q for a member, want %q", got, want)
		}

		// No visitors before the first day are no small group.
		first := strings.NewReplacer("2026-11-19", "2026-11-18", "$filters", `[{dimension: COUNTRY, values: ["DE"]}]`)
		a.with(reader, `{ sharedSite { `+first.Replace(report)+` } }`).named("a report of the first day").code(t, "")

		// A threshold of 1 hides nothing.
		set := func(settings string) {
			t.Helper()
			c.query(`mutation($id: ID!) { updateSite(input: {siteId: $id, `+settings+`}) { userErrors { code } } }`, "id", site).ok(t, "updateSite")
		}
		set("smallGroup: 1")
		equal(t, rows(asReader("[]").ok(t, ""), "sharedSite.report.countries"), all, "with a threshold of 1 a reader sees")
		asReader(`[{dimension: COUNTRY, values: ["FR"]}]`).named("with a threshold of 1 a report without visitors").code(t, "")
		// A link's segment is its owner's choice.
		set("smallGroup: 4")
		segment := c.done("createSegment", "siteId", site, "name", "LI", "filters", []any{map[string]any{"dimension": "COUNTRY", "values": []string{"LI"}}})
		link := c.query(createLinkMutation, "site", site, "segment", segment.at("createSegment.segment.id")).ok(t, "createSharedLink")
		opened := a.client().done("openSharedLink", "token", link.at("createSharedLink.token"))
		reader = opened.at("openSharedLink.viewerToken").(string)
		asReader("[]").ok(t, "")
	})
}

// TestSmallGroupsByDifference asks for reports by every set of countries, named or left out, of
// random small days, by readers with each threshold. Two reports that are not refused differ by the
// visitors of no country, or by as many as the threshold: neither of them names a small group, nor
// does their difference.
func TestSmallGroupsByDifference(t *testing.T) {
	countries := []string{"", "AT", "CH", "DE"}
	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		c := a.owner("owner@example.com")
		random := rand.New(rand.NewPCG(52, 9))
		accepted, refused := 0, 0

		for world := range 6 {
			site := c.siteOf(fmt.Sprintf("world%d.example", world))
			visitors := map[string]int{}
			for _, country := range countries {
				visitors[country] = random.IntN(7)
			}
			at := model.At(time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC))
			must(t, oracle.Store(t.Context(), a.db, int64(a.siteNumber(site)), countryRows(at, countries, visitors)))
			least := 2 + random.IntN(3)
			c.query(fmt.Sprintf(`mutation($id: ID!) { updateSite(input: {siteId: $id, smallGroup: %d}) { userErrors { code } } }`, least), "id",
				site).ok(t, "updateSite")
			reader := c.reader(site)

			// A set of countries is a bit of each. The report without a filter has all.
			sets := []int{1<<len(countries) - 1}
			for named := 1; named < 1<<len(countries); named++ {
				var values []string
				for i, country := range countries {
					if named>>i&1 == 1 {
						values = append(values, strconv.Quote(country))
					}
				}
				for operator, set := range map[string]int{"IS": named, "IS_NOT": 1<<len(countries) - 1 - named} {
					got := a.with(reader, fmt.Sprintf(`{ sharedSite { report(period: {from: "2026-11-19", to: "2026-11-19"}, filters: [{dimension: COUNTRY,
	operator: %s, values: [%s]}]) { totals { visitors } } } }`, operator, strings.Join(values, ", ")))
					switch got.codes() {
					case "":
						sets = append(sets, set)
						accepted++
						if want := float64(visitorsOf(countries, visitors, set)); got.at("sharedSite.report.totals.visitors") != want {
							t.Errorf("%v: %s %v: %s, want %v visitors", visitors, operator, values, got.Body, want)
						}
					case "GROUP_TOO_SMALL":
						refused++
					default:
						t.Errorf("%s %v: %s", operator, values, got.Body)
					}
				}
			}

			for _, one := range sets {
				for _, other := range sets {
					if n := visitorsOf(countries, visitors, one&^other); n > 0 && n < least {
						t.Errorf("%v, least %d: the reports of %04b and %04b differ by %d visitors", visitors, least, one, other, n)
					}
				}
			}
		}
		if accepted < 20 || refused < 20 {
			t.Errorf("%d reports were accepted, and %d refused", accepted, refused)
		}
	})
}

// visitorsOf returns how many visitors a set of countries has.
func visitorsOf(countries []string, visitors map[string]int, set int) (n int) {
	for i, country := range countries {
		n += set >> i & 1 * visitors[country]
	}
	return n
}

// countryRows returns a visit of each visitor.
func countryRows(at model.Instant, countries []string, visitors map[string]int) segment.Rows {
	rows := segment.Rows{Day: at.Day()}
	for _, country := range countries {
		for range visitors[country] {
			n := len(rows.Visits) + 1
			key := segment.VisitKey{Visitor: model.VisitorID{byte(n)}, N: 1}
			rows.Visits = append(rows.Visits, segment.Visit{VisitKey: key, StartedAt: at, Channel: "direct", Client: model.Client{Country: country}})
			rows.Views = append(rows.Views, segment.View{VisitKey: key, At: at, ID: int64(n), Path: "/", Width: model.UnknownWidth})
		}
	}
	return rows
}

// storeCountries stores visits of two days, and builds their segments.
func storeCountries(t *testing.T, d *db.DB, a *app, site string) {
	t.Helper()
	visitors := byte(0)
	day := func(on int, visits map[string]int) segment.Rows {
		at := model.At(time.Date(2026, 11, on, 12, 0, 0, 0, time.UTC))
		rows := segment.Rows{Day: at.Day()}
		for _, country := range []string{"DE", "CH", "AT", "LI"} {
			for range visits[country] {
				visitors++
				key := segment.VisitKey{Visitor: model.VisitorID{visitors}, N: 1}
				view := segment.View{VisitKey: key, At: at, ID: int64(visitors), Path: "/", Width: model.UnknownWidth}
				rows.Visits = append(rows.Visits, segment.Visit{
					VisitKey: key, StartedAt: at, Channel: "direct", Client: model.Client{Country: country},
				})
				rows.Views = append(rows.Views, view)
				if country == "LI" {
					view.ID, view.Path = 1_000, "/secret"
					rows.Views = append(rows.Views, view)
				}
			}
		}
		return rows
	}
	err := oracle.Store(t.Context(), d, int64(a.siteNumber(site)), day(18, map[string]int{"DE": 3, "CH": 2, "AT": 1}),
		day(19, map[string]int{"DE": 4, "CH": 3, "AT": 2, "LI": 1}))
	testkit.NoError(t, err)
	a.work(a.clock.Now())
}
