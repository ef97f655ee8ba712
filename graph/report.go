package graph

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/period"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
)

// Reports of a site. The resolver of the report itself reads which of its fields the request
// selects and counts all of them in one pass; the resolvers of the fields only convert.

// pageviewsPerPoint is how many page views cost one point of the rate limit.
const pageviewsPerPoint = 5_000

func (r *siteResolver) Report(
	ctx context.Context, obj *model.Site, period generated.ReportPeriod, filters []*generated.ReportFilterInput,
	compare *generated.ReportComparison,
) (*generated.Report, error) {
	return r.report(ctx, obj, period, reportFilters(filters), nil, compare)
}

// Report adds the filters of the link's segment, which the reader cannot remove.
func (r *sharedSiteResolver) Report(
	ctx context.Context, obj *generated.SharedSite, period generated.ReportPeriod, filters []*generated.ReportFilterInput,
	compare *generated.ReportComparison,
) (*generated.Report, error) {
	var fixed []model.ReportFilter
	if id := obj.View.Link.SegmentID; id != 0 {
		segment, err := requestOf(ctx).loaders().LinkSegments.Of(ctx, id)
		if err != nil {
			return nil, err
		}
		if segment == nil {
			// A link with a segment never shows more than that segment.
			return nil, model.ErrNotFound
		}
		fixed = segment.Filters
	}
	return r.report(ctx, obj.View.Site, period, reportFilters(filters), fixed, compare)
}

