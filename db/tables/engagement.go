package tables

import (
	"fmt"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// Page views do not hold their engagement: it lies under their id, on up to EngagementDays days.
// The following expressions read it for rows r of page views.

// EngagementDays is how many days can hold reports on a page view, its own included.
const EngagementDays = 1 + int(model.EngagementWindow/(24*time.Hour))

// EngagedMS returns the expression for the time in view, in milliseconds, of a page view that is
// joined with EngagementJoin. It is 0 for a page view if a later one repeats its id.
func EngagedMS(postgres bool) string {
	limit := model.MaxEngagement.Milliseconds()
	if postgres {
		return engaged("coalesce(e.repeated_at, 0)", fmt.Sprintf("least(coalesce(e.ms, 0), %d)", limit))
	}
	return engaged(sqliteRepeatedAt(), fmt.Sprintf("min(%s, %d)", eachDay(0, "coalesce(e%d.ms, 0)", " + "), limit))
}

// EngagedScroll returns the expression for the scroll depth in percent; see EngagedMS.
func EngagedScroll(postgres bool) string {
	if postgres {
		return engaged("coalesce(e.repeated_at, 0)", "coalesce(e.scroll, 0)")
	}
	return engaged(sqliteRepeatedAt(), "max("+eachDay(0, "coalesce(e%d.scroll, 0)", ", ")+")")
}

func sqliteRepeatedAt() string {
	return "max(" + eachDay(0, "coalesce(e%d.repeated_at, 0)", ", ") + ")"
}

// engaged returns value, or 0 for a page view if a later one repeats its id.
func engaged(repeatedAt, value string) string {
	return "CASE WHEN " + repeatedAt + " > r.at THEN 0 ELSE " + value + " END"
}

// EngagementJoin returns the join of rows r of page views with their engagement of all days. On
// PostgreSQL all page views are of one day.
//
// On PostgreSQL the sums make each lookup a query of its own, which uses the whole key: without
// statistics, a plain join reads all reports of the days. One lookup for all days takes two thirds
// of the time of one for each. With days that depend on the row the planner would not use the whole
// key.
func EngagementJoin(postgres bool, day model.Day) string {
	if !postgres {
		return eachDay(0, "LEFT JOIN engagement AS e%[1]d ON e%[1]d.site_id = r.site_id "+
			"AND e%[1]d.day = r.at / 86400000000 + %[1]d AND e%[1]d.id = r.id", " ")
	}

	days := eachDay(int(day), "%d", ",")
	return "LEFT JOIN LATERAL (SELECT sum(ms) AS ms, max(scroll) AS scroll, max(repeated_at) AS repeated_at " +
		"FROM engagement WHERE site_id = r.site_id AND id = r.id AND day = ANY('{" + days + "}')) AS e ON true"
}

// eachDay formats the number of each day, which begin with first, and joins the texts.
func eachDay(first int, format, separator string) string {
	days := make([]string, EngagementDays)
	for n := range days {
		days[n] = fmt.Sprintf(format, first+n)
	}
	return strings.Join(days, separator)
}
