package ingest

import (
	"fmt"
	"strings"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/tables"
)

// The statements of hits, both dialects side by side.
//
// PostgreSQL has no statistics of a new table: its planner takes any index that a condition fits,
// including one that finds all rows of a site or of a day. Hence "site_id + 0", which fits no
// index, where another condition has one, and OFFSET 0, which keeps a lookup per key from becoming
// a join. Conditions on the time, or on the id that grows with it, leave out the partitions of
// other months.
//
// SQLite without statistics assumes that a site has ten visits and reads them all. Hence INDEXED
// BY. The indexes end with the primary key, so that a LIMIT bounds what is read whatever the
// visitor did.
//
// 86400000000 microseconds are a day, with which the indexes on random keys begin.

// siteUsed is the new count of a site and month.
type siteUsed struct {
	key  model.UsageKey
	used int64
}

var (
	lockUsage = newRead(tables.UsageKey, tables.Columns[Usage]{
		tables.Bigint("used", func(u *Usage) *int64 { return &u.Used }),
		tables.Bigint("monthly_pageviews", func(u *Usage) *int64 { return &u.Quota }),
	}, text{
		postgres: `
SELECT k.number, u.used, s.monthly_pageviews
FROM @rows
JOIN site_usage u USING (site_id, month)
JOIN sites s ON s.id = u.site_id
ORDER BY u.site_id, u.month
FOR NO KEY UPDATE OF u`,
		sqlite: `
SELECT u.used, s.monthly_pageviews
FROM site_usage u JOIN sites s ON s.id = u.site_id
WHERE u.site_id = ?1 AND u.month = ?2`,
	})

	addUsage = newWrite(tables.UsageKey, text{
		postgres: `
INSERT INTO site_usage (site_id, month, used)
SELECT s.id, k.month, 0
FROM @rows
JOIN sites s ON s.id = k.site_id
ORDER BY s.id, k.month
ON CONFLICT DO NOTHING`,
		sqlite: `
INSERT INTO site_usage (site_id, month, used)
SELECT id, ?2, 0 FROM sites WHERE id = ?1
ON CONFLICT DO NOTHING`,
	})

	setUsage = newWrite(tables.Within(func(u *siteUsed) *model.UsageKey { return &u.key }, tables.UsageKey).
			With(tables.Bigint("used", func(u *siteUsed) *int64 { return &u.used })), text{
		postgres: `
UPDATE site_usage u SET used = k.used
FROM @rows
WHERE u.site_id = k.site_id AND u.month = k.month`,
		sqlite: `UPDATE site_usage SET used = ?3 WHERE site_id = ?1 AND month = ?2`,
	})
)

// maxVisitsRead is how many of a visitor's visits of a day are read. The last one decides where a
// page view belongs. The others may await page views of pages that were opened together with it,
// whose events came first.
const maxVisitsRead = "4"

// attributedVisit are the columns of a visit with its whole attribution.
var attributedVisit = tables.VisitState.With(tables.VisitAttribution...)

var (
	readVisits      = newRead(tables.VisitorKey, tables.VisitState, newestVisits(tables.VisitState))
	readAttribution = newRead(tables.VisitorKey, attributedVisit, newestVisits(attributedVisit))

	// PostgreSQL's index on page view ids does not hold the site; see addEngagement.
	readViewed = newRead(tables.ViewKey, attributedVisit, text{
		postgres: `
SELECT k.number, ` + attributedVisit.List("v.") + `
FROM @rows,
  LATERAL (SELECT visits.* FROM
    (SELECT site_id, visit_id, at FROM pageviews WHERE (at / 86400000000)::integer = $4 AND id = k.pageview_id
      AND at >= $5 AND at < $6 ORDER BY at DESC LIMIT 16) p,
    LATERAL (SELECT * FROM visits WHERE site_id = k.site_id AND id = p.visit_id AND id >= $7 AND id < $8 OFFSET 0) visits
    WHERE p.site_id = k.site_id AND visits.visitor = k.visitor ORDER BY p.at DESC LIMIT 1) v`,
		sqlite: `
SELECT ` + attributedVisit.List("v.") + `
FROM (SELECT visit_id, at FROM pageviews INDEXED BY pageviews_id
    WHERE site_id = ?1 AND at / 86400000000 = ?4 AND id = ?3 ORDER BY at DESC LIMIT 16) p
  CROSS JOIN visits v ON v.site_id = ?1 AND v.id = p.visit_id AND v.visitor = ?2
ORDER BY p.at DESC LIMIT 1`,
	})

	readTransactions = newRead(tables.TransactionKey, tables.TransactionEvent, text{
		postgres: `
SELECT k.number, t.event
FROM @rows
JOIN transactions t USING (site_id, transaction_id)`,
		sqlite: `SELECT event FROM transactions WHERE site_id = ?1 AND transaction_id = ?2`,
	})
)