// report counts what the request selects of a report.
func (r *Resolver) report(
	ctx context.Context, site *model.Site, input generated.ReportPeriod, filters, fixed []model.ReportFilter,
	compare *generated.ReportComparison,
) (*generated.Report, error) {
	if err := model.CheckReportFilters("filters", filters); err != nil {
		return nil, invalidArgument("filters", firstMessage(err))
	}
	zone, err := site.Zone()
	if err != nil {
		return nil, err
	}

	now := requestOf(ctx).now
	local := now.Time().In(zone)
	days, err := r.reportPeriod(ctx, site, zone, scan.DateOf(local), input)
	if err != nil {
		return nil, err
	}
	selected, err := selectedOf(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := r.keyEvents(ctx, site.ID)
	if err != nil {
		return nil, err
	}

	query := &scan.Query{
		Zone: zone, From: days.From, To: days.To, Filters: scanFilters(append(filters, fixed...)), KeyEvents: keys,
		Breakdowns: selected.breakdowns, Funnels: selected.funnels, Properties: selected.properties,
	}
	interval := cmp.Or(selected.interval, days.Default())
	if selected.series {
		var ok bool
		if query.Points, ok = days.Points(zone, interval); !ok {
			return nil, invalidArgument("interval",
				fmt.Sprintf("A series has at most %d parts. Choose a longer interval.", period.MaxPoints))
		}
	}

	periods := []*scan.Query{query}
	report := &generated.Report{
		From: dayOf(days.From), To: dayOf(days.To), TimeZone: site.TimeZone, Funnels: selected.funnelKeys,
	}
	if compare != nil {
		shift, err := shiftOf(days, compare)
		if err != nil {
			return nil, err
		}
		compared := comparedQuery(query, days, interval, shift, local)
		periods = append(periods, compared)
		from, to := dayOf(compared.From), dayOf(compared.To)
		report.ComparedFrom, report.ComparedTo = &from, &to
	}

	answer, err := r.count(ctx, reports.Request{SiteID: site.ID, Now: now, Periods: periods})
	if err != nil {
		return nil, err
	}
	report.Answer, report.AsOf = answer, answer.AsOf
	report.Totals = metricsOf(answer, ofTotals, func(result *scan.Result) scan.Figures { return result.Totals })
	return report, nil
}

// count charges the request for the page views to read, and counts.
func (r *Resolver) count(ctx context.Context, request reports.Request) (*reports.Answer, error) {
	pageviews, err := r.reports.Pageviews(ctx, request)
	if err != nil {
		return nil, err
	}
	if pageviews > reports.MaxPageviews {
		return nil, reports.ErrTooExpensive
	}

	caller, err := auth.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	if cost := int(pageviews / pageviewsPerPoint); cost > 0 {
		if err := limits.Of(ctx).ChargeMore(caller, cost); err != nil {
			return nil, err
		}
	}
	return r.reports.Report(ctx, request)
}

// reportPeriod returns the days of an input.
func (r *Resolver) reportPeriod(
	ctx context.Context, site *model.Site, zone *time.Location, today scan.Date, input generated.ReportPeriod,
) (period.Period, error) {
	both, neither := input.From != nil && input.To != nil, input.From == nil && input.To == nil
	switch {
	case input.Preset == nil && !both, input.Preset != nil && !neither:
		return period.Period{}, invalidArgument("period", "A period is either a preset, or from and to.")
	case input.Preset == nil:
		days := period.Period{From: dateOf(*input.From), To: dateOf(*input.To)}
		return days, days.Check("period")
	}

	first := today
	if *input.Preset == period.AllTime {
		day, ok, err := r.reports.FirstDay(ctx, site.ID)
		if err != nil {
			return period.Period{}, err
		}
		if ok {
			// Rows of the day can belong to the local day before.
			first = scan.DateOf(day.Start().Time().In(zone))
		}
		if earliest := today.AddDays(1 - period.MaxYears*365); first.Compare(earliest) < 0 {
			first = earliest
		}
	}

	days, ok := period.Of(*input.Preset, today, first)
	if !ok {
		return days, invalidArgument("period", "There is no such preset.")
	}
	return days, nil
}

// shiftOf returns how the period to compare with lies to the period.
func shiftOf(days period.Period, compare *generated.ReportComparison) (period.Shift, error) {
	var shift period.Shift
	switch {
	case (compare.Kind == nil) == (compare.From == nil):
		return shift, invalidArgument("compare", "A comparison has either a kind or a first day.")
	case compare.From != nil:
		shift = period.To(days, dateOf(*compare.From), compare.MatchDayOfWeek)
	case *compare.Kind == generated.ReportComparisonKindPreviousYear:
		shift = period.YearBefore(compare.MatchDayOfWeek)
	default:
		shift = period.Before(days, compare.MatchDayOfWeek)
	}
	return shift, shift.Period(days).Check("compare")
}

// comparedQuery returns the query for the period to compare with. If today is in the period, the
// other one counts up to the same time of day.
func comparedQuery(
	query *scan.Query, days period.Period, interval period.Interval, shift period.Shift, local time.Time,
) *scan.Query {
	compared := *query
	other := shift.Period(days)
	compared.From, compared.To = other.From, other.To
	if query.Points != nil {
		compared.Points, _ = days.ComparedPoints(query.Zone, interval, shift)
	}

	if today := scan.DateOf(local); days.From.Compare(today) <= 0 && today.Compare(days.To) <= 0 {
		elapsed := local.Sub(today.Start(query.Zone))
		compared.Until = shift.Date(today).Start(query.Zone).Add(elapsed)
	}
	return &compared
}

// keyEvents returns the names of the site's key events.
func (r *Resolver) keyEvents(ctx context.Context, siteID int64) (map[string]bool, error) {
	rules, err := requestOf(ctx).loaders().Rules.Of(ctx, siteID)
	if err != nil {
		return nil, err
	}

	keys := map[string]bool{model.EventPurchase: true}
	if rules != nil {
		for _, name := range rules.KeyEvents {
			keys[name] = true
		}
	}
	return keys, nil
}

// selected is what a request selects of a report.
type selected struct {
	series     bool
	interval   period.Interval // "": the default
	breakdowns []scan.Breakdown
	funnels    []scan.Funnel
	funnelKeys []string
	properties *scan.PropertyNames
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
			err = s.addBreakdown(args)
		case "funnel":
			err = s.addFunnel(args)
		case "propertyNames":
			err = s.addProperties(args)
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

func (s *selected) addBreakdown(args map[string]any) error {
	b, err := breakdownOf(model.ReportDimension(text(args, "by")), text(args, "property"), text(args, "event"))
	if err == nil && !slices.Contains(s.breakdowns, b) {
		s.breakdowns = append(s.breakdowns, b)
	}
	return err
}

// breakdownOf checks and converts the arguments of a breakdown.
func breakdownOf(by model.ReportDimension, property, event string) (scan.Breakdown, error) {
	switch {
	case by == model.DimensionProperty && property == "":
		return scan.Breakdown{}, invalidArgument("property", "A breakdown by PROPERTY needs the name of the property.")
	case by != model.DimensionProperty && (property != "" || event != ""):
		return scan.Breakdown{}, invalidArgument("property", "Only a breakdown by PROPERTY takes property and event.")
	}

	dimension, ok := scanDimensions[by]
	if !ok {
		return scan.Breakdown{}, invalidArgument("by", "There is no such dimension.")
	}
	return scan.Breakdown{By: dimension, Property: property, Event: event}, nil
}

func (s *selected) addProperties(args map[string]any) error {
	names := scan.PropertyNames{Event: text(args, "event")}
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

	funnel := scan.Funnel{Steps: make([]scan.Step, len(steps))}
	for i, step := range steps {
		funnel.Steps[i] = scan.Step{Event: step.Event}
		if step.Page != "" {
			funnel.Steps[i].Page = model.PatternMatcher(step.Page)
		}
	}
	s.funnels, s.funnelKeys = append(s.funnels, funnel), append(s.funnelKeys, key)
	return nil
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

// firstMessage returns the message of the first of joined errors.
func firstMessage(err error) string {
	if e, ok := errors.AsType[*model.Error](joined(err)[0]); ok {
		return e.Message
	}
	return err.Error()
}

// scanDimensions maps the schema's dimensions to those of the scan.
var scanDimensions = map[model.ReportDimension]scan.Dimension{
	model.DimensionPage: scan.Page, model.DimensionEntryPage: scan.EntryPage, model.DimensionExitPage: scan.ExitPage,
	model.DimensionChannel: scan.Channel, model.DimensionSource: scan.Source, model.DimensionReferrer: scan.Referrer,
	model.DimensionUTMSource: scan.UTMSource, model.DimensionUTMMedium: scan.UTMMedium,
	model.DimensionUTMCampaign: scan.UTMCampaign, model.DimensionUTMContent: scan.UTMContent,
	model.DimensionUTMTerm: scan.UTMTerm, model.DimensionAdPlatform: scan.ClickID, model.DimensionLanguage: scan.Language,
	model.DimensionScreenWidth: scan.Width, model.DimensionEvent: scan.Event, model.DimensionProperty: scan.Property,
	model.DimensionDayOfWeek: scan.DayOfWeek, model.DimensionHourOfDay: scan.HourOfDay,
}

// scanFilters converts filters that have been checked.
func scanFilters(filters []model.ReportFilter) []scan.Filter {
	list := make([]scan.Filter, len(filters))
	for i := range filters {
		f := &filters[i]
		list[i] = scan.Filter{
			Breakdown: scan.Breakdown{By: scanDimensions[f.Dimension], Property: f.Property, Event: f.Event},
			Not:       f.Operator.IsNegative(),
			Match:     f.Matcher(),
		}
	}
	return list
}

// dayOf returns a date of the calendar as a Date of the schema.
func dayOf(d scan.Date) model.Day {
	return model.Day(scan.Date{Year: 1970, Month: time.January, Day: 1}.DaysUntil(d))
}

// dateOf is the inverse of dayOf.
func dateOf(day model.Day) scan.Date { return scan.DateOf(day.Start().Time()) }

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
			Metrics: metricsOf(obj.Answer, ofTotals, func(result *scan.Result) scan.Figures { return result.Points[i] }),
		}
		if len(periods) > 1 {
			compared := model.At(periods[1].Points[i])
			points[i].ComparedStart = &compared
		}
	}
	return points, nil
}

