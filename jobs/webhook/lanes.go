package webhook

import (
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/jobs/queue"
)

// health is the state of a lane's receiver, as seen by this process. Lanes of one health share a
// bound, so that many dead receivers together leave permits for responsive receivers.
type health int

const (
	unknown    health = iota // no attempt so far, or it is forgotten
	responsive               // the last delivery was made in good time
	slow                     // the last attempt took long or timed out
	healths
)

const (
	carefulPermits = 2               // permits of a lane that is not responsive
	slowAttempt    = 5 * time.Second // an attempt took long if it took this or more
	knownLanes     = 10_000          // lanes with a remembered health
)

// healthPermits is how many deliveries all lanes of each health together have at once in this
// process. Slow lanes, and lanes that may turn out to be slow, leave a quarter of the worker to the
// others and to mails.
var healthPermits = [healths]int{unknown: 128, responsive: queue.Concurrency, slow: 64}

// lanePermits is how many deliveries of one lane this process sends at once, so that no receiver
// takes all permits.
func lanePermits(kind string) int {
	if kind == model.DeliveryConversion {
		return 8
	}
	return 1
}

// lanes counts what this process is sending. A lane is a queue of its own for the deliveries of one
// kind of one site: deliveries that wait in a lane never delay another lane.
type lanes struct {
	mu    sync.Mutex
	lane  map[model.Lane]*laneState
	known *lru.Cache[model.Lane, health] // outlives a lane that is empty for a while
	used  [healths]int                   // permits
}

// laneState is a lane with at least one worker.
type laneState struct {
	workers int
	sending []int64 // ids of deliveries

	leasing sync.Mutex // held while a worker leases
}

func newLanes() *lanes {
	known, err := lru.New[model.Lane, health](knownLanes)
	if err != nil {
		// Only a size below 1 fails.
		panic(err)
	}
	return &lanes{lane: make(map[model.Lane]*laneState), known: known}
}

// permit is held by a worker in a lane while it makes one attempt.
type permit struct {
	lane   model.Lane
	health health // when the permit was taken
}

// enter takes one of the lane's permits, if one is free. The caller must leave it.
func (l *lanes) enter(lane model.Lane) (permit, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	free, health := l.freeOf(lane)
	if free == 0 {
		return permit{}, false
	}

	state := l.lane[lane]
	if state == nil {
		state = &laneState{}
		l.lane[lane] = state
	}

	state.workers++
	l.used[health]++
	return permit{lane, health}, true
}

// leave frees a permit.
func (l *lanes) leave(s permit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used[s.health]--
	state := l.lane[s.lane]
	if state.workers--; state.workers == 0 {
		delete(l.lane, s.lane)
	}
}

// freeOf returns how many permits of the lane are free, and its health. The caller holds mu.
func (l *lanes) freeOf(lane model.Lane) (int, health) {
	health, _ := l.known.Get(lane)
	permits := lanePermits(lane.Kind)
	if health != responsive {
		permits = min(permits, carefulPermits)
	}
	if state := l.lane[lane]; state != nil {
		permits -= state.workers
	}

	return max(0, min(permits, healthPermits[health]-l.used[health])), health
}

// free returns how many permits of the lane are free.
func (l *lanes) free(lane model.Lane) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	free, _ := l.freeOf(lane)
	return free
}

// isSlow reports whether the lane's last attempt took long.
func (l *lanes) isSlow(lane model.Lane) bool {
	health, _ := l.known.Peek(lane)
	return health == slow
}

// lease calls a function that leases one of the lane's deliveries and returns its id, or 0. The
// caller must hold a permit of the lane. sending are the deliveries that this process is sending:
// they must not be leased, even if the clock was set meanwhile and their leases seem to have
// ended.
func (l *lanes) lease(lane model.Lane, next func(sending []int64) int64) {
	l.mu.Lock()
	state := l.lane[lane]
	l.mu.Unlock()

	// One lease at a time: the next one must know it.
	state.leasing.Lock()
	defer state.leasing.Unlock()

	l.mu.Lock()
	sending := slices.Clone(state.sending)
	l.mu.Unlock()

	if id := next(sending); id != 0 {
		l.mu.Lock()
		state.sending = append(state.sending, id)
		l.mu.Unlock()
	}
}

// release ends a lease after its attempt is recorded, and derives the lane's health from the
// result. A failure that came fast leaves the health as it is.
func (l *lanes) release(lane model.Lane, id int64, result outbox.AttemptResult) {
	l.mu.Lock()
	defer l.mu.Unlock()

	state := l.lane[lane]
	state.sending = slices.DeleteFunc(state.sending, func(other int64) bool { return other == id })

	switch {
	case result.Error == model.AttemptTimeout || result.Duration >= slowAttempt:
		l.known.Add(lane, slow)
	case result.Error == "":
		l.known.Add(lane, responsive)
	}
}
