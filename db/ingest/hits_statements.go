package ingest

import (
	"fmt"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/tables"
)

// The statements of hits, both dialects side by side.
//
// PostgreSQL has no statistics of a new table: its planner takes any index that fits a condition.
// Each lookup names all columns of a key up to the column that it orders by. Conditions on the day
// that all rows share leave out the partitions of other months before a statement runs.
//
// A LIMIT bounds the rows that a visitor can make a batch read.

// siteUsed is the new count of a site and month, 0 if it stays, how many rows its reports
// add, and the threshold of the quota that is reached, 0 if it stays.
type siteUsed struct {
	key           model.UsageKey
	used, reports int64
	reached       int16
}

var (
	// OFFSET 0 makes each lookup a query of its own, and "+ 0" leaves it one index: without
	// statistics of the sites the planner would otherwise read all of them. Rows are locked in the
	// order of the keys.
	lockUsage = newRead(tables.UsageKey, tables.Columns[Usage]{
		tables.Bigint("used", func(u *Usage) *int64 { return &u.Used }),
		tables.Bigint("monthly_pageviews", func(u *Usage) *int64 { return &u.Quota }),
		tables.Bigint("reports", func(u *Usage) *int64 { return &u.Reports }),
		tables.Smallint("reached", func(u *Usage) *int16 { return &u.Reached }),
	}, text{
		postgres: `
SELECT k.number, u.used, s.monthly_pageviews, u.reports, u.reached
FROM @rows
CROSS JOIN LATERAL (
  SELECT monthly_pageviews FROM sites
  WHERE id = k.site_id AND deleted_at + 0 = 0 AND cell + 0 = $3 AND NOT cell_closed
  OFFSET 0) AS s
CROSS JOIN LATERAL (
  SELECT used, reports, reached FROM site_usage
  WHERE site_id = k.site_id AND month = k.month
  OFFSET 0 FOR NO KEY UPDATE) AS u`,
		sqlite: `
SELECT u.used, s.monthly_pageviews, u.reports, u.reached
FROM site_usage u JOIN sites s ON s.id = u.site_id AND s.deleted_at = 0
WHERE u.site_id = ?1 AND u.month = ?2 AND s.cell = ?3`,
	})

	// On PostgreSQL it waits for a site that is being deleted.
	addUsage = newWrite(tables.UsageKey, text{
		postgres: `
INSERT INTO site_usage (site_id, month, used)
SELECT s.id, k.month, 0
FROM @rows
CROSS JOIN LATERAL (
  SELECT id FROM sites
  WHERE id = k.site_id AND deleted_at + 0 = 0 AND cell + 0 = $3 AND NOT cell_closed
  OFFSET 0 FOR KEY SHARE) AS s
ORDER BY s.id, k.month
ON CONFLICT DO NOTHING`,
		sqlite: `
INSERT INTO site_usage (site_id, month, used)
SELECT id, ?2, 0 FROM sites WHERE id = ?1 AND deleted_at = 0 AND cell = ?3
ON CONFLICT DO NOTHING`,
	})

	// A count never decreases, so the larger value is newer. A threshold may be lower than the
	// stored threshold of a smaller quota. It has no notice yet.
	setUsage = newWrite(tables.Within(func(u *siteUsed) *model.UsageKey { return &u.key }, tables.UsageKey).With(
		tables.Bigint("used", func(u *siteUsed) *int64 { return &u.used }),
		tables.Bigint("reports", func(u *siteUsed) *int64 { return &u.reports }),
		tables.Smallint("reached", func(u *siteUsed) *int16 { return &u.reached })), text{
		postgres: `
UPDATE site_usage u
SET used = greatest(u.used, k.used), reports = u.reports + k.reports,
  reached = CASE WHEN k.reached > 0 THEN k.reached ELSE u.reached END,
  noted = CASE WHEN k.reached > 0 THEN 0 ELSE u.noted END
FROM @rows
WHERE u.site_id = k.site_id AND u.month = k.month`,
		sqlite: `
UPDATE site_usage SET used = max(used, ?3), reports = reports + ?4,
  reached = CASE WHEN ?5 > 0 THEN ?5 ELSE reached END, noted = CASE WHEN ?5 > 0 THEN 0 ELSE noted END
WHERE site_id = ?1 AND month = ?2`,
	})
)

