package db

import (
	"context"

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
	if d.IsPostgres() {
		return newPostgresCaptcha(d.pg)
	}
	return newSQLiteCaptcha(d.DataWrite.DB)
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
