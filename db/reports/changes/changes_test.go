package changes_test

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/changes"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/tools/oracle"
	"github.com/tallygate/tallygate/tools/testkit"
)

// visit is a visit of a small world. Its pages and events have no repetitions.
type visit struct {
	values  map[model.ReportDimension]string // of the visit's own dimensions
	pages   []string
	events  []string // key events
	revenue int64
}

// has returns the values of a dimension.
func (v *visit) has(by model.ReportDimension) []string {
	switch by {
	case model.DimensionPage:
		return v.pages
	case model.DimensionEvent:
		return v.events
	}
	return []string{v.values[by]}
}

// rows implements changes.Rows.
type rows map[string]scan.Figures

func (r rows) All() iter.Seq2[string, scan.Figures] { return maps.All(r) }
func (r rows) Of(value string) scan.Figures         { return r[value] }

// figures returns the figures of visits: in all, or in the row of a page or event.
func figures(visits []visit, by model.ReportDimension) (f scan.Figures) {
	var sold scan.Revenue
	for _, v := range visits {
		views, events := int64(len(v.pages)), int64(len(v.events))
		switch by {
		case model.DimensionPage:
			views = 1
			events = 0 // they happen elsewhere
		case model.DimensionEvent:
			views, events = 0, 1
		}
		f.Visits++
		f.Visitors++
		f.Pageviews += views
		f.Conversions += events
		f.Events += events
		sold.Gross += model.Money(v.revenue)
		sold.Purchases += min(v.revenue, 1)
	}
	f.Revenue = map[string]scan.Revenue{"EUR": sold}
	return f
}

// byValue returns the visits with each value of a dimension.
func byValue(visits []visit, by model.ReportDimension) map[string][]visit {
	groups := make(map[string][]visit)
	for _, v := range visits {
		for _, value := range v.has(by) {
			groups[value] = append(groups[value], v)
		}
	}
	return groups
}

// table counts the rows of a dimension.
func table(visits []visit, by model.ReportDimension) rows {
	counted := make(rows)
	for value, some := range byValue(visits, by) {
		counted[value] = figures(some, by)
	}
	return counted
}

// count counts two periods.
func count(metric changes.Metric, before, after []visit) *changes.Counts {
	totals := [...]scan.Figures{figures(before, ""), figures(after, "")}
	c := &changes.Counts{Metric: metric, Currency: "EUR", Before: &totals[0], After: &totals[1]}
	for _, by := range metric.Dimensions() {
		c.Tables = append(c.Tables, changes.Table{By: by, Before: table(before, by), After: table(after, by)})
	}
	return c
}

// with returns the visits with a value.
func with(visits []visit, by model.ReportDimension, value string) []visit {
	return byValue(visits, by)[value]
}

var visitDimensions = []model.ReportDimension{
	model.DimensionSourceName, model.DimensionChannel, model.DimensionUTMCampaign, model.DimensionEntryPage,
	model.DimensionCountry, model.DimensionDevice, model.DimensionHostname, model.DimensionLanguage,
}

// newVisits returns random visits. Each dimension has up to 8 values; low ones are frequent.
func newVisits(random *rand.Rand, n int) (visits []visit) {
	for range n {
		v := visit{values: make(map[model.ReportDimension]string)}
		for _, by := range visitDimensions {
			v.values[by] = fmt.Sprint(min(random.IntN(8), random.IntN(8)))
		}
		v.pages = []string{v.values[model.DimensionEntryPage]}
		if random.IntN(2) == 0 {
			v.pages = append(v.pages, "next")
		}
		if random.IntN(3) == 0 {
			v.events, v.revenue = []string{fmt.Sprint(random.IntN(3))}, random.Int64N(100)
		}
		visits = append(visits, v)
	}
	return visits
}

var metrics = []changes.Metric{changes.Visits, changes.Pageviews, changes.Visitors, changes.Conversions, changes.Revenue}

// planted are the changes of the test: visits with a value of the dimension end.
var planted = []struct {
	name string
	by   model.ReportDimension
	also model.ReportDimension // has the same visits
}{
	{name: "a campaign ends", by: model.DimensionUTMCampaign},
	{name: "a page breaks", by: model.DimensionEntryPage},
	{name: "a country is blocked", by: model.DimensionCountry},
	{name: "a campaign with a source of its own ends", by: model.DimensionUTMCampaign, also: model.DimensionSourceName},
}

