package model

import (
	"errors"
	"fmt"
	"time"
)

// maxNoticeCount is the largest count of a hidden notice.
const maxNoticeCount = 1_000_000_000

// HiddenNotices are the counts at which a user has hidden the notices of a site's page. A notice
// appears again above its count, and later by itself, see At.
type HiddenNotices struct {
	SiteID     SiteID `bun:",pk"`
	UserID     UserID `bun:",pk"`
	Rejections int    `bun:",notnull"` // calls of the last 7 days that were rejected or need attention
	Usage      int    `bun:",notnull"` // percent of the monthly quota

	HiddenAt Instant `bun:",notnull"`
}

// At returns the counts that still hide notices at a time: rejected calls for the 7 days over which
// they are counted, and the usage until the month ends.
func (h HiddenNotices) At(now Instant) HiddenNotices {
	if now.Sub(h.HiddenAt) >= 7*24*time.Hour {
		h.Rejections = 0
	}
	if now.Month() != h.HiddenAt.Month() {
		h.Usage = 0
	}
	return h
}

// Check returns an error for each count outside its range.
func (h HiddenNotices) Check() error {
	check := func(field string, count int) error {
		if count < 0 || count > maxNoticeCount {
			return InvalidField(field, "invalid_threshold", fmt.Sprintf("Use a number from 0 to %d.", maxNoticeCount))
		}
		return nil
	}
	return errors.Join(check("rejections", h.Rejections), check("usage", h.Usage))
}
