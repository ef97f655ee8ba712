package difficulty

import "time"

// Renewals are recognised by clock and by verified work alone. A widget solves a challenge 3.5
// minutes after the previous one, or somewhat later in a hidden tab, while its token is still
// valid. So each solved challenge allows one renewal, 3 to 5 minutes later. A client that solves at
// another time, or more than it solved before, gets no renewal.
const (
	renewalFrom = 3  // minutes of the clock
	renewalTo   = 5  // minutes of the clock
	maxRenewals = 64 // outstanding for one network and sitekey, so that a crowd of renewals still counts
)

// renewals are the renewals that a network may make.
type renewals struct {
	minute  int64
	allowed [renewalTo + 1]uint8 // by the minute of the earlier challenge
}

// solve records a solved challenge, and reports whether it renews an earlier one.
func (r *renewals) solve(now time.Time) (isRenewal bool) {
	r.moveTo(now.Unix() / 60)

	// The earliest challenge is renewed first, because its time runs out first.
	for age := int64(renewalTo); age >= renewalFrom && !isRenewal; age-- {
		if slot := r.slot(r.minute - age); *slot > 0 {
			*slot--
			isRenewal = true
		}
	}

	outstanding := 0
	for _, n := range r.allowed {
		outstanding += int(n)
	}

	if outstanding < maxRenewals {
		*r.slot(r.minute)++
	}

	return isRenewal
}

// moveTo makes a minute the current one and drops those that are too old. After the clock was set
// back it drops all.
func (r *renewals) moveTo(minute int64) {
	if minute < r.minute || minute > r.minute+renewalTo {
		*r = renewals{minute: minute}
	}
	for r.minute < minute {
		r.minute++
		*r.slot(r.minute) = 0
	}
}

// slot returns the slot of a minute. Minutes before 1970 share the slots of later ones.
func (r *renewals) slot(minute int64) *uint8 {
	return &r.allowed[uint64(minute)%uint64(len(r.allowed))]
}
