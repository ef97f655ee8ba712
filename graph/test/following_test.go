package graph_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/oracle"
	"github.com/tallygate/tallygate/tools/testkit"
)

// shownNode is a node of a journey as GraphQL answers it.
type shownNode struct {
	Kind, Page string
	Visits     int64
	Next       []shownNode
}

// String writes a node in one line, with the nodes below in brackets.
func (n shownNode) String() string {
	text := fmt.Sprintf("%s %d", cmp.Or(n.Page, n.Kind), n.Visits)
	if len(n.Next) > 0 {
		text += " " + fmt.Sprint(n.Next)
	}
	return text
}

// journeyAt decodes a journey of an answer.
func journeyAt(t *testing.T, got *answer, path string) (journey shownNode) {
	t.Helper()
	encoded, err := json.Marshal(got.at(path))
	if err == nil {
		err = json.Unmarshal(encoded, &journey)
	}
	testkit.NoError(t, err)
	return journey
}

const nodesFragment = ` fragment nodes on JourneyNode { kind page visits share next { kind page visits share next { kind page visits share } } } `

// storeWays stores one visit for each list of paths, of visitors of a country, all at noon of a
// day.
func storeWays(t *testing.T, d *db.DB, siteID model.SiteID, day model.Day, country string, ways ...string) {
	t.Helper()
	rows := segment.Rows{Day: day}
	for i, paths := range ways {
		key := segment.VisitKey{Visitor: model.VisitorID{byte(i + 1), country[0]}, N: 1}
		at := day.Start().Add(12 * time.Hour)
		rows.Visits = append(rows.Visits, segment.Visit{VisitKey: key, StartedAt: at, Channel: "direct", Client: model.Client{Country: country}})
		for n, path := range strings.Fields(paths) {
			at, id := at.Add(time.Duration(n)*time.Second), int64(country[0])<<16|int64(i)<<8|int64(n)
			if !strings.HasPrefix(path, "/") {
				rows.Events = append(rows.Events, segment.Event{VisitKey: key, At: at, ID: id, Name: path, Path: "/"})
				continue
			}
			rows.Views = append(rows.Views, segment.View{VisitKey: key, At: at, ID: id, Path: path, Width: model.UnknownWidth})
		}
	}
	must(t, oracle.Store(t.Context(), d, int64(siteID), rows))
}

