package resolver

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/graph/generated"
)

// Small groups of visitors: readers of shared links, and members if the owner says so, do not see a country,
// browser, system, device, language or screen width of fewer visitors in the period than Site.smallGroup.
//
// Two reports must not differ by a small group either. So the values of a personal dimension are divided into
// atoms: the small ones together, and each other one alone. A reader's filter keeps or drops whole atoms. If the
// small values together have too few visitors, the smallest other value is part of their atom.

// groups are the filters of a report, and the threshold below which a group is hidden.
type groups struct {
	least   int // visitors from which on a group is shown; 0: all are shown
	filters []model.ReportFilter
	own     int // how many of the first filters are the reader's own
}

// dimensions returns the personal dimensions of the reader's filters, or none if all groups are shown.
func (g *groups) dimensions() (list []model.ReportDimension) {
	for i := range g.filters[:g.own] {
		if by := g.filters[i].Dimension; g.least > 0 && by.IsPersonal() && !slices.Contains(list, by) {
			list = append(list, by)
		}
	}
	return list
}

// queries returns, for each of the dimensions and each period, a query for the visitors of its values that pass all
// other filters.
func (g *groups) queries(periods []*scan.Query) (list []*scan.Query) {
	for _, by := range g.dimensions() {
		b := scan.Breakdown{By: reports.Dimensions[by], VisitorsOnly: true}
		// Filters do not find daily sums of imports, so there is always one, which every visit passes.
		filters := []scan.Filter{{Breakdown: b, Operator: model.OperatorIsNot, Values: []string{"\x00"}}}
		for i, f := range g.filters {
			if i >= g.own || f.Dimension != by {
				filters = append(filters, scanFilters([]model.ReportFilter{f})...)
			}
		}
		for _, q := range periods {
			list = append(list, &scan.Query{
				Zone: q.Zone, From: q.From, To: q.To, Until: q.Until, Filters: filters, Breakdowns: []scan.Breakdown{b},
			})
		}
	}
	return list
}

// check refuses filters that divide an atom. results are those of the queries.
func (g *groups) check(results []*scan.Result) error {
	dimensions := g.dimensions()
	for i, result := range results {
		by := dimensions[i*len(dimensions)/len(results)]
		small := smallAtom(result.Breakdowns[0].All(), int64(g.least))
		for _, f := range g.filters[:g.own] {
			if f.Dimension == by && divides(f.Matcher(), small) {
				return groupTooSmall("filters", "would be revealed by these filters", g.least)
			}
		}
	}
	return nil
}

// smallAtom returns the values of fewer visitors than least, and as many of the next ones as all need to have as
// many visitors.
func smallAtom(rows iter.Seq2[string, scan.Figures], least int64) (values []string) {
	visitors := make(map[string]int64)
	for value, f := range rows {
		visitors[value] = f.Visitors
	}
	ascending := slices.SortedFunc(maps.Keys(visitors), func(a, b string) int {
		return cmp.Or(cmp.Compare(visitors[a], visitors[b]), cmp.Compare(a, b))
	})

	sum := int64(0)
	for _, value := range ascending {
		if visitors[value] >= least && (sum == 0 || sum >= least) {
			break
		}
		values, sum = append(values, value), sum+visitors[value]
	}
	return values
}

// divides reports whether some of the values match and some do not.
func divides(match func(value string) bool, values []string) bool {
	return slices.ContainsFunc(values, match) &&
		slices.ContainsFunc(values, func(value string) bool { return !match(value) })
}

// countGroups counts a request whose periods have the filters, and refuses it if the filters divide an atom.
func (r *Resolver) countGroups(ctx context.Context, request reports.Request, g *groups) (*reports.Answer, error) {
	periods := len(request.Periods)
	request.Periods = append(request.Periods, g.queries(request.Periods)...)
	request.Checks = len(request.Periods) - periods
	answer, err := r.count(ctx, request)
	if err != nil {
		return nil, err
	}
	if err := g.check(answer.Results[periods:]); err != nil {
		return nil, err
	}

	// The answer may be shared with equal requests.
	asked := *answer
	asked.Results, asked.Request.Periods = answer.Results[:periods], answer.Request.Periods[:periods]
	asked.Request.Checks = 0
	return &asked, nil
}

// hasPersonal reports whether a filter is by a personal dimension.
func hasPersonal(filters []model.ReportFilter) bool {
	return slices.ContainsFunc(filters, func(f model.ReportFilter) bool { return f.Dimension.IsPersonal() })
}

// checkGroup refuses a report by personal filters that so few visitors match that all figures would be about
// them. Filters of the owner's segment are no reason. If least is 0, all groups are shown.
func checkGroup(answer *reports.Answer, filters []model.ReportFilter, least int) error {
	if least == 0 || !hasPersonal(filters) {
		return nil
	}

	for i, result := range answer.Results {
		// An empty report in place of a refusal would show which small groups exist. An empty period to
		// compare with is common: before its first day, a site has no visitors.
		isEmptyBefore := i > 0 && result.Totals.Visitors == 0
		if n := result.Totals.Visitors; n < int64(least) && !isEmptyBefore {
			return groupTooSmall("filters", "match these filters", least)
		}
	}
	return nil
}

// groupTooSmall refuses figures of fewer visitors than least, which an argument chooses.
func groupTooSmall(field, what string, least int) error {
	return &model.Error{
		Kind: model.Invalid, Code: "group_too_small", Field: field,
		Message: fmt.Sprintf("Fewer than %d visitors %s, and groups this small are not shown.", least, what),
	}
}

// shownRows are the rows of a breakdown in each result of an answer, as its reader may see them.
type shownRows struct {
	all  []*scan.Rows
	raw  []*scan.Rows
	of   map[*scan.Result]int
	hide bool
}

// rowsOf returns the rows of the n-th breakdown of an answer. Rows of fewer visitors than least are not shown.
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

// leastOf returns from how many visitors on a report shows a row of a breakdown. Rows by other dimensions are
// personal, too, if a personal filter chooses their visitors: the page of one visitor from a country is the
// report by that page and country, which checkGroup refuses. Hours and days of the week are few and always shown.
func leastOf(report *generated.Report, by model.ReportDimension) int {
	return leastFor(by, report.SmallGroup, report.IsPersonal)
}

// leastFor is leastOf for a report with a threshold. isPersonal reports whether a personal filter chooses its
// visitors.
func leastFor(by model.ReportDimension, smallGroup int, isPersonal bool) int {
	isTime := by == model.DimensionDayOfWeek || by == model.DimensionHourOfDay
	if by.IsPersonal() || isPersonal && !isTime {
		return smallGroup
	}
	return 0
}

// figures returns the figures of a value in a result.
func (s *shownRows) figures(result *scan.Result, value string) scan.Figures {
	return s.all[s.of[result]].Of(value)
}

// isHidden reports whether a value is shown for the period, but has too few visitors in the period compared
// with.
func (s *shownRows) isHidden(value string) bool {
	return s.hide && len(s.all) > 1 && value != scan.OtherValue &&
		s.all[1].Of(value).Visitors != s.raw[1].Of(value).Visitors
}
