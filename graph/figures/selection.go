package figures

import (
	"cmp"
	"slices"
)

// entry is a row with the figure that it is ordered by.
type entry struct {
	value  string
	figure float64
	unset  bool // the figure has no value
}

// selection keeps the first n of many entries, so that the others need not be sorted.
type selection struct {
	n         int
	ascending bool
	entries   []entry // at most 2n; after the first sort, the first n are sorted
	full      bool    // entries has been sorted, and last is the n-th
	last      entry
}

func newSelection(n int, ascending bool) *selection {
	return &selection{n: n, ascending: ascending}
}

// compare orders entries by figure, those without one last, and equal ones by value.
func (s *selection) compare(a, b entry) int {
	switch {
	case a.unset != b.unset:
		if a.unset {
			return 1
		}
		return -1
	case a.unset || a.figure == b.figure:
		return cmp.Compare(a.value, b.value)
	case s.ascending:
		return cmp.Compare(a.figure, b.figure)
	default:
		return cmp.Compare(b.figure, a.figure)
	}
}

// add adds an entry, unless n others come before it.
func (s *selection) add(e entry) {
	if s.full && s.compare(e, s.last) > 0 {
		return
	}

	s.entries = append(s.entries, e)
	if len(s.entries) >= 2*s.n {
		s.entries = s.sorted()
		s.full, s.last = true, s.entries[s.n-1]
	}
}

// sorted returns the first n entries in order.
func (s *selection) sorted() []entry {
	slices.SortFunc(s.entries, s.compare)
	return s.entries[:min(s.n, len(s.entries))]
}
