package mcp

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/vektah/gqlparser/v2/ast"
)

// revenue is the selection of the metric revenue.
const revenue = "revenue { currency net gross refunded purchases refunds averageOrder }"

// defaultMetrics are the metrics of a report that names none.
var defaultMetrics = []string{
	"visitors", "visits", "pageviews", "viewsPerVisit", "bounceRate", "engagementTime", "events", "conversions", "conversionRate",
}

// maxRows is how many rows a tool returns at most.
const maxRows = 100

// reportArguments are the arguments of all tools with a report. Each tool has some of them.
type reportArguments struct {
	Site, Period, From, To string

	Filters        []map[string]any
	Compare        string
	CompareFrom    string
	MatchDayOfWeek *bool

	Metrics  []string
	Interval string

	By, Property, Event, OrderBy, Direction, Search, After string
	First                                                  int

	Steps     []map[string]any
	Page      string
	Following int
	Width     int
}

// report returns the head of Report in a document: its arguments, and the fields that all reports have.
func (a *reportArguments) report(c *composer, defaultPeriod string) (string, error) {
	period, err := a.period(defaultPeriod)
	if err != nil {
		return "", err
	}
	list := []argument{{"period", "ReportPeriod", period}}
	if len(a.Filters) > 0 {
		list = append(list, argument{"filters", "[ReportFilterInput!]!", a.Filters})
	}

	comparison, err := a.comparison()
	if err != nil {
		return "", err
	}
	if comparison != nil {
		list = append(list, argument{"compare", "ReportComparison", comparison})
	}
	return "report" + c.arguments(list...), nil
}

// period returns the period, which is a preset or has two days.
func (a *reportArguments) period(preset string) (map[string]any, error) {
	switch {
	case a.From == "" && a.To == "":
		if a.Period != "" {
			preset = a.Period
		}
		return map[string]any{"preset": preset}, nil
	case a.Period != "":
		return nil, invalid("Give either period, or from and to.")
	case a.From == "" || a.To == "":
		return nil, invalid("from and to belong together.")
	}

	if err := checkDay("from", a.From); err != nil {
		return nil, err
	}
	if err := checkDay("to", a.To); err != nil {
		return nil, err
	}
	return map[string]any{"from": a.From, "to": a.To}, nil
}

// comparison returns the second period, or nil.
func (a *reportArguments) comparison() (map[string]any, error) {
	var compare map[string]any
	switch {
	case a.Compare != "" && a.CompareFrom != "":
		return nil, invalid("Give either compare or compareFrom.")
	case a.Compare != "":
		compare = map[string]any{"kind": a.Compare}
	case a.CompareFrom != "":
		if err := checkDay("compareFrom", a.CompareFrom); err != nil {
			return nil, err
		}
		compare = map[string]any{"from": a.CompareFrom}
	case a.MatchDayOfWeek != nil:
		return nil, invalid("matchDayOfWeek needs compare or compareFrom.")
	default:
		return nil, nil
	}

	if a.MatchDayOfWeek != nil {
		compare["matchDayOfWeek"] = *a.MatchDayOfWeek
	}
	return compare, nil
}

func checkDay(argument, day string) error {
	if _, err := time.Parse(time.DateOnly, day); err != nil {
		return invalid("%s: %q is no day. A day has the form 2026-11-20.", argument, day)
	}
	return nil
}

// compares reports whether the report has a second period.
func (a *reportArguments) compares() bool { return a.Compare != "" || a.CompareFrom != "" }

// metrics returns the selection of the metrics, with those of the second period.
func (a *reportArguments) metrics() string {
	names := a.Metrics
	if len(names) == 0 {
		names = defaultMetrics
	}

	var fields []string
	for _, name := range names {
		if name == "revenue" {
			name = revenue
		}
		if !slices.Contains(fields, name) {
			fields = append(fields, name)
		}
	}

	selection := strings.Join(fields, " ")
	if a.compares() {
		selection += " comparison { " + selection + " }"
	}
	return selection
}

// period and comparison of a report, and what is counted how.
const reportHead = "from to comparedFrom comparedTo timeZone asOf imported"

