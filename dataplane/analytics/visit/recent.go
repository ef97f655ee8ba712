package visit

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// DuplicateWindow is the time within which a manual page view on the path of an automatic one is
// its duplicate (analytics contract, section 8).
const DuplicateWindow = time.Second

// The latest automatic page views of a visitor are stored with the visitor's newest visit, so that
// deciding on a manual page view reads no other page view. Of each path a hash of 32 bits is kept:
// two paths collide once in 4 billion pairs, and then count as one path.
const maxRecent = 8

// Remember adds an automatic page view to the visit's latest ones. It keeps at most 8, and drops
// those that are more than DuplicateWindow older than the new one.
func Remember(v *model.Visit, path string, at model.Instant) {
	kept := make([]model.RecentView, 0, len(v.Recent)+1)
	for _, view := range v.Recent {
		if at.Sub(view.At) <= DuplicateWindow {
			kept = append(kept, view)
		}
	}

	if len(kept) == maxRecent {
		kept = kept[1:]
	}

	v.Recent = append(kept, model.RecentView{At: at, Path: hashPath(path)})
}

// Repeats reports whether a manual page view duplicates one of the visit's latest automatic page
// views: on the same path, and not more than DuplicateWindow before or after it.
func Repeats(v *model.Visit, path string, at model.Instant) bool {
	if len(v.Recent) == 0 {
		return false
	}

	hash := hashPath(path)
	return slices.ContainsFunc(v.Recent, func(view model.RecentView) bool {
		return view.Path == hash && at.Sub(view.At).Abs() <= DuplicateWindow
	})
}

func hashPath(path string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(path))
	return h.Sum32()
}
