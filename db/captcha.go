package db

import (
	"context"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// CaptchaStore claims challenges and tokens in batches, one transaction each. It belongs to one
// writer: it is not safe for concurrent use.
type CaptchaStore interface {
	// Update runs one transaction. It takes the usage rows that keys name as locks, so that writers
	// of one account take turns in every process; claims every challenge and token that keys name
	// and nobody has claimed before; lets decide turn what it found into changes, stores them and
	// commits. An error means that nothing is claimed or counted, except when the connection was
	// lost during the commit itself.
	//
	// decide has no effects of its own and may run several times: a transaction that lost to
	// another one is repeated.
	Update(ctx context.Context, keys CaptchaKeys, decide func(*CaptchaState) *CaptchaChanges) error

	Close() error
}

// CaptchaKeys name what a batch is about. Each list is sorted and without duplicates, so that all
// writers lock in one order.
type CaptchaKeys struct {
	Usage []model.CaptchaUsageKey
	Spent []model.SpentKey
}

// CaptchaState is what a batch found under its locks.
type CaptchaState struct {
	Usage   map[model.CaptchaUsageKey]model.CaptchaUsage // a key without entry belongs to an account that no longer exists
	Claimed map[model.SpentKey]bool                      // this batch is the first to claim it
}

// CaptchaChanges is what a batch makes of it.
type CaptchaChanges struct {
	Release []model.SpentKey // claimed by this batch, but not used up after all; sorted
	Usage   map[model.CaptchaUsageKey]model.CaptchaUsage
	Notices []CaptchaNotice
}

// CaptchaNotice says that an account used its captcha quota of a month to a part. It becomes a row
// of quota_notices, unless there is one already.
type CaptchaNotice struct {
	model.CaptchaUsageKey
	Threshold int // percent: 80 or 100
	CreatedAt model.Instant
}

// CaptchaStore returns a new store of claims. The caller closes it.
func (d *DB) CaptchaStore() CaptchaStore {
	if d.pg != nil {
		return newPostgresCaptcha(d.pg)
	}
	return newSQLiteCaptcha(d.dataWrite.DB)
}

func newCaptchaState(keys CaptchaKeys) *CaptchaState {
	return &CaptchaState{
		Usage:   make(map[model.CaptchaUsageKey]model.CaptchaUsage, len(keys.Usage)),
		Claimed: make(map[model.SpentKey]bool, len(keys.Spent)),
	}
}

// quotaOf is the quota of a plan as it is stored. One that this program does not know, because a
// newer one set it, must not stop the account's forms.
func quotaOf(plan model.CaptchaPlan) int64 {
	if quota, ok := plan.Quota(); ok {
		return quota
	}
	return model.Unlimited
}

// SpentRetention is how long after its issue a used challenge or token is remembered. It must be
// longer than either lives, with room for processes whose clocks differ.
const SpentRetention = time.Hour

// DeleteSpent forgets challenges and tokens that have expired long ago, a few in each transaction,
// and returns how many.
func (d *DB) DeleteSpent(ctx context.Context, now model.Instant) (int64, error) {
	return d.deleteInChunks(ctx, oldRows{
		table: "captcha_spent", key: "account_id, issued_at, id", column: "issued_at", bound: int64(now.Add(-SpentRetention)),
	})
}

// CaptchaUsage returns what the account used of its captcha quota in a UTC month. Without any
// verification all counts are 0.
func (d *DB) CaptchaUsage(ctx context.Context, accountID int64, month model.Month) (*model.CaptchaUsage, error) {
	var row struct {
		Plan                         model.CaptchaPlan
		Used, ReserveFrom, OverQuota int64
		Noticed                      int
	}

	err := d.read.NewRaw(`
SELECT a.captcha_plan AS plan, coalesce(u.used, 0) AS used, coalesce(u.reserve_from, 0) AS reserve_from,
  coalesce(u.over_quota, 0) AS over_quota, coalesce(u.noticed, 0) AS noticed
FROM accounts a LEFT JOIN captcha_usage u ON u.account_id = a.id AND u.month = ?
WHERE a.id = ?`, month, accountID).Scan(ctx, &row)
	if err != nil {
		return nil, orNotFound(err)
	}

	return &model.CaptchaUsage{Quota: quotaOf(row.Plan), Used: row.Used, ReserveFrom: model.Instant(row.ReserveFrom),
		OverQuota: row.OverQuota, Noticed: row.Noticed}, nil
}

// SetCaptchaPlan puts an account on a captcha plan, from its next verification on; the caller has
// made sure that the operator asks. It fails with model.ErrNotFound, or Invalid for an unknown
// plan.
func (d *DB) SetCaptchaPlan(ctx context.Context, accountID int64, plan model.CaptchaPlan) error {
	if _, ok := plan.Quota(); !ok {
		return model.InvalidField("plan", "invalid_plan", "There is no such plan.")
	}

	result, err := d.write.ExecContext(ctx, "UPDATE accounts SET captcha_plan = ? WHERE id = ?", plan, accountID)
	if err != nil {
		return fmt.Errorf("set captcha plan of account %d: %w", accountID, err)
	}

	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		err = model.ErrNotFound
	}

	return err
}
