// Package figures converts what a scan has counted to the figures of a report in GraphQL. Rates are
// computed here, from sums.
package figures

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/graph/generated"
)

// Kind is what figures belong to. Some rates depend on it.
type Kind uint8

// The kinds.
const (
	Totals Kind = iota // also points, and rows without a kind of their own
	Page               // a row of PAGE, which has an exit rate
	Event              // a row of EVENT, whose conversions are its visitors
)

// KindOf returns the kind of the rows of a breakdown.
func KindOf(by model.ReportDimension) Kind {
	switch by {
	case model.DimensionPage:
		return Page
	case model.DimensionEvent:
		return Event
	}
	return Totals
}

// Metrics converts the figures that of returns of each result: those of the period and, if there is
// one, of the period to compare with.
func Metrics(answer *reports.Answer, kind Kind, of func(*scan.Result) scan.Figures) *generated.ReportMetrics {
	convert := func(result *scan.Result) *generated.ReportMetrics {
		f := of(result)
		return metrics(&f, &result.Totals, kind)
	}

	m := convert(answer.Results[0])
	if len(answer.Results) > 1 {
		m.Comparison = convert(answer.Results[1])
	}
	return m
}

// metrics converts one set of figures. Shares and some rates are those of the totals.
func metrics(f, totals *scan.Figures, kind Kind) *generated.ReportMetrics {
	rate := func(metric generated.ReportMetric) *float64 { return known(figureOf(f, totals, kind, metric)) }
	m := &generated.ReportMetrics{
		Visitors: f.Visitors, Visits: f.Visits, Pageviews: f.Pageviews, Events: f.Events, Conversions: f.Conversions,
		Share:   Ratio(f.Visitors, totals.Visitors, 100),
		Revenue: revenues(f.Revenue),

		ViewsPerVisit:  rate(generated.ReportMetricViewsPerVisit),
		BounceRate:     rate(generated.ReportMetricBounceRate),
		EngagementTime: rate(generated.ReportMetricEngagementTime),
		TimeOnPage:     rate(generated.ReportMetricTimeOnPage),
		ScrollDepth:    rate(generated.ReportMetricScrollDepth),
		ExitRate:       rate(generated.ReportMetricExitRate),
		ConversionRate: rate(generated.ReportMetricConversionRate),
	}
	if totals.UnknownOf().Visit > 0 {
		m.Share = nil // of visitors who are not all known
	}
	return m
}

// figureOf returns a figure. ok is false if it has no value. Rates leave out what imports do not
// know.
func figureOf(f, totals *scan.Figures, kind Kind, metric generated.ReportMetric) (figure float64, ok bool) {
	unknown := f.UnknownOf()
	switch metric {
	case generated.ReportMetricVisitors:
		return float64(f.Visitors), true
	case generated.ReportMetricVisits:
		return float64(f.Visits), true
	case generated.ReportMetricPageviews:
		return float64(f.Pageviews), true
	case generated.ReportMetricEvents:
		return float64(f.Events), true
	case generated.ReportMetricConversions:
		return float64(f.Conversions), true

	case generated.ReportMetricViewsPerVisit:
		return ratio(f.Pageviews-unknown.Visit, f.Visits, 1)
	case generated.ReportMetricBounceRate:
		return ratio(f.Bounces, f.Visits-unknown.Bounce, 100)
	case generated.ReportMetricEngagementTime:
		return ratio(f.VisitMS, f.Visits-unknown.VisitTime, 0.001)
	case generated.ReportMetricTimeOnPage:
		return ratio(f.ViewMS, f.Pageviews-unknown.ViewTime, 0.001)
	case generated.ReportMetricScrollDepth:
		return ratio(f.ScrollSum, f.Scrolled, 1)

	case generated.ReportMetricExitRate:
		if kind != Page {
			return 0, false
		}
		return ratio(f.Exits, f.Pageviews-unknown.Exit, 100)
	case generated.ReportMetricConversionRate:
		switch {
		case kind == Event && totals.UnknownOf().Visit > 0:
			return 0, false
		case kind == Event:
			return ratio(f.Visitors, totals.Visitors, 100)
		}
		return ratio(f.Converted, f.Visitors-unknown.Conversion, 100)
	}

	return 0, false
}

// Ratio returns a fraction of a whole, times a factor; nil if the whole is 0.
func Ratio(count, whole int64, factor float64) *float64 {
	return known(ratio(count, whole, factor))
}

// known returns a figure; nil for one that is not known.
func known(value float64, ok bool) *float64 {
	if !ok {
		return nil
	}
	return &value
}

// ratio is Ratio. ok is false if the whole is 0.
func ratio(count, whole int64, factor float64) (value float64, ok bool) {
	if whole == 0 {
		return 0, false
	}
	return float64(count) / float64(whole) * factor, true
}

// revenues converts the revenue of each currency, in the order of the currencies. The average order
// is rounded to the nearest unit.
func revenues(byCurrency map[string]scan.Revenue) []*generated.ReportRevenue {
	list := make([]*generated.ReportRevenue, 0, len(byCurrency))
	for currency, r := range byCurrency {
		one := &generated.ReportRevenue{
			Currency: currency, Net: r.Net(), Gross: r.Gross, Refunded: r.Refunded, Purchases: r.Purchases, Refunds: r.Refunds,
		}
		if r.Purchases > 0 {
			average := (r.Gross + model.Money(r.Purchases/2)) / model.Money(r.Purchases)
			one.AverageOrder = &average
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b *generated.ReportRevenue) int { return cmp.Compare(a.Currency, b.Currency) })
	return list
}

// Order is the order of rows, and which of them are wanted.
type Order struct {
	generated.ReportOrder
	Search     string // only values that contain it, see model.ContainsFolded
	Skip, Take int    // the rows wanted: Take, which is at least 1, after the first Skip ones
}

// orderedEvery is how many rows Ordered reads between two looks at its context. A search reads up
// to 8 KB of a value.
const orderedEvery = 1 << 8

// Ordered returns the values of the rows that are wanted, in order, and how many contain the
// search. Values without the figure come last. It ends with the error of ctx.
func Ordered(
	ctx context.Context, rows iter.Seq2[string, scan.Figures], kind Kind, totals *scan.Figures, order Order,
) (values []string, count int, err error) {
	best := newSelection(order.Skip+order.Take, order.Direction == generated.OrderDirectionAsc)
	search := model.Fold(order.Search)
	read := 0
	for value, f := range rows {
		if read++; read%orderedEvery == 0 && ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		if search == "" || model.ContainsFolded(value, search) {
			figure, ok := figureOf(&f, totals, kind, order.Metric)
			best.add(entry{value, figure, !ok})
			count++
		}
	}

	entries := best.sorted()
	for _, e := range entries[min(order.Skip, len(entries)):] {
		values = append(values, e.value)
	}
	return values, count, nil
}
