package visit

import (
	"encoding/binary"

	"github.com/tallygate/tallygate/db/model"
)

// A visit keeps the ids of its latest page views, so that an event that names one finds its visit
// without an index over all page views. Of each id it keeps a hash of hashSize bytes: two ids of a
// visit share one once in 4 billion pairs. The oldest one is dropped first.
const (
	maxViewed = 32
	hashSize  = 4
)

// Add records the id of a page view that belongs to the visit.
func Add(v *model.Visit, pageviewID int64) {
	kept := v.Viewed
	if len(kept) >= maxViewed*hashSize {
		kept = kept[hashSize:]
	}

	viewed := make([]byte, 0, len(kept)+hashSize)
	v.Viewed = binary.BigEndian.AppendUint32(append(viewed, kept...), hashID(pageviewID))
}

// Has reports whether the visit has a page view with the id among its latest ones.
func Has(v *model.Visit, pageviewID int64) bool {
	hash := hashID(pageviewID)
	for i := 0; i+hashSize <= len(v.Viewed); i += hashSize {
		if binary.BigEndian.Uint32(v.Viewed[i:]) == hash {
			return true
		}
	}
	return false
}

// hashID folds an id, which is random.
func hashID(id int64) uint32 { return uint32(id) ^ uint32(id>>32) }