// TestPlantedChanges plants a change in each of 200 random worlds, in every second one with a
// smaller second one, which leave other visits as they are or add some at random. The planted value
// is the cause, the smaller one is first in its dimension, and a second implementation agrees.
func TestPlantedChanges(t *testing.T) {
	random := rand.New(rand.NewPCG(60, 1))
	for world := range 200 {
		plant := planted[world%len(planted)]
		before := newVisits(random, 200)
		lost := newVisits(random, 60)
		for i := range lost {
			lost[i].values[plant.by] = "planted"
			if plant.also != "" {
				lost[i].values[plant.also] = "planted"
			}
		}
		after := slices.Concat(before, newVisits(random, random.IntN(5)))
		before = append(before, lost...)

		if world%2 == 1 {
			smaller := newVisits(random, 20)
			for i := range smaller {
				smaller[i].values[model.DimensionLanguage] = "smaller"
			}
			before = append(before, smaller...)
		}
		if world%5 == 0 {
			before, after = after, before // it begins
		}

		c := count(changes.Visits, before, after)
		cause, ok := c.Cause()
		isPlanted := cause.By == plant.by || cause.By == plant.also
		if !ok || cause.Value != "planted" || !isPlanted {
			t.Fatalf("world %d, %s: the cause is %+v, %v", world, plant.name, cause, ok)
		}
		if world%2 == 1 {
			language := &c.Tables[slices.IndexFunc(c.Tables, func(t changes.Table) bool { return t.By == model.DimensionLanguage })]
			if parts, _ := c.Parts(language, 2); !slices.ContainsFunc(parts, func(v changes.Value) bool { return v.Value == "smaller" }) {
				t.Errorf("world %d: the smaller change is not among %+v", world, parts)
			}
		}

		among := count(changes.Visits, with(before, cause.By, cause.Value), with(after, cause.By, cause.Value))
		names := c.Names(cause, among)
		if want := plant.also != ""; (len(names) == 1 && names[0].Value == "planted") != want || len(names) > 1 {
			t.Errorf("world %d, %s: the other names are %+v", world, plant.name, names)
		}

		metric := metrics[random.IntN(len(metrics))]
		compareWithRecount(t, fmt.Sprintf("world %d, %s", world, metric), metric, before, after)
	}
}

// compareWithRecount compares causes and parts with the second implementation.
func compareWithRecount(t *testing.T, world string, metric changes.Metric, before, after []visit) {
	t.Helper()
	c := count(metric, before, after)
	cause, ok := c.Cause()
	by, value, wantOK := recountCause(metric, before, after, "")
	if ok != wantOK || cause.By != by || cause.Value != value {
		t.Fatalf("%s: the cause is %s %q, %v; recounted %s %q, %v", world, cause.By, cause.Value, ok, by, value, wantOK)
	}
	if ok {
		some, others := with(before, by, value), with(after, by, value)
		next, ok := count(metric, some, others).Cause(cause)
		if by, value, wantOK := recountCause(metric, some, others, by); ok != wantOK || next.By != by || next.Value != value {
			t.Fatalf("%s: the second cause is %s %q, %v; recounted %s %q, %v", world, next.By, next.Value, ok, by, value, wantOK)
		}
	}

	for i := range c.Tables {
		for _, n := range []int{1, 3, 100} {
			parts, rest := c.Parts(&c.Tables[i], n)
			sum, last := rest, int64(0)
			for i, v := range parts {
				sum.Before += v.Figure.Before
				sum.After += v.Figure.After
				size := max(v.Figure.Difference(), -v.Figure.Difference())
				if size == 0 || i > 0 && size > last {
					t.Errorf("%s, %s: a part of %d after one of %d", world, v.By, size, last)
				}
				last = size
			}
			if whole := c.Whole().Figure; sum != whole || len(parts) > n {
				t.Errorf("%s, %s: %d parts add up to %+v, want %+v", world, c.Tables[i].By, len(parts), sum, whole)
			}
		}
	}
}

