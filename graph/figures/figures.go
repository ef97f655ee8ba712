// Package figures converts what a scan has counted to the figures of a report in GraphQL. Rates are
// computed here, from sums.
package figures

import (
	"cmp"
	"slices"
	"strings"

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
	rate := func(metric generated.ReportMetric) *float64 { return figureOf(f, totals, kind, metric) }
	return &generated.ReportMetrics{
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
}

// figureOf returns a figure, or nil if it has no value.
func figureOf(f, totals *scan.Figures, kind Kind, metric generated.ReportMetric) *float64 {
	switch metric {
	case generated.ReportMetricVisitors:
		return Ratio(f.Visitors, 1, 1)
	case generated.ReportMetricVisits:
		return Ratio(f.Visits, 1, 1)
	case generated.ReportMetricPageviews:
		return Ratio(f.Pageviews, 1, 1)
	case generated.ReportMetricEvents:
		return Ratio(f.Events, 1, 1)
	case generated.ReportMetricConversions:
		return Ratio(f.Conversions, 1, 1)
	case generated.ReportMetricViewsPerVisit:
		return Ratio(f.Pageviews, f.Visits, 1)
	case generated.ReportMetricBounceRate:
		return Ratio(f.Bounces, f.Visits, 100)
	case generated.ReportMetricEngagementTime:
		return Ratio(f.VisitMS, f.Visits, 0.001)
	case generated.ReportMetricTimeOnPage:
		return Ratio(f.ViewMS, f.Pageviews, 0.001)
	case generated.ReportMetricScrollDepth:
		return Ratio(f.ScrollSum, f.Scrolled, 1)
	case generated.ReportMetricExitRate:
		if kind != Page {
			return nil
		}
		return Ratio(f.Exits, f.Pageviews, 100)
	case generated.ReportMetricConversionRate:
		if kind == Event {
			return Ratio(f.Visitors, totals.Visitors, 100)
		}
		return Ratio(f.Converted, f.Visitors, 100)
	}
	return nil
}

// Ratio returns a fraction of a whole, times a factor; nil if the whole is 0.
func Ratio(count, whole int64, factor float64) *float64 {
	if whole == 0 {
		return nil
	}
	value := float64(count) / float64(whole) * factor
	return &value
}

// revenues converts the revenue of each currency, in the order of the currencies. The average order is
// rounded to the nearest unit.
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

// Ordered returns the values of rows that contain the search, in order. Values without the
// figure come last.
func Ordered(
	rows map[string]scan.Figures, kind Kind, totals *scan.Figures, order generated.ReportOrder, search string,
) []string {
	type entry struct {
		value  string
		figure *float64
	}

	search = strings.ToLower(search)
	entries := make([]entry, 0, len(rows))
	for value, f := range rows {
		if search == "" || strings.Contains(strings.ToLower(value), search) {
			entries = append(entries, entry{value, figureOf(&f, totals, kind, order.Metric)})
		}
	}

	slices.SortFunc(entries, func(a, b entry) int {
		var c int
		switch {
		case a.figure == nil || b.figure == nil:
			c = cmp.Compare(unset(a.figure), unset(b.figure))
		case order.Direction == generated.OrderDirectionAsc:
			c = cmp.Compare(*a.figure, *b.figure)
		default:
			c = cmp.Compare(*b.figure, *a.figure)
		}
		return cmp.Or(c, cmp.Compare(a.value, b.value))
	})

	values := make([]string, len(entries))
	for i := range entries {
		values[i] = entries[i].value
	}
	return values
}

// unset returns 1 for a figure without a value, so that it sorts last.
func unset(f *float64) int {
	if f == nil {
		return 1
	}
	return 0
}
