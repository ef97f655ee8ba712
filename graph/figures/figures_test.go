package figures_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/graph/figures"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/tools/testkit"
)

func answerOf(totals ...scan.Figures) *reports.Answer {
	answer := &reports.Answer{}
	for i := range totals {
		answer.Results = append(answer.Results, &scan.Result{Totals: totals[i]})
	}
	return answer
}

func totalsOf(result *scan.Result) scan.Figures { return result.Totals }

// TestRatesWithoutWhole checks that a rate is null, not 0, when it has nothing to be a rate of.
func TestRatesWithoutWhole(t *testing.T) {
	none := figures.Metrics(answerOf(scan.Figures{}), figures.Page, totalsOf)
	for name, rate := range map[string]*float64{
		"viewsPerVisit": none.ViewsPerVisit, "bounceRate": none.BounceRate, "engagementTime": none.EngagementTime,
		"timeOnPage": none.TimeOnPage, "scrollDepth": none.ScrollDepth, "exitRate": none.ExitRate,
		"conversionRate": none.ConversionRate, "share": none.Share,
	} {
		if rate != nil {
			t.Errorf("%s is %v, want null", name, *rate)
		}
	}
	if none.Comparison != nil {
		t.Error("a comparison without a second period")
	}
}

// TestRatesOfKinds checks the rates that depend on what the figures belong to.
func TestRatesOfKinds(t *testing.T) {
	f := scan.Figures{Visitors: 4, Pageviews: 8, Exits: 2, Converted: 1}
	for _, test := range []struct {
		kind       figures.Kind
		exits      float64 // -1: null
		conversion float64
	}{
		{figures.Totals, -1, 25}, {figures.Page, 25, 25}, {figures.Event, -1, 40},
	} {
		answer := answerOf(scan.Figures{Visitors: 10}, scan.Figures{Visitors: 10})
		m := figures.Metrics(answer, test.kind, func(*scan.Result) scan.Figures { return f })

		exits := -1.0
		if m.ExitRate != nil {
			exits = *m.ExitRate
		}
		if exits != test.exits || *m.ConversionRate != test.conversion || *m.Share != 40 {
			t.Errorf("kind %d: exits %v, conversions %v, share %v; want %v, %v, 40",
				test.kind, exits, *m.ConversionRate, *m.Share, test.exits, test.conversion)
		}
		if m.Comparison == nil || *m.Comparison.Share != 40 {
			t.Errorf("kind %d: the comparison is %+v", test.kind, m.Comparison)
		}
	}

	testkit.Equal(t, figures.KindOf(model.DimensionSource), figures.Totals, "rows of sources have the kind")
}

// TestUnknownVisits checks that rates leave out page views of a service that knows neither visits
// nor visitors, and that shares of its visitors are null.
func TestUnknownVisits(t *testing.T) {
	answer := answerOf(scan.Figures{Visitors: 10, Visits: 10, Pageviews: 120, Unknown: &scan.Unknown{Visit: 100}})
	totals := figures.Metrics(answer, figures.Totals, totalsOf)
	event := figures.Metrics(answer, figures.Event, func(*scan.Result) scan.Figures { return scan.Figures{Visitors: 50} })
	if *totals.ViewsPerVisit != 2 || totals.Share != nil || event.Share != nil || event.ConversionRate != nil {
		t.Errorf("views per visit %v, shares %v and %v, conversion rate %v; want 2 and null", *totals.ViewsPerVisit,
			totals.Share, event.Share, event.ConversionRate)
	}
}

// TestAverageOrder checks the rounding, and that refunds without a purchase have no average.
func TestAverageOrder(t *testing.T) {
	revenue := map[string]scan.Revenue{
		"USD": {Gross: 5, Purchases: 2}, "EUR": {Gross: 4, Purchases: 3}, "CHF": {Refunded: 3, Refunds: 1},
	}
	m := figures.Metrics(answerOf(scan.Figures{Revenue: revenue}), figures.Totals, totalsOf)

	want := map[string]model.Money{"CHF": -1, "EUR": 1, "USD": 3}
	var order []string
	for _, one := range m.Revenue {
		order = append(order, one.Currency)
		average := model.Money(-1)
		if one.AverageOrder != nil {
			average = *one.AverageOrder
		}
		testkit.Equal(t, average, want[one.Currency], "%s: the average order", one.Currency)
	}
	testkit.EqualSlices(t, order, []string{"CHF", "EUR", "USD"}, "the order")
}