// TestJourneys checks journeys in both directions, from rows and from segments, and who sees small
// groups.
func TestJourneys(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		site := c.siteOf("example.com")
		day := model.At(a.clock.Now()).Day() - 1
		storeWays(t, a.db, a.siteNumber(site), day, "DE",
			"/ /pricing signup /welcome", "/ / /pricing", "/ /pricing /", "/ /docs /docs", "/", "/blog")
		storeWays(t, a.db, a.siteNumber(site), day, "LI", "/ /secret", "/ /secret /hidden")

		const fields = `
	next: journey(from: {page: "/"}, direction: NEXT, steps: 2) { visits next { ...nodes } }
	two: journey(from: {page: "/"}, direction: NEXT, steps: 2, first: 1) { visits next { ...nodes } }
	before: journey(from: {event: "signup"}, direction: BEFORE) { visits next { ...nodes } }
	none: journey(from: {page: "/nowhere"}, direction: NEXT) { visits next { ...nodes } }`
		ask := func(filters string) *answer {
			return c.query(`query($id: ID!) { site(id: $id) { report(period: {preset: YESTERDAY}, filters: `+filters+`,
	compare: {kind: PREVIOUS_PERIOD}) {`+fields+`} } }`+nodesFragment, "id", site)
		}
		for _, when := range []string{"from rows", "from segments"} {
			if when == "from segments" {
				a.work(a.clock.Now())
				a.clock.Add(time.Minute)
			}
			got := ask("[]").ok(t, "")
			for alias, want := range map[string]string{
				"next": " 7 [/pricing 3 [/ 1 /welcome 1 END 1] /secret 2 [/hidden 1 END 1] /docs 1 [END 1] END 1]",
				"two":  " 7 [/pricing 3 [/ 1 END 1 OTHER 1] END 1 OTHER 3]",

				"before": " 1 [/pricing 1 [/ 1 [END 1]]]",
				"none":   " 0",
			} {
				equal(t, journeyAt(t, got, "site.report."+alias).String(), want, "%s, %s", when, alias)
			}
			if share := got.at("site.report.next.next.0.next.0.share"); fmt.Sprintf("%.1f", share) != "33.3" {
				t.Errorf("%s: share %v", when, share)
			}
		}

		// A reader of a shared link sees all pages, unless a filter chooses visitors by their
		// country.
		reader := c.reader(site)
		shared := func(filters string) *answer {
			return a.with(reader, `{ sharedSite { report(period: {preset: YESTERDAY}, filters: `+filters+`) {
	next: journey(from: {page: "/"}, direction: NEXT, steps: 2) { visits next { ...nodes } } } } }`+nodesFragment)
		}
		equal(t, journeyAt(t, shared("[]").ok(t, ""), "sharedSite.report.next").Visits, 7, "a reader sees")
		const chosen = `[{dimension: COUNTRY, values: ["DE", "LI"]}]`
		got := journeyAt(t, shared(chosen).ok(t, ""), "sharedSite.report.next").String()
		if want := " 7 [/pricing 3 [OTHER 3] OTHER 4]"; got != want {
			t.Errorf("a reader sees %s by country, want %s", got, want)
		}

		// Its start must not be a small group either. 4 visitors match, but 1 of them viewed the
		// page.
		query := strings.Replace(`{ sharedSite { report(period: {preset: YESTERDAY}, filters: FILTERS) { totals { visitors }
	journey(from: {page: "/hidden"}, direction: BEFORE) { visits } } } }`, "FILTERS", chosen, 1)
		a.with(reader, query).named("a journey of one visitor").code(t, "GROUP_TOO_SMALL").hides(t, `"visits"`)
		a.with(reader, strings.Replace(query, "/hidden", "/nowhere", 1)).
			named("a journey without visits").code(t, "GROUP_TOO_SMALL")
	})
}

