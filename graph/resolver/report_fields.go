package resolver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/period"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/figures"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
)

func (r *reportResolver) Series(
	_ context.Context, obj *generated.Report, _ *period.Interval,
) ([]*generated.ReportPoint, error) {
	periods := obj.Answer.Request.Periods
	now := obj.Answer.Request.Now.Time()
	points := make([]*generated.ReportPoint, len(periods[0].Points)-1)

	for i := range points {
		start, end := periods[0].Points[i], periods[0].Points[i+1]
		points[i] = &generated.ReportPoint{
			Start: model.At(start), Partial: now.Before(end),
			Metrics: figures.Metrics(
				obj.Answer, figures.Totals, func(result *scan.Result) scan.Figures { return result.Points[i] },
			),
		}
		if len(periods) > 1 {
			compared := model.At(periods[1].Points[i])
			points[i].ComparedStart = &compared
		}
	}
	return points, nil
}

// searchedPerPoint is how many bytes of rows a search reads for one point of the rate limit.
const searchedPerPoint = 16 << 10

// chargeRows charges a request for the rows of a breakdown, which each field orders and searches
// again, also those of an answer that is kept.
func chargeRows(ctx context.Context, rows int, bytes int64, search string) error {
	cost := rows / rowsPerPoint
	if search != "" {
		cost += int(bytes / searchedPerPoint)
	}
	if cost == 0 {
		return nil
	}

	caller, err := auth.CallerOf(ctx)
	if err != nil {
		return err
	}
	return limits.Of(ctx).ChargeMore(caller, cost)
}

// rowBytes returns about the most bytes of JSON that a row has.
func rowBytes(value string, metrics *generated.ReportMetrics) int {
	const perRow, perCurrency, perEscape = 500, 250, 5
	n := perRow + len(value)
	for _, escaped := range "<>&" {
		n += perEscape * strings.Count(value, string(escaped))
	}
	for ; metrics != nil; metrics = metrics.Comparison {
		n += perCurrency * len(metrics.Revenue)
	}
	return n
}

// skipOf checks the arguments of a page of rows, and returns how many rows come before it.
func (r *Resolver) skipOf(first int, after *string) (skip int64, err error) {
	if first < 1 || first > limits.MaxReportRows {
		return 0, invalidArgument("first", fmt.Sprintf("The argument first must be from 1 to %d.", limits.MaxReportRows))
	}
	if after == nil {
		return 0, nil
	}
	skip, ok := r.ids.Parse(nodeid.AfterReportRow, *after)
	if !ok {
		return 0, invalidArgument("after", "The argument after is not a cursor of this list.")
	}
	return skip, nil
}

func (r *reportResolver) Breakdown(
	ctx context.Context, obj *generated.Report, by model.ReportDimension, property, event *string,
	orderBy generated.ReportOrder, search *string, first int, after *string,
) (*generated.ReportRowConnection, error) {
	skip, err := r.skipOf(first, after)
	if err != nil {
		return nil, err
	}
	b, err := breakdownOf(by, orBlank(property), orBlank(event))
	if err != nil {
		return nil, err
	}

	n := slices.IndexFunc(obj.Answer.Request.Periods[0].Breakdowns, b.Same)
	result, kind := obj.Answer.Results[0], figures.KindOf(by)
	shown := rowsOf(obj.Answer, n, obj.Question.LeastOf(by))
	rows := shown.all[0]
	from := int(min(skip, int64(rows.Len())))
	if err := chargeRows(ctx, rows.Len(), rows.Bytes(), orBlank(search)); err != nil {
		return nil, err
	}
	values, count, err := figures.Ordered(ctx, rows.All(), kind, &result.Totals, figures.Order{
		ReportOrder: orderBy, Search: orBlank(search), Skip: from, Take: first,
	})
	if err != nil {
		return nil, err
	}

	edges, nodes := make([]*generated.ReportRowEdge, len(values)), make([]*generated.ReportRow, len(values))
	for i, value := range values {
		metrics := figures.Metrics(obj.Answer, kind, func(result *scan.Result) scan.Figures {
			return shown.figures(result, value)
		})
		if shown.isHidden(value) {
			metrics.Comparison = nil
		}
		if err := requestOf(ctx).takeRow(rowBytes(value, metrics)); err != nil {
			return nil, err
		}
		nodes[i] = &generated.ReportRow{Value: value, Metrics: metrics, OnlyImported: rows.OnlySums(value)}
		edges[i] = &generated.ReportRowEdge{Cursor: r.ids.Of(nodeid.AfterReportRow, int64(from+i+1)), Node: nodes[i]}
	}

	page := &generated.PageInfo{HasNextPage: from+len(values) < count, HasPreviousPage: after != nil}
	if len(edges) > 0 {
		page.StartCursor, page.EndCursor = &edges[0].Cursor, &edges[len(edges)-1].Cursor
	}
	imported := importedOf(obj.Answer, func(m *scan.Imported) scan.ImportState { return m.Rows[n] })
	return &generated.ReportRowConnection{
		Edges: edges, Nodes: nodes, PageInfo: page, TotalCount: count, Imported: imported, HasOther: rows.Other,
	}, nil
}

