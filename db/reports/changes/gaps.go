package changes

import (
	"cmp"
	"slices"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
)

// Hours returns the hits of the hours of two periods, from their starts and the end of the last
// ones. An hour without a counterpart has none: it is not over, or a change of clocks skips it.
func Hours(before, after []time.Time, hitsBefore, hitsAfter []scan.Figures, now model.Instant) []Count {
	hours := make([]Count, len(hitsAfter))
	for i := range hours {
		isOver := max(model.At(after[i+1]), model.At(before[i+1])) <= now
		if !isOver || !after[i].Before(after[i+1]) || !before[i].Before(before[i+1]) {
			continue
		}
		hits := func(f *scan.Figures) int64 { return f.Pageviews + f.Events }
		hours[i] = Count{Before: hits(&hitsBefore[i]), After: hits(&hitsAfter[i])}
	}
	return hours
}

// Gap is a run of hours without hits in one period, with hits at its beginning and at its end in
// the other one. An hour within it can be empty in both.
type Gap struct {
	First, Last int // indexes of the hours
	Hits        Count
}

// InAfter reports whether it is the later period that has no hits.
func (g Gap) InAfter() bool { return g.Hits.After == 0 }

// Gaps returns up to n gaps in the hours of two periods: the ones with the most hits in the other
// period first, then the latest.
func Gaps(hours []Count, n int) (gaps []Gap) {
	for _, swap := range []bool{false, true} {
		at, isOpen := Gap{}, false
		for i, hits := range hours {
			own, other := hits.After, hits.Before
			if swap {
				own, other = other, own
			}
			switch {
			case own > 0 && isOpen:
				gaps, isOpen = append(gaps, at), false
			case own == 0 && other > 0 && !isOpen:
				at, isOpen = Gap{First: i, Last: i, Hits: hits}, true
			case own == 0 && other > 0:
				at.Last = i
				at.Hits.Before += hits.Before
				at.Hits.After += hits.After
			}
		}
		if isOpen {
			gaps = append(gaps, at)
		}
	}

	slices.SortFunc(gaps, func(a, b Gap) int {
		return cmp.Or(cmp.Compare(b.Hits.both(), a.Hits.both()), cmp.Compare(b.First, a.First))
	})
	return gaps[:min(n, len(gaps))]
}

// leastHits is how many hits a gap that is named next to a difference has in the other period.
// Nights of small sites have fewer.
const leastHits = 10

// MainGap returns the gap that can explain a difference: it has the most hits of those in the
// period with less, and at least a tenth of the difference. Without such a gap, ok is false.
func MainGap(hours []Count, difference int64) (gap Gap, ok bool) {
	for _, gap := range Gaps(hours, len(hours)) {
		if gap.InAfter() == (difference < 0) {
			return gap, gap.Hits.both() >= max(leastHits, difference/10, -difference/10)
		}
	}
	return Gap{}, false
}
