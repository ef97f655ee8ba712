package webhook

import (
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestLanesShareBounds checks that slow and unknown lanes leave permits for responsive lanes, also
// when they return after they were empty.
func TestLanesShareBounds(t *testing.T) {
	l := newLanes()
	lane := func(site int) model.Lane {
		return model.Lane{SiteID: model.SiteID(site), Kind: model.DeliveryConversion}
	}
	const dead = 140
	enterAll := func() (permits []permit) {
		for site := range dead {
			for s, ok := l.enter(lane(site)); ok; s, ok = l.enter(lane(site)) {
				permits = append(permits, s)
			}
		}
		return permits
	}

	end := func(s permit, class string) {
		l.lease(s.lane, func([]int64) int64 { return 1 })
		l.release(s.lane, 1, outbox.AttemptResult{Error: class})
		l.leave(s)
	}

	permits := enterAll()
	testkit.Equal(t, len(permits), healthPermits[unknown], "permits of unknown lanes")

	for _, s := range permits {
		end(s, model.AttemptTimeout)
	}

	// The lanes that had no permit before.
	for site := range dead {
		if s, ok := l.enter(lane(site)); ok {
			end(s, model.AttemptTimeout)
		}
	}

	if len(l.lane) != 0 || l.used != [healths]int{} {
		t.Errorf("%d lanes with %v permits remain", len(l.lane), l.used)
	}
	if permits = enterAll(); len(permits) != healthPermits[slow] {
		t.Errorf("%d permits of slow lanes, want %d", len(permits), healthPermits[slow])
	}

	healthy := lane(dead)

	// Before and after its first delivery.
	for _, want := range []int{carefulPermits, 8} {
		testkit.Equal(t, l.free(healthy), want, "permits for a responsive lane")

		s, ok := l.enter(healthy)
		if !ok {
			t.Fatal("no permit for a responsive lane")
		}

		end(s, "")
	}

	if free := l.free(lane(0)); free != 0 {
		t.Errorf("a slow lane has %d more permits", free)
	}

	end(permits[0], "")

	// Its other worker still holds a permit.
	testkit.Equal(t, l.free(permits[0].lane), 7, "permits for a lane that responds again")
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

		testkit.Require(t, len(bodies), want, "bodies begun")

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
		t.Errorf("%d bytes remain, or permits are not free", n)
	}
}
