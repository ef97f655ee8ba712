package ingest

import (
	"slices"
	"strings"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/tables"
)

// planUsage is an account's usage and plan, as read by a batch.
type planUsage struct {
	plan  model.CaptchaPlan
	usage model.CaptchaUsage
}

// accountUsed is the new usage of an account and month.
type accountUsed struct {
	key   model.CaptchaUsageKey
	usage model.CaptchaUsage
}

// The statements of claims, both dialects side by side. "cell + 0" keeps the planner from an index
// of the cells, which a new table's missing statistics would make it prefer.
var (
	lockCaptchaUsage = newRead(tables.CaptchaUsageKey,
		tables.Columns[planUsage]{
			tables.Text("captcha_plan", func(p *planUsage) *model.CaptchaPlan { return &p.plan }),
		}.With(tables.Within(func(p *planUsage) *model.CaptchaUsage { return &p.usage }, tables.CaptchaUsage)...),
		text{
			postgres: `
SELECT k.number, a.captcha_plan, ` + tables.CaptchaUsage.List("u.") + `
FROM @rows
JOIN captcha_usage u USING (account_id, month)
JOIN accounts a ON a.id = u.account_id AND a.cell + 0 = $3 AND NOT a.cell_closed
ORDER BY u.account_id, u.month
FOR NO KEY UPDATE OF u`,
			sqlite: `
SELECT a.captcha_plan, ` + tables.CaptchaUsage.List("u.") + `
FROM captcha_usage u JOIN accounts a ON a.id = u.account_id
WHERE u.account_id = ?1 AND u.month = ?2 AND a.cell = ?3`,
		})

	// On PostgreSQL it waits for an account that is being deleted, which gets no row after its rows
	// were deleted.
	addCaptchaUsage = newWrite(tables.CaptchaUsageKey, text{
		postgres: `
INSERT INTO captcha_usage (account_id, month, used)
SELECT a.id, k.month, 0
FROM @rows
JOIN accounts a ON a.id = k.account_id AND a.cell + 0 = $3 AND NOT a.cell_closed
ORDER BY a.id, k.month
FOR KEY SHARE OF a
ON CONFLICT DO NOTHING`,
		sqlite: `
INSERT INTO captcha_usage (account_id, month, used)
SELECT id, ?2, 0 FROM accounts WHERE id = ?1 AND cell = ?3
ON CONFLICT DO NOTHING`,
	})

	setCaptchaUsage = newWrite(slices.Concat(
		tables.Within(func(a *accountUsed) *model.CaptchaUsageKey { return &a.key }, tables.CaptchaUsageKey),
		tables.Within(func(a *accountUsed) *model.CaptchaUsage { return &a.usage }, tables.CaptchaUsage),
	), text{
		postgres: `
UPDATE captcha_usage u SET used = k.used, reserve_from = k.reserve_from, over_quota = k.over_quota, noticed = k.noticed
FROM @rows
WHERE u.account_id = k.account_id AND u.month = k.month`,
		sqlite: `
UPDATE captcha_usage SET used = ?3, reserve_from = ?4, over_quota = ?5, noticed = ?6
WHERE account_id = ?1 AND month = ?2`,
	})

	newNotices = insertMissing(tables.Table[QuotaNotice]{
		Name: "quota_notices",
		Columns: tables.Within(func(n *QuotaNotice) *model.CaptchaUsageKey { return &n.CaptchaUsageKey },
			tables.CaptchaUsageKey).With(
			tables.ConstantText[QuotaNotice]("product", model.ProductCaptcha),
			tables.Integer("threshold", func(n *QuotaNotice) *int { return &n.Threshold }),
			tables.Bigint("quota", func(n *QuotaNotice) *int64 { return &n.Quota }),
			tables.Bigint("created_at", func(n *QuotaNotice) *model.Instant { return &n.CreatedAt }),
		),
	})
)

// astray completes a selection of rows k: it leaves only rows of accounts that are in another cell
// than the keys' cell ($4), or are closed because their rows are being moved. The cells of numbers
// without an account are in claim_spaces. SQLite has one cell.
const astray = `
LEFT JOIN accounts a ON a.id = k.account_id
WHERE (coalesce(a.cell, (SELECT s.cell FROM claim_spaces s WHERE s.id = k.account_id)) = $4 AND a.cell_closed IS NOT TRUE)
  IS NOT TRUE`

// readAstray returns the keys that claim would not insert.
var readAstray = newRead(tables.Consumed.Columns, tables.Columns[struct{}]{}, text{
	postgres: "SELECT k.number FROM @rows" + astray,
	sqlite:   "SELECT 1 WHERE ?1 < 0 AND ?2 < 0 AND ?3 IS NULL AND ?4 < 0",
})

// claimStatements change the claims of one cell.
type claimStatements struct {
	// claim inserts keys. On PostgreSQL it waits for another transaction that claims the same key.
	// The usage that it looks for never exists: see insertPostgres for the reason to read a table
	// of the cell. NOT IN looks for each account once, and its result is a hash table.
	claim *insertNew[model.ConsumedKey]

	release *write[model.ConsumedKey]
}

// ownClaims are the statements for the cell of a writer's connection.
var ownClaims = newClaimStatements("")

// newClaimStatements returns the statements for a schema, quoted and with a dot. Without a schema
// they use the first one that has the tables.
func newClaimStatements(schema string) claimStatements {
	in := strings.NewReplacer("@cell.", schema)
	return claimStatements{
		claim: newInsertNew(tables.Consumed.Columns, text{
			postgres: in.Replace(`
INSERT INTO @cell.captcha_spent (account_id, issued_at, id)
SELECT k.account_id, k.issued_at, k.id
FROM @rows
WHERE k.account_id NOT IN (SELECT k.account_id FROM (SELECT DISTINCT unnest($1::bigint[]) AS account_id) AS k` + astray + `)
AND NOT EXISTS (SELECT 1 FROM @cell.captcha_usage WHERE account_id = -1 AND month = 0)`),
			sqlite: "INSERT INTO captcha_spent (account_id, issued_at, id) SELECT ?1, ?2, ?3 WHERE ?4 > 0",
		}),

		release: newWrite(tables.Consumed.Columns, text{
			postgres: in.Replace(`
DELETE FROM @cell.captcha_spent s
USING @rows
WHERE s.account_id = k.account_id AND s.issued_at = k.issued_at AND s.id = k.id`),
			sqlite: `DELETE FROM captcha_spent WHERE account_id = ?1 AND issued_at = ?2 AND id = ?3`,
		}),
	}
}
