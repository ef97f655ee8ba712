package graph_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/changes"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/oracle"
)

const (
	// changedDays are two days that are compared.
	changedDays = `report(period: {from: "2026-11-19", to: "2026-11-19"}, compare: {kind: PREVIOUS_PERIOD, matchDayOfWeek: false})`

	changesFragment = `
fragment changed on ReportChanges {
  whole { ...one } currency chain { ...one } dimensions { by values { ...one } rest { ...one } }
  circumstances { kind from to name text before after } }
fragment one on ReportChange { names { by value } before after difference share }`
)

// changedVisit is a visit with one page view.
type changedVisit struct {
	minute                                   int // of the day
	channel, source, campaign, page, country string
	language                                 string
}

// plan is a day without a planted change: three visits in each hour.
func plan(random *rand.Rand) (visits []changedVisit) {
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	for minute := 0; minute < 24*60; minute += 20 {
		visits = append(visits, changedVisit{
			minute: minute, channel: "direct", page: pick("/", "/a", "/b", "/c"), country: pick("DE", "FR", "AT", "PL", "NL"),
		})
	}
	return visits
}

// rowsOfDay returns the rows of a day of November 2026.
func rowsOfDay(on int, visits []changedVisit) segment.Rows {
	midnight := time.Date(2026, 11, on, 0, 0, 0, 0, time.UTC)
	rows := segment.Rows{Day: model.At(midnight).Day()}
	for i, v := range visits {
		at := model.At(midnight.Add(time.Duration(v.minute) * time.Minute))
		key := segment.VisitKey{Visitor: model.VisitorID{byte(on), byte(i >> 8), byte(i)}, N: 1}
		rows.Visits = append(rows.Visits, segment.Visit{
			VisitKey: key, StartedAt: at, Channel: v.channel, Client: model.Client{Country: v.country},
			Campaign: model.Campaign{Source: v.source, Name: v.campaign},
		})
		rows.Views = append(rows.Views, segment.View{VisitKey: key, At: at, ID: int64(i + 1), Path: v.page, Width: model.UnknownWidth, Language: v.language})
	}
	return rows
}

// changeWorlds are planted changes, with what the chain names and the first circumstance.
var changeWorlds = []struct {
	name         string
	before       func(*rand.Rand, []changedVisit) []changedVisit // the day before, nil: as the day
	after        func([]changedVisit) []changedVisit
	bots         int64
	chain        string // each of its values with other names
	circumstance string
}{
	{name: "equal periods"},
	{
		name: "a campaign ends",
		before: func(random *rand.Rand, visits []changedVisit) []changedVisit {
			for i, v := range plan(random) {
				if v.channel, v.source, v.campaign, v.page = "email", "letter", "spring", "/a"; i%3 == 0 {
					v.page = "/sale"
				}
				visits = append(visits, v)
			}
			return visits
		},
		chain: "SOURCE_NAME letter = CHANNEL email = UTM_CAMPAIGN spring, ENTRY_PAGE /a",
	},
	{
		name:   "a page breaks",
		before: func(_ *rand.Rand, visits []changedVisit) []changedVisit { return visits },
		after: func(visits []changedVisit) []changedVisit {
			return slices.DeleteFunc(visits, func(v changedVisit) bool { return v.page == "/c" })
		},
		chain: "ENTRY_PAGE /c",
	},
	{
		name: "a country is blocked",
		after: func(visits []changedVisit) []changedVisit {
			return slices.DeleteFunc(visits, func(v changedVisit) bool { return v.country == "FR" })
		},
		chain: "COUNTRY FR",
	},
	{
		name: "the script is missing for three hours",
		after: func(visits []changedVisit) []changedVisit {
			return slices.DeleteFunc(visits, func(v changedVisit) bool { return v.minute/60 >= 9 && v.minute/60 < 12 })
		},
		circumstance: "NO_HITS 2026-11-19T09:00:00Z 2026-11-19T12:00:00Z 9 0",
	},
	{name: "a bot wave is left out", bots: 5_000, circumstance: "BOTS 2026-11-19T00:00:00Z 2026-11-20T00:00:00Z 0 5000"},
}

