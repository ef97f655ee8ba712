package question

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
)

// Small groups of visitors: readers of shared links, and members if the owner says so, do not see a
// country, browser, system, device, language or screen width of fewer visitors in the period than
// Site.smallGroup.
//
// Two reports must not differ by a small group either. So the values of a personal dimension are
// divided into atoms: the small ones together, and each other one alone. A reader's filter keeps or
// drops whole atoms. If the small values together have too few visitors, the smallest other value
// is part of their atom.

// least returns the visitors from which on a group is shown; 0: all are shown.
func (q *Question) least() int {
	if q.Least == 1 {
		return 0 // no group has fewer visitors
	}
	return q.Least
}

// IsPersonal reports whether one of the reader's filters is by a personal dimension. The segment of
// a link is its owner's choice, so only the reader's own filters choose groups.
func (q *Question) IsPersonal() bool {
	return slices.ContainsFunc(q.Filters, func(f model.ReportFilter) bool { return f.Dimension.IsPersonal() })
}

// dimensions returns the personal dimensions of the reader's filters, or none if all groups are
// shown.
func (q *Question) dimensions() (list []model.ReportDimension) {
	for i := range q.Filters {
		if by := q.Filters[i].Dimension; q.least() > 0 && by.IsPersonal() && !slices.Contains(list, by) {
			list = append(list, by)
		}
	}
	return list
}

// withChecks returns a request for the periods, and for the visitors of each value of the personal
// dimensions that pass all other filters. Check reads the latter.
func (q *Question) withChecks(periods []*scan.Query) reports.Request {
	var checks []*scan.Query
	for _, by := range q.dimensions() {
		b := scan.Breakdown{By: reports.Dimensions[by], VisitorsOnly: true}
		// Filters do not find daily sums of imports, so there is always one, which every visit
		// passes.
		filters := []scan.Filter{{Breakdown: b, Operator: model.OperatorIsNot, Values: []string{"\x00"}}}
		for i, f := range q.filters() {
			if i >= len(q.Filters) || f.Dimension != by {
				filters = append(filters, scanFilters([]model.ReportFilter{f})...)
			}
		}
		for _, p := range periods {
			checks = append(checks, &scan.Query{
				Zone: p.Zone, From: p.From, To: p.To, Until: p.Until, Filters: filters, Breakdowns: []scan.Breakdown{b},
			})
		}
	}

	return reports.Request{SiteID: q.Site.ID, Now: q.Now, Periods: slices.Concat(periods, checks), Checks: len(checks)}
}

// Check returns the answer to Request or CohortRequest without the results of the checks. It fails
// with "group_too_small" if the filters divide an atom.
func (q *Question) Check(answer *reports.Answer) (*reports.Answer, error) {
	periods := len(answer.Results) - answer.Request.Checks
	dimensions, checks := q.dimensions(), answer.Results[periods:]
	for i, result := range checks {
		by := dimensions[i*len(dimensions)/len(checks)]
		small := smallAtom(result.Breakdowns[0].All(), int64(q.least()))
		for _, f := range q.Filters {
			if f.Dimension == by && divides(&f, small) {
				return nil, TooSmall("filters", "would be revealed by these filters", q.least())
			}
		}
	}

	// The answer may be shared with equal requests.
	shown := *answer
	shown.Results, shown.Request.Periods, shown.Request.Checks = answer.Results[:periods], answer.Request.Periods[:periods], 0
	return &shown, nil
}

// smallAtom returns the values of fewer visitors than least, and as many of the next ones as all
// need to have as many visitors.
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

// divides reports whether some of the values match a filter and some do not.
func divides(filter *model.ReportFilter, values []string) bool {
	match := filter.Matcher()
	return slices.ContainsFunc(values, match) &&
		slices.ContainsFunc(values, func(value string) bool { return !match(value) })
}

// CheckTotals refuses a report by personal filters that so few visitors match that all figures
// would be about them. Filters of the owner's segment are no reason.
func (q *Question) CheckTotals(answer *reports.Answer) error {
	least := q.least()
	if least == 0 || !q.IsPersonal() {
		return nil
	}

	for i, result := range answer.Results {
		// An empty report in place of a refusal would show which small groups exist. An empty
		// period to compare with is common: before its first day, a site has no visitors.
		isEmptyBefore := i > 0 && result.Totals.Visitors == 0
		if n := result.Totals.Visitors; n < int64(least) && !isEmptyBefore {
			return TooSmall("filters", "match these filters", least)
		}
	}
	return nil
}

// TooSmall returns the error of figures of fewer visitors than least, which an argument chooses.
func TooSmall(field, what string, least int) error {
	return &model.Error{
		Kind: model.Invalid, Code: "group_too_small", Field: field,
		Message: fmt.Sprintf("Fewer than %d visitors %s, and groups this small are not shown.", least, what),
	}
}

// LeastOf returns from how many visitors on the answer shows a row of a breakdown. Rows by other
// dimensions are personal, too, if a personal filter chooses their visitors: the page of one
// visitor from a country is the report by that page and country, which CheckTotals refuses. Hours
// and days of the week are few and always shown.
func (q *Question) LeastOf(by model.ReportDimension) int {
	isTime := by == model.DimensionDayOfWeek || by == model.DimensionHourOfDay
	if by.IsPersonal() || q.IsPersonal() && !isTime {
		return q.least()
	}
	return 0
}

// LeastOfNumbers returns from how many visitors on a group of numbers is shown. Under a personal
// filter, this includes points of series, hours and days of the week, unlike their other figures:
// the number of an hour with one visitor is the number of a person. The resolver of totals refuses
// them as a whole.
func (q *Question) LeastOfNumbers(n *scan.Numbers) int {
	isPersonalRow := n.Groups == scan.NumberRows && dimensionOf(n.By).IsPersonal()
	if isPersonalRow || q.IsPersonal() && n.Groups != scan.NumberTotals {
		return q.least()
	}
	return 0
}

// dimensionOf returns the name of a dimension.
func dimensionOf(by scan.Dimension) model.ReportDimension {
	for name, other := range reports.Dimensions {
		if other == by {
			return name
		}
	}
	return ""
}
