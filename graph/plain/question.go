package plain

import (
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/inprocess"
)

// periods are the presets of GraphQL by their names in the addresses of the console.
var periods = map[string]string{
	"today": "TODAY", "yesterday": "YESTERDAY", "7d": "LAST_7_DAYS", "28d": "LAST_28_DAYS", "30d": "LAST_30_DAYS",
	"91d": "LAST_91_DAYS", "month": "MONTH_TO_DATE", "last-month": "LAST_MONTH", "year": "YEAR_TO_DATE",
	"12m": "LAST_12_MONTHS", "all": "ALL_TIME",
}

// parameters are the parameters of an address, in the order in which an error lists them.
var parameters = []string{
	"period", "from", "to", "compare", "dates", "f", "interval", "by", "property", "event", "search", "order", "first", "metric",
}

// maxFilters and maxRows are GraphQL's limits.
const (
	maxFilters = 10
	maxRows    = 1000
)

// question is what an address asks for.
type question struct {
	variables map[string]any
	compared  bool
	series    bool   // in parts of interval
	by        string // dimension of the rows; "": none
	period    string // name, or the first and the last day, for labels
	metric    string // of a badge
}

// parse reads a query string. Its names are those in the addresses of the console.
func parse(query, ending string) (*question, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, wrong("The query string is not encoded correctly.")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(parameters, name) {
			// The name could be a token: it is not repeated.
			return nil, wrong("There is an unknown parameter. These exist: %s. A token belongs into the header Authorization.",
				strings.Join(parameters, ", "))
		}
		if name != "f" && len(values[name]) > 1 {
			return nil, wrong("The parameter %s is given twice.", name)
		}
	}

	q := &question{variables: make(map[string]any), metric: "visitors"}
	for _, read := range []func(url.Values) error{q.readPeriod, q.readComparison, q.readFilters, q.readRows, q.readMetric} {
		if err := read(values); err != nil {
			return nil, err
		}
	}

	if ending == "csv" && q.series && q.by != "" {
		return nil, wrong("A CSV file has one table: ask for interval or by.")
	}
	if (ending == "svg" || ending == "prom") && q.series || ending == "svg" && q.by != "" {
		return nil, wrong("A .%s file has no series, and a badge has no rows.", ending)
	}
	return q, nil
}

// readPeriod reads the days. Without any, it is the 28 days before today.
func (q *question) readPeriod(values url.Values) error {
	from, to, name := values.Get("from"), values.Get("to"), values.Get("period")
	if from != "" || to != "" {
		if name != "" {
			return wrong("Give either period, or from and to.")
		}
		if !isDay(from) || !isDay(to) {
			return wrong("The parameters from and to are days such as 2026-11-01, and go together.")
		}
		q.period = from + "/" + to
		q.variables["period"] = map[string]any{"from": from, "to": to}
		return nil
	}

	if name == "" {
		name = "28d"
	}
	preset, ok := periods[name]
	if !ok {
		return oneOf("period", slices.Sorted(maps.Keys(periods)))
	}
	q.period = name
	q.variables["period"] = map[string]any{"preset": preset}
	return nil
}

// readComparison reads the period to compare with: previous, year, or its first day.
func (q *question) readComparison(values url.Values) error {
	name := values.Get("compare")
	if name == "" {
		return nil
	}

	comparison := map[string]any{"matchDayOfWeek": !values.Has("dates")}
	switch {
	case name == "previous":
		comparison["kind"] = "PREVIOUS_PERIOD"
	case name == "year":
		comparison["kind"] = "PREVIOUS_YEAR"
	case isDay(name):
		comparison["from"] = name
	default:
		return oneOf("compare", []string{"previous", "year", "a day such as 2026-10-01"})
	}
	q.compared = true
	q.variables["compare"] = comparison
	return nil
}

