package jobs

import (
	"slices"
	"sync"

	"github.com/tallygate/tallygate/db/model"
)

// slotsOf is how many deliveries of a lane this process sends at once, so that no receiver takes all the places there are.
func slotsOf(kind string) int {
	if kind == model.DeliveryConversion {
		return 8
	}
	return 1
}

// slowSlots is the same for a lane whose last attempt waited in vain.
const slowSlots = 2

// lanes counts what this process is sending.
type lanes struct {
	mu   sync.Mutex
	lane map[model.Lane]*laneState
}

type laneState struct {
	workers int
	slow    bool
	sending []int64 // ids of deliveries

	claim sync.Mutex // held while a worker claims
}

func newLanes() *lanes { return &lanes{lane: make(map[model.Lane]*laneState)} }

// enter takes one of the lane's places, if there is one; then leave gives it back.
func (l *lanes) enter(lane model.Lane) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.lane[lane]
	if state == nil {
		state = &laneState{}
		l.lane[lane] = state
	}
	if state.workers >= state.places(lane) {
		return false
	}
	state.workers++
	return true
}

func (s *laneState) places(lane model.Lane) int {
	if s.slow {
		return min(slowSlots, slotsOf(lane.Kind))
	}
	return slotsOf(lane.Kind)
}

func (l *lanes) leave(lane model.Lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.lane[lane]
	if state.workers--; state.workers == 0 {
		delete(l.lane, lane)
	}
}

// crowded reports whether the lane has more workers than places, since it became slow.
func (l *lanes) crowded(lane model.Lane) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.lane[lane]
	return state.workers > state.places(lane)
}

// free is how many places the lane has left.
func (l *lanes) free(lane model.Lane) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if state := l.lane[lane]; state != nil {
		return max(0, state.places(lane)-state.workers)
	}
	return slotsOf(lane.Kind)
}

// claim claims a delivery of the lane, in which the caller has a place. claim is told which deliveries this process sends at
// this moment, so that it leaves them alone even if the clock was set meanwhile; it returns the id of another one, or 0.
func (l *lanes) claim(lane model.Lane, claim func(except []int64) int64) {
	l.mu.Lock()
	state := l.lane[lane]
	l.mu.Unlock()
	state.claim.Lock() // one after another: a claim must be known before the next one
	defer state.claim.Unlock()
	l.mu.Lock()
	sending := slices.Clone(state.sending)
	l.mu.Unlock()
	if id := claim(sending); id != 0 {
		l.mu.Lock()
		state.sending = append(state.sending, id)
		l.mu.Unlock()
	}
}

// release ends what claim began, when all is recorded. class is how the attempt ended.
func (l *lanes) release(lane model.Lane, id int64, class string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.lane[lane]
	state.sending = slices.DeleteFunc(state.sending, func(other int64) bool { return other == id })
	state.slow = class == model.AttemptTimeout
}
