package rulecache_test

import (
	"testing"
	"time"
)

// TestClockSetBack checks that entries that were loaded while the clock was ahead, and keys that
// were unknown then, are looked up again.
func TestClockSetBack(t *testing.T) {
	for _, ahead := range []time.Duration{time.Minute, time.Hour, 365 * 24 * time.Hour} {
		s, c := newCache()
		c.Synced(true)
		s.pass(ahead)
		expect(t, s, c, "a", "1", 1)
		expect(t, s, c, "new", "unknown", 2)

		s.pass(-ahead)
		s.set("a", "changed")
		s.set("new", "made")
		expect(t, s, c, "a", "changed", 3)
		expect(t, s, c, "new", "made", 4)
	}
}
