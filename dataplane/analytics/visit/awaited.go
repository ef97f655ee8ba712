package visit

import (
	"encoding/binary"
	"slices"

	"github.com/tallygate/tallygate/db/model"
)

// An event names the page view of its page. Browsers send both over several connections, so that
// the event may arrive first. The visit rule is then applied to the event instead, and the visit
// awaits the page view, which joins it when it arrives. The page view may also never arrive,
// because the id is invented: IsSetAside bounds what the event then changes. A visit awaits at most
// maxAwaited page views; the oldest one is dropped first.
const (
	maxAwaited = 8
	idSize     = 8
)

// Open records that an event opens the visit before its page view arrives. For Continues the event
// counts as a view of its page, as the page view itself would have. No later event moves that time.
func Open(v *model.Visit, at model.Instant) { v.LastPageviewAt = at }

// Await records that an event of the visit arrived before its page view.
func Await(v *model.Visit, pageviewID int64) {

	kept := v.Awaited
	if len(kept) == maxAwaited*idSize {
		kept = kept[idSize:]
	}
	v.Awaited = binary.BigEndian.AppendUint64(slices.Clone(kept), uint64(pageviewID))
}

// Awaits reports whether the visit awaits the page view.
func Awaits(v *model.Visit, pageviewID int64) bool { return awaitedAt(v, pageviewID) >= 0 }

// Arrive records that an awaited page view has arrived.
func Arrive(v *model.Visit, pageviewID int64) {
	if i := awaitedAt(v, pageviewID); i >= 0 {
		v.Awaited = slices.Delete(slices.Clone(v.Awaited), i, i+idSize)
	}
	if len(v.Awaited) == 0 {
		v.Awaited = nil
	}
}

// awaitedAt returns the offset of the page view's id in v.Awaited, or -1.
func awaitedAt(v *model.Visit, pageviewID int64) int {
	for i := 0; i+idSize <= len(v.Awaited); i += idSize {
		if int64(binary.BigEndian.Uint64(v.Awaited[i:])) == pageviewID {
			return i
		}
	}
	return -1
}
