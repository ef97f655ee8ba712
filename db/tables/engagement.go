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

// EngagedMS and EngagedScroll are the time in view and the scroll depth of a page view that is
// joined with EngagementJoin. They are 0 for a page view whose id a later one repeats.
func EngagedMS(postgres bool) string {
	if postgres {
		return "CASE WHEN e.repeated_at > r.at THEN 0 ELSE e.ms END"
	}
	return sqliteEngaged(fmt.Sprintf("min(%s, %d)", eachDay("coalesce(e%d.ms, 0)", " + "), model.MaxEngagement.Milliseconds()))
}

// EngagedScroll is the scroll depth; see EngagedMS.
func EngagedScroll(postgres bool) string {
	if postgres {
		return "CASE WHEN e.repeated_at > r.at THEN 0 ELSE coalesce(e.scroll, 0) END"
	}
	return sqliteEngaged("max(" + eachDay("coalesce(e%d.scroll, 0)", ", ") + ")")
}

func sqliteEngaged(value string) string {
	return "CASE WHEN max(" + eachDay("coalesce(e%d.repeated_at, 0)", ", ") + ") > r.at THEN 0 ELSE " + value + " END"
}

// EngagementJoin joins rows r of page views with their engagement. On PostgreSQL the page views must
// lie between two times, the second exclusive, so that partitions of other months are left out.
func EngagementJoin(postgres bool, from, to model.Instant) string {
	if !postgres {
		return eachDay("LEFT JOIN engagement AS e%[1]d ON e%[1]d.site_id = r.site_id "+
			"AND e%[1]d.day = r.at / 86400000000 + %[1]d AND e%[1]d.id = r.id", " ")
	}

	// One lookup by the whole key for each day: with an array of days, the planner reads all reports
	// of these days.
	return fmt.Sprintf(`LEFT JOIN LATERAL (
  SELECT least(coalesce(sum(ms), 0), %d) AS ms, max(scroll) AS scroll, max(repeated_at) AS repeated_at
  FROM (VALUES %s) AS later (days), LATERAL (
    SELECT * FROM engagement WHERE site_id = r.site_id AND day = (r.at / 86400000000)::integer + days AND id = r.id
      AND day >= %d AND day <= %d LIMIT 1) AS reported) AS e ON true`,
		model.MaxEngagement.Milliseconds(), eachDay("(%d)", ", "), from.Day(), int(to.Day())+EngagementDays-1)
}

// eachDay formats the number of each day, from 0, and joins the texts.
func eachDay(format, separator string) string {
	text := fmt.Sprintf(format, 0)
	for day := 1; day < EngagementDays; day++ {
		text += separator + fmt.Sprintf(format, day)
	}
	return text
}
