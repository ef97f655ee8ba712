package scan

import (
	"slices"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// Bounds of cohorts.
const (
	MaxCohorts     = 54 // the weeks that a leap year can overlap
	MaxCohortWeeks = 12 // weeks after a cohort's first
)

// Cohorts asks for the user ids by the week of their first visit in the query's period, and how
// many of them had visits in later weeks. Only weeks of the period are listed.
type Cohorts struct {
	First Date // the Monday of the first week
	Weeks int  // at most MaxCohorts
}

// Cohort has the user ids with the first visit in a week.
type Cohort struct {
	Users    int64
	Returned [MaxCohortWeeks]int64 // with a visit in the first week after it, the second one and so on
}

// Monday returns the first day of the week of d.
func (d Date) Monday() Date { return d.AddDays(-((d.Weekday() + 6) % daysOfWeek)) }

// cohortCount collects the weeks with visits of each user id.
type cohortCount struct {
	begin model.Day // the Monday of the week in which the period begins
	users []seenWeeks
}

// seenWeeks are the week of a user id's first visit, counted from cohortCount.begin, and the weeks
// with visits from the first week on, a bit each. No bit is set before the first visit.
type seenWeeks struct {
	first int16
	weeks uint16
}

const cohortBits = 1<<(MaxCohortWeeks+1) - 1

// see notes a visit in a week. Visits may come in any order.
func (s *seenWeeks) see(week int16) {
	switch {
	case s.weeks == 0:
		s.first, s.weeks = week, 1
	case week < s.first:
		s.weeks = uint16(uint64(s.weeks)<<min(s.first-week, MaxCohortWeeks+1)) & cohortBits
		s.first, s.weeks = week, s.weeks|1
	case week-s.first <= MaxCohortWeeks:
		s.weeks |= 1 << (week - s.first)
	}
}

// weekIntervals returns the weeks of the period by time, counted from the week of its first day.
func (p *pass) weekIntervals() intervals {
	first := p.query.From.Number()
	return newIntervals(p.g, func(unix int64) int {
		after, _ := slices.BinarySearch(p.days, unix+1)
		return int(first+model.Day(after-1)-p.cohorts.begin) / daysOfWeek
	})
}

const daysOfWeek = 7

// countCohorts notes the visits of user ids that began in the window.
func (p *pass) countCohorts() {
	if p.users == nil {
		return
	}

	p.cohorts.users = grown(p.cohorts.users, len(p.texts[segment.User].texts), p.budget)
	for i := range p.facts {
		if f := &p.facts[i]; f.begun && f.user != 0 {
			p.cohorts.users[f.user].see(int16(p.weeks.at(p.g.Start[f.visit])))
		}
	}
}

// result returns the cohorts of the weeks that are asked for.
func (c *cohortCount) result(asked *Cohorts) []Cohort {
	list := make([]Cohort, asked.Weeks)
	first := int(asked.First.Number()-c.begin) / daysOfWeek
	for i := range c.users {
		seen := &c.users[i]
		cohort := int(seen.first) - first
		if seen.weeks == 0 || cohort < 0 || cohort >= len(list) {
			continue
		}

		list[cohort].Users++
		for week := range list[cohort].Returned {
			list[cohort].Returned[week] += int64(seen.weeks >> (week + 1) & 1)
		}
	}
	return list
}
