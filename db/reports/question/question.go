// Package question turns what a reader asks about a site into the queries of a report: the period,
// the period compared with, the points of the series, and the checks that keep small groups of
// visitors hidden.
package question

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/reports/period"
	"github.com/tallygate/tallygate/db/reports/scan"
)

// Question is a report of a site as its reader asks for it. Filters were checked before.
type Question struct {
	Site *model.Site
	Zone *time.Location // of the site
	Now  model.Instant

	Days     period.Period
	Shift    *period.Shift   // to the period compared with; nil: there is no comparison
	Interval period.Interval // of the series; "": the default of the days
	Series   bool            // whether the answer has a series
	Hours    bool            // and one of hours, unless there are more than period.MaxHourDays days

	Filters []model.ReportFilter // of the reader
	Fixed   []model.ReportFilter // apply in addition, such as the segment of a link
	Least   int                  // visitors from which on a group is shown; 0 and 1: all are shown

	// Selected has what is counted in addition to totals: breakdowns, funnels, journeys, properties
	// and numbers, with the site's key events. Request sets the other fields.
	Selected scan.Query
}

// Today returns the current day in the site's time zone.
func (q *Question) Today() scan.Date { return scan.DateOf(q.local()) }

func (q *Question) local() time.Time { return q.Now.Time().In(q.Zone) }

// Request returns the request for the figures, followed by the checks of small groups. It fails
// with an error of the argument interval for more than period.MaxPoints points.
func (q *Question) Request() (reports.Request, error) {
	interval := cmp.Or(q.Interval, q.Days.Default())
	periods, ok := q.periods(interval)
	if !ok {
		return reports.Request{}, model.InvalidField("interval", "invalid_argument",
			fmt.Sprintf("A series has at most %d parts. Choose a longer interval.", period.MaxPoints))
	}
	return q.withChecks(periods), nil
}

// Among returns the question about the visits with a value, with breakdowns alone.
func (q *Question) Among(by model.ReportDimension, value string, breakdowns []scan.Breakdown) *Question {
	among := *q
	among.Filters = append(slices.Clone(q.Filters), model.ReportFilter{
		Dimension: by, Operator: model.OperatorIs, Values: []string{value},
	})
	among.Series, among.Hours = false, false
	among.Selected = scan.Query{
		KeyEvents: q.Selected.KeyEvents, WithoutRevenue: q.Selected.WithoutRevenue, Breakdowns: breakdowns,
	}
	return &among
}

// RequestOfDays returns the request for a series of days. ok is false unless the answer to Request
// has hours, without a chosen interval, and lacks days with imported sums, which have no hours.
func (q *Question) RequestOfDays(answer *reports.Answer) (request reports.Request, ok bool) {
	imported := answer.Results[0].Imported
	if q.Interval != "" || q.Days.Default() != period.Hour || imported == nil || imported.Series != scan.ImportWholeDays {
		return reports.Request{}, false
	}

	// The groups have been checked with the first answer.
	periods, ok := q.periods(period.Day)
	return reports.Request{SiteID: q.Site.ID, Now: q.Now, Periods: periods}, ok
}

// periods returns the queries for the days and for the days compared with. ok is false for too many
// points.
func (q *Question) periods(interval period.Interval) (list []*scan.Query, ok bool) {
	query := q.Selected
	query.Zone, query.From, query.To, query.Filters = q.Zone, q.Days.From, q.Days.To, scanFilters(q.filters())
	query.Numbers = slices.Clone(query.Numbers)
	for i := range query.Numbers {
		query.Numbers[i].Least = q.LeastOfNumbers(&query.Numbers[i])
	}

	if q.Series {
		if query.Points, ok = q.Days.Points(q.Zone, interval, period.Shift{}); !ok {
			return nil, false
		}
	}
	if q.Hours {
		query.Hours, _ = q.Days.Hours(q.Zone, period.Shift{})
	}
	list = append(list, &query)

	if q.Shift != nil {
		list = append(list, q.compared(query, interval))
	}
	return list, true
}

// compared returns the query for the days compared with. If today is one of the days, the other
// period ends at the same time of day: a day that is not over would seem to be worse.
func (q *Question) compared(query scan.Query, interval period.Interval) *scan.Query {
	other := q.Shift.Period(q.Days)
	query.From, query.To = other.From, other.To
	query.Journeys = nil
	if query.Points != nil {
		query.Points, _ = q.Days.Points(q.Zone, interval, *q.Shift)
	}
	if query.Hours != nil {
		query.Hours, _ = q.Days.Hours(q.Zone, *q.Shift)
	}

	if today := q.Today(); q.Days.From.Compare(today) <= 0 && today.Compare(q.Days.To) <= 0 {
		query.Until = q.Shift.Time(q.local())
	}
	return &query
}

// filters returns the reader's filters, followed by the fixed ones.
func (q *Question) filters() []model.ReportFilter { return slices.Concat(q.Filters, q.Fixed) }

// scanFilters converts filters that have been checked.
func scanFilters(filters []model.ReportFilter) []scan.Filter {
	list := make([]scan.Filter, len(filters))
	for i := range filters {
		f := &filters[i]
		list[i] = scan.Filter{
			Breakdown: scan.Breakdown{By: reports.Dimensions[f.Dimension], Property: f.Property, Event: f.Event},
			Operator:  f.Operator,
			Values:    f.Values,
		}
	}
	return list
}

// FirstDay returns the first local day of rows that have a UTC day, but not before period.Earliest
// of today.
func (q *Question) FirstDay(day model.Day) scan.Date {
	// Rows of the day can belong to the local day before.
	first := scan.DateOf(day.Start().Time().In(q.Zone))
	if earliest := period.Earliest(q.Today()); first.Compare(earliest) < 0 {
		first = earliest
	}
	return first
}
