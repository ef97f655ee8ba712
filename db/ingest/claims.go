package ingest

import (
	"slices"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/tables"
)

// ClaimKeys names what a batch of captcha claims reads and claims. Each list is sorted and has no
// duplicates, so that all writers lock in one order.
type ClaimKeys struct {
	Usage    []model.CaptchaUsageKey
	Consumed []model.ConsumedKey
}

// ClaimState is what a batch read and claimed under its locks.
type ClaimState struct {
	Usage   map[model.CaptchaUsageKey]model.CaptchaUsage // a key without an entry belongs to a deleted account
	Claimed map[model.ConsumedKey]bool                   // this batch is the first to claim it
}

// ClaimChanges is what a batch writes.
type ClaimChanges struct {
	Release []model.ConsumedKey // claimed by this batch but not consumed; sorted
	Usage   map[model.CaptchaUsageKey]model.CaptchaUsage
	Notices []QuotaNotice
}

// QuotaNotice records that an account reached a threshold of its captcha quota in a month. It
// becomes a row of quota_notices unless that row exists.
type QuotaNotice struct {
	model.CaptchaUsageKey
	Threshold int // percent: 80 or 100
	CreatedAt model.Instant
}

// claims are the statements of a batch of claims.
type claims struct{}

func (claims) read(keys ClaimKeys) (*ClaimState, []step) {
	state := &ClaimState{
		Usage:   make(map[model.CaptchaUsageKey]model.CaptchaUsage, len(keys.Usage)),
		Claimed: make(map[model.ConsumedKey]bool, len(keys.Consumed)),
	}

	return state, []step{
		lockCaptchaUsage.rows(keys.Usage, func(k *model.CaptchaUsageKey, found *planUsage) {
			found.usage.Quota = found.plan.QuotaOrUnlimited()
			state.Usage[*k] = found.usage
		}),
		claim.rows(keys.Consumed, func(k *model.ConsumedKey) { state.Claimed[*k] = true }),
	}
}

func (claims) missing(keys ClaimKeys, state *ClaimState) bool {
	return len(state.Usage) < len(keys.Usage)
}

func (claims) add(keys ClaimKeys) []step { return []step{addCaptchaUsage.rows(keys.Usage)} }

func (claims) complete(ClaimKeys, *ClaimState) []step { return nil }

func (claims) write(_ ClaimKeys, changes *ClaimChanges) []step {
	used := make([]accountUsed, 0, len(changes.Usage))
	for key, usage := range changes.Usage {
		used = append(used, accountUsed{key, usage})
	}

	return []step{
		release.rows(changes.Release),
		setCaptchaUsage.rows(used),
		newNotices.rows(changes.Notices),
	}
}

// planUsage is what a batch reads of an account's usage.
type planUsage struct {
	plan  model.CaptchaPlan
	usage model.CaptchaUsage
}

// accountUsed is the new usage of an account and month.
type accountUsed struct {
	key   model.CaptchaUsageKey
	usage model.CaptchaUsage
}

// The statements of claims, both dialects side by side.
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
JOIN accounts a ON a.id = u.account_id
ORDER BY u.account_id, u.month
FOR NO KEY UPDATE OF u`,
			sqlite: `
SELECT a.captcha_plan, ` + tables.CaptchaUsage.List("u.") + `
FROM captcha_usage u JOIN accounts a ON a.id = u.account_id
WHERE u.account_id = ?1 AND u.month = ?2`,
		})

	// On PostgreSQL it waits for an account that is being deleted, which gets no row after its rows
	// were deleted.
	addCaptchaUsage = newWrite(tables.CaptchaUsageKey, text{
		postgres: `
INSERT INTO captcha_usage (account_id, month, used)
SELECT a.id, k.month, 0
FROM @rows
JOIN accounts a ON a.id = k.account_id
ORDER BY a.id, k.month
FOR KEY SHARE OF a
ON CONFLICT DO NOTHING`,
		sqlite: `
INSERT INTO captcha_usage (account_id, month, used)
SELECT id, ?2, 0 FROM accounts WHERE id = ?1
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

	// On PostgreSQL it waits for another transaction that claims the same key.
	claim = newInsertNew(tables.Consumed)

	release = newWrite(tables.Consumed.Columns, text{
		postgres: `
DELETE FROM captcha_spent s
USING @rows
WHERE s.account_id = k.account_id AND s.issued_at = k.issued_at AND s.id = k.id`,
		sqlite: `DELETE FROM captcha_spent WHERE account_id = ?1 AND issued_at = ?2 AND id = ?3`,
	})

	newNotices = insertMissing(tables.Table[QuotaNotice]{
		Name: "quota_notices",
		Columns: tables.Within(func(n *QuotaNotice) *model.CaptchaUsageKey { return &n.CaptchaUsageKey },
			tables.CaptchaUsageKey).With(
			tables.ConstantText[QuotaNotice]("product", model.ProductCaptcha),
			tables.Integer("threshold", func(n *QuotaNotice) *int { return &n.Threshold }),
			tables.Bigint("created_at", func(n *QuotaNotice) *model.Instant { return &n.CreatedAt }),
		),
	})
)
