package visit_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/tallygate/tallygate/dataplane/analytics/visit"
	"github.com/tallygate/tallygate/db/model"
)

// TestViewed checks that a visit has exactly its latest 32 page views, and that adding one leaves
// copies of the visit alone.
func TestViewed(t *testing.T) {
	const kept = 32
	random := rand.New(rand.NewPCG(1, 1))
	var v model.Visit
	var ids []int64

	for range 4 * kept {
		id := int64(random.Uint64())
		if visit.Has(&v, id) {
			t.Fatalf("page view %x is found before it was added", id)
		}

		before, copied := v, bytes.Clone(v.Viewed)
		visit.Add(&v, id)
		ids = append(ids, id)

		if !bytes.Equal(before.Viewed, copied) {
			t.Fatalf("the %d. page view changed a copy of the visit", len(ids))
		}
		for i, id := range ids {
			if got, want := visit.Has(&v, id), i >= len(ids)-kept; got != want {
				t.Fatalf("after %d page views, the %d. is found: %v, want %v", len(ids), i+1, got, want)
			}
		}
	}
}
