package scan

import (
	"math/bits"
	"slices"

	"github.com/tallygate/tallygate/db/reports/segment"
)

// userSet is the set of the user ids that were met or converted in each bucket of a table. It is an
// open hash table, which takes a fifth of a map's time and of its memory: 16 bytes an entry or 32.
type userSet struct {
	slots  []uint64 // keys; their number is a power of two, and 0 is a free slot
	used   int
	budget *Budget
}

// add enters a user id into a bucket and returns 1, or 0 if it was there.
func (s *userSet) add(bucket, user uint32, converted bool) uint32 {
	if 2*s.used >= len(s.slots) {
		s.grow()
	}

	// Numbers of user ids begin at 1 and are below 2^29, so a key is never 0.
	key := uint64(bucket)<<32 | uint64(user)<<1
	if converted {
		key |= 1
	}
	if !s.put(key) {
		return 0
	}
	s.used++
	return 1
}

// put enters a key and reports whether it was missing. A slot must be free.
func (s *userSet) put(key uint64) bool {
	mask := uint64(len(s.slots) - 1)
	for i := hashOf(key); ; i++ {
		switch slot := &s.slots[i&mask]; *slot {
		case key:
			return false
		case 0:
			*slot = key
			return true
		}
	}
}

// grow doubles the slots.
func (s *userSet) grow() {
	const atLeast = 32
	old := s.slots
	s.slots = make([]uint64, max(atLeast, 2*len(old)))
	s.budget.Take(8 * (len(s.slots) - len(old)))
	for _, key := range old {
		if key != 0 {
			s.put(key)
		}
	}
}

// hashOf mixes both halves of a key into all bits: it multiplies and folds the 128 bits of the
// product.
func hashOf(key uint64) uint64 {
	high, low := bits.Mul64(key, 0x9e3779b97f4a7c15)
	return high ^ low
}

// entries returns the buckets with their user ids, in order. None of them may be converted.
func (s *userSet) entries() []segment.Pair {
	keys := make([]uint64, 0, s.used)
	for _, key := range s.slots {
		if key != 0 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)

	pairs := make([]segment.Pair, len(keys))
	for i, key := range keys {
		pairs[i] = segment.Pair{Value: uint32(key >> 32), N: uint32(key) >> 1}
	}
	return pairs
}

// empty removes all entries.
func (s *userSet) empty() {
	clear(s.slots)
	s.used = 0
}