func newestVisits(columns tables.Columns[model.Visit]) text {
	return text{
		postgres: `
SELECT k.number, ` + columns.List("v.") + `
FROM @rows,
  LATERAL (SELECT * FROM visits WHERE (started_at / 86400000000)::integer = $3 AND visitor = k.visitor
    AND site_id + 0 = k.site_id AND id >= $4 AND id < $5 ORDER BY id DESC LIMIT ` + maxVisitsRead + `) v`,
		sqlite: `
SELECT ` + columns.List("v.") + `
FROM visits v INDEXED BY visits_visitor
WHERE v.site_id = ?1 AND v.started_at / 86400000000 = ?3 AND v.visitor = ?2
ORDER BY v.id DESC LIMIT ` + maxVisitsRead,
	}
}

var (
	newVisits       = insert(tables.Visits)
	newPageviews    = insert(tables.Pageviews)
	newEvents       = insert(tables.Events)
	newTransactions = insert(tables.Transactions)
	newDeliveries   = insert(tables.Deliveries)

	// On PostgreSQL an insert that always conflicts with its row: a plain UPDATE is a join, which
	// the planner may begin with all visits of the day.
	continueVisits = newWrite(tables.VisitKey.With(tables.VisitChanging...), text{
		postgres: `
INSERT INTO visits (site_id, id, visitor, started_at, last_pageview_at, pageviews, recent, awaited, channel, user_id)
SELECT v.site_id, v.id, v.visitor, v.started_at, k.last_pageview_at, k.pageviews, k.recent, k.awaited, v.channel, k.user_id
FROM @rows,
  LATERAL (SELECT * FROM visits WHERE site_id = k.site_id AND id = k.id AND id >= $8 AND id < $9 OFFSET 0) v
ON CONFLICT (site_id, id) DO UPDATE SET last_pageview_at = excluded.last_pageview_at, pageviews = excluded.pageviews,
  recent = excluded.recent, awaited = excluded.awaited, user_id = coalesce(excluded.user_id, visits.user_id)`,
		sqlite: `
UPDATE visits SET last_pageview_at = ?3, pageviews = ?4, recent = ?5, awaited = ?6, user_id = coalesce(?7, user_id)
WHERE site_id = ?1 AND id = ?2`,
	})

	// addEngagement adds each report to the newest page view with its id, which is most likely one
	// of the batch's day. Shared are the bound of the time in view, the first time of a page view,
	// the last day to look at, and for PostgreSQL the end of the times and the first day.
	//
	// On PostgreSQL it is an insert for the reason of continueVisits. The index does not hold the
	// site, and any site may repeat an id: only an id's newest 16 page views are looked at. A page
	// view's id is a random number that only its own page knows, so no one can hide it behind
	// others.
	addEngagement = newWrite(tables.Engagement, text{
		postgres: `
INSERT INTO pageviews (site_id, at, id, visit_id, engaged_ms, scroll, width_range, manual, path)
SELECT newest.site_id, newest.at, newest.id, newest.visit_id, k.ms, k.scroll, newest.width_range, newest.manual, newest.path
FROM @rows,
  LATERAL (SELECT found.* FROM generate_series($9::integer, $7::integer) AS day,
    LATERAL (SELECT * FROM (SELECT * FROM pageviews WHERE (at / 86400000000)::integer = day AND id = k.id
      AND at >= $6 AND at < $8 ORDER BY at DESC LIMIT 16) same_id
      WHERE same_id.site_id = k.site_id ORDER BY at DESC LIMIT 1) found
    ORDER BY found.at DESC LIMIT 1) newest
ON CONFLICT (site_id, at, id) DO UPDATE SET engaged_ms = least(pageviews.engaged_ms + excluded.engaged_ms, $5),
  scroll = greatest(pageviews.scroll, excluded.scroll)`,
		sqlite: `
UPDATE pageviews SET engaged_ms = min(engaged_ms + ?3, ?5), scroll = max(scroll, ?4)
WHERE site_id = ?1 AND id = ?2 AND at = ` + newestOnDays(engagementDays),
	})
)

// engagementDays is how many days SQLite looks for a page view on: two of the batch, around
// midnight, one for latest and two for EngagementWindow.
const engagementDays = 5

// newestOnDays is the time of the newest page view, as an expression that looks at one day after
// the other and stops at the first that has one. An IN list would look at all.
func newestOnDays(days int) string {
	lookups := make([]string, days)
	for back := range lookups {
		lookups[back] = fmt.Sprintf(`
  (SELECT max(at) FROM pageviews INDEXED BY pageviews_id
    WHERE site_id = ?1 AND at / 86400000000 = ?7 - %d AND id = ?2 AND at >= ?6)`, back)
	}
	return "coalesce(" + strings.Join(lookups, ",") + ")"
}