// TestJourneyArguments checks the errors of journeys and cohorts.
func TestJourneyArguments(t *testing.T) {
	a := sqliteApp(t)
	c := a.owner("owner@example.com")
	site := c.siteOf("example.com")
	c.done("updateSite", "siteId", site, "allowPseudonymousUserId", true)
	most := strings.Repeat("*a", model.MaxReportWildcards)
	const today = "preset: TODAY"
	for _, test := range []struct{ period, fields, code string }{
		{today, `journey(from: {page: "/"}, direction: NEXT) { visits }`, ""},
		{today, `journey(from: {page: "/"}, direction: NEXT, steps: 3, first: 10) { visits }`, ""},
		{today, `journey(from: {page: ""}, direction: NEXT) { visits }`, "INVALID_ARGUMENT"},
		{today, `journey(from: {}, direction: NEXT) { visits }`, "INVALID_ARGUMENT"},
		{today, `journey(from: {page: "/", event: "signup"}, direction: NEXT) { visits }`, "INVALID_ARGUMENT"},
		{today, `journey(from: {event: "Sign up"}, direction: NEXT) { visits }`, "INVALID_ARGUMENT"},
		{today, `journey(from: {page: "` + strings.Repeat("a", model.MaxFilterText+1) + `"}, direction: NEXT) { visits }`, "INVALID_ARGUMENT"},
		{today, `journey(from: {page: "` + most + `*"}, direction: NEXT) { visits }`, "INVALID_ARGUMENT"},
		{
			period: today,
			fields: `journey(from: {page: "` + most + `"}, direction: NEXT) { visits } funnel(steps: [{page: "/*"}, {event: "x"}]) { visitors }`,
			code:   "INVALID_ARGUMENT",
		},
		{today, `journey(from: {page: "/"}, direction: NEXT, steps: 0) { visits }`, "INVALID_ARGUMENT"},
		{today, `journey(from: {page: "/"}, direction: NEXT, steps: 4) { visits }`, "INVALID_ARGUMENT"},
		{today, `journey(from: {page: "/"}, direction: NEXT, first: 0) { visits }`, "INVALID_ARGUMENT"},
		{today, `journey(from: {page: "/"}, direction: NEXT, first: 11) { visits }`, "INVALID_ARGUMENT"},
		{today, `journey(from: {page: "/"}, direction: SIDEWAYS) { visits }`, "VALIDATION_FAILED"},
		{today, `journey(from: {page: "/"}) { visits }`, "VALIDATION_FAILED"},
		{today, `journey(direction: NEXT) { visits }`, "VALIDATION_FAILED"},
		{today, `cohorts { weeks { start } }`, ""},
		{`from: "2025-11-17", to: "2026-11-20"`, `cohorts { weeks { start } }`, ""}, // a Monday, 53 weeks before
		{`from: "2025-11-09", to: "2026-11-20"`, `cohorts { weeks { start } }`, "INVALID_ARGUMENT"},
		{`from: "2027-01-01", to: "2027-01-02"`, `cohorts { weeks { start } }`, ""},
	} {
		got := c.site(site, `report(period: {`+test.period+`}) { `+test.fields+` }`)
		got.named("%s { %s }", test.period, test.fields).code(t, test.code)
	}

	// Cohorts that cannot be counted leave the other fields as they are.
	got := c.site(site, `report(period: {from: "2025-11-09", to: "2026-11-20"}) {
	totals { visitors } cohorts { weeks { start } } }`)
	if got.codes() != "INVALID_ARGUMENT" || got.at("site.report.totals.visitors") != 0.0 || got.at("site.report.cohorts") != nil {
		t.Errorf("too many cohorts next to totals: %s", got.Body)
	}

	// The direction can be a variable.
	got = c.query(`query($id: ID!, $to: JourneyDirection!, $steps: Int!) { site(id: $id) { report(period: {preset: TODAY}) {
	journey(from: {page: "/"}, direction: $to, steps: $steps) { visits } } } }`, "id", site, "to", "BEFORE", "steps", 4)
	got.named("4 steps in a variable").code(t, "INVALID_ARGUMENT")
}

// TestJourneysEqualTheExport compares random journeys and cohorts with a count of the export's
// rows.
func TestJourneysEqualTheExport(t *testing.T) {
	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		c := a.owner("owner@example.com")
		site := c.siteOf("example.com")
		c.done("updateSite", "siteId", site, "timeZone", "Asia/Kathmandu", "allowPseudonymousUserId", true)
		zone := value(time.LoadLocation("Asia/Kathmandu"))(t)

		random := rand.New(rand.NewPCG(3, 8))
		today := model.At(a.clock.Now()).Day()
		var world []segment.Rows
		for n := range model.Day(12) {
			world = append(world, oracle.World(random, today-30+2*n, 1)...)
		}
		a.storeWorld(site, world)
		a.work(a.clock.Now())
		rows := value(oracle.Exported(t.Context(), a.db, int64(a.siteNumber(site))))(t)

		visits := int64(0)
		for range 20 {
			from := scan.DateOfNumber(today).AddDays(-random.IntN(30))
			to := from.AddDays(random.IntN(20))
			q := &scan.Query{Zone: zone, From: from, To: to}
			journey := scan.Journey{From: scan.Step{Page: "/*"}, Before: random.IntN(2) == 0, Steps: 3}
			direction, start := "NEXT", `{page: "/*"}`
			if journey.Before {
				direction = "BEFORE"
			}
			if random.IntN(2) == 0 {
				journey.From, start = scan.Step{Event: "signup"}, `{event: "signup"}`
			}
			q.Journeys = []scan.Journey{journey}
			want := oracle.Count(q, rows).Journeys[0]

			got := c.query(fmt.Sprintf(`query($id: ID!) { site(id: $id) { report(period: {from: %q, to: %q}) {
	journey(from: %s, direction: %s, first: 10) { visits next { ...nodes } }
	cohorts { weeks { start users returned { week users partial } } } } } } %s`, from, to, start, direction, nodesFragment), "id", site).ok(t, "")
			if shown := journeyAt(t, got, "site.report.journey"); shown.String() != converted(want).String() {
				t.Errorf("%v to %v %s: %v, want %v", from, to, direction, shown, converted(want))
			}
			visits += want.Visits
			checkCohorts(t, got, from, to, scan.DateOf(a.clock.Now().In(zone)), zone, rows)
		}
		if visits < 50 {
			t.Errorf("all journeys together have %d visits", visits)
		}
	})
}

