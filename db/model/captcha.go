package model

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

// CaptchaPlan is an account's captcha plan (captcha contract, section 8).
type CaptchaPlan string

// The captcha plans.
const (
	CaptchaPlanFree       CaptchaPlan = "FREE"
	CaptchaPlanPro100K    CaptchaPlan = "PRO_100K"
	CaptchaPlanPro250K    CaptchaPlan = "PRO_250K"
	CaptchaPlanPro500K    CaptchaPlan = "PRO_500K"
	CaptchaPlanPro1M      CaptchaPlan = "PRO_1M"
	CaptchaPlanEnterprise CaptchaPlan = "ENTERPRISE"
)

var captchaQuotas = map[CaptchaPlan]int64{
	CaptchaPlanFree:       10_000,
	CaptchaPlanPro100K:    100_000,
	CaptchaPlanPro250K:    250_000,
	CaptchaPlanPro500K:    500_000,
	CaptchaPlanPro1M:      1_000_000,
	CaptchaPlanEnterprise: Unlimited,
}

// Unlimited is the quota of a plan that has none.
const Unlimited int64 = -1

// Quota returns how many verifications the plan includes in a UTC month, for all sitekeys of the
// account together, or Unlimited. It returns false for an unknown plan.
func (p CaptchaPlan) Quota() (int64, bool) {
	n, ok := captchaQuotas[p]
	return n, ok
}

// QuotaOrUnlimited returns the quota of a stored plan. A plan that this program does not know,
// because a newer version set it, counts as Unlimited: it must not stop the account's forms.
func (p CaptchaPlan) QuotaOrUnlimited() int64 {
	if quota, ok := p.Quota(); ok {
		return quota
	}
	return Unlimited
}

// CaptchaQuota is the monthly quota of a plan that has one.
type CaptchaQuota struct {
	Plan  CaptchaPlan
	Quota int64
}

// CaptchaQuotas returns the plans with a quota, smallest first.
func CaptchaQuotas() []CaptchaQuota {
	var quotas []CaptchaQuota
	for plan, quota := range captchaQuotas {
		if quota != Unlimited {
			quotas = append(quotas, CaptchaQuota{plan, quota})
		}
	}

	slices.SortFunc(quotas, func(a, b CaptchaQuota) int { return cmp.Compare(a.Quota, b.Quota) })
	return quotas
}

// CaptchaUsageKey names the verifications of an account in a UTC month.
type CaptchaUsageKey struct {
	AccountID int64
	Month     Month
}

// Compare orders by account, then month.
func (k CaptchaUsageKey) Compare(other CaptchaUsageKey) int {
	return cmp.Or(cmp.Compare(k.AccountID, other.AccountID), cmp.Compare(k.Month, other.Month))
}

// CaptchaUsage is how much of a month's quota an account has used.
type CaptchaUsage struct {
	Quota       int64   // of the account's plan now, or Unlimited
	Used        int64   // successful verifications, those from the reserve included
	ReserveFrom Instant // time of the first verification after the quota; 0 before it
	OverQuota   int64   // the quota in force at ReserveFrom
	Noticed     int     // highest threshold in percent that Count has returned; 0 for none
}

// The reserve (captcha contract, section 3): a tenth of the quota, for at most 7 days from the
// first verification after the quota.
const (
	reserveShare  = 10
	ReservePeriod = 7 * 24 * time.Hour
)

// CaptchaStanding is the state of an account's quota when a genuine token is verified.
type CaptchaStanding uint8

// The states of the contract's quota table.
const (
	WithinQuota CaptchaStanding = iota
	InReserve
	Exhausted
)

// Standing returns the account's state at the given time, before the next verification is counted.
func (u *CaptchaUsage) Standing(at Instant) CaptchaStanding {
	switch {
	case u.Quota == Unlimited || u.Used < u.Quota:
		return WithinQuota
	case u.Used >= u.Quota+u.Reserve():
		return Exhausted
	case u.reserveBegan() && at >= u.ReserveFrom.Add(ReservePeriod):
		return Exhausted
	}

	return InReserve
}

// Reserve returns how many verifications are accepted after the quota. It is meaningless for an
// unlimited quota.
func (u *CaptchaUsage) Reserve() int64 { return u.Quota / reserveShare }

// reserveBegan reports whether verifications of the current quota's reserve were counted. A change
// of the plan starts a new reserve.
func (u *CaptchaUsage) reserveBegan() bool { return u.ReserveFrom != 0 && u.OverQuota == u.Quota }

// ReserveEnds returns the time from which the reserve is refused. It returns false if the reserve
// has not begun.
func (u *CaptchaUsage) ReserveEnds() (Instant, bool) {
	return u.ReserveFrom.Add(ReservePeriod), u.reserveBegan()
}

// Count counts a verification. It returns the highest threshold in percent that was reached and not
// returned before, or 0. The caller must have checked Standing.
func (u *CaptchaUsage) Count(at Instant) (threshold int) {
	if u.Quota != Unlimited && u.Used >= u.Quota && !u.reserveBegan() {
		u.ReserveFrom, u.OverQuota = at, u.Quota
	}

	u.Used++
	if u.Quota == Unlimited {
		return 0
	}

	// If one verification reaches two thresholds, return only the higher one.
	for _, percent := range slices.Backward(QuotaThresholds) {
		if u.Used*100 >= u.Quota*int64(percent) && u.Noticed < percent {
			u.Noticed = percent
			return percent
		}
	}

	return 0
}

// ConsumedRetention is how long a used challenge or token is stored after its issue. It exceeds the
// validity of both, with a margin for processes whose clocks differ.
const ConsumedRetention = time.Hour

// ConsumedKey identifies a used challenge or token. It includes the time of issue, so that rows are
// stored in the order of time. Both values come from the signed text, so that one challenge or
// token has one key.
type ConsumedKey struct {
	AccountID int64 // 0 for the test sitekey
	IssuedAt  Instant
	ID        [16]byte // random
}

// Compare orders by account, time of issue and id.
func (k ConsumedKey) Compare(other ConsumedKey) int {
	return cmp.Or(cmp.Compare(k.AccountID, other.AccountID), cmp.Compare(k.IssuedAt, other.IssuedAt),
		bytes.Compare(k.ID[:], other.ID[:]))
}
