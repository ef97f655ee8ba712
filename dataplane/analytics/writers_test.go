package analytics

import "testing"

// TestWritersShareSites checks that consecutive ids are spread evenly.
func TestWritersShareSites(t *testing.T) {
	t.Parallel()
	l := writers{new(writer), new(writer), new(writer)}
	sites := make(map[*writer]int)
	for id := int64(1); id <= 3000; id++ {
		sites[l.of(id)]++
	}

	for i, w := range l {
		if n := sites[w]; n < 900 || n > 1100 {
			t.Errorf("writer %d has %d of 3000 sites", i, n)
		}
	}
}