func (r *reportResolver) PropertyNames(
	_ context.Context, obj *generated.Report, _ *string,
) ([]*generated.ReportProperty, error) {
	list := []*generated.ReportProperty{}
	for name, count := range obj.Answer.Results[0].Properties {
		list = append(list, &generated.ReportProperty{Name: name, Events: count.Events, Values: count.Values})
	}
	slices.SortFunc(list, func(a, b *generated.ReportProperty) int {
		return cmp.Or(cmp.Compare(b.Events, a.Events), cmp.Compare(a.Name, b.Name))
	})
	return list[:min(limits.MaxProperties, len(list))], nil
}

func (r *reportResolver) Funnel(
	_ context.Context, obj *generated.Report, inputs []*generated.FunnelStepInput,
) (*generated.FunnelReport, error) {
	steps, err := checkedSteps(inputs)
	if err != nil {
		return nil, err
	}
	key, err := funnelKey(steps)
	if err != nil {
		return nil, err
	}

	n := slices.Index(obj.Funnels, key)
	visitors := obj.Answer.Results[0].Funnels[n]
	report := &generated.FunnelReport{
		Visitors: visitors[0], ConversionRate: figures.Ratio(visitors[len(visitors)-1], visitors[0], 100),
		Steps: make([]*generated.FunnelStepReport, len(steps)),
	}
	for i := range steps {
		step := &generated.FunnelStepReport{
			Step:     &generated.FunnelStep{Page: notZero(steps[i].Page), Event: notZero(steps[i].Event), Label: steps[i].Name()},
			Visitors: visitors[i],
		}
		if i > 0 {
			step.FromPrevious = figures.Ratio(visitors[i], visitors[i-1], 100)
		}
		if len(obj.Answer.Results) > 1 {
			step.ComparedVisitors = &obj.Answer.Results[1].Funnels[n][i]
		}
		report.Steps[i] = step
	}
	return report, nil
}

// shownRows are the rows of a breakdown in each result of an answer, as its reader may see them.
type shownRows struct {
	all  []*scan.Rows
	raw  []*scan.Rows
	of   map[*scan.Result]int
	hide bool
}

// rowsOf returns the rows of the n-th breakdown of an answer. Rows of fewer visitors than least are
// not shown.
func rowsOf(answer *reports.Answer, n, least int) *shownRows {
	s := &shownRows{of: make(map[*scan.Result]int, len(answer.Results)), hide: least > 0}
	for i, result := range answer.Results {
		rows := result.Breakdowns[n]
		s.of[result], s.raw = i, append(s.raw, rows)
		if s.hide {
			rows = rows.WithoutSmall(int64(least))
		}
		s.all = append(s.all, rows)
	}
	return s
}

// figures returns the figures of a value in a result.
func (s *shownRows) figures(result *scan.Result, value string) scan.Figures {
	return s.all[s.of[result]].Of(value)
}

// isHidden reports whether a value is shown for the period, but has too few visitors in the period
// compared with.
func (s *shownRows) isHidden(value string) bool {
	return s.hide && len(s.all) > 1 && value != scan.OtherValue &&
		s.all[1].Of(value).Visitors != s.raw[1].Of(value).Visitors
}
