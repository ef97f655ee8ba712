package model

// Engaged sums the engagement reported for a page view id on all days. An id without reports has
// the zero value.
type Engaged struct {
	ms         int64
	scroll     int64
	repeatedAt int64
}

// Add adds the columns of a row of engagement; see Engagement.
func (e *Engaged) Add(ms, scroll, repeatedAt int64) {
	e.ms += ms
	e.scroll = max(e.scroll, scroll)
	e.repeatedAt = max(e.repeatedAt, repeatedAt)
}

// Of returns the time in view, in milliseconds up to MaxEngagement, and the scroll depth in percent
// of a page view with the id, by the page view's time. Both are 0 if a later page view repeats the
// id.
func (e *Engaged) Of(at Instant) (ms int32, scroll int16) {
	if e.repeatedAt > int64(at) {
		return 0, 0
	}
	return int32(min(e.ms, MaxEngagement.Milliseconds())), int16(e.scroll)
}