// TestOrdered checks the order of rows in both directions: ties by value, rows without the figure
// last.
func TestOrdered(t *testing.T) {
	rows := map[string]scan.Figures{
		"/a": {Visitors: 1, Visits: 2, Bounces: 1}, "/b": {Visitors: 3, Visits: 4, Bounces: 4},
		"/c": {Visitors: 3}, "/D": {Visitors: 2, Visits: 2, Bounces: 1},
	}
	for _, test := range []struct {
		metric    generated.ReportMetric
		direction generated.OrderDirection
		search    string
		want      []string
	}{
		{generated.ReportMetricVisitors, generated.OrderDirectionDesc, "", []string{"/b", "/c", "/D", "/a"}},
		{generated.ReportMetricVisitors, generated.OrderDirectionAsc, "", []string{"/a", "/D", "/b", "/c"}},
		{generated.ReportMetricBounceRate, generated.OrderDirectionDesc, "", []string{"/b", "/D", "/a", "/c"}},
		{generated.ReportMetricBounceRate, generated.OrderDirectionAsc, "", []string{"/D", "/a", "/b", "/c"}},
		{generated.ReportMetricVisitors, generated.OrderDirectionAsc, "d", []string{"/D"}},
	} {
		order := figures.Order{
			ReportOrder: generated.ReportOrder{Metric: test.metric, Direction: test.direction}, Search: test.search, Take: len(rows),
		}
		got, count, err := figures.Ordered(t.Context(), maps.All(rows), figures.Page, &scan.Figures{Visitors: 9}, order)
		if err != nil || !slices.Equal(got, test.want) || count != len(test.want) {
			t.Errorf("%s %s, search %q: %d rows %q, want %q", test.metric, test.direction, test.search, count, got, test.want)
		}
	}
}

// TestOrderedPages checks that each page of random rows is the part of all rows in order.
func TestOrderedPages(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 200 {
		rows := make(map[string]scan.Figures)
		for range r.IntN(40) {
			rows[fmt.Sprintf("/%d", r.IntN(100))] = scan.Figures{Visitors: int64(r.IntN(5)), Visits: int64(r.IntN(3)), Bounces: int64(r.IntN(3))}
		}
		order := figures.Order{Take: len(rows), ReportOrder: generated.ReportOrder{
			Metric:    []generated.ReportMetric{generated.ReportMetricVisitors, generated.ReportMetricBounceRate}[r.IntN(2)],
			Direction: []generated.OrderDirection{generated.OrderDirectionAsc, generated.OrderDirectionDesc}[r.IntN(2)],
		}}
		all, _, _ := figures.Ordered(t.Context(), maps.All(rows), figures.Totals, &scan.Figures{}, order)

		order.Skip, order.Take = r.IntN(len(rows)+1), 1+r.IntN(20)
		got, count, _ := figures.Ordered(t.Context(), maps.All(rows), figures.Totals, &scan.Figures{}, order)
		want := all[order.Skip:min(order.Skip+order.Take, len(all))]
		if !slices.Equal(got, want) || count != len(rows) {
			t.Fatalf("%+v: %q of %d rows, want %q of %q", order, got, count, want, all)
		}
	}
}

// TestOrderedEnds checks that the rows are not read to their end after the context has ended.
func TestOrderedEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	const all, until = 10_000, 5_000
	read := 0
	rows := func(yield func(string, scan.Figures) bool) {
		for range all {
			if read++; read == until {
				cancel()
			}
			if !yield("value", scan.Figures{Visitors: 1}) {
				return
			}
		}
	}

	_, _, err := figures.Ordered(ctx, rows, figures.Totals, &scan.Figures{}, figures.Order{Search: "x", Take: 1})
	if !errors.Is(err, context.Canceled) || read > until+500 {
		t.Errorf("%d rows were read, error %v", read, err)
	}
}