// converted returns a node as GraphQL shows it to an owner. Its world has few pages, so that
// nothing is OTHER.
func converted(n *scan.JourneyNode) shownNode {
	shown := shownNode{Visits: n.Visits}
	for i := range n.Next {
		below := converted(&n.Next[i])
		if below.Kind, below.Page = "PAGE", n.Next[i].Page; n.Next[i].End {
			below.Kind = "END"
		}
		shown.Next = append(shown.Next, below)
	}
	return shown
}

// checkCohorts compares the cohorts of an answer with a count of all rows up to the last day.
func checkCohorts(t *testing.T, got *answer, from, to, today scan.Date, zone *time.Location, rows []segment.Rows) {
	t.Helper()
	var shown struct {
		Weeks []struct {
			Start    string
			Users    int64
			Returned []struct {
				Week  int
				Users int64
			}
		}
	}
	encoded, err := json.Marshal(got.at("site.report.cohorts"))
	if err == nil {
		err = json.Unmarshal(encoded, &shown)
	}
	testkit.NoError(t, err)

	if today.Compare(to) < 0 {
		to = today
	}
	first := from.Monday()
	q := &scan.Query{Zone: zone, From: from.AddDays(-400), To: to, Cohorts: &scan.Cohorts{First: first, Weeks: first.DaysUntil(to)/7 + 1}}
	want := oracle.Count(q, rows).Cohorts
	if len(shown.Weeks) != len(want) {
		t.Fatalf("%v to %v: %d cohorts, want %d", from, to, len(shown.Weeks), len(want))
	}
	for i, cohort := range shown.Weeks {
		if start := first.AddDays(7 * i); cohort.Start != start.String() || cohort.Users != want[i].Users {
			t.Errorf("%v to %v: cohort %+v, want %v %+v", from, to, cohort, start, want[i])
		}
		for n, users := range want[i].Returned {
			isListed := n < len(cohort.Returned)
			if begun := first.AddDays(7*(i+n+1)).Compare(to) <= 0; begun != isListed || isListed && cohort.Returned[n].Users != users {
				t.Errorf("%v to %v: week %d of %+v, want %d", from, to, n+1, cohort, users)
			}
		}
	}
}

