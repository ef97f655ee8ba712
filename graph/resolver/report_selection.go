package resolver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/period"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/graph/generated"
)

// selected is what a request selects of a report.
type selected struct {
	series      bool
	interval    period.Interval // "": the default
	breakdowns  []scan.Breakdown
	funnels     [][]model.FunnelStep
	funnelKeys  []string
	journeys    []scan.Journey
	journeyKeys []string
	cohorts     bool
	properties  *scan.PropertyNames
	numbers     []scan.Numbers
	revenue     bool // changes of revenue
	hours       bool // for their circumstances
}

// selectedOf reads the fields that the request selects of the report that is being resolved, under
// all of their aliases.
func selectedOf(ctx context.Context) (*selected, error) {
	s := &selected{}
	variables := graphql.GetOperationContext(ctx).Variables

	for _, field := range graphql.CollectFieldsCtx(ctx, []string{"Report"}) {
		args := field.ArgumentMap(variables)
		var err error
		switch field.Name {
		case "series":
			err = s.addSeries(args)
		case "breakdown":
			err = s.addBreakdown(args, field.Selections)
		case "funnel":
			err = s.addFunnel(args)
		case "journey":
			err = s.addJourney(args)
		case "cohorts":
			s.cohorts = true
		case "propertyNames":
			err = s.addProperties(args)
		case "changes":
			s.addChanges(ctx, args, field.Selections)
		case "numbers":
			err = s.addNumbers(ctx, args, field.Selections)
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// text returns an argument that is a text or an enum value; "" for null.
func text(args map[string]any, name string) string {
	value, _ := args[name].(string)
	return value
}

func (s *selected) addSeries(args map[string]any) error {
	interval := period.Interval(text(args, "interval"))
	if s.series && interval != s.interval {
		return invalidArgument("interval", "A report has series of one interval. Ask for other ones in a second report.")
	}
	s.series, s.interval = true, interval
	return nil
}

func (s *selected) addBreakdown(args map[string]any, selections ast.SelectionSet) error {
	b, err := breakdownOf(model.ReportDimension(text(args, "by")), text(args, "property"), text(args, "event"))
	if err != nil {
		return err
	}

	order, _ := args["orderBy"].(map[string]any)
	metric := cmp.Or(text(order, "metric"), string(generated.ReportMetricVisitors))
	b.VisitorsOnly = metric == string(generated.ReportMetricVisitors) && selectsVisitorsOnly(selections)

	s.addRows(b)
	return nil
}

// addRows adds a breakdown, unless it was asked for with as many figures.
func (s *selected) addRows(b scan.Breakdown) {
	n := slices.IndexFunc(s.breakdowns, b.Same)
	if n < 0 {
		s.breakdowns = append(s.breakdowns, b)
		return
	}
	s.breakdowns[n].VisitorsOnly = s.breakdowns[n].VisitorsOnly && b.VisitorsOnly
}

// selectsVisitorsOnly reports whether the metrics of a selection are visitors and their share.
func selectsVisitorsOnly(selections ast.SelectionSet) bool {
	for _, selection := range selections {
		var below ast.SelectionSet
		switch s := selection.(type) {
		case *ast.Field:
			isMetric := s.ObjectDefinition != nil && s.ObjectDefinition.Name == "ReportMetrics"
			if isMetric && !slices.Contains([]string{"visitors", "share", "comparison", "__typename"}, s.Name) {
				return false
			}
			below = s.SelectionSet
		case *ast.InlineFragment:
			below = s.SelectionSet
		case *ast.FragmentSpread:
			below = s.Definition.SelectionSet
		}

		if !selectsVisitorsOnly(below) {
			return false
		}
	}
	return true
}

const notAnEventName = "The event is not a name of 1 to 48 lower-case letters, digits, underscores and hyphens."

// breakdownOf checks and converts the arguments of a breakdown.
func breakdownOf(by model.ReportDimension, property, event string) (scan.Breakdown, error) {
	switch {
	case by == model.DimensionProperty && property == "":
		return scan.Breakdown{}, invalidArgument("property", "A breakdown by PROPERTY needs the name of the property.")
	case by != model.DimensionProperty && (property != "" || event != ""):
		return scan.Breakdown{}, invalidArgument("property", "Only a breakdown by PROPERTY takes property and event.")
	case !model.IsReportText(property):
		return scan.Breakdown{}, invalidArgument("property",
			fmt.Sprintf("The name of a property has at most %d characters and no NUL.", model.MaxFilterText))
	case event != "" && !model.IsEventName(event):
		return scan.Breakdown{}, invalidArgument("event", notAnEventName)
	}

	dimension, ok := reports.Dimensions[by]
	if !ok {
		return scan.Breakdown{}, invalidArgument("by", "There is no such dimension.")
	}
	return scan.Breakdown{By: dimension, Property: property, Event: event}, nil
}

func (s *selected) addProperties(args map[string]any) error {
	names := scan.PropertyNames{Event: text(args, "event")}
	if names.Event != "" && !model.IsEventName(names.Event) {
		return invalidArgument("event", notAnEventName)
	}
	if s.properties != nil && *s.properties != names {
		return invalidArgument("event", "A report has the properties of one event. Ask for other ones in a second report.")
	}
	s.properties = &names
	return nil
}

func (s *selected) addFunnel(args map[string]any) error {
	steps, err := stepsOf(args["steps"])
	if err != nil {
		return err
	}
	key, err := funnelKey(steps)
	if err != nil || slices.Contains(s.funnelKeys, key) {
		return err
	}

	s.funnels, s.funnelKeys = append(s.funnels, steps), append(s.funnelKeys, key)
	return nil
}

// steps returns the steps of all funnels, and the starts of all journeys.
func (s *selected) steps() []model.FunnelStep {
	steps := slices.Concat(s.funnels...)
	for i := range s.journeys {
		from := &s.journeys[i].From
		steps = append(steps, model.FunnelStep{Page: from.Page, Event: from.Event})
	}
	return steps
}

// scanFunnels converts funnels that have been checked together.
func scanFunnels(funnels [][]model.FunnelStep) []scan.Funnel {
	list := make([]scan.Funnel, len(funnels))
	for n, steps := range funnels {
		list[n].Steps = make([]scan.Step, len(steps))
		for i, step := range steps {
			list[n].Steps[i] = scan.Step{Page: step.Page, Event: step.Event}
		}
	}
	return list
}

// stepsOf converts and checks the steps of a funnel, as they are before gqlgen reads them.
func stepsOf(value any) ([]model.FunnelStep, error) {
	if one, ok := value.(map[string]any); ok {
		// GraphQL permits one item in place of a list.
		value = []any{one}
	}

	encoded, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var inputs []*generated.FunnelStepInput
	if err := json.Unmarshal(encoded, &inputs); err != nil {
		return nil, err
	}
	return checkedSteps(inputs)
}

// checkedSteps converts and checks the steps of a funnel.
func checkedSteps(inputs []*generated.FunnelStepInput) ([]model.FunnelStep, error) {
	steps := funnelSteps(inputs)
	if err := model.CheckFunnelSteps("steps", steps); err != nil {
		return nil, invalidArgument("steps", firstMessage(err))
	}
	return steps, nil
}

// funnelKey identifies a funnel among those of a request.
func funnelKey(steps []model.FunnelStep) (string, error) {
	key, err := json.Marshal(steps)
	return string(key), err
}
