package visit

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// DuplicateWindow is the time within which a manual page view on the path of an automatic one is
// its duplicate (analytics contract, section 8).
const DuplicateWindow = time.Second

// The latest automatic page views of a visitor are stored with the visitor's newest visit, so that
// deciding on a manual page view reads no other page view. Each takes entrySize bytes: its time in
// microseconds and a hash of its path. Two paths collide once in 4 billion pairs, and then count as
// one path.
const (
	maxRecent = 8
	timeSize  = 8
	entrySize = timeSize + 4
)

// Remember adds an automatic page view to the visit's latest ones. It keeps at most 8, and drops
// those that are more than DuplicateWindow older than the new one.
func Remember(v *model.Visit, path string, at model.Instant) {
	kept := make([]byte, 0, len(v.Recent)+entrySize)
	for entry := range entries(v.Recent) {
		if at.Sub(entryTime(entry)) <= DuplicateWindow {
			kept = append(kept, entry...)
		}
	}

	if len(kept) == maxRecent*entrySize {
		kept = kept[entrySize:]
	}

	kept = binary.BigEndian.AppendUint64(kept, uint64(at))
	v.Recent = binary.BigEndian.AppendUint32(kept, hashPath(path))
}

// Repeats reports whether a manual page view duplicates one of the visit's latest automatic page
// views: on the same path, and not more than DuplicateWindow before or after it.
func Repeats(v *model.Visit, path string, at model.Instant) bool {
	if len(v.Recent) == 0 {
		return false
	}

	hash := hashPath(path)
	for entry := range entries(v.Recent) {
		if binary.BigEndian.Uint32(entry[timeSize:]) == hash && at.Sub(entryTime(entry)).Abs() <= DuplicateWindow {
			return true
		}
	}

	return false
}

// entries yields the page views in the order in which they were added.
func entries(recent []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for ; len(recent) >= entrySize; recent = recent[entrySize:] {
			if !yield(recent[:entrySize]) {
				return
			}
		}
	}
}

func entryTime(entry []byte) model.Instant { return model.Instant(binary.BigEndian.Uint64(entry)) }

func hashPath(path string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(path))
	return h.Sum32()
}
