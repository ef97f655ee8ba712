package visit

import (
	"encoding/binary"
	"slices"

	"github.com/tallygate/tallygate/db/model"
)

// An event names the page view of its page. Browsers send both over several connections, so that
// the event may come first. Then it applies the page view's rule in its place, and the visit awaits
// the page view, which joins it whenever it comes. A visit awaits at most maxAwaited page views;
// the oldest is forgotten first.
const (
	maxAwaited = 8
	idSize     = 8
)

// Await notes that an event has come at the given time before its page view. It counts as a view of
// its page in the rule of Continues, as the page view itself would have.
func Await(v *model.Visit, pageviewID int64, at model.Instant) {
	v.LastPageviewAt = max(v.LastPageviewAt, at)

	kept := v.Awaited
	if len(kept) == maxAwaited*idSize {
		kept = kept[idSize:]
	}
	v.Awaited = binary.BigEndian.AppendUint64(slices.Clone(kept), uint64(pageviewID))
}

// Awaits reports whether the visit awaits the page view.
func Awaits(v *model.Visit, pageviewID int64) bool { return awaitedAt(v, pageviewID) >= 0 }

// Arrive notes that an awaited page view has come.
func Arrive(v *model.Visit, pageviewID int64) {
	if i := awaitedAt(v, pageviewID); i >= 0 {
		v.Awaited = slices.Delete(slices.Clone(v.Awaited), i, i+idSize)
	}
	if len(v.Awaited) == 0 {
		v.Awaited = nil
	}
}

// awaitedAt is where the page view's id stands in v.Awaited, or -1.
func awaitedAt(v *model.Visit, pageviewID int64) int {
	for i := 0; i+idSize <= len(v.Awaited); i += idSize {
		if int64(binary.BigEndian.Uint64(v.Awaited[i:])) == pageviewID {
			return i
		}
	}
	return -1
}