// TestChangesOfPlantedWorlds plants changes, and compares all values and sums with the breakdowns
// of the same report.
func TestChangesOfPlantedWorlds(t *testing.T) {
	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		c := a.owner("owner@example.com")
		ids := make([]string, len(changeWorlds))
		for n, world := range changeWorlds {
			random := rand.New(rand.NewPCG(60, uint64(n)))
			site := c.siteOf(fmt.Sprintf("world%d.example", n))
			day := plan(random)
			before := slices.Clone(day)
			if world.before != nil {
				before = world.before(random, before)
			}
			if world.after != nil {
				day = world.after(day)
			}
			number := a.siteNumber(site)
			must(t, oracle.Store(t.Context(), a.db, int64(number), rowsOfDay(18, before), rowsOfDay(19, day)))
			if world.bots > 0 {
				key := ingest.RejectionKey{SiteID: number, Day: model.At(time.Date(2026, 11, 19, 0, 0, 0, 0, time.UTC)).Day(), Endpoint: "collect", Code: "bot"}
				must(t, ingest.New(a.db).AddRejections(t.Context(), map[ingest.RejectionKey]int64{key: world.bots}))
			}
			ids[n] = site
		}
		a.work(a.clock.Now())

		for n, world := range changeWorlds {
			for _, metric := range []changes.Metric{changes.Visits, changes.Pageviews} {
				got := changesOf(t, c, ids[n], metric)
				chain := "site.report.changes.chain"
				if world.circumstance != "" {
					// The hours explain a loss of all values alike, or calls that are no visits.
					equal(t, circumstanceAt(got, 0), world.circumstance, "%s, %s: the first circumstance", world.name, metric)
					continue
				}
				want := world.chain
				if metric == changes.Pageviews {
					want = strings.Replace(want, "ENTRY_PAGE", "PAGE", 1)
				}
				shown := chainOf(got, chain)
				if shown != want && !strings.HasPrefix(shown, want+", ") && !strings.HasPrefix(shown, want+" = ") {
					t.Errorf("%s, %s: the chain is %q, want %q", world.name, metric, shown, want)
				}
				if want == "" {
					equal(t, shown, "", "%s: the chain", world.name)
					equal(t, got.at("site.report.changes.circumstances.0"), nil, "%s: a circumstance", world.name)
				}
			}
		}
	})
}

