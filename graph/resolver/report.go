package resolver

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/period"
	"github.com/tallygate/tallygate/db/reports/question"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/figures"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
)

// Reports of a site. The resolver of the report itself reads which of its fields the request
// selects and counts all of them in one pass; the resolvers of the fields only convert.

// The price of a report in points of the rate limit: for what it reads, or for the processor time
// and the memory that it took if that is more. It is at least one point, so that nothing is counted
// for a caller without points.
const (
	rowsPerPoint  = 5_000 // page views and events
	panelShare    = 8
	bytesPerPoint = 64 << 10 // of the values found
)

func (r *siteResolver) Report(
	ctx context.Context, obj *model.Site, period *generated.ReportPeriod, filters []*generated.ReportFilterInput,
	compare *generated.ReportComparison,
) (*generated.Report, error) {
	return r.report(ctx, obj, period, reportFilters(filters), compare, readerRules{})
}

// readerRules are what a report leaves out for its reader.
type readerRules struct {
	least          int                  // groups of fewer visitors are not shown; 0: all are
	fixed          []model.ReportFilter // apply in addition to the reader's own
	withoutRevenue bool                 // neither revenue nor properties, which can have amounts
}

// check refuses what would show amounts to a reader without revenue.
func (rules *readerRules) check(filters []model.ReportFilter, selected *selected) error {
	if !rules.withoutRevenue {
		return nil
	}

	const message = "This link does not show properties of events, because they can have amounts."
	for _, f := range filters {
		if f.Dimension == model.DimensionProperty {
			return invalidArgument("filters", message)
		}
	}
	for _, b := range selected.breakdowns {
		if b.By == scan.Property {
			return invalidArgument("by", message)
		}
	}
	if len(selected.numbers) > 0 {
		return invalidArgument("property", message)
	}
	if selected.revenue {
		return invalidArgument("metric", "This link does not show revenue.")
	}
	selected.properties = nil
	return nil
}

// Report adds the filters of the link's segment, which the reader cannot remove.
func (r *sharedSiteResolver) Report(
	ctx context.Context, obj *generated.SharedSite, period *generated.ReportPeriod, filters []*generated.ReportFilterInput,
	compare *generated.ReportComparison,
) (*generated.Report, error) {
	rules := readerRules{least: obj.View.Site.SmallGroup, withoutRevenue: obj.View.Link.HidesRevenue}
	if id := obj.View.Link.SegmentID; id != 0 {
		segment, err := requestOf(ctx).loaders().LinkSegments().Of(ctx, id)
		if err != nil {
			return nil, err
		}
		if segment == nil {
			// A link with a segment never shows more than that segment.
			return nil, model.ErrNotFound
		}
		rules.fixed = segment.Filters
	}
	return r.report(ctx, obj.View.Site, period, reportFilters(filters), compare, rules)
}

// report counts what the request selects of a report.
func (r *Resolver) report(
	ctx context.Context, site *model.Site, asked *generated.ReportPeriod, filters []model.ReportFilter,
	compare *generated.ReportComparison, rules readerRules,
) (*generated.Report, error) {
	q, selected, err := r.questionOf(ctx, site, asked, filters, compare, rules)
	if err != nil {
		return nil, err
	}

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
	if ofDays, ok := q.RequestOfDays(answer); ok {
		if answer, err = r.count(ctx, ofDays); err != nil {
			return nil, err
		}
	}

	report := reportOf(q, answer)
	report.Funnels, report.Journeys = selected.funnelKeys, selected.journeyKeys
	if selected.cohorts {
		report.Cohorts, report.CohortsErr = r.cohorts(ctx, q)
	}
	return report, nil
}