func (r *reportResolver) Breakdown(
	_ context.Context, obj *generated.Report, by model.ReportDimension, property, event *string,
	orderBy generated.ReportOrder, search *string, first int, after *string,
) (*generated.ReportRowConnection, error) {
	if first < 1 || first > limits.MaxReportRows {
		return nil, invalidArgument("first", fmt.Sprintf("The argument first must be from 1 to %d.", limits.MaxReportRows))
	}
	skip := int64(0)
	if after != nil {
		var ok bool
		if skip, ok = r.ids.Parse(model.AfterReportRow, *after); !ok {
			return nil, invalidArgument("after", "The argument after is not a cursor of this list.")
		}
	}
	b, err := breakdownOf(by, orBlank(property), orBlank(event))
	if err != nil {
		return nil, err
	}

	n := slices.Index(obj.Answer.Request.Periods[0].Breakdowns, b)
	rows := obj.Answer.Results[0].Breakdowns[n]
	values := orderedValues(rows, rowKindOf(by), &obj.Answer.Results[0].Totals, orderBy, orBlank(search))

	from := min(int(skip), len(values))
	to := min(from+first, len(values))
	edges := make([]*generated.ReportRowEdge, 0, to-from)
	for i, value := range values[from:to] {
		metrics := metricsOf(obj.Answer, rowKindOf(by), func(result *scan.Result) scan.Figures {
			return result.Breakdowns[n][value]
		})
		edges = append(edges, &generated.ReportRowEdge{
			Cursor: r.ids.Of(model.AfterReportRow, int64(from+i+1)), Node: &generated.ReportRow{Value: value, Metrics: metrics},
		})
	}

	page := &generated.PageInfo{HasNextPage: to < len(values), HasPreviousPage: after != nil}
	if len(edges) > 0 {
		page.StartCursor, page.EndCursor = &edges[0].Cursor, &edges[len(edges)-1].Cursor
	}
	return &generated.ReportRowConnection{Edges: edges, PageInfo: page, TotalCount: len(values)}, nil
}