// changesOf reads the changes of a metric, and compares them with the breakdowns.
func changesOf(t *testing.T, c *client, site string, metric changes.Metric) *answer {
	t.Helper()
	var breakdowns []string
	for _, by := range metric.Dimensions() {
		breakdowns = append(breakdowns, fmt.Sprintf(`%s: breakdown(by: %s, first: 100) {
	nodes { value metrics { visits visitors pageviews comparison { visits visitors pageviews } } } }`, by, by))
	}
	got := c.query(`query($id: ID!) { site(id: $id) { `+changedDays+` {
	totals { visits visitors pageviews comparison { visits visitors pageviews } } changes(metric: `+string(metric)+`, first: 20) { ...changed }
	`+strings.Join(breakdowns, " ")+` } } }`+changesFragment, "id", site).ok(t, "")

	field, report := strings.ToLower(string(metric)), "site.report."
	numbers := func(path string) string {
		return fmt.Sprintf("%v to %v", got.at(path+".comparison."+field), got.at(path+"."+field))
	}
	shown := func(path string) string {
		return fmt.Sprintf("%v to %v", got.at(path+".before"), got.at(path+".after"))
	}
	equal(t, shown(report+"changes.whole"), numbers(report+"totals"), "%s: the whole", metric)
	differ(t, shown(report+"changes.whole"), "0 to 0", "%s: the whole", metric)

	for i, by := range metric.Dimensions() {
		counted := map[string]string{}
		for n := 0; got.at(fmt.Sprintf("%s%s.nodes.%d", report, by, n)) != nil; n++ {
			row := fmt.Sprintf("%s%s.nodes.%d", report, by, n)
			if got.at(row+".metrics."+field) != got.at(row+".metrics.comparison."+field) {
				counted[got.at(row+".value").(string)] = numbers(row + ".metrics")
			}
		}

		dimension, n := fmt.Sprintf("%schanges.dimensions.%d", report, i), 0
		equal(t, got.at(dimension+".by"), any(string(by)), "%s: dimension %d", metric, i)
		var sum [2]float64
		for ; got.at(fmt.Sprintf("%s.values.%d", dimension, n)) != nil; n++ {
			path := fmt.Sprintf("%s.values.%d", dimension, n)
			name := got.at(path + ".names.0.value").(string)
			// Values that only the period before has are no rows of the breakdown.
			if want, ok := counted[name]; ok || got.at(path+".after") != "0" {
				equal(t, shown(path), want, "%s by %s: %q", metric, by, name)
				delete(counted, name)
			}
			add(t, got, path, &sum)
		}
		add(t, got, dimension+".rest", &sum)
		whole := [2]float64{}
		add(t, got, report+"changes.whole", &whole)
		equal(t, sum, whole, "%s by %s: the sum", metric, by)
		equal(t, len(counted), 0, "%s by %s: values that are not named", metric, by)
	}
	return got
}

// add adds the figures of a change.
func add(t *testing.T, got *answer, path string, to *[2]float64) {
	t.Helper()
	for i, name := range []string{".before", ".after"} {
		var n float64
		_, err := fmt.Sscan(got.at(path+name).(string), &n)
		must(t, err)
		to[i] += n
	}
}

// chainOf returns the names of a chain.
func chainOf(got *answer, at string) string {
	var steps []string
	for i := 0; got.at(fmt.Sprintf("%s.%d", at, i)) != nil; i++ {
		var names []string
		for n := 0; ; n++ {
			path := fmt.Sprintf("%s.%d.names.%d", at, i, n)
			if got.at(path) == nil {
				break
			}
			names = append(names, fmt.Sprintf("%v %v", got.at(path+".by"), got.at(path+".value")))
		}
		steps = append(steps, strings.Join(names, " = "))
	}
	return strings.Join(steps, ", ")
}

// circumstanceAt returns a circumstance as text.
func circumstanceAt(got *answer, n int) string {
	path := fmt.Sprintf("site.report.changes.circumstances.%d.", n)
	return fmt.Sprintf("%v %v %v %v %v", got.at(path+"kind"), got.at(path+"from"), got.at(path+"to"), got.at(path+"before"), got.at(path+"after"))
}

