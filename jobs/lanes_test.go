package jobs

import (
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// TestLanesShareBounds: all lanes that are slow or unknown leave places for those that answer, also
// when they come back after they were empty.
func TestLanesShareBounds(t *testing.T) {
	l := newLanes()
	lane := func(site int) model.Lane { return model.Lane{SiteID: int64(site), Kind: model.DeliveryConversion} }
	const dead = 140
	enterAll := func() (places []place) {
		for site := range dead {
			for p, ok := l.enter(lane(site)); ok; p, ok = l.enter(lane(site)) {
				places = append(places, p)
			}
		}
		return places
	}

	end := func(p place, class string) {
		l.claim(p.lane, func([]int64) int64 { return 1 })
		l.release(p.lane, 1, outbox.AttemptResult{Error: class})
		l.leave(p)
	}

	places := enterAll()
	if len(places) != placesOf[unknown] {
		t.Errorf("%d places of unknown lanes, want %d", len(places), placesOf[unknown])
	}

	for _, p := range places {
		end(p, model.AttemptTimeout)
	}

	// those that had no place before
	for site := range dead {
		if p, ok := l.enter(lane(site)); ok {
			end(p, model.AttemptTimeout)
		}
	}

	if len(l.lane) != 0 || l.used != [tempers]int{} {
		t.Errorf("%d lanes with %v places are left", len(l.lane), l.used)
	}
	if places = enterAll(); len(places) != placesOf[slow] {
		t.Errorf("%d places of slow lanes, want %d", len(places), placesOf[slow])
	}

	healthy := lane(dead)

	// before and after its first delivery
	for _, want := range []int{carefulSlots, 8} {
		if free := l.free(healthy); free != want {
			t.Errorf("%d places for a lane that answers, want %d", free, want)
		}

		p, ok := l.enter(healthy)
		if !ok {
			t.Fatal("no place for a lane that answers")
		}

		end(p, "")
	}

	if free := l.free(lane(0)); free != 0 {
		t.Errorf("a slow lane has %d more places", free)
	}

	end(places[0], "")

	// its other worker still has a place
	if free := l.free(places[0].lane); free != 7 {
		t.Errorf("%d places for a lane that answers again, want 7", free)
	}
}

// TestExportMemory: few bodies are written at once, and none is begun while those that are being
// sent are large.
func TestExportMemory(t *testing.T) {
	m := &exportMemory{}
	begin := func(want int) (parts []*exportPart) {
		t.Helper()
		for part := m.begin(); part != nil && len(parts) < 100; part = m.begin() {
			parts = append(parts, part)
		}

		if len(parts) != want {
			t.Fatalf("%d parts begun, want %d", len(parts), want)
		}

		return parts
	}

	parts := begin(exportsWritten)
	parts[0].written(exportBytes - 1)
	more := begin(1)
	more[0].written(1)

	// its body was never written
	parts[1].end()
	begin(0)
	more[0].end()
	parts = append(parts, begin(2)...)
	parts[0].end()

	for _, part := range parts[2:] {
		part.end()
	}

	if m.parts != 0 || m.writing != 0 || m.bytes != 0 {
		t.Errorf("%d parts with %d bytes are left", m.writing, m.bytes)
	}
}
