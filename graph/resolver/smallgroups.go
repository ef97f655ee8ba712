package resolver

import (
	"fmt"
	"slices"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/graph/generated"
)

// Small groups of visitors: readers of shared links, and members if the owner says so, do not see a country,
// browser, system, device, language or screen width of fewer visitors in the period than Site.smallGroup.

// hasPersonal reports whether a filter is by a personal dimension.
func hasPersonal(filters []model.ReportFilter) bool {
	return slices.ContainsFunc(filters, func(f model.ReportFilter) bool { return f.Dimension.IsPersonal() })
}

// checkGroup refuses a report by personal filters that so few visitors match that all figures would be about
// them. Filters of the owner's segment are no reason. If least is 0 or 1, all groups are shown.
func checkGroup(answer *reports.Answer, filters []model.ReportFilter, least int) error {
	if least <= 1 || !hasPersonal(filters) {
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