// recountCause is Cause, from the visits themselves: it sorts all values by the rule's words.
func recountCause(metric changes.Metric, before, after []visit, not model.ReportDimension) (by model.ReportDimension, value string, ok bool) {
	amount := func(visits []visit, by model.ReportDimension) (n int64) {
		for _, v := range visits {
			switch {
			case metric == changes.Visits || metric == changes.Visitors:
				n++
			case metric == changes.Revenue:
				n += v.revenue
			case metric == changes.Pageviews && by == model.DimensionPage, metric == changes.Conversions && by == model.DimensionEvent:
				n++
			case metric == changes.Pageviews:
				n += int64(len(v.pages))
			case metric == changes.Conversions && by == model.DimensionPage:
			default:
				n += int64(len(v.events))
			}
		}
		return n
	}

	type candidate struct {
		order             int
		by                model.ReportDimension
		value             string
		difference, count int64
	}
	whole := amount(after, "") - amount(before, "")
	var half, others []candidate
	for order, by := range metric.Dimensions() {
		ofAfter, ofBefore := byValue(after, by), byValue(before, by)
		values := make(map[string]bool)
		for value := range ofAfter {
			values[value] = by != not
		}
		for value := range ofBefore {
			values[value] = by != not
		}
		for value, wanted := range values {
			a, b := ofAfter[value], ofBefore[value]
			c := candidate{order, by, value, amount(a, by) - amount(b, by), int64(len(a) + len(b))}
			if whole < 0 {
				c.difference = -c.difference
			}
			if !wanted || whole == 0 || c.difference <= 0 || c.count == int64(len(before)+len(after)) {
				continue
			}
			if 2*c.difference >= max(whole, -whole) {
				half = append(half, c)
			}
			others = append(others, c)
		}
	}

	chosen := half
	order := func(a, b candidate) int { return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.value, b.value)) }
	slices.SortFunc(half, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.count, b.count), cmp.Compare(b.difference, a.difference), order(a, b))
	})
	slices.SortFunc(others, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.difference, a.difference), cmp.Compare(a.count, b.count), order(a, b))
	})
	if len(half) == 0 {
		chosen = others
	}
	if len(chosen) == 0 {
		return "", "", false
	}
	return chosen[0].by, chosen[0].value, true
}

// TestEqualPeriods checks that nothing is named where two periods are equal.
func TestEqualPeriods(t *testing.T) {
	visits := newVisits(rand.New(rand.NewPCG(60, 2)), 100)
	for _, metric := range []changes.Metric{changes.Visits, changes.Conversions, changes.Revenue} {
		c := count(metric, visits, slices.Clone(visits))
		if cause, ok := c.Cause(); ok {
			t.Errorf("%s: the cause is %+v", metric, cause)
		}
		for i := range c.Tables {
			if parts, _ := c.Parts(&c.Tables[i], 10); len(parts) > 0 {
				t.Errorf("%s: the parts are %+v", metric, parts)
			}
		}
	}
}

// TestHiddenValues checks that a value that must not be named is in the rest, and is no cause.
func TestHiddenValues(t *testing.T) {
	random := rand.New(rand.NewPCG(60, 3))
	before, after := newVisits(random, 300), newVisits(random, 200)
	c := count(changes.Visits, before, after)
	first, _ := c.Cause()
	for i := range c.Tables {
		c.Tables[i].Hidden = func(value string) bool { return c.Tables[i].By == first.By && value == first.Value }
		parts, rest := c.Parts(&c.Tables[i], 100)
		for _, v := range parts {
			if v.By == first.By && v.Value == first.Value {
				t.Errorf("a part is %+v", v)
			}
		}
		if c.Tables[i].By == first.By && rest.Difference() != first.Figure.Difference() {
			t.Errorf("the rest is %+v, want the difference of %+v", rest, first.Figure)
		}
	}
	if cause, ok := c.Cause(); !ok || cause == first {
		t.Errorf("the cause is %+v, %v", cause, ok)
	}
}

