package changes

import (
	"cmp"
	"slices"
)

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
