package scan

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/tallygate/tallygate/db/reports/segment"
)

// numberSet counts the equal numbers of each group. It is an open hash table, so its memory follows
// the different numbers, and not the events.
type numberSet struct {
	slots  []numberEntry // their number is a power of two; n is 0 in a free slot
	used   int
	budget *Budget
}

// numberEntry is a number of a group, and how many events carried it.
type numberEntry struct {
	number segment.Number
	group  uint32
	n      uint32
}

// numberSeed makes collisions unpredictable, because visitors choose numbers.
var numberSeed = rand.Uint64()

// value returns the number of an entry.
func (e *numberEntry) value() float64 { return math.Float64frombits(uint64(e.number)) }

// add counts a number of a group.
func (s *numberSet) add(group uint32, number segment.Number) {
	const load = 4 // at most three of four slots are used
	if load*s.used >= (load-1)*len(s.slots) {
		s.grow()
	}

	slot := s.slot(group, number)
	if slot.n == 0 {
		slot.number, slot.group = number, group
		s.used++
	}
	if slot.n < math.MaxUint32 {
		slot.n++
	}
}

// slot returns the slot of a number, or the free one that it would have.
func (s *numberSet) slot(group uint32, number segment.Number) *numberEntry {
	mask := uint64(len(s.slots) - 1)
	for i := hashOf(hashOf(uint64(number)^numberSeed) + uint64(group)); ; i++ {
		slot := &s.slots[i&mask]
		if slot.n == 0 || slot.number == number && slot.group == group {
			return slot
		}
	}
}

// grow doubles the slots.
func (s *numberSet) grow() {
	const atLeast = 64
	old := s.slots
	s.slots = make([]numberEntry, max(atLeast, 2*len(old)))
	s.budget.Take(int(unsafe.Sizeof(numberEntry{})) * (len(s.slots) - len(old)))
	for i := range old {
		if old[i].n > 0 {
			*s.slot(old[i].group, old[i].number) = old[i]
		}
	}
}

// sorted returns the numbers of the places that order has for their groups, ascending within each
// place. The set must not be used again.
func (s *numberSet) sorted(order []uint32) []numberEntry {
	entries := s.slots[:0]
	for i := range s.slots {
		if e := s.slots[i]; e.n > 0 {
			e.group = order[e.group]
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b numberEntry) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.value(), b.value()))
	})
	return entries
}