// questionOf checks the arguments of a report, and returns the question that they ask with what the
// request selects.
func (r *Resolver) questionOf(
	ctx context.Context, site *model.Site, asked *generated.ReportPeriod, filters []model.ReportFilter,
	compare *generated.ReportComparison, rules readerRules,
) (*question.Question, *selected, error) {
	if err := model.CheckReportFilters("filters", filters); err != nil {
		return nil, nil, invalidArgument("filters", firstMessage(err))
	}
	if err := model.CheckReportFilters("filters", rules.fixed); err != nil {
		// It was stored before a limit.
		return nil, nil, invalidArgument("filters", "The segment of the link exceeds a limit. "+firstMessage(err))
	}
	zone, err := site.Zone()
	if err != nil {
		return nil, nil, err
	}

	q := &question.Question{
		Site: site, Zone: zone, Now: requestOf(ctx).now, Filters: filters, Fixed: rules.fixed, Least: rules.least,
	}
	input, compare, err := r.opened(ctx, site, asked, compare)
	if err != nil {
		return nil, nil, err
	}
	if q.Days, err = r.reportPeriod(ctx, q, input); err != nil {
		return nil, nil, err
	}
	selected, err := selectedOf(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := rules.check(filters, selected); err != nil {
		return nil, nil, err
	}
	keys, err := r.keyEvents(ctx, site.ID)
	if err != nil {
		return nil, nil, err
	}
	all := slices.Concat(filters, rules.fixed)
	if err := model.CheckReportSearch("filters", "invalid_argument", all, selected.steps()); err != nil {
		return nil, nil, err
	}

	q.Series, q.Interval, q.Hours = selected.series, selected.interval, selected.hours && compare != nil
	q.Selected = scan.Query{
		KeyEvents: keys, Breakdowns: selected.breakdowns, Funnels: scanFunnels(selected.funnels), Journeys: selected.journeys,
		Properties: selected.properties, WithoutRevenue: rules.withoutRevenue, Numbers: selected.numbers,
	}
	if compare != nil {
		q.Shift, err = shiftOf(q.Days, compare)
	}
	return q, selected, err
}

// answer counts a request of a question with its checks.
func (r *Resolver) answer(ctx context.Context, q *question.Question, request reports.Request) (*reports.Answer, error) {
	answer, err := r.count(ctx, request)
	if err != nil {
		return nil, err
	}
	return q.Check(answer)
}

// reportOf converts an answer to the report without what the resolvers of its fields add.
func reportOf(q *question.Question, answer *reports.Answer) *generated.Report {
	report := &generated.Report{
		From: q.Days.From.Number(), To: q.Days.To.Number(), TimeZone: q.Site.TimeZone,
		Answer: answer, AsOf: answer.AsOf, Question: q,
		Imported:       importedOf(answer, func(m *scan.Imported) scan.ImportState { return m.State }),
		SeriesImported: importedOf(answer, func(m *scan.Imported) scan.ImportState { return m.Series }),
		Imports:        importsOf(answer),
		Totals: figures.Metrics(
			answer, figures.Totals, func(result *scan.Result) scan.Figures { return result.Totals },
		),
	}
	if q.Shift != nil {
		other := q.Shift.Period(q.Days)
		from, to := other.From.Number(), other.To.Number()
		report.ComparedFrom, report.ComparedTo = &from, &to
	}
	return report
}

// importedOf returns the state of imports in both periods.
func importedOf(answer *reports.Answer, of func(*scan.Imported) scan.ImportState) (state scan.ImportState) {
	for _, result := range answer.Results {
		if result.Imported != nil {
			state = max(state, of(result.Imported))
		}
	}
	return state
}

// importsOf returns the imports with days of one of the periods, oldest first.
func importsOf(answer *reports.Answer) []*generated.ReportImportedDays {
	list := []*generated.ReportImportedDays{}
	for _, result := range answer.Results {
		if result.Imported == nil {
			continue
		}
		for _, m := range result.Imported.Services {
			known := func(other *generated.ReportImportedDays) bool { return other.From == m.First }
			if slices.ContainsFunc(list, known) {
				continue // two imports never have a day in common
			}
			list = append(list, &generated.ReportImportedDays{
				Service: m.Source.Service(), From: m.First, To: m.Last, HasVisitors: m.Source != model.ImportGoatCounterSums,
			})
		}
	}
	slices.SortFunc(list, func(a, b *generated.ReportImportedDays) int { return cmp.Compare(a.From, b.From) })
	return list
}

// count counts, and charges the request for what it reads itself.
func (r *Resolver) count(ctx context.Context, request reports.Request) (*reports.Answer, error) {
	caller, err := auth.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	request.Asker = limits.AccountKey(caller)

	query := request.Periods[0]
	panels := len(query.Breakdowns) + len(query.Funnels) + len(query.Journeys) + len(query.Numbers)
	if query.Properties != nil {
		panels++
	}
	if query.Cohorts != nil {
		panels++
	}
	if query.Hours != nil {
		panels++
	}
	answer, err := r.reports.Answer(ctx, request, &payer{limits.Of(ctx), caller, panels, 0})
	if err == nil && !limits.Of(ctx).Hold(ctx, caller, answer.Bytes) {
		err = reports.ErrTooLarge
	}
	return answer, err
}

// payer charges a request for a report.
type payer struct {
	request *limits.Request
	caller  auth.Caller
	panels  int // breakdowns, funnels, journeys, cohorts, hours, lists of properties and numbers
	paid    int
}

// PayBefore implements reports.Payer.
func (p *payer) PayBefore(size reports.Size) error {
	p.paid = max(pointsOf(size, p.panels), 1)
	return p.request.ChargeMore(p.caller, p.paid)
}

// pointsOf returns the price of a report with so many panels: each costs an eighth of the totals.
func pointsOf(size reports.Size, panels int) int {
	return int((size.Pageviews + size.Events) / rowsPerPoint * int64(panelShare+panels) / panelShare)
}

// PayAfter implements reports.Payer.
func (p *payer) PayAfter(took reports.Work) {
	cost := limits.Points(took.Time) + int(took.Bytes/bytesPerPoint)
	if more := cost - p.paid; more > 0 {
		p.paid += more
		p.request.ChargeWork(p.caller, more)
	}
}

// reportPeriod returns the days of an input.
func (r *Resolver) reportPeriod(
	ctx context.Context, q *question.Question, input generated.ReportPeriod,
) (period.Period, error) {
	both, neither := input.From != nil && input.To != nil, input.From == nil && input.To == nil
	switch {
	case input.Preset == nil && !both, input.Preset != nil && !neither:
		return period.Period{}, invalidArgument("period", "A period is either a preset, or from and to.")
	case input.Preset == nil:
		days := period.Period{From: scan.DateOfNumber(*input.From), To: scan.DateOfNumber(*input.To)}
		return days, days.Check("period")
	}

	first := q.Today()
	if *input.Preset == period.AllTime {
		day, ok, err := r.reports.FirstDay(ctx, q.Site.ID)
		if err != nil {
			return period.Period{}, err
		}
		if ok {
			first = q.FirstDay(day)
		}
	}

	days, ok := period.Of(*input.Preset, q.Today(), first)
	if !ok {
		return days, invalidArgument("period", "There is no such preset.")
	}
	return days, nil
}

// shiftOf returns how the period to compare with lies to the period.
func shiftOf(days period.Period, compare *generated.ReportComparison) (*period.Shift, error) {
	var shift period.Shift
	switch {
	case (compare.Kind == nil) == (compare.From == nil):
		return nil, invalidArgument("compare", "A comparison has either a kind or a first day.")
	case compare.From != nil:
		shift = period.To(days, scan.DateOfNumber(*compare.From), compare.MatchDayOfWeek)
	case *compare.Kind == generated.ReportComparisonKindPreviousYear:
		shift = period.YearBefore(days, compare.MatchDayOfWeek)
	default:
		shift = period.Before(days, compare.MatchDayOfWeek)
	}
	return &shift, shift.Period(days).CheckYears("compare")
}

// keyEvents returns the names of the site's key events.
func (r *Resolver) keyEvents(ctx context.Context, siteID model.SiteID) (map[string]bool, error) {
	rules, err := requestOf(ctx).loaders().Rules().Of(ctx, siteID)
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

// firstMessage returns the message of the first of joined errors.
func firstMessage(err error) string {
	if e, ok := errors.AsType[*model.Error](model.Joined(err)[0]); ok {
		return e.Message
	}
	return err.Error()
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

func (r *Resolver) live(ctx context.Context, siteID model.SiteID) (*generated.LiveReport, error) {
	live, err := r.reports.Live(ctx, siteID, requestOf(ctx).now)
	if err != nil {
		return nil, err
	}

	report := &generated.LiveReport{
		At: live.At, Visitors: live.Visitors, Pageviews: live.Pageviews[:], Pages: liveRows(live.Pages),
		Sources: liveRows(live.Sources), SourceNames: liveRows(live.Names),
		Latest: make([]*generated.LiveHit, len(live.Latest)),
	}
	for i, hit := range live.Latest {
		report.Latest[i] = &generated.LiveHit{At: hit.At, Event: notZero(hit.Event), Path: hit.Path, Channel: hit.Channel}
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