// The sites that have no usage row for another reason than their deletion.
var readMoved = newRead(tables.UsageKey, tables.Columns[struct{}]{}, text{
	postgres: `
SELECT k.number
FROM @rows
CROSS JOIN LATERAL (
  SELECT 1 FROM sites
  WHERE id = k.site_id AND deleted_at + 0 = 0 AND (cell <> $3 OR cell_closed)
  OFFSET 0) AS s`,
	sqlite: `SELECT 1 FROM sites WHERE id = ?1 AND ?2 > 0 AND deleted_at = 0 AND cell <> ?3`,
})

// maxVisitsRead is how many of a visitor's visits of a day are read. The last one decides where a
// page view belongs. The others may await page views of pages that were opened together, if their
// events came first.
const maxVisitsRead = "4"

var (
	readVisits = newRead(tables.VisitorKey, tables.VisitState, text{
		postgres: `
SELECT k.number, ` + tables.VisitState.List("v.") + `
FROM @rows,
  LATERAL (SELECT * FROM visits WHERE site_id = k.site_id AND day = $3 AND visitor = k.visitor
    ORDER BY n DESC LIMIT ` + maxVisitsRead + `) v`,
		sqlite: `
SELECT ` + tables.VisitState.List("") + `
FROM visits
WHERE site_id = ?1 AND day = ?3 AND visitor = ?2
ORDER BY n DESC LIMIT ` + maxVisitsRead,
	})

	// The first and last day of the batch are shared.
	readReported = newRead(tables.EngagementKey, tables.Columns[struct{}]{}, text{
		postgres: `
SELECT k.number
FROM @rows,
  LATERAL (SELECT 1 FROM engagement WHERE site_id = k.site_id AND day = k.day AND id = k.id AND day >= $4 AND day <= $5
    LIMIT 1) e`,
		sqlite: `SELECT 1 FROM engagement WHERE site_id = ?1 AND day = ?2 AND id = ?3`,
	})

	readTransactions = newRead(tables.TransactionKey, tables.TransactionEvent, text{
		postgres: `
SELECT k.number, t.event
FROM @rows
JOIN transactions t USING (site_id, transaction_id)`,
		sqlite: `SELECT event FROM transactions WHERE site_id = ?1 AND transaction_id = ?2`,
	})
)

var (
	newVisits       = newInsertCopied(tables.Visits)
	newPageviews    = newInsertCopied(tables.Pageviews)
	newEvents       = insert(tables.Events)
	newTransactions = insert(tables.Transactions)
	newDeliveries   = insert(tables.Deliveries)

	// An insert that always conflicts with its row: on PostgreSQL a plain UPDATE is a join, which
	// the planner may begin with all visits of the day.
	continueVisits = newWrite(tables.Visits.Columns, text{
		postgres: insertPostgres(tables.Visits) + setChanging,
		sqlite:   tables.Visits.InsertSQLite() + setChanging,
	})

	// addEngagement adds to earlier reports. Time adds up, the deepest scroll counts, and so does
	// the newest page view that repeats an id.
	addEngagement = newWrite(tables.Engagement.Columns, text{
		postgres: addedEngagement(insertPostgres(tables.Engagement), "least", "greatest"),
		sqlite:   addedEngagement(tables.Engagement.InsertSQLite(), "min", "max"),
	})
)

// setChanging completes an insert of visits: existing visits get the new values of the columns that
// change.
var setChanging = " ON CONFLICT (" + tables.VisitKey.List("") + ") DO UPDATE SET (" + tables.VisitChanging.List("") +
	") = (" + tables.VisitChanging.List("excluded.") + ")"

// addedEngagement completes an insert of engagement, with the dialect's functions for the smaller
// and the larger of two values.
func addedEngagement(insert, smaller, larger string) string {
	return insert + fmt.Sprintf(`
ON CONFLICT (site_id, day, id) DO UPDATE SET
  ms = %s(engagement.ms + excluded.ms, %d),
  scroll = %s(engagement.scroll, excluded.scroll),
  repeated_at = coalesce(excluded.repeated_at, engagement.repeated_at)`,
		smaller, model.MaxEngagement.Milliseconds(), larger)
}
