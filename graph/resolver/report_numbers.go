package resolver

import (
	"context"
	"fmt"
	"slices"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/period"
	"github.com/tallygate/tallygate/db/reports/question"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/graph/figures"
	"github.com/tallygate/tallygate/graph/generated"
)

// Numbers of a report: sums, averages and percentiles of a property of events.

// addNumbers adds what a field selects of the numbers of a property.
func (s *selected) addNumbers(ctx context.Context, args map[string]any, selections ast.SelectionSet) error {
	asked := scan.Numbers{Event: text(args, "event"), Property: text(args, "property")}
	switch {
	case asked.Event != "" && !model.IsEventName(asked.Event):
		return invalidArgument("event", notAnEventName)
	case asked.Property == "" || !model.IsReportText(asked.Property):
		return invalidArgument("property",
			fmt.Sprintf("The name of a property has 1 to %d characters and no NUL.", model.MaxFilterText))
	}

	operation := graphql.GetOperationContext(ctx)
	s.addNumberGroups(asked) // small groups are judged by the totals
	for _, field := range graphql.CollectFields(operation, selections, []string{"ReportNumbers"}) {
		args := field.ArgumentMap(operation.Variables)
		groups := asked
		switch field.Name {
		case "series":
			if err := s.addSeries(args); err != nil {
				return err
			}
			groups.Groups = scan.NumberPoints
		case "breakdown":
			by, err := numberDimension(model.ReportDimension(text(args, "by")))
			if err != nil {
				return err
			}
			groups.Groups, groups.By = scan.NumberRows, by
		}
		s.addNumberGroups(groups)
	}
	return nil
}

// addNumberGroups adds a question, unless it was asked.
func (s *selected) addNumberGroups(asked scan.Numbers) {
	if !slices.Contains(s.numbers, asked) {
		s.numbers = append(s.numbers, asked)
	}
}

// numberDimension checks and converts the dimension of a breakdown of numbers.
func numberDimension(by model.ReportDimension) (scan.Dimension, error) {
	dimension, ok := reports.Dimensions[by]
	if !ok || !scan.HasNumbers(dimension) {
		return 0, invalidArgument("by", "Numbers are not broken down by EVENT and PROPERTY.")
	}
	return dimension, nil
}

// Numbers refuses figures of so few visitors that a personal filter would show a small group.
func (r *reportResolver) Numbers(
	_ context.Context, obj *generated.Report, property string, event *string,
) (*generated.ReportNumbers, error) {
	totals := countsOf(obj, scan.Numbers{Event: orBlank(event), Property: property})
	least := int64(obj.Question.LeastOf(model.DimensionPage))
	if least > 0 && totals[0].Figures[0].Carriers < least {
		return nil, question.TooSmall("property", "have such an event with a number", int(least))
	}

	shown := figures.Numbers(totals, 0)
	if len(totals) > 1 {
		isSmall := func(visitors int64) bool { return visitors > 0 && visitors < least }
		if f := &totals[1].Figures[0]; isSmall(f.Visitors) || isSmall(f.Carriers) {
			shown.Comparison = nil
		}
	}
	return &generated.ReportNumbers{Totals: shown, Report: obj, Event: orBlank(event), Property: property}, nil
}

// countsOf returns the counts that answer a question in each period of a report.
func countsOf(report *generated.Report, asked scan.Numbers) (counts []*scan.NumberCount) {
	n := slices.Index(report.Answer.Request.Periods[0].Numbers, asked)
	for _, result := range report.Answer.Results {
		counts = append(counts, result.Numbers[n])
	}
	return counts
}

func (r *reportNumbersResolver) Series(
	_ context.Context, obj *generated.ReportNumbers, _ *period.Interval,
) ([]*generated.ReportNumberPoint, error) {
	asked := scan.Numbers{Event: obj.Event, Property: obj.Property, Groups: scan.NumberPoints}
	asked.Least = obj.Report.Question.LeastOfNumbers(&asked)
	counts := countsOf(obj.Report, asked)
	request := &obj.Report.Answer.Request
	points := make([]*generated.ReportNumberPoint, len(request.Periods[0].Points)-1)
	for i := range points {
		start, end := request.Periods[0].Points[i], request.Periods[0].Points[i+1]
		points[i] = &generated.ReportNumberPoint{
			Start: model.At(start), Partial: request.Now.Time().Before(end), Figures: figures.Numbers(counts, i),
		}
		if len(request.Periods) > 1 {
			compared := model.At(request.Periods[1].Points[i])
			points[i].ComparedStart = &compared
		}
	}
	return points, nil
}

func (r *reportNumbersResolver) Breakdown(
	ctx context.Context, obj *generated.ReportNumbers, by model.ReportDimension, orderBy generated.NumberOrder,
	search *string, first int, after *string,
) (*generated.ReportNumberRowConnection, error) {
	skip, err := r.skipOf(first, after)
	if err != nil {
		return nil, err
	}
	dimension, err := numberDimension(by)
	if err != nil {
		return nil, err
	}

	asked := scan.Numbers{Event: obj.Event, Property: obj.Property, Groups: scan.NumberRows, By: dimension}
	asked.Least = obj.Report.Question.LeastOfNumbers(&asked)
	counts := countsOf(obj.Report, asked)
	rows := counts[0]
	from := int(min(skip, int64(len(rows.Values))))
	if err := chargeRows(ctx, len(rows.Values), rows.Bytes(), orBlank(search)); err != nil {
		return nil, err
	}
	places, count, err := figures.OrderedNumbers(ctx, rows, figures.NumberOrder{
		NumberOrder: orderBy, Search: orBlank(search), Skip: from, Take: first,
	})
	if err != nil {
		return nil, err
	}

	edges, nodes := make([]*generated.ReportNumberRowEdge, len(places)), make([]*generated.ReportNumberRow, len(places))
	for i, place := range places {
		if err := requestOf(ctx).takeRow(rowBytes(rows.Values[place], nil)); err != nil {
			return nil, err
		}
		nodes[i] = &generated.ReportNumberRow{Value: rows.Values[place], Figures: figures.Numbers(counts, place)}
		edges[i] = &generated.ReportNumberRowEdge{Cursor: r.ids.Of(nodeid.AfterReportRow, int64(from+i+1)), Node: nodes[i]}
	}

	page := &generated.PageInfo{HasNextPage: from+len(places) < count, HasPreviousPage: after != nil}
	if len(edges) > 0 {
		page.StartCursor, page.EndCursor = &edges[0].Cursor, &edges[len(edges)-1].Cursor
	}
	return &generated.ReportNumberRowConnection{
		Edges: edges, Nodes: nodes, PageInfo: page, TotalCount: count, HasOther: rows.Other,
	}, nil
}
