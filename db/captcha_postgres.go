package db

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tallygate/tallygate/db/model"
)

// postgresCaptcha sends a batch in two round trips, like postgresHits: begin, lock and claim; then
// write and commit.
type postgresCaptcha struct{ pgWriter }

func newPostgresCaptcha(config *pgx.ConnConfig) *postgresCaptcha {
	return &postgresCaptcha{newPGWriter(config)}
}

const (
	pgLockCaptchaUsage = `
SELECT u.account_id, u.month, a.captcha_plan, u.used, u.reserve_from, u.over_quota, u.noticed
FROM unnest($1::bigint[], $2::integer[]) AS k (account_id, month)
JOIN captcha_usage u USING (account_id, month)
JOIN accounts a ON a.id = u.account_id
ORDER BY u.account_id, u.month
FOR NO KEY UPDATE OF u`

	// An account that is being deleted is waited for, so that it gets no row after its rows were
	// deleted.
	pgAddCaptchaUsage = `
INSERT INTO captcha_usage (account_id, month, used)
SELECT a.id, k.month, 0
FROM unnest($1::bigint[], $2::integer[]) AS k (account_id, month)
JOIN accounts a ON a.id = k.account_id
ORDER BY a.id, k.month
FOR KEY SHARE OF a
ON CONFLICT DO NOTHING`

	// Another process that claims the same one at this moment is waited for.
	pgClaim = `
INSERT INTO captcha_spent (account_id, issued_at, id)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[])
ON CONFLICT DO NOTHING
RETURNING account_id, issued_at, id`

	pgRelease = `
DELETE FROM captcha_spent s
USING unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS k (account_id, issued_at, id)
WHERE s.account_id = k.account_id AND s.issued_at = k.issued_at AND s.id = k.id`

	pgSetCaptchaUsage = `
UPDATE captcha_usage u SET used = k.used, reserve_from = k.reserve_from, over_quota = k.over_quota, noticed = k.noticed
FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::bigint[], $5::bigint[], $6::smallint[])
  AS k (account_id, month, used, reserve_from, over_quota, noticed)
WHERE u.account_id = k.account_id AND u.month = k.month`

	pgNotices = `
INSERT INTO quota_notices (account_id, product, month, threshold, created_at)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::integer[], $4::integer[], $5::bigint[])
ON CONFLICT DO NOTHING`
)

func (c *postgresCaptcha) Update(ctx context.Context, keys CaptchaKeys, decide func(*CaptchaState) *CaptchaChanges) error {
	return RetryNewIDs(func() error { return c.update(ctx, keys, decide) })
}

func (c *postgresCaptcha) update(ctx context.Context, keys CaptchaKeys, decide func(*CaptchaState) *CaptchaChanges) (err error) {
	committed := false
	defer func() {
		// after a panic, too
		if !committed {
			c.abandon()
		}
	}()

	var state *CaptchaState
	err = c.begin(ctx, func() (err error) {
		state, err = c.claim(ctx, keys)
		return err
	})
	if err != nil {
		return err
	}

	if len(state.Usage) < len(keys.Usage) {
		// The first verifications of a month, or an account that is gone. As with hits, the missing
		// rows are added outside the transaction, which holds locks already.
		if state, err = c.addUsage(ctx, keys); err != nil {
			return err
		}
	}

	err = c.commit(ctx, decide(state))
	committed = err == nil
	return err
}

func (c *postgresCaptcha) claim(ctx context.Context, keys CaptchaKeys) (*CaptchaState, error) {
	state := newCaptchaState(keys)
	var b pgx.Batch
	b.Queue(pgBegin)

	if u := keys.Usage; len(u) > 0 {
		b.Queue(pgLockCaptchaUsage, captchaUsageColumns(u)...).Query(func(rows pgx.Rows) error { return scanCaptchaUsage(rows, state) })
	}

	b.Queue(pgClaim, spentColumns(keys.Spent)...).Query(func(rows pgx.Rows) error { return scanClaimed(rows, state) })
	return state, c.conn.SendBatch(ctx, &b).Close()
}

