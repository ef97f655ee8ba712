// Package changes divides the difference of a figure between two periods by the values of
// dimensions. It counts nothing itself: its input are the rows that two reports have, and equal
// counts always give the same answer. docs/owner/reports.md states the rule.
package changes

import (
	"cmp"
	"iter"
	"slices"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
)

// Metric is the figure with the difference.
type Metric string

// The metrics.
const (
	Visits      Metric = "VISITS"
	Pageviews   Metric = "PAGEVIEWS"
	Visitors    Metric = "VISITORS"
	Conversions Metric = "CONVERSIONS"
	Revenue     Metric = "REVENUE" // net, of one currency
)

// dimensions are all dimensions, in the order that decides between equal causes.
var dimensions = []model.ReportDimension{
	model.DimensionSourceName, model.DimensionChannel, model.DimensionUTMCampaign, model.DimensionPage,
	model.DimensionEntryPage, model.DimensionCountry, model.DimensionDevice, model.DimensionHostname, model.DimensionLanguage,
	model.DimensionEvent,
}

// Dimensions returns the dimensions with rows that add up to the figure, in order. A visit has one
// value of each dimension but page and event: of these, only page views, conversions and revenue
// have one page, and only conversions and revenue have one event.
//
// Visitors have one value in each of their visits. A visitor with visits of several values counts
// in the rows of all of them, and once in the rest, from which the repetitions are subtracted.
func (m Metric) Dimensions() []model.ReportDimension {
	return slices.DeleteFunc(slices.Clone(dimensions), func(by model.ReportDimension) bool {
		switch by {
		case model.DimensionPage:
			return m == Visits || m == Visitors
		case model.DimensionEvent:
			return m != Conversions && m != Revenue
		}
		return false
	})
}

// Count is a number in both periods.
type Count struct{ Before, After int64 }

// Difference returns how much more the later period has.
func (c Count) Difference() int64 { return c.After - c.Before }

// both returns the number in both periods together.
func (c Count) both() int64 { return c.Before + c.After }

// Value is a value of a dimension.
type Value struct {
	By     model.ReportDimension
	Value  string // empty for visits without one
	Figure Count  // in millionths of the currency for Revenue
	Visits Count
}

// Rows are the rows of a dimension in one period, such as *scan.Rows.
type Rows interface {
	All() iter.Seq2[string, scan.Figures]
	Of(value string) scan.Figures
}

// Table has the rows of a dimension in both periods.
type Table struct {
	By            model.ReportDimension
	Before, After Rows
	// Hidden reports whether a value must not be named, such as a small group in one of the
	// periods. It counts in the rest. nil: none is hidden.
	Hidden func(value string) bool
}

// Counts are the counts of two reports with the same filters.
type Counts struct {
	Metric        Metric
	Currency      string // of Revenue
	Before, After *scan.Figures
	Tables        []Table // by Metric.Dimensions, in their order
}

// Currency returns the currency with the most purchases and refunds in both periods together, of
// equal ones the first by name, or "" without any.
func Currency(before, after *scan.Figures) (most string) {
	sales := make(map[string]int64)
	for _, f := range []*scan.Figures{before, after} {
		for currency, r := range f.Revenue {
			sales[currency] += r.Purchases + r.Refunds
		}
	}
	for currency, n := range sales {
		if most == "" || n > sales[most] || n == sales[most] && currency < most {
			most = currency
		}
	}
	return most
}

// figure returns the figure that is divided.
func (c *Counts) figure(f *scan.Figures) int64 {
	switch c.Metric {
	case Visits:
		return f.Visits
	case Pageviews:
		return f.Pageviews
	case Visitors:
		return f.Visitors
	case Conversions:
		return f.Conversions
	default:
		return int64(f.Revenue[c.Currency].Net())
	}
}

// value returns a value with its figures in both periods.
func (c *Counts) value(by model.ReportDimension, value string, before, after *scan.Figures) Value {
	return Value{
		By: by, Value: value, Figure: Count{c.figure(before), c.figure(after)}, Visits: Count{before.Visits, after.Visits},
	}
}

// Whole returns the totals, as a value without a name.
func (c *Counts) Whole() Value { return c.value("", "", c.Before, c.After) }

