package resolver

import (
	"fmt"
	"slices"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
)

// Small groups of visitors: readers of shared links, and members if the owner says so, do not see a country,
// browser, system, device, language or screen width of fewer visitors in the period than Site.smallGroup.

// checkGroup refuses a report by personal filters that so few visitors match that all figures would be about
// them. Filters of the owner's segment are no reason. Nobody is hidden where least is 0.
func checkGroup(answer *reports.Answer, filters []model.ReportFilter, least int) error {
	isPersonal := func(f model.ReportFilter) bool { return f.Dimension.IsPersonal() }
	if least == 0 || !slices.ContainsFunc(filters, isPersonal) {
		return nil
	}

	for _, result := range answer.Results {
		if n := result.Totals.Visitors; n > 0 && n < int64(least) {
			return &model.Error{
				Kind: model.Invalid, Code: "group_too_small", Field: "filters",
				Message: fmt.Sprintf("Fewer than %d visitors match these filters, and groups this small are not shown.", least),
			}
		}
	}
	return nil
}

// shownRows are the rows of a breakdown in each result of an answer, as its reader may see them.
type shownRows struct {
	all  []*scan.Rows
	raw  []*scan.Rows
	of   map[*scan.Result]int
	hide bool
}

// rowsOf returns the rows of the n-th breakdown of an answer, by a dimension.
func rowsOf(answer *reports.Answer, n int, by model.ReportDimension, least int) *shownRows {
	s := &shownRows{of: make(map[*scan.Result]int, len(answer.Results)), hide: least > 0 && by.IsPersonal()}
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