// TestCohorts checks that sites without user ids have none, that the first visit is found before
// the period, that small groups are hidden, and the limits.
func TestCohorts(t *testing.T) {
	eachOwner(t, func(t *testing.T, a *app, c *client) {
		site := c.siteOf("example.com")
		set := func(settings string) {
			t.Helper()
			c.query(`mutation($id: ID!) { updateSite(input: {siteId: $id, `+settings+`}) { userErrors { code } } }`, "id", site).ok(t, "updateSite")
		}

		// The Monday of the week three weeks ago. 5 user ids begin then, one of whom was there two
		// months before.
		monday := scan.DateOfNumber(model.At(a.clock.Now()).Day() - 21).Monday().Number()
		for _, visits := range []struct {
			day   model.Day
			users int
		}{{monday - 60, 1}, {monday, 5}, {monday + 7, 4}, {monday + 14, 1}} {
			rows := segment.Rows{Day: visits.day}
			for i := range visits.users {
				key := segment.VisitKey{Visitor: model.VisitorID{byte(i + 1)}, N: 1}
				at := visits.day.Start().Add(time.Hour)
				rows.Visits = append(rows.Visits, segment.Visit{
					VisitKey: key, StartedAt: at, Channel: "direct", UserID: fmt.Sprintf("user-%011d", i),
				})
				rows.Views = append(rows.Views, segment.View{
					VisitKey: key, At: at, ID: int64(visits.day)<<8 | int64(i), Path: "/", Width: model.UnknownWidth,
				})
			}
			must(t, oracle.Store(t.Context(), a.db, int64(a.siteNumber(site)), rows))
		}
		a.work(a.clock.Now())

		fields := fmt.Sprintf(`report(period: {from: %q, to: %q}, compare: {kind: PREVIOUS_YEAR}) {
	cohorts { weeks { start users returned { week users rate partial } } } }`, monday.String(), (monday + 20).String())
		ask := func() *answer {
			t.Helper()
			a.clock.Add(time.Minute)
			return c.site(site, ``+fields+``)
		}
		ask().ok(t, "").named("without user ids").set(t, "site.report").has(t, "site.report.cohorts", nil)

		set("allowPseudonymousUserId: true")
		got := ask().ok(t, "")
		for path, want := range map[string]any{
			"0.start": monday.String(), "0.users": 4.0, "0.returned.0.users": 3.0, "0.returned.0.rate": 75.0, "0.returned.0.partial": false,
			"0.returned.1.users": 0.0, "0.returned.1.rate": 0.0, "0.returned.2": nil, "1.users": 0.0, "1.returned.0.rate": nil, "2.users": 0.0, "3": nil,
		} {
			if value := got.at("site.report.cohorts.weeks." + path); value != want {
				t.Errorf("%s is %v, want %v: %s", path, value, want, got.Body)
			}
		}

		// Readers of shared links see no cohort of few user ids, but see that there is none.
		reader := c.reader(site)
		asReader := func() *answer { return a.with(reader, `{ sharedSite { `+fields+` } }`) }
		asReader().ok(t, "").named("a reader sees").has(t, "sharedSite.report.cohorts.weeks.0.users", 4.0)
		set("smallGroup: 4")
		got = asReader().ok(t, "")
		for path, want := range map[string]any{
			"0.users": 4.0, "0.returned.0.users": nil, "0.returned.0.rate": nil, "0.returned.0.week": 1.0, "0.returned.1.users": 0.0, "1.users": 0.0,
		} {
			if value := got.at("sharedSite.report.cohorts.weeks." + path); value != want {
				t.Errorf("a reader's %s is %v, want %v: %s", path, value, want, got.Body)
			}
		}
		set("smallGroup: 5")
		asReader().ok(t, "").named("a reader sees a cohort of 4").has(t, "sharedSite.report.cohorts.weeks.0.users", nil)
		ask().ok(t, "").named("a member sees").has(t, "site.report.cohorts.weeks.0.users", 4.0)

		// The days before the period count for the limit of page views.
		statement := fmt.Sprintf("UPDATE report_days SET pageviews = 50000001 WHERE day = %d", monday-60)
		must(t, dbtest.Exec(a.db, statement))
		ask().named("50,000,001 page views before the period").code(t, "TOO_EXPENSIVE")
		// Months without user ids are not read.
		must(t, dbtest.Exec(a.db, fmt.Sprintf("UPDATE report_days SET state = 3 WHERE day = %d", monday-60)))
		must(t, dbtest.Exec(a.db, "DELETE FROM visits"))
		ask().ok(t, "").named("after a sealed month").has(t, "site.report.cohorts.weeks.0.start", monday.String())
	})
}
