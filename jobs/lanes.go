package jobs

import (
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// temper is what this process knows of a lane's receiver. Lanes of one temper share a bound, so
// that many dead receivers together leave places for those that answer.
type temper int

const (
	unknown temper = iota // never delivered to, or forgotten
	quick                 // the last delivery was made, in good time
	slow                  // the last attempt took long or waited in vain
	tempers
)

const (
	carefulSlots = 2               // places of a lane that is not quick
	slowAttempt  = 5 * time.Second // from here on an attempt took long
	knownLanes   = 10_000          // lanes whose temper is remembered
)

// placesOf is how many deliveries lanes of each temper have at once in this process, all together.
// Slow ones and those that may turn out to be leave a quarter of the worker to the others and to
// mails.
var placesOf = [tempers]int{unknown: 128, quick: concurrency, slow: 64}

// slotsOf is how many deliveries of a lane this process sends at once, so that no receiver takes
// all the places there are.
func slotsOf(kind string) int {
	if kind == model.DeliveryConversion {
		return 8
	}
	return 1
}

// lanes counts what this process is sending.
type lanes struct {
	mu    sync.Mutex
	lane  map[model.Lane]*laneState
	known *lru.Cache[model.Lane, temper] // outlives a lane that is empty for a while
	used  [tempers]int                   // places
}

type laneState struct {
	workers int
	sending []int64 // ids of deliveries

	claim sync.Mutex // held while a worker claims
}

func newLanes() *lanes {
	known, err := lru.New[model.Lane, temper](knownLanes)
	if err != nil {
		// the size is positive
		panic(err)
	}
	return &lanes{lane: make(map[model.Lane]*laneState), known: known}
}

// place is what a worker holds in a lane while it makes one attempt.
type place struct {
	lane   model.Lane
	temper temper // when it was taken
}

// enter takes one of the lane's places, if there is one; then leave gives it back.
func (l *lanes) enter(lane model.Lane) (place, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	free, temper := l.freeOf(lane)
	if free == 0 {
		return place{}, false
	}

	state := l.lane[lane]
	if state == nil {
		state = &laneState{}
		l.lane[lane] = state
	}

	state.workers++
	l.used[temper]++
	return place{lane, temper}, true
}

func (l *lanes) leave(p place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used[p.temper]--
	state := l.lane[p.lane]
	if state.workers--; state.workers == 0 {
		delete(l.lane, p.lane)
	}
}

// freeOf is how many places the lane has left, and its temper.
func (l *lanes) freeOf(lane model.Lane) (int, temper) {
	temper, _ := l.known.Get(lane)
	places := slotsOf(lane.Kind)

	if temper != quick {
		places = min(places, carefulSlots)
	}
	if state := l.lane[lane]; state != nil {
		places -= state.workers
	}

	return max(0, min(places, placesOf[temper]-l.used[temper])), temper
}

// free is how many places the lane has left.
func (l *lanes) free(lane model.Lane) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	free, _ := l.freeOf(lane)
	return free
}

// isSlow reports whether the lane's last attempt took long.
func (l *lanes) isSlow(lane model.Lane) bool {
	temper, _ := l.known.Peek(lane)
	return temper == slow
}

// claim claims a delivery of the lane, in which the caller has a place. claim is told which
// deliveries this process sends at this moment, so that it leaves them alone even if the clock was
// set meanwhile; it returns the id of another one, or 0.
func (l *lanes) claim(lane model.Lane, claim func(except []int64) int64) {
	l.mu.Lock()
	state := l.lane[lane]
	l.mu.Unlock()

	// one after another: a claim must be known before the next one
	state.claim.Lock()
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

// release ends what claim began, when all is recorded. result is how the attempt ended, and tells
// the lane's temper: a failure that came fast tells nothing.
func (l *lanes) release(lane model.Lane, id int64, result outbox.AttemptResult) {
	l.mu.Lock()
	defer l.mu.Unlock()

	state := l.lane[lane]
	state.sending = slices.DeleteFunc(state.sending, func(other int64) bool { return other == id })

	switch {
	case result.Error == model.AttemptTimeout || result.Duration >= slowAttempt:
		l.known.Add(lane, slow)
	case result.Error == "":
		l.known.Add(lane, quick)
	}
}