// TestChangesOfCallers checks who sees which circumstances, that small groups are not named for
// readers, and that links without revenue have no changes of revenue.
func TestChangesOfCallers(t *testing.T) {
	eachAppWith(t, unlimited, func(t *testing.T, a *app) {
		c := a.owner("owner@example.com")
		site := c.siteOf("example.com")
		storeCountries(t, a.db, a, site)
		c.done("updateSite", "siteId", site, "name", "New")
		c.done("createAnnotation", "siteId", site, "day", "2026-11-19", "text", "launch")
		key := ingest.RejectionKey{SiteID: a.siteNumber(site), Day: model.At(start).Day(), Endpoint: "collect", Code: "unknown_event"}
		must(t, ingest.New(a.db).AddRejections(t.Context(), map[ingest.RejectionKey]int64{key: 7}))
		a.insertDelivery(a.siteNumber(site), model.Delivery{
			Kind: model.DeliveryConversion, Event: "lead", State: model.DeliveryFailed, CreatedAt: model.At(start.Add(-time.Hour)), Body: "{}",
		})
		guest := a.guest(c, "guest@example.com", site)
		a.clock.Add(24 * time.Hour) // all days are over

		const report = `report(period: {from: "2026-11-19", to: "2026-11-20"}, compare: {kind: PREVIOUS_PERIOD, matchDayOfWeek: false}) {
	changes { ...changed } one: changes(first: 1) { whole { difference } dimensions { values { ...one } } } }`
		asMember := `query($id: ID!) { site(id: $id) { ` + report + ` } }` + changesFragment
		kinds := func(got *answer, at string) string {
			var list []string
			for i := 0; got.at(fmt.Sprintf("%s.report.changes.circumstances.%d", at, i)) != nil; i++ {
				path := fmt.Sprintf("%s.report.changes.circumstances.%d.", at, i)
				list = append(list, fmt.Sprintf("%v %v %v", got.at(path+"kind"), got.at(path+"name"), got.at(path+"text")))
			}
			return strings.Join(list, ", ")
		}

		owner := c.query(asMember, "id", site).ok(t, "")
		const (
			hours = "NO_HITS <nil> <nil>, NO_HITS <nil> <nil>" // both days have hits at noon alone
			calls = hours + ", REFUSED_CALLS unknown_event <nil>"
			note  = "ANNOTATION <nil> launch"
			hook  = "FAILED_WEBHOOK <nil> <nil>"
		)
		const settings = "SETTING updateSite name, SETTING createSite "
		if got := kinds(owner, "site"); !strings.HasPrefix(got, calls+", "+settings) || !strings.HasSuffix(got, note+", "+hook) {
			t.Errorf("an owner sees %q", got)
		}
		equal(t, kinds(guest.query(asMember, "id", site).ok(t, ""), "site"), calls+", "+note, "a guest sees")

		reader := a.with(c.reader(site), `{ sharedSite { `+report+` } }`+changesFragment).ok(t, "")
		equal(t, kinds(reader, "sharedSite"), hours, "a reader sees")
		equal(t, owner.at("site.report.changes.whole.difference"), any("4"), "the difference")
		equal(t, reader.at("sharedSite.report.changes.whole.difference"), any("4"), "the difference for a reader")

		// Each of four countries has one visit more. Austria, Liechtenstein and, on the day before,
		// Switzerland are small groups.
		equal(t, chainOf(owner, "site.report.changes.chain"), "COUNTRY LI", "the chain")
		equal(t, chainOf(reader, "sharedSite.report.changes.chain"), "COUNTRY DE", "the chain for a reader")
		reader.named("a reader sees").hides(t, `"LI"`).hides(t, `"AT"`).hides(t, `"CH"`)

		// Daily sums of an import have no hours.
		a.storedImport(site)
		must(t, dbtest.Exec(a.db, "UPDATE report_imports SET first_day = ?, last_day = ?", model.At(start).Day()-1, model.At(start).Day()-1))
		imported := a.with(c.reader(site), `{ sharedSite { `+report+` } }`+changesFragment).ok(t, "")
		equal(t, kinds(imported, "sharedSite"), "IMPORT Plausible <nil>", "with an import, a reader sees")

		const revenue = `{ sharedSite { ` + changedDays + ` { totals { visits } changes(metric: REVENUE) { whole { after } } } } }`
		a.with(c.reader(site), revenue).named("revenue").code(t, "")
		a.with(c.hiddenReader(site), revenue).named("revenue of a link without it").code(t, "INVALID_ARGUMENT")
		c.query(`query($id: ID!) { site(id: $id) { `+changedDays+` { changes(first: 101) { currency } } } }`, "id", site).
			named("too many values").code(t, "INVALID_ARGUMENT")
		c.query(`query($id: ID!) { site(id: $id) { report { changes { currency } } } }`, "id", site).ok(t, "").
			named("without a comparison").has(t, "site.report.changes", nil)
	})
}
