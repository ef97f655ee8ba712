package question

import (
	"fmt"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/scan"
)

// DaysOfWeek is the length of a week of cohorts.
const DaysOfWeek = 7

// Weeks are the weeks of cohorts, which begin on Mondays, up to the last day of the question that
// has begun.
type Weeks struct {
	First, Last scan.Date // days; there are none if Last is before First
}

// Weeks returns the weeks of the question's days. It fails with an error of the argument period for
// more than scan.MaxCohorts.
func (q *Question) Weeks() (Weeks, error) {
	w := Weeks{q.Days.From.Monday(), q.Days.To}
	if n := w.First.DaysUntil(w.Last)/DaysOfWeek + 1; n > scan.MaxCohorts {
		return w, model.InvalidField("period", "invalid_argument",
			fmt.Sprintf("Cohorts have at most %d weeks. Choose a shorter period.", scan.MaxCohorts))
	}

	if today := q.Today(); today.Compare(w.Last) < 0 {
		w.Last = today
	}
	return w, nil
}

// CohortRequest returns the request for the cohorts of weeks, followed by the checks of small
// groups. It reads from the site's first day with user ids on, because the first visit of a user
// decides on the week.
func (q *Question) CohortRequest(w Weeks, firstUsers scan.Date) reports.Request {
	from := w.First
	if firstUsers.Compare(from) < 0 {
		from = firstUsers
	}
	return q.withChecks([]*scan.Query{{
		Zone: q.Zone, From: from, To: w.Last, Filters: scanFilters(q.filters()),
		Cohorts: &scan.Cohorts{First: w.First, Weeks: w.First.DaysUntil(w.Last)/DaysOfWeek + 1},
	}})
}