// rows returns the selection of the rows of a dimension, or "".
func (a *reportArguments) rows(c *composer) (string, error) {
	if a.By == "" {
		if a.Property != "" || a.Event != "" || a.OrderBy != "" || a.Direction != "" || a.Search != "" || a.After != "" || a.First != 0 {
			return "", invalid("property, event, orderBy, direction, search, first and after need the argument by.")
		}
		return "", nil
	}

	order := map[string]any{"metric": "VISITORS"}
	if a.OrderBy != "" {
		order["metric"] = a.OrderBy
	}
	if a.Direction != "" {
		order["direction"] = a.Direction
	}
	first := a.First
	if first == 0 {
		first = 10
	}

	field := "breakdown" + c.arguments(
		argument{"by", "ReportDimension!", a.By}, argument{"property", "String", a.Property}, argument{"event", "String", a.Event},
		argument{"orderBy", "ReportOrder!", order}, argument{"search", "String", a.Search}, argument{"first", "Int!", first},
		argument{"after", "String", a.After},
	)
	return block(field, fmt.Sprintf("totalCount hasOther imported\nnodes { value onlyImported metrics { %s } }\n"+
		"pageInfo { hasNextPage endCursor }", a.metrics())), nil
}

// figures returns the document of totals, with a series and rows if they are asked for.
func figures(operation, series string) func(a reportArguments, reader bool) (*document, error) {
	return func(a reportArguments, reader bool) (*document, error) {
		if operation == "query Compare" && !a.compares() {
			a.Compare = "PREVIOUS_PERIOD"
		}

		var c composer
		head, err := a.report(&c, "LAST_28_DAYS")
		if err != nil {
			return nil, err
		}
		rows, err := a.rows(&c)
		if err != nil {
			return nil, err
		}

		selection := reportHead + "\ntotals { " + a.metrics() + " }"
		if a.Interval != "" {
			compared := ""
			if a.compares() {
				compared = " comparedStart"
			}
			selection += fmt.Sprintf("\n"+series+c.arguments(argument{"interval", "ReportInterval", a.Interval})+
				" { start%s partial metrics { %s } }", compared, a.metrics())
		}
		if rows != "" {
			selection += "\n" + rows
		}
		return c.siteDocument(operation, a.Site, reader, block(head, selection))
	}
}

// funnel returns the document of a funnel.
func funnel(a reportArguments, reader bool) (*document, error) {
	var c composer
	head, err := a.report(&c, "LAST_28_DAYS")
	if err != nil {
		return nil, err
	}
	compared := ""
	if a.compares() {
		compared = " comparedVisitors"
	}
	selection := reportHead + "\n" + block("funnel"+c.arguments(argument{"steps", "[FunnelStepInput!]!", a.Steps}),
		"visitors conversionRate\nsteps { step { page event label } visitors fromPrevious"+compared+" }")
	return c.siteDocument("query Funnel", a.Site, reader, block(head, selection))
}

// journey returns the document of a journey.
func journey(a reportArguments, reader bool) (*document, error) {
	start := map[string]any{}
	if a.Page != "" {
		start["page"] = a.Page
	}
	if a.Event != "" {
		start["event"] = a.Event
	}
	if len(start) != 1 {
		return nil, invalid("Give either page or event.")
	}

	var c composer
	head, err := a.report(&c, "LAST_28_DAYS")
	if err != nil {
		return nil, err
	}
	direction, following := "NEXT", 2
	if a.Direction != "" {
		direction = a.Direction
	}
	if a.Following != 0 {
		following = a.Following
	}

	next := "next { kind page visits share }"
	for range following - 1 {
		next = "next { kind page visits share " + next + " }"
	}
	field := "journey" + c.arguments(
		argument{"from", "JourneyStartInput!", start}, argument{"direction", "JourneyDirection!", direction},
		argument{"steps", "Int!", following}, argument{"first", "Int!", a.Width},
	)
	return c.siteDocument("query Journey", a.Site, reader, block(head, reportHead+"\n"+block(field, "visits\n"+next)))
}

// cohorts returns the document of the cohorts of a period.
func cohorts(a reportArguments, reader bool) (*document, error) {
	var c composer
	head, err := a.report(&c, "LAST_91_DAYS")
	if err != nil {
		return nil, err
	}
	return c.siteDocument("query Cohorts", a.Site, reader,
		block(head, reportHead+"\ncohorts { weeks { start users returned { week users rate partial } } }"))
}

