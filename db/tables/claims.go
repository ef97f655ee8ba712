package tables

import "github.com/tallygate/tallygate/db/model"

// Consumed is the table of consumed challenges and tokens. All its columns are its key. Only the
// table itself has another word in its name, since the first release.
var Consumed = Table[model.ConsumedKey]{"captcha_spent", Columns[model.ConsumedKey]{
	Bigint("account_id", func(k *model.ConsumedKey) *model.AccountID { return &k.AccountID }),
	Bigint("issued_at", func(k *model.ConsumedKey) *model.Instant { return &k.IssuedAt }),
	ID("id", func(k *model.ConsumedKey) []byte { return k.ID[:] }),
}}

// CaptchaUsageKey is the primary key of captcha_usage.
var CaptchaUsageKey = Columns[model.CaptchaUsageKey]{
	Bigint("account_id", func(k *model.CaptchaUsageKey) *model.AccountID { return &k.AccountID }),
	Integer("month", func(k *model.CaptchaUsageKey) *model.Month { return &k.Month }),
}

// CaptchaUsage are the columns of captcha_usage that verifications change.
var CaptchaUsage = Columns[model.CaptchaUsage]{
	Bigint("used", func(u *model.CaptchaUsage) *int64 { return &u.Used }),
	Bigint("reserve_from", func(u *model.CaptchaUsage) *model.Instant { return &u.ReserveFrom }),
	Bigint("over_quota", func(u *model.CaptchaUsage) *int64 { return &u.OverQuota }),
	Smallint("noticed", func(u *model.CaptchaUsage) *int { return &u.Noticed }),
}
