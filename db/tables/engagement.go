package tables

import (
	"fmt"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// Page views do not hold their engagement: it lies under their id, on up to EngagementDays days. The
// following expressions read it for rows r of page views.

// EngagementDays is how many days can hold reports on a page view, its own included.
const EngagementDays = 1 + int(model.EngagementWindow/(24*time.Hour))

// EngagedMS returns the expression for the time in view, in milliseconds, of a page view that is joined
// with EngagementJoin. It is 0 for a page view whose id a later one repeats.
func EngagedMS(postgres bool) string {
	smaller, _ := extremes(postgres)
	return engaged(postgres, fmt.Sprintf("%s(%s, %d)", smaller, eachDay("coalesce(e%d.ms, 0)", " + "),
		model.MaxEngagement.Milliseconds()))
}

// EngagedScroll returns the expression for the scroll depth in percent; see EngagedMS.
func EngagedScroll(postgres bool) string {
	_, larger := extremes(postgres)
	return engaged(postgres, larger+"("+eachDay("coalesce(e%d.scroll, 0)", ", ")+")")
}

// engaged returns a value, or 0 for a page view whose id a later one repeats.
func engaged(postgres bool, value string) string {
	_, larger := extremes(postgres)
	repeatedAt := larger + "(" + eachDay("coalesce(e%d.repeated_at, 0)", ", ") + ")"
	return "CASE WHEN " + repeatedAt + " > r.at THEN 0 ELSE " + value + " END"
}

// extremes returns the dialect's functions for the smaller and the larger of values.
func extremes(postgres bool) (smaller, larger string) {
	if postgres {
		return "least", "greatest"
	}
	return "min", "max"
}

// EngagementJoin returns the join of rows r of page views with their engagement, one row a day. On
// PostgreSQL the
// page views must lie between two times, the second exclusive, so that partitions of other months
// are left out.
func EngagementJoin(postgres bool, from, to model.Instant) string {
	if !postgres {
		return eachDay("LEFT JOIN engagement AS e%[1]d ON e%[1]d.site_id = r.site_id "+
			"AND e%[1]d.day = r.at / 86400000000 + %[1]d AND e%[1]d.id = r.id", " ")
	}

	// One lookup by the whole key for each day: with an array of days, the planner reads all reports
	// of these days.
	return eachDay(`LEFT JOIN LATERAL (
  SELECT ms, scroll, repeated_at FROM engagement WHERE site_id = r.site_id AND id = r.id AND `+
		DayOf("r.at", from, to, "%[1]d")+` LIMIT 1) AS e%[1]d ON true`, " ")
}

// DayOf returns PostgreSQL's condition that a row's day is that of a time plus a number of days. All
// times lie between two, the second exclusive. It names the days as constants, so that the planner
// leaves out partitions. If the times are of one day, it is the shortest, since each lookup evaluates
// it.
func DayOf(at string, from, to model.Instant, later string) string {
	first, last := from.Day(), (to - 1).Day()
	if first == last {
		return fmt.Sprintf("day = %d + %s", first, later)
	}
	return fmt.Sprintf("day = (%s / 86400000000)::integer + %s AND day >= %d + %s AND day <= %d + %s",
		at, later, first, later, last, later)
}

// eachDay formats the number of each day, from 0, and joins the texts.
func eachDay(format, separator string) string {
	text := fmt.Sprintf(format, 0)
	for day := 1; day < EngagementDays; day++ {
		text += separator + fmt.Sprintf(format, day)
	}
	return text
}