// live returns the document of the visitors on the site now.
func live(a reportArguments, reader bool) (*document, error) {
	var c composer
	return c.siteDocument("query Live", a.Site, reader, `live {
  at visitors pageviews
  pages { value visitors }
  sourceNames { value visitors }
  latest { at event path channel }
}`)
}

// The arguments of reports.

// values returns the values of an enumeration of the schema.
func values(schema *ast.Schema, enum string) (list []any) {
	for _, value := range schema.Types[enum].EnumValues {
		list = append(list, value.Name)
	}
	return list
}

// metricNames returns the names of all figures of a report.
func metricNames(schema *ast.Schema) (list []any) {
	for _, field := range schema.Types["ReportMetrics"].Fields {
		if field.Name != "comparison" {
			list = append(list, field.Name)
		}
	}
	return list
}

// object returns the schema of an object without other properties.
func object() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "object", Properties: make(map[string]*jsonschema.Schema), AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
}

func text(description string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Description: description}
}

func oneOf(list []any, description string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Enum: list, Description: description}
}

func whole(least, most float64, description string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "integer", Minimum: &least, Maximum: &most, Description: description}
}

func list(most int, items *jsonschema.Schema, description string) *jsonschema.Schema {
	least := 1
	return &jsonschema.Schema{Type: "array", Items: items, MinItems: &least, MaxItems: &most, Description: description}
}

func day(description string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Format: "date", Description: description + " For example 2026-11-20."}
}

// siteArgument is the argument of all tools about one site.
func siteArgument() map[string]*jsonschema.Schema {
	return map[string]*jsonschema.Schema{
		"site": text("The domain or id of the site. Required with an API token, and ignored with a shared link."),
	}
}

// periodArguments are the period and the filters of a report.
func periodArguments(schema *ast.Schema, preset string) map[string]*jsonschema.Schema {
	filter := object()
	filter.Properties = map[string]*jsonschema.Schema{
		"dimension": oneOf(values(schema, "ReportDimension"), "What the filter compares."),
		"operator":  oneOf(values(schema, "ReportOperator"), "Default: IS. In MATCHES, * is any text without a slash and ** any text."),
		"values":    list(50, &jsonschema.Schema{Type: "string"}, "One of them must match. An empty text stands for visits without a value."),
		"property":  text("The name of the property, for PROPERTY alone."),
		"event":     text("For PROPERTY: only events of this name."),
	}
	filter.Required = []string{"dimension", "values"}

	return map[string]*jsonschema.Schema{
		"period":  oneOf(values(schema, "ReportPreset"), "Days of the site's time zone. Default: "+preset+", unless from and to are given."),
		"from":    day("The first day."),
		"to":      day("The last day."),
		"filters": list(10, filter, "Visits that each of these filters keeps. Default: all visits."),
	}
}

// comparisonArguments are the second period of a report.
func comparisonArguments(schema *ast.Schema, preset string) map[string]*jsonschema.Schema {
	return map[string]*jsonschema.Schema{
		"compare":     oneOf(values(schema, "ReportComparisonKind"), "The second period. Default: "+preset+"."),
		"compareFrom": day("The first day of a second period of the same length, instead of compare."),
		"matchDayOfWeek": {Type: "boolean", Description: "Whether the second period begins on the same day of the week. A day is " +
			"compared with the same weekday a week before. Default: true."},
	}
}

// metricArgument is the choice of metrics.
func metricArgument(schema *ast.Schema) map[string]*jsonschema.Schema {
	return map[string]*jsonschema.Schema{
		"metrics": list(20, &jsonschema.Schema{Type: "string", Enum: metricNames(schema)}, "Default: "+strings.Join(defaultMetrics, ", ")+"."),
	}
}

// rowArguments are the rows of a dimension.
func rowArguments(schema *ast.Schema) map[string]*jsonschema.Schema {
	return map[string]*jsonschema.Schema{
		"by":        oneOf(values(schema, "ReportDimension"), "The dimension with a row for each value."),
		"property":  text("The name of the property, for PROPERTY alone."),
		"event":     text("For PROPERTY: only events of this name."),
		"orderBy":   oneOf(values(schema, "ReportMetric"), "Default: VISITORS."),
		"direction": oneOf(values(schema, "OrderDirection"), "Default: DESC, the largest first."),
		"search":    text("Only values that contain this text."),
		"first":     whole(1, maxRows, "Number of rows. Default: 10."),
		"after":     text("The endCursor of the previous rows."),
	}
}
