package captcha

import "time"

// Renewals are recognised by the clock and by work alone. A widget solves a challenge 3.5 minutes
// after the one before, or somewhat later in a hidden tab, while its token is still good. So each
// solved challenge allows one renewal, 3 to 5 minutes later. A client that solves at any other
// time, or more than it solved before, renews nothing.
const (
	renewalFrom = 3  // minutes of the clock
	renewalTo   = 5  // likewise
	maxRenewals = 64 // that a network and sitekey may have before them, so that a crowd of renewals does not count for little
)

// renewals are the renewals that a network may make.
type renewals struct {
	minute  int64
	allowed [renewalTo + 1]uint8 // by the minute of the earlier challenge
}

// solve notes a solved challenge and reports whether it renews an earlier one.
func (r *renewals) solve(now time.Time) (isRenewal bool) {
	r.moveTo(now.Unix() / 60)

	for age := int64(renewalTo); age >= renewalFrom && !isRenewal; age-- {
		if slot := r.slot(r.minute - age); *slot > 0 {
			*slot--
			isRenewal = true
		}
	}

	all := 0
	for _, n := range r.allowed {
		all += int(n)
	}

	if all < maxRenewals {
		*r.slot(r.minute)++
	}

	return isRenewal
}

// moveTo makes a minute the current one and forgets those that are too old. After the clock was set
// back it forgets all.
func (r *renewals) moveTo(minute int64) {
	if minute < r.minute || minute > r.minute+renewalTo {
		*r = renewals{minute: minute}
	}
	for r.minute < minute {
		r.minute++
		*r.slot(r.minute) = 0
	}
}

// slot returns the place of a minute. Minutes before 1970 have none of their own.
func (r *renewals) slot(minute int64) *uint8 {
	return &r.allowed[uint64(minute)%uint64(len(r.allowed))]
}
