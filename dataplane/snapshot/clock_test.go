package snapshot_test

import (
	"testing"
	"time"
)

// TestClockSetBack: what was loaded while the clock was ahead, and names that were unknown then,
// are read again.
func TestClockSetBack(t *testing.T) {
	for _, ahead := range []time.Duration{time.Minute, time.Hour, 365 * 24 * time.Hour} {
		s, c := newCache()
		c.Synced(true)
		s.pass(ahead)
		expect(t, s, c, "a", "1", 1)
		expect(t, s, c, "new", "nobody", 2)

		s.pass(-ahead)
		s.set("a", "changed")
		s.set("new", "made")
		expect(t, s, c, "a", "changed", 3)
		expect(t, s, c, "new", "made", 4)
	}
}