// readFilters reads the filters of the visits, such as page:is:/a,/b.
func (q *question) readFilters(values url.Values) error {
	filters := []map[string]any{}
	for _, text := range values["f"] {
		filter, ok := filterOf(text)
		if !ok {
			return wrong("A filter f has the form dimension:operator:value, as in the addresses of the console, such as page:is:/pricing.")
		}
		filters = append(filters, filter)
	}
	if len(filters) > maxFilters {
		return wrong("There are more than %d filters.", maxFilters)
	}
	q.variables["filters"] = filters
	return nil
}

// readRows reads the parts of the period, and the rows of a dimension.
func (q *question) readRows(values url.Values) error {
	if name := values.Get("interval"); name != "" {
		interval, ok := enumValue("ReportInterval", name)
		if !ok {
			return oneOf("interval", enumValues("ReportInterval"))
		}
		q.series, q.variables["interval"] = true, interval
	}

	q.by = values.Get("by")
	if q.by == "" {
		for _, name := range []string{"property", "event", "search", "order", "first"} {
			if values.Has(name) {
				return wrong("The parameter %s needs the parameter by.", name)
			}
		}
		return nil
	}

	dimension, ok := enumValue("ReportDimension", q.by)
	if !ok {
		return oneOf("by", enumValues("ReportDimension"))
	}
	q.variables["by"] = dimension
	for _, name := range []string{"property", "event", "search"} {
		if value := values.Get(name); value != "" {
			q.variables[name] = value
		}
	}
	return q.readOrder(values)
}

// readOrder reads the order of the rows, such as pageviews or pageviews.asc, and their number.
func (q *question) readOrder(values url.Values) error {
	name, direction, _ := strings.Cut(values.Get("order"), ".")
	if name == "" {
		name = "visitors"
	}
	metric, ok := enumValue("ReportMetric", capitals.ReplaceAllString(name, "_$0"))
	if !ok || direction != "" && direction != "asc" && direction != "desc" {
		return oneOf("order", metricNames)
	}
	order := map[string]any{"metric": metric}
	if direction != "" {
		order["direction"] = strings.ToUpper(direction)
	}
	q.variables["orderBy"] = order

	first := 10
	if text := values.Get("first"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxRows {
			return wrong("The parameter first is a number from 1 to %d.", maxRows)
		}
		first = n
	}
	q.variables["first"] = first
	return nil
}

// readMetric reads the figure of a badge.
func (q *question) readMetric(values url.Values) error {
	if name := values.Get("metric"); name != "" {
		if !slices.Contains(metricNames, name) {
			return oneOf("metric", metricNames)
		}
		q.metric = name
	}
	return nil
}

// wrong is the error of a wrong address, as callers read it.
func wrong(text string, args ...any) error { return invalid(text, args...) }

// oneOf is the error of a parameter with other values.
func oneOf(name string, values []string) error {
	return wrong("The parameter %s is one of: %s.", name, strings.Join(values, ", "))
}

// schema is GraphQL's schema, which knows the values of enums.
var schema = sync.OnceValue(func() *ast.Schema { return generated.NewExecutableSchema(generated.Config{}).Schema() })

// capitals are the letters of a figure's name before which its enum value has an underscore.
var capitals = regexp.MustCompile("[A-Z]")

// enumValue returns the value of an enum by its name in addresses, which has small letters.
func enumValue(enum, name string) (value string, ok bool) {
	value = strings.ToUpper(name)
	return value, schema().Types[enum].EnumValues.ForName(value) != nil
}

// enumValues returns the values of an enum as they are in addresses.
func enumValues(enum string) (names []string) {
	for _, value := range schema().Types[enum].EnumValues {
		names = append(names, strings.ToLower(value.Name))
	}
	return names
}

func isDay(text string) bool {
	_, err := time.Parse(time.DateOnly, text)
	return err == nil
}