// orderedValues returns the values of rows that contain the search, in order. Values without the
// figure come last.
func orderedValues(
	rows map[string]scan.Figures, kind rowKind, totals *scan.Figures, order generated.ReportOrder, search string,
) []string {
	type entry struct {
		value  string
		figure *float64
	}

	search = strings.ToLower(search)
	entries := make([]entry, 0, len(rows))
	for value, f := range rows {
		if strings.Contains(strings.ToLower(value), search) {
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

func unset(f *float64) int {
	if f == nil {
		return 1
	}
	return 0
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
		Visitors: visitors[0], ConversionRate: ratio(visitors[len(visitors)-1], visitors[0], 100),
		Steps: make([]*generated.FunnelStepReport, len(steps)),
	}
	for i := range steps {
		step := &generated.FunnelStepReport{
			Step:     &generated.FunnelStep{Page: orNil(steps[i].Page), Event: orNil(steps[i].Event), Label: steps[i].Name()},
			Visitors: visitors[i],
		}
		if i > 0 {
			step.FromPrevious = ratio(visitors[i], visitors[i-1], 100)
		}
		if len(obj.Answer.Results) > 1 {
			step.ComparedVisitors = &obj.Answer.Results[1].Funnels[n][i]
		}
		report.Steps[i] = step
	}
	return report, nil
}

func (r *siteResolver) Live(ctx context.Context, obj *model.Site) (*generated.LiveReport, error) {
	return r.live(ctx, obj.ID)
}

func (r *sharedSiteResolver) Live(ctx context.Context, obj *generated.SharedSite) (*generated.LiveReport, error) {
	if obj.View.Link.SegmentID != 0 {
		return nil, nil
	}
	return r.live(ctx, obj.View.Site.ID)
}

func (r *Resolver) live(ctx context.Context, siteID int64) (*generated.LiveReport, error) {
	live, err := r.reports.Live(ctx, siteID, requestOf(ctx).now)
	if err != nil {
		return nil, err
	}

	report := &generated.LiveReport{
		At: live.At, Visitors: live.Visitors, Pageviews: live.Pageviews[:], Pages: liveRows(live.Pages),
		Sources: liveRows(live.Sources), Latest: make([]*generated.LiveHit, len(live.Latest)),
	}
	for i, hit := range live.Latest {
		report.Latest[i] = &generated.LiveHit{At: hit.At, Event: orNil(hit.Event), Path: hit.Path, Channel: hit.Channel}
	}
	return report, nil
}

func liveRows(counts []reports.LiveCount) []*generated.LiveRow {
	rows := make([]*generated.LiveRow, len(counts))
	for i, count := range counts {
		rows[i] = &generated.LiveRow{Value: count.Value, Visitors: count.Visitors}
	}
	return rows
}