// TestRowsAddUp checks on real reports that the values of each dimension that is offered for a
// figure add up to it, so that nothing is left for the rest.
func TestRowsAddUp(t *testing.T) {
	random := rand.New(rand.NewPCG(60, 4))
	first := model.At(time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)).Day()
	browser := []model.ReportDimension{model.DimensionCountry, model.DimensionDevice, model.DimensionHostname, model.DimensionLanguage,
		model.DimensionEntryPage}
	divided := make(map[changes.Metric]int)
	for world := range 40 {
		var results []*scan.Result
		for _, day := range oracle.World(random, first, 2) {
			date := scan.DateOfNumber(day.Day)
			q := &scan.Query{Zone: time.UTC, From: date, To: date, KeyEvents: map[string]bool{"signup": true, "purchase": true}}
			for _, by := range changes.Revenue.Dimensions() {
				q.Breakdowns = append(q.Breakdowns, scan.Breakdown{By: reports.Dimensions[by]})
			}
			g, err := segment.Build(day)
			testkit.NoError(t, err)
			s := scan.New(q)
			testkit.NoError(t, s.Add(g))
			results = append(results, s.Result())
		}

		for _, metric := range []changes.Metric{changes.Visits, changes.Pageviews, changes.Conversions, changes.Revenue} {
			c := &changes.Counts{Metric: metric, Before: &results[0].Totals, After: &results[1].Totals}
			c.Currency = changes.Currency(c.Before, c.After)
			if c.Whole().Figure.Difference() != 0 {
				divided[metric]++
			}
			for _, by := range metric.Dimensions() {
				n := slices.Index(changes.Revenue.Dimensions(), by)
				table := &changes.Table{By: by, Before: results[0].Breakdowns[n], After: results[1].Breakdowns[n]}
				parts, rest := c.Parts(table, 1_000)
				isOfServers := slices.Contains(browser, by) && (metric == changes.Conversions || metric == changes.Revenue)
				if rest.Difference() != 0 && !isOfServers {
					t.Errorf("world %d: %s by %s: %d parts and a rest of %+v", world, metric, by, len(parts), rest)
				}
			}
		}
	}
	for _, metric := range []changes.Metric{changes.Visits, changes.Pageviews, changes.Conversions, changes.Revenue} {
		if divided[metric] < 20 {
			t.Errorf("only %d differences of %s were divided", divided[metric], metric)
		}
	}
}

// TestGaps removes the hits of three hours from one of two periods of 200 random worlds without
// other empty hours, and checks random hours against a second implementation.
func TestGaps(t *testing.T) {
	random := rand.New(rand.NewPCG(60, 5))
	for world := range 200 {
		hours := make([]changes.Count, 48)
		for i := range hours {
			hours[i] = changes.Count{Before: 1 + random.Int64N(50), After: 1 + random.Int64N(50)}
		}
		if gaps := changes.Gaps(hours, 5); len(gaps) > 0 {
			t.Fatalf("world %d: gaps without an empty hour: %+v", world, gaps)
		}

		missing, inAfter := random.IntN(46), random.IntN(2) == 0
		lost := int64(0)
		for i := missing; i < missing+3; i++ {
			if inAfter {
				lost += hours[i].Before
				hours[i].After = 0
			} else {
				lost += hours[i].After
				hours[i].Before = 0
			}
		}
		gaps := changes.Gaps(hours, 5)
		if len(gaps) != 1 || gaps[0].First != missing || gaps[0].Last != missing+2 || gaps[0].InAfter() != inAfter ||
			gaps[0].Hits.Before+gaps[0].Hits.After != lost {
			t.Fatalf("world %d: %+v, want 3 hours from %d with %d hits", world, gaps, missing, lost)
		}

		// In sparse hours, all hits of hours that are empty in the other period are in gaps.
		want := int64(0)
		for i := range hours {
			hours[i] = changes.Count{Before: max(random.Int64N(6)-2, 0), After: max(random.Int64N(6)-2, 0)}
			if hours[i].Before == 0 || hours[i].After == 0 {
				want += hours[i].Before + hours[i].After
			}
		}
		got, last := int64(0), int64(1<<40)
		for _, gap := range changes.Gaps(hours, len(hours)) {
			sum := gap.Hits.Before + gap.Hits.After
			got += sum
			if sum > last {
				t.Errorf("world %d: a gap of %d hits after one of %d", world, sum, last)
			}
			last = sum
		}
		if got != want {
			t.Fatalf("world %d: gaps have %d hits, want %d", world, got, want)
		}
	}
}
