package figures

import (
	"context"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/graph/generated"
)

// Numbers converts the figures of a group of the first count, with those of the same group in the
// second count if there is one. Groups of rows are the same if they have one value. A value that
// the second period has only in a small group has no comparison.
func Numbers(counts []*scan.NumberCount, group int) *generated.NumberFigures {
	shown := numberFigures(&counts[0].Figures[group])
	if len(counts) == 1 {
		return shown
	}

	compared := counts[1]
	if compared.Groups != scan.NumberRows {
		shown.Comparison = numberFigures(&compared.Figures[group])
		return shown
	}
	f, ok := compared.Of(counts[0].Values[group])
	if ok || !compared.Other {
		shown.Comparison = numberFigures(&f)
	}
	return shown
}

// numberFigures converts figures. Figures without a number are null, and those of a small group or
// beyond the range of a float64.
func numberFigures(f *scan.NumberFigures) *generated.NumberFigures {
	of := func(metric generated.NumberMetric) *float64 { return known(numberOf(f, metric)) }
	return &generated.NumberFigures{
		Visitors: f.Visitors, Events: f.Events, Numbers: f.Numbers, Unknown: f.Unknown,
		WithoutNumber: f.Events - f.Numbers - f.Unknown,

		Sum: of(generated.NumberMetricSum), Average: of(generated.NumberMetricAverage),
		Min: of(generated.NumberMetricMin), Max: of(generated.NumberMetricMax),
		P50: of(generated.NumberMetricP50), P75: of(generated.NumberMetricP75), P90: of(generated.NumberMetricP90),
		P95: of(generated.NumberMetricP95), P99: of(generated.NumberMetricP99),
	}
}

// numberOf returns a figure. ok is false if it has no value.
func numberOf(f *scan.NumberFigures, metric generated.NumberMetric) (figure float64, ok bool) {
	switch metric {
	case generated.NumberMetricVisitors:
		return float64(f.Visitors), true
	case generated.NumberMetricEvents:
		return float64(f.Events), true
	case generated.NumberMetricNumbers:
		return float64(f.Numbers), true
	case generated.NumberMetricSum:
		figure = f.Sum
	case generated.NumberMetricAverage:
		figure = f.Average
	case generated.NumberMetricMin:
		figure = f.Min
	case generated.NumberMetricMax:
		figure = f.Max
	default:
		figure = f.Percentiles[places[metric]]
	}
	return figure, f.Numbers > 0 && !f.Small && scan.IsFinite(figure)
}

// places are the indexes of percentiles in scan.Percentiles.
var places = map[generated.NumberMetric]int{
	generated.NumberMetricP50: 0, generated.NumberMetricP75: 1, generated.NumberMetricP90: 2, generated.NumberMetricP95: 3,
	generated.NumberMetricP99: 4,
}

// NumberOrder is the order of rows of numbers, and which of them are wanted.
type NumberOrder struct {
	generated.NumberOrder
	Search     string // only values that contain it, see model.ContainsFolded
	Skip, Take int    // the rows wanted: Take, which is at least 1, after the first Skip ones
}

// OrderedNumbers returns the places of the rows that are wanted, in order, and how many contain the
// search. Rows without the figure come last. It ends with the error of ctx.
func OrderedNumbers(ctx context.Context, rows *scan.NumberCount, order NumberOrder) (wanted []int, count int, err error) {
	best := newSelection(order.Skip+order.Take, order.Direction == generated.OrderDirectionAsc)
	search := model.Fold(order.Search)
	for i, value := range rows.Values {
		if i%orderedEvery == 0 && ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		if search == "" || model.ContainsFolded(value, search) {
			figure, ok := numberOf(&rows.Figures[i], order.Metric)
			best.add(entry{value, figure, !ok})
			count++
		}
	}

	entries := best.sorted()
	for _, e := range entries[min(order.Skip, len(entries)):] {
		wanted = append(wanted, rows.Place(e.value))
	}
	return wanted, count, nil
}
