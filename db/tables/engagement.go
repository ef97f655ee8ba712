package tables

import (
	"fmt"
	"strings"
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
	limit := model.MaxEngagement.Milliseconds()
	if postgres {
		return engaged("coalesce(e.repeated_at, 0)", fmt.Sprintf("least(coalesce(e.ms, 0), %d)", limit))
	}
	return engaged(sqliteRepeatedAt(), fmt.Sprintf("min(%s, %d)", eachDay("coalesce(e%d.ms, 0)", " + "), limit))
}

// EngagedScroll returns the expression for the scroll depth in percent; see EngagedMS.
func EngagedScroll(postgres bool) string {
	if postgres {
		return engaged("coalesce(e.repeated_at, 0)", "coalesce(e.scroll, 0)")
	}
	return engaged(sqliteRepeatedAt(), "max("+eachDay("coalesce(e%d.scroll, 0)", ", ")+")")
}

func sqliteRepeatedAt() string { return "max(" + eachDay("coalesce(e%d.repeated_at, 0)", ", ") + ")" }

// engaged returns a value, or 0 for a page view whose id a later one repeats.
func engaged(repeatedAt, value string) string {
	return "CASE WHEN " + repeatedAt + " > r.at THEN 0 ELSE " + value + " END"
}

// EngagementJoin returns the join of rows r of page views with their engagement of all days. On
// PostgreSQL the page views must lie between two times, the second exclusive, so that partitions of
// other months are left out.
//
// On PostgreSQL the sums make each lookup a query of its own, which uses the whole key: without
// statistics, a plain join reads all reports of the days. Page views of one day have one lookup for all
// days of their reports, in two thirds of the time of one for each. With days that depend on the row
// the planner would not use the whole key.
func EngagementJoin(postgres bool, from, to model.Instant) string {
	if !postgres {
		return eachDay("LEFT JOIN engagement AS e%[1]d ON e%[1]d.site_id = r.site_id "+
			"AND e%[1]d.day = r.at / 86400000000 + %[1]d AND e%[1]d.id = r.id", " ")
	}

	const key = "FROM engagement WHERE site_id = r.site_id AND id = r.id AND "
	reports := key + fmt.Sprintf("day = ANY('{%s}')", joinDays(func(n int) string { return fmt.Sprint(int(from.Day()) + n) }, ","))
	if first, last := from.Day(), (to - 1).Day(); first != last {
		reports = "FROM (" + joinDays(func(n int) string {
			return "(SELECT ms, scroll, repeated_at " + key + dayOf("r.at", first, last, n) + " LIMIT 1)"
		}, " UNION ALL ") + ") AS days"
	}
	return "LEFT JOIN LATERAL (SELECT sum(ms) AS ms, max(scroll) AS scroll, max(repeated_at) AS repeated_at " + reports + ") AS e ON true"
}

// DayOf returns PostgreSQL's condition that a row's day is that of a time. All times lie between two,
// the second exclusive. It names the days as constants, so that the planner leaves out partitions. If
// the times are of one day, it is the shortest, since each lookup evaluates it.
func DayOf(at string, from, to model.Instant) string {
	first, last := from.Day(), (to - 1).Day()
	if first == last {
		return fmt.Sprintf("day = %d", first)
	}
	return dayOf(at, first, last, 0)
}

// dayOf returns the condition that a row's day is that of a time, from a first to a last one, plus a
// number of days.
func dayOf(at string, first, last model.Day, later int) string {
	return fmt.Sprintf("day = (%s / 86400000000)::integer + %d AND day >= %d AND day <= %d",
		at, later, int(first)+later, int(last)+later)
}

// eachDay formats the number of each day, from 0, and joins the texts.
func eachDay(format, separator string) string {
	return joinDays(func(n int) string { return fmt.Sprintf(format, n) }, separator)
}

func joinDays(text func(n int) string, separator string) string {
	days := make([]string, EngagementDays)
	for n := range days {
		days[n] = text(n)
	}
	return strings.Join(days, separator)
}