func (c *postgresCaptcha) addUsage(ctx context.Context, keys CaptchaKeys) (*CaptchaState, error) {
	if _, err := c.conn.Exec(ctx, "rollback"); err != nil {
		return nil, err
	}
	if _, err := c.conn.Exec(ctx, pgAddCaptchaUsage, captchaUsageColumns(keys.Usage)...); err != nil {
		return nil, err
	}
	return c.claim(ctx, keys)
}

func (c *postgresCaptcha) commit(ctx context.Context, changes *CaptchaChanges) error {
	var b pgx.Batch

	if r := changes.Release; len(r) > 0 {
		b.Queue(pgRelease, spentColumns(r)...)
	}
	if u := changes.Usage; len(u) > 0 {
		b.Queue(pgSetCaptchaUsage, usedCaptchaColumns(u)...)
	}
	if n := changes.Notices; len(n) > 0 {
		b.Queue(pgNotices, noticeColumns(n)...)
	}

	b.Queue("commit")
	return c.conn.SendBatch(ctx, &b).Close()
}

func scanCaptchaUsage(rows pgx.Rows, state *CaptchaState) error {
	for rows.Next() {
		var key model.CaptchaUsageKey
		var plan model.CaptchaPlan

		var u model.CaptchaUsage
		if err := rows.Scan(&key.AccountID, &key.Month, &plan, &u.Used, &u.ReserveFrom, &u.OverQuota, &u.Noticed); err != nil {
			return err
		}

		u.Quota = quotaOf(plan)
		state.Usage[key] = u
	}

	return rows.Err()
}

func scanClaimed(rows pgx.Rows, state *CaptchaState) error {
	for rows.Next() {
		var key model.SpentKey
		var id []byte
		if err := rows.Scan(&key.AccountID, &key.IssuedAt, &id); err != nil {
			return err
		}

		copy(key.ID[:], id)
		state.Claimed[key] = true
	}

	return rows.Err()
}

func captchaUsageColumns(keys []model.CaptchaUsageKey) []any {
	return []any{
		column(keys, func(k *model.CaptchaUsageKey) int64 { return k.AccountID }),
		column(keys, func(k *model.CaptchaUsageKey) int32 { return int32(k.Month) }),
	}
}

func spentColumns(keys []model.SpentKey) []any {
	return []any{
		column(keys, func(k *model.SpentKey) int64 { return k.AccountID }),
		column(keys, func(k *model.SpentKey) int64 { return int64(k.IssuedAt) }),
		column(keys, func(k *model.SpentKey) []byte { return k.ID[:] }),
	}
}

func usedCaptchaColumns(used map[model.CaptchaUsageKey]model.CaptchaUsage) []any {
	keys := make([]model.CaptchaUsageKey, 0, len(used))
	for key := range used {
		keys = append(keys, key)
	}

	number := func(field func(model.CaptchaUsage) int64) []int64 {
		return column(keys, func(k *model.CaptchaUsageKey) int64 { return field(used[*k]) })
	}

	return append(captchaUsageColumns(keys),
		number(func(u model.CaptchaUsage) int64 { return u.Used }),
		number(func(u model.CaptchaUsage) int64 { return int64(u.ReserveFrom) }),
		number(func(u model.CaptchaUsage) int64 { return u.OverQuota }),
		column(keys, func(k *model.CaptchaUsageKey) int16 { return int16(used[*k].Noticed) }),
	)
}

func noticeColumns(notices []CaptchaNotice) []any {
	return []any{
		column(notices, func(n *CaptchaNotice) int64 { return n.AccountID }),
		column(notices, func(*CaptchaNotice) string { return model.ProductCaptcha }),
		column(notices, func(n *CaptchaNotice) int32 { return int32(n.Month) }),
		column(notices, func(n *CaptchaNotice) int32 { return int32(n.Threshold) }),
		column(notices, func(n *CaptchaNotice) int64 { return int64(n.CreatedAt) }),
	}
}