// filterOf reads a filter: "page:is:/a,/b", "property:plan:signup:is:pro". Signs in values are
// escaped by a backslash.
func filterOf(text string) (map[string]any, bool) {
	parts := split(text, ':')
	dimension, ok := enumValue("ReportDimension", parts[0])
	parts = parts[1:]
	filter := map[string]any{"dimension": dimension}
	if dimension == "PROPERTY" {
		if len(parts) < 2 || parts[0] == "" {
			return nil, false
		}
		filter["property"] = plain(parts[0])
		if parts[1] != "" {
			filter["event"] = plain(parts[1])
		}
		parts = parts[2:]
	}
	if !ok || len(parts) != 2 {
		return nil, false
	}

	operator, ok := enumValue("ReportOperator", parts[0])
	var values []string
	for _, value := range split(parts[1], ',') {
		values = append(values, plain(value))
	}
	filter["operator"], filter["values"] = operator, values
	return filter, ok
}

// split separates a text at a sign that no backslash precedes.
func split(text string, sign byte) (parts []string) {
	begin := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case sign:
			parts = append(parts, text[begin:i])
			begin = i + 1
		}
	}
	return append(parts, text[begin:])
}

// plain returns a text without the backslashes that escape signs.
func plain(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			i++
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// ask sends the question to GraphQL.
func (q *question) ask(call *inprocess.Call, site string) (*answer, error) {
	query, variables := q.query(site, call.Reads())
	response := call.Run(call.HTTP.Context(), query, variables)
	if err := response.Err(); err != nil {
		return nil, err
	}

	var data map[string]*siteFigures
	if err := response.Decode(&data); err != nil {
		return nil, err
	}
	for _, found := range data {
		if found != nil {
			return newAnswer(q, found, call.Reads()), nil
		}
	}
	return nil, errNoSite
}

// types are the variables of the query with their types.
var types = map[string]string{
	"period": "ReportPeriod!", "compare": "ReportComparison", "filters": "[ReportFilterInput!]!", "interval": "ReportInterval",
	"by": "ReportDimension!", "property": "String", "event": "String", "search": "String", "orderBy": "ReportOrder!", "first": "Int!",
}

// query returns the GraphQL query of the question with its variables.
func (q *question) query(site string, isLink bool) (string, map[string]any) {
	variables := maps.Clone(q.variables)
	var declared []string
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		declared = append(declared, "$"+name+": "+types[name])
	}

	root := "sharedSite"
	if !isLink {
		argument, typ := "id", "ID!"
		if strings.Contains(site, ".") {
			argument, typ = "domain", "String!"
		}
		root = "site(" + argument + ": $site)"
		declared = append(declared, "$site: "+typ)
		variables["site"] = site
	}

	figures := selection
	if q.compared {
		figures += " comparison {" + selection + " }"
	}
	var more string
	if q.series {
		more += " series(interval: $interval) { start metrics {" + figures + " } }"
	}
	if q.by != "" {
		more += " breakdown(" + q.rowArguments() + ") { totalCount nodes { value metrics {" + figures + " } } }"
	}
	comparison := ""
	if q.compared {
		comparison = ", compare: $compare"
	}
	return "query Figures(" + strings.Join(declared, ", ") + ") { " + root + " { domain timeZone live { visitors }" +
		" report(period: $period, filters: $filters" + comparison + ") { from to comparedFrom comparedTo asOf" +
		" totals {" + figures + " }" + more + " } } }", variables
}

// rowArguments are the arguments of the breakdown.
func (q *question) rowArguments() string {
	var list []string
	for _, name := range []string{"by", "property", "event", "search", "orderBy", "first"} {
		if _, ok := q.variables[name]; ok {
			list = append(list, name+": $"+name)
		}
	}
	return strings.Join(list, ", ")
}

// siteFigures is GraphQL's data of a site.
type siteFigures struct {
	Domain, TimeZone string
	Live             *struct{ Visitors json.RawMessage }
	Report           *struct {
		From, To, ComparedFrom, ComparedTo, AsOf string

		Totals metrics
		Series []struct {
			Start   string
			Metrics metrics
		}
		Breakdown *struct {
			TotalCount int
			Nodes      []struct {
				Value   string
				Metrics metrics
			}
		}
	}
}
