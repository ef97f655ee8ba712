package graph

import (
	"cmp"
	"slices"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/graph/generated"
)

// The figures of totals, points and rows. Rates are computed here, from sums.

// rowKind says what figures belong to, as far as some rates depend on it.
type rowKind uint8

const (
	ofTotals rowKind = iota // also points, and rows without a kind of their own
	ofPage                  // a row of PAGE, which has an exit rate
	ofEvent                 // a row of EVENT, whose conversions are its visitors
)

func rowKindOf(by model.ReportDimension) rowKind {
	switch by {
	case model.DimensionPage:
		return ofPage
	case model.DimensionEvent:
		return ofEvent
	}
	return ofTotals
}

// metricsOf converts the figures that of returns of each result.
func metricsOf(answer *reports.Answer, kind rowKind, of func(*scan.Result) scan.Figures) *generated.ReportMetrics {
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

func metrics(f, totals *scan.Figures, kind rowKind) *generated.ReportMetrics {
	rate := func(metric generated.ReportMetric) *float64 { return figureOf(f, totals, kind, metric) }
	return &generated.ReportMetrics{
		Visitors: f.Visitors, Visits: f.Visits, Pageviews: f.Pageviews, Events: f.Events, Conversions: f.Conversions,
		ViewsPerVisit:  rate(generated.ReportMetricViewsPerVisit),
		BounceRate:     rate(generated.ReportMetricBounceRate),
		EngagementTime: rate(generated.ReportMetricEngagementTime),
		TimeOnPage:     rate(generated.ReportMetricTimeOnPage),
		ScrollDepth:    rate(generated.ReportMetricScrollDepth),
		ExitRate:       rate(generated.ReportMetricExitRate),
		ConversionRate: rate(generated.ReportMetricConversionRate),
		Share:          ratio(f.Visitors, totals.Visitors, 100),
		Revenue:        revenues(f.Revenue),
	}
}

// figureOf returns a figure, or nil if it has no value.
func figureOf(f, totals *scan.Figures, kind rowKind, metric generated.ReportMetric) *float64 {
	switch metric {
	case generated.ReportMetricVisitors:
		return ratio(f.Visitors, 1, 1)
	case generated.ReportMetricVisits:
		return ratio(f.Visits, 1, 1)
	case generated.ReportMetricPageviews:
		return ratio(f.Pageviews, 1, 1)
	case generated.ReportMetricEvents:
		return ratio(f.Events, 1, 1)
	case generated.ReportMetricConversions:
		return ratio(f.Conversions, 1, 1)
	case generated.ReportMetricViewsPerVisit:
		return ratio(f.Pageviews, f.Visits, 1)
	case generated.ReportMetricBounceRate:
		return ratio(f.Bounces, f.Visits, 100)
	case generated.ReportMetricEngagementTime:
		return ratio(f.VisitMS, f.Visits, 0.001)
	case generated.ReportMetricTimeOnPage:
		return ratio(f.ViewMS, f.Pageviews, 0.001)
	case generated.ReportMetricScrollDepth:
		return ratio(f.ScrollSum, f.Scrolled, 1)
	case generated.ReportMetricExitRate:
		if kind != ofPage {
			return nil
		}
		return ratio(f.Exits, f.Pageviews, 100)
	case generated.ReportMetricConversionRate:
		if kind == ofEvent {
			return ratio(f.Visitors, totals.Visitors, 100)
		}
		return ratio(f.Converted, f.Visitors, 100)
	}
	return nil
}

// ratio returns a part of a whole, times a factor; nil if the whole is 0.
func ratio(part, whole int64, factor float64) *float64 {
	if whole == 0 {
		return nil
	}
	value := float64(part) / float64(whole) * factor
	return &value
}

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