// values returns the values of a table that may be named, each once, in no order. The row for what
// has no row of its own is no value.
func (c *Counts) values(t *Table) iter.Seq[Value] {
	isNamed := func(value string) bool {
		return value != scan.OtherValue && (t.Hidden == nil || !t.Hidden(value))
	}
	return func(yield func(Value) bool) {
		for value, after := range t.After.All() {
			if before := t.Before.Of(value); after.Any() && isNamed(value) && !yield(c.value(t.By, value, &before, &after)) {
				return
			}
		}
		for value, before := range t.Before.All() {
			if after := t.After.Of(value); !after.Any() && isNamed(value) && !yield(c.value(t.By, value, &before, &after)) {
				return
			}
		}
	}
}

// Parts returns up to n values of a table with a difference, the largest first and equal ones by
// value, and the rest. The figures of all parts and of the rest add up to the whole.
func (c *Counts) Parts(t *Table, n int) (parts []Value, rest Count) {
	largest := func(a, b Value) int {
		return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(a.Value, b.Value))
	}

	// Keeping twice as many as wanted bounds the memory and the work of sorting.
	for v := range c.values(t) {
		if v.Figure.Difference() == 0 {
			continue
		}
		if parts = append(parts, v); len(parts) >= 2*n {
			slices.SortFunc(parts, largest)
			parts = parts[:n]
		}
	}
	slices.SortFunc(parts, largest)
	parts = parts[:min(n, len(parts))]

	rest = c.Whole().Figure
	for _, v := range parts {
		rest.Before -= v.Figure.Before
		rest.After -= v.Figure.After
	}
	return parts, rest
}

// size returns the size of a difference.
func size(v Value) int64 { return max(v.Figure.Difference(), -v.Figure.Difference()) }

// Cause returns the value that names the difference best. Of the values with at least half of the
// difference it is the one with the fewest visits in both periods together, and without such a
// value the one with the largest part of the difference. Only differences with the sign of the
// whole count, and only values that some visits do not have. Equal ones follow in the order of
// dimensions, and then of values. Without a cause, as with equal periods, ok is false.
//
// After the first cause, the values of its dimension are left out: a dimension is named once.
func (c *Counts) Cause(after ...Value) (best Value, ok bool) {
	whole := c.Whole()
	for i := range c.Tables {
		t := &c.Tables[i]
		if slices.ContainsFunc(after, func(v Value) bool { return v.By == t.By }) {
			continue
		}
		for v := range c.values(t) {
			isCause := cmp.Compare(v.Figure.Difference(), 0)*cmp.Compare(whole.Figure.Difference(), 0) > 0
			if isCause && v.Visits.both() < whole.Visits.both() && (!ok || c.isBetter(&whole, &v, &best)) {
				best, ok = v, true
			}
		}
	}
	return best, ok
}

// isBetter reports whether a is a better cause than b, of the same or of an earlier table.
func (c *Counts) isBetter(whole, a, b *Value) bool {
	half := func(v *Value) int {
		if size(*v) >= size(*whole)-size(*v) {
			return 0
		}
		return 1
	}
	bySize, byVisits := cmp.Compare(size(*b), size(*a)), cmp.Compare(a.Visits.both(), b.Visits.both())
	first, second := bySize, byVisits
	if half(a) == 0 {
		first, second = byVisits, bySize
	}

	byName := 0
	if a.By == b.By {
		byName = cmp.Compare(a.Value, b.Value)
	}
	return cmp.Or(cmp.Compare(half(a), half(b)), first, second, byName) < 0
}

// Names returns the values that stand for the same visits as a value of c: all visits of the value,
// and no other ones. among are the counts of these visits. Values of one dimension follow in order.
func (c *Counts) Names(of Value, among *Counts) (names []Value) {
	whole := among.Whole()
	if whole.Visits.both() == 0 || whole.Visits != of.Visits {
		return nil // without visits, or with daily sums of imports, which no filter finds
	}

	for i := range c.Tables {
		t := &c.Tables[i]
		if t.By == of.By {
			continue
		}

		begin := len(names)
		for v := range among.values(&among.Tables[i]) {
			if v.Visits != whole.Visits || t.Hidden != nil && t.Hidden(v.Value) {
				continue
			}

			before, after := t.Before.Of(v.Value), t.After.Of(v.Value)
			if all := c.value(t.By, v.Value, &before, &after); all.Visits == of.Visits {
				names = append(names, all)
			}
		}
		slices.SortFunc(names[begin:], func(a, b Value) int { return cmp.Compare(a.Value, b.Value) })
	}
	return names
}
