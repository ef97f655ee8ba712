package resolver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/changes"
	"github.com/tallygate/tallygate/db/reports/question"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/graph/figures"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
)

// Why a figure of a report differs from the period compared with: its division by values. The rest
// is in circumstances.go.

// addChanges adds the breakdowns that a field divides the difference by, and hours.
func (s *selected) addChanges(ctx context.Context, args map[string]any, selections ast.SelectionSet) {
	metric := changes.Metric(cmp.Or(text(args, "metric"), string(changes.Visits)))
	s.revenue = s.revenue || metric == changes.Revenue

	for _, field := range graphql.CollectFields(graphql.GetOperationContext(ctx), selections, []string{"ReportChanges"}) {
		switch field.Name {
		case "circumstances":
			s.hours = true
		case "dimensions", "chain":
			for _, b := range breakdownsOf(metric) {
				s.addRows(b)
			}
		}
	}
}

// breakdownsOf returns the breakdowns by which a metric is divided.
func breakdownsOf(metric changes.Metric) (list []scan.Breakdown) {
	for _, by := range metric.Dimensions() {
		list = append(list, scan.Breakdown{By: reports.Dimensions[by]})
	}
	return list
}

func (r *reportResolver) Changes(
	_ context.Context, obj *generated.Report, metric changes.Metric, currency *string, first int,
) (*generated.ReportChanges, error) {
	if first < 1 || first > limits.MaxPage {
		return nil, invalidArgument("first", fmt.Sprintf("The argument first must be from 1 to %d.", limits.MaxPage))
	}
	if len(obj.Answer.Results) < 2 {
		return nil, nil
	}

	counts := totalsOf(obj.Answer, metric, "")
	if metric == changes.Revenue {
		counts.Currency = orBlank(currency)
		if counts.Currency == "" {
			counts.Currency = changes.Currency(counts.Before, counts.After)
		}
	}
	return &generated.ReportChanges{
		Whole: changeOf(counts, counts.Whole().Figure), Currency: notZero(counts.Currency), Counts: counts, Report: obj, First: first,
	}, nil
}

// totalsOf returns the counts of an answer without tables.
func totalsOf(answer *reports.Answer, metric changes.Metric, currency string) *changes.Counts {
	after, before := answer.Results[0], answer.Results[1]
	return &changes.Counts{Metric: metric, Currency: currency, Before: &before.Totals, After: &after.Totals}
}

// dividedOf returns the counts of an answer with the tables that its reader may see. It charges the
// request for their rows.
func dividedOf(
	ctx context.Context, q *question.Question, answer *reports.Answer, metric changes.Metric, currency string,
) (*changes.Counts, error) {
	counts := totalsOf(answer, metric, currency)
	rows := 0
	for _, by := range metric.Dimensions() {
		b := scan.Breakdown{By: reports.Dimensions[by]}
		n := slices.IndexFunc(answer.Request.Periods[0].Breakdowns, b.Same)
		after, before := answer.Results[0].Breakdowns[n], answer.Results[1].Breakdowns[n]
		rows += after.Len() + before.Len()
		counts.Tables = append(counts.Tables, changes.TableOf(by, before, after, q.LeastOf(by)))
	}
	return counts, chargeRows(ctx, rows, 0, "")
}

// changeOf converts a figure in both periods.
func changeOf(counts *changes.Counts, figure changes.Count, names ...changes.Value) *generated.ReportChange {
	decimal := func(n int64) model.Money {
		if counts.Metric != changes.Revenue {
			n *= model.MoneyScale
		}
		return model.Money(n)
	}
	change := &generated.ReportChange{
		Names: []*generated.ReportChangeName{}, Before: decimal(figure.Before), After: decimal(figure.After),
		Difference: decimal(figure.Difference()), Share: figures.Ratio(figure.Difference(), counts.Whole().Figure.Difference(), 100),
	}
	for _, v := range names {
		change.Names = append(change.Names, &generated.ReportChangeName{By: v.By, Value: v.Value})
	}
	return change
}

// named converts a value, which may have several names, and counts its bytes in the response.
func named(ctx context.Context, counts *changes.Counts, v changes.Value, names ...changes.Value) (*generated.ReportChange, error) {
	all := append([]changes.Value{v}, names...)
	for i := range all {
		if err := requestOf(ctx).takeRow(rowBytes(all[i].Value, nil)); err != nil {
			return nil, err
		}
	}
	return changeOf(counts, v.Figure, all...), nil
}

func (r *reportChangesResolver) Dimensions(
	ctx context.Context, obj *generated.ReportChanges,
) ([]*generated.ReportDimensionChanges, error) {
	counts, err := dividedOf(ctx, obj.Report.Question, obj.Report.Answer, obj.Counts.Metric, obj.Counts.Currency)
	if err != nil {
		return nil, err
	}

	list := make([]*generated.ReportDimensionChanges, len(counts.Tables))
	for i := range counts.Tables {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		parts, rest := counts.Parts(&counts.Tables[i], obj.First)
		list[i] = &generated.ReportDimensionChanges{
			By: counts.Tables[i].By, Values: make([]*generated.ReportChange, len(parts)), Rest: changeOf(counts, rest),
		}
		for n, part := range parts {
			if list[i].Values[n], err = named(ctx, counts, part); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// Chain leaves out what is among a group too small to be shown.
func (r *reportChangesResolver) Chain(ctx context.Context, obj *generated.ReportChanges) ([]*generated.ReportChange, error) {
	q, metric, currency := obj.Report.Question, obj.Counts.Metric, obj.Counts.Currency
	counts, err := dividedOf(ctx, q, obj.Report.Answer, metric, currency)
	if err != nil {
		return nil, err
	}

	links, err := counts.Chain(func(cause changes.Value) (*changes.Counts, error) {
		among, err := r.countAmong(ctx, q.Among(cause.By, cause.Value, breakdownsOf(metric)), metric, currency)
		if e, isKnown := errors.AsType[*model.Error](err); isKnown && e.Code == "group_too_small" {
			return nil, nil
		}
		return among, err
	})
	if err != nil {
		return nil, err
	}

	chain := make([]*generated.ReportChange, len(links))
	for i, link := range links {
		if chain[i], err = named(ctx, link.Counts, link.Value, link.Names...); err != nil {
			return nil, err
		}
	}
	return chain, nil
}

// countAmong counts a question of visits with a value. Small groups are refused as in a report with
// this filter.
func (r *Resolver) countAmong(
	ctx context.Context, q *question.Question, metric changes.Metric, currency string,
) (*changes.Counts, error) {
	request, err := q.Request()
	if err != nil {
		return nil, err
	}
	answer, err := r.answer(ctx, q, request)
	if err != nil {
		return nil, err
	}
	if err := q.CheckTotals(answer); err != nil {
		return nil, err
	}
	return dividedOf(ctx, q, answer, metric, currency)
}
