package webhook

import (
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// TestLanesShareBounds checks that slow and unknown lanes leave slots for responsive lanes, also
// when they return after they were empty.
func TestLanesShareBounds(t *testing.T) {
	l := newLanes()
	lane := func(site int) model.Lane { return model.Lane{SiteID: int64(site), Kind: model.DeliveryConversion} }
	const dead = 140
	enterAll := func() (slots []slot) {
		for site := range dead {
			for s, ok := l.enter(lane(site)); ok; s, ok = l.enter(lane(site)) {
				slots = append(slots, s)
			}
		}
		return slots
	}

	end := func(s slot, class string) {
		l.claim(s.lane, func([]int64) int64 { return 1 })
		l.release(s.lane, 1, outbox.AttemptResult{Error: class})
		l.leave(s)
	}

	slots := enterAll()
	if len(slots) != healthSlots[unknown] {
		t.Errorf("%d slots of unknown lanes, want %d", len(slots), healthSlots[unknown])
	}

	for _, s := range slots {
		end(s, model.AttemptTimeout)
	}

	// The lanes that had no slot before.
	for site := range dead {
		if s, ok := l.enter(lane(site)); ok {
			end(s, model.AttemptTimeout)
		}
	}

	if len(l.lane) != 0 || l.used != [healths]int{} {
		t.Errorf("%d lanes with %v slots remain", len(l.lane), l.used)
	}
	if slots = enterAll(); len(slots) != healthSlots[slow] {
		t.Errorf("%d slots of slow lanes, want %d", len(slots), healthSlots[slow])
	}

	healthy := lane(dead)

	// Before and after its first delivery.
	for _, want := range []int{carefulSlots, 8} {
		if free := l.free(healthy); free != want {
			t.Errorf("%d slots for a responsive lane, want %d", free, want)
		}

		s, ok := l.enter(healthy)
		if !ok {
			t.Fatal("no slot for a responsive lane")
		}

		end(s, "")
	}

	if free := l.free(lane(0)); free != 0 {
		t.Errorf("a slow lane has %d more slots", free)
	}

	end(slots[0], "")

	// Its other worker still holds a slot.
	if free := l.free(slots[0].lane); free != 7 {
		t.Errorf("%d slots for a lane that responds again, want 7", free)
	}
}

// TestExportLimits checks that few bodies are written at once, and that no body is begun while the
// bodies in progress are large.
func TestExportLimits(t *testing.T) {
	l := newExportLimits()
	begin := func(want int) (bodies []*exportBody) {
		t.Helper()
		for body := l.begin(); body != nil && len(bodies) < 100; body = l.begin() {
			bodies = append(bodies, body)
		}

		if len(bodies) != want {
			t.Fatalf("%d bodies begun, want %d", len(bodies), want)
		}

		return bodies
	}

	bodies := begin(exportsWritten)
	bodies[0].written(exportBytes - 1)
	more := begin(1)
	more[0].written(1)

	// Its body was never written.
	bodies[1].end()
	begin(0)
	more[0].end()
	bodies = append(bodies, begin(2)...)
	bodies[0].end()

	for _, body := range bodies[2:] {
		body.end()
	}

	if n := l.bytes.Load(); n != 0 || !l.parts.TryAcquire(exportsAtOnce) || !l.writing.TryAcquire(exportsWritten) {
		t.Errorf("%d bytes remain, or slots are not free", n)
	}
}
