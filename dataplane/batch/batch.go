// Package batch implements group commit. Requests queue items and wait. One writer stores
// everything that was queued since its previous commit in one transaction, and returns each request
// its own outcome. Packages analytics and captcha use it. It does not know what is stored.
package batch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// Errors that DoBefore returns in addition to those of the commit function. The item is not stored.
var (
	ErrFull   = errors.New("batch: too many items are waiting")
	ErrLate   = errors.New("batch: too little time is left to store the item")
	ErrClosed = errors.New("batch: the writer has stopped")
	ErrPanic  = errors.New("batch: panic") // of the commit function; the message has value and stack
)

// Commit stores items in one transaction and returns one outcome per item, in order. On an error or
// a panic nothing is stored; a panic counts as the fault of one item. Calls never overlap. The
// context ends with Options.Timeout and when Stop's context ends, never with a request. Commit must
// return soon after that.
type Commit[In, Out any] func(ctx context.Context, items []In) ([]Out, error)

// Options bound the queue. Zero values take the defaults.
type Options struct {
	MaxItems  int // most items in one batch; default 2,000
	MaxBytes  int // most bytes in one batch, by the sizes that are passed to DoBefore; default 1 MiB
	MaxQueued int // most waiting batches before DoBefore returns ErrFull; default 8

	// Timeout bounds an attempt to store a batch, with the retries that Isolate causes. Items with
	// a deadline at most a tenth of Timeout behind its end have an attempt of their own, which ends a
	// twentieth of Timeout before the first deadline. Items with less than a tenth of Timeout left
	// are rejected with ErrLate when their turn comes. Default: no bound.
	Timeout time.Duration

	// RolledBack reports whether nothing is stored for certain after a commit error. The items of
	// an attempt that ran out of time are tried again after such an error, if they have a deadline
	// that leaves time. Default: never.
	RolledBack func(error) bool

	// Isolate reports whether a commit error is the fault of one item's values, so that the others
	// may succeed without it. Default: never.
	Isolate func(error) bool

	// Observer observes the batches; nil: nothing does.
	Observer *Observer
}

// Queue is a queue with one writer. It is safe for concurrent use.
type Queue[In, Out any] struct {
	commit  Commit[In, Out]
	options Options

	mu      sync.Mutex
	waiting []*group[In, Out] // oldest first; only the last one still grows
	closed  bool

	timers  sync.Pool     // of *time.Timer, stopped
	wake    chan struct{} // holds one token when there is something to do
	stopped chan struct{} // closed at the end of the writer
	ctx     context.Context
	cancel  context.CancelFunc
	start   sync.Once
}

// group is the requests of one batch. The writer fills in the entries before it closes done, and
// does not change them after.
type group[In, Out any] struct {
	entries []*entry[In, Out]
	bytes   int
	taken   bool // by the writer
	done    chan struct{}
}

// entry is one request's item and its outcome.
type entry[In, Out any] struct {
	item     In
	deadline time.Time // end of the request's wait; zero: none
	left     bool      // the request ended
	out      Out
	err      error
}

// New returns a queue, which accepts items at once and stores them after Start.
func New[In, Out any](commit Commit[In, Out], options Options) *Queue[In, Out] {
	if options.MaxItems <= 0 {
		options.MaxItems = 2_000
	}
	if options.MaxBytes <= 0 {
		options.MaxBytes = 1 << 20
	}
	if options.MaxQueued <= 0 {
		options.MaxQueued = 8
	}

	if options.Isolate == nil {
		options.Isolate = func(error) bool { return false }
	}
	if options.RolledBack == nil {
		options.RolledBack = func(error) bool { return false }
	}

	ctx, cancel := context.WithCancel(context.Background())
	return &Queue[In, Out]{
		commit:  commit,
		options: options,
		wake:    make(chan struct{}, 1),
		stopped: make(chan struct{}),
		ctx:     ctx,
		cancel:  cancel,
	}
}

// Start starts the writer. Later calls do nothing.
func (q *Queue[In, Out]) Start() { q.start.Do(func() { go q.write() }) }

// Stop rejects new items, stores the waiting ones and ends the writer. When ctx ends first, the
// commit in progress is cancelled and waiting items are rejected with ErrClosed. Stop may be called
// again.
func (q *Queue[In, Out]) Stop(ctx context.Context) error {
	// A writer that never ran must still answer the waiting requests.
	q.Start()

	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.notify()

	select {
	case <-q.stopped:
		return nil
	case <-ctx.Done():
		q.cancel()
		<-q.stopped
		return ctx.Err()
	}
}

// DoBefore queues an item of the given size in bytes and waits until it is stored. After the
// deadline it returns context.DeadlineExceeded; a deadline within a tenth of Timeout is too late.
// The zero time is no deadline. When ctx ends first, DoBefore returns ctx's error. It then
// withdraws the item, unless the writer has taken it already: then it may still be stored. With a
// Timeout, the writer takes no item whose deadline it could miss, so that only a cancelled request
// is left without its outcome. A context with a deadline costs more.
func (q *Queue[In, Out]) DoBefore(ctx context.Context, deadline time.Time, item In, size int) (Out, error) {
	var none Out
	e := &entry[In, Out]{item: item}
	e.deadline, _ = ctx.Deadline()
	var late <-chan time.Time

	if !deadline.IsZero() {
		timer := q.timer(time.Until(deadline))
		defer q.stopTimer(timer)

		late = timer.C

		if e.deadline.IsZero() || deadline.Before(e.deadline) {
			e.deadline = deadline
		}
	}

	g, err := q.add(e, size)
	if err != nil {
		return none, err
	}

	select {
	case <-g.done:
		return e.out, e.err
	case <-late:
		err = context.DeadlineExceeded
	case <-ctx.Done():
		err = ctx.Err()
	}

	q.withdraw(g, e)
	q.options.Observer.refuse(refusedTimeout)
	return none, err
}

// timer returns a timer that fires after d. It takes one from the pool, because a timer or context
// for each item would be a fifth of all allocations of a hit. The caller passes it to stopTimer.
func (q *Queue[In, Out]) timer(d time.Duration) *time.Timer {
	timer, ok := q.timers.Get().(*time.Timer)
	if !ok {
		return time.NewTimer(d)
	}
	timer.Reset(d)
	return timer
}

// stopTimer stops a timer and returns it to the pool.
func (q *Queue[In, Out]) stopTimer(timer *time.Timer) {
	timer.Stop()
	q.timers.Put(timer)
}

// Len returns the number of items that wait for the writer, including withdrawn ones.
func (q *Queue[In, Out]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()

	n := 0
	for _, g := range q.waiting {
		n += len(g.entries)
	}
	return n
}

// add puts an entry into a group and returns the group.
func (q *Queue[In, Out]) add(e *entry[In, Out], size int) (*group[In, Out], error) {
	q.mu.Lock()
	defer q.mu.Unlock()

	if q.closed {
		q.options.Observer.refuse(refusedClosed)
		return nil, ErrClosed
	}

	g := q.open(size)
	if g == nil {
		q.options.Observer.refuse(refusedFull)
		return nil, ErrFull
	}

	g.entries = append(g.entries, e)
	g.bytes += size
	return g, nil
}

// open returns the group that takes the next item, or nil when too many wait.
func (q *Queue[In, Out]) open(size int) *group[In, Out] {
	if n := len(q.waiting); n > 0 {
		last := q.waiting[n-1]
		if len(last.entries) < q.options.MaxItems && last.bytes+size <= q.options.MaxBytes {
			return last
		}
		if n >= q.options.MaxQueued {
			return nil
		}
	}

	g := &group[In, Out]{done: make(chan struct{})}
	q.waiting = append(q.waiting, g)
	q.notify()

	return g
}

// withdraw removes an item that the writer has not taken yet.
func (q *Queue[In, Out]) withdraw(g *group[In, Out], e *entry[In, Out]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !g.taken {
		e.left = true
	}
}

// notify wakes the writer.
func (q *Queue[In, Out]) notify() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// next takes the oldest group. Without one, more reports whether any may come.
func (q *Queue[In, Out]) next() (g *group[In, Out], more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()

	if len(q.waiting) == 0 {
		return nil, !q.closed
	}

	g = q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	g.taken = true

	return g, true
}

// write stores group after group until the queue is closed and empty.
func (q *Queue[In, Out]) write() {
	defer close(q.stopped)

	for {
		g, more := q.next()
		switch {
		case g != nil:
			q.storeGroup(g)
			close(g.done)
		case more:
			<-q.wake
		default:
			return
		}
	}
}

// storeGroup stores the entries with requests that still wait for the outcome. A pause of the
// database can end an attempt: what it left has as many further attempts as there is time for.
func (q *Queue[In, Out]) storeGroup(g *group[In, Out]) {
	timeout := q.options.Timeout
	if timeout <= 0 {
		q.store(q.ctx, q.staying(g.entries, time.Time{}))
		return
	}

	for entries := g.entries; len(entries) > 0; {
		// Items that have little time left must not shorten the attempt of the others. They come
		// last, because all requests are answered after both attempts.
		patient, hurried := q.split(entries)
		ranOut := q.attempt(patient)
		ranOut = q.attempt(hurried) || ranOut

		// The requests of stored items must be answered now.
		if !ranOut || slices.ContainsFunc(entries, func(e *entry[In, Out]) bool { return !e.left && e.err == nil }) {
			return
		}
		entries = slices.DeleteFunc(entries, func(e *entry[In, Out]) bool {
			return e.left || e.deadline.IsZero() || errors.Is(e.err, ErrLate) || !q.options.RolledBack(e.err)
		})
	}
}

// split returns the entries that have time for a whole attempt, and the others.
func (q *Queue[In, Out]) split(entries []*entry[In, Out]) (patient, hurried []*entry[In, Out]) {
	until := time.Now().Add(q.options.Timeout + q.options.Timeout/10)
	for _, e := range entries {
		if !e.deadline.IsZero() && e.deadline.Before(until) {
			hurried = append(hurried, e)
		} else {
			patient = append(patient, e)
		}
	}
	return patient, hurried
}

// attempt tries once to store the entries with waiting requests, and reports whether it ran out
// of time.
func (q *Queue[In, Out]) attempt(entries []*entry[In, Out]) (ranOut bool) {
	now := time.Now()
	entries = q.staying(entries, now.Add(q.options.Timeout/10))
	if len(entries) == 0 {
		return false
	}

	whole := now.Add(q.options.Timeout)
	end := q.end(entries, whole)
	ctx, cancel := context.WithDeadline(q.ctx, end)
	defer cancel()
	q.store(ctx, entries)

	// A commit function that does not begin what it cannot end has not waited for the end.
	gaveUp := func(e *entry[In, Out]) bool { return errors.Is(e.err, context.DeadlineExceeded) }
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || end.Equal(whole) && slices.ContainsFunc(entries, gaveUp)
}

// staying returns the entries with requests that wait until the given time or longer.
func (q *Queue[In, Out]) staying(entries []*entry[In, Out], until time.Time) []*entry[In, Out] {
	staying := entries[:0]

	for _, e := range entries {
		switch {
		case e.left:
		case !e.deadline.IsZero() && e.deadline.Before(until):
			// An entry that was tried keeps the error of its last attempt.
			if e.err == nil {
				e.err = ErrLate
				q.options.Observer.refuse(refusedLate)
			}
		default:
			e.err = nil
			staying = append(staying, e)
		}
	}

	return staying
}

// end returns when an attempt ends that may last until the given time. All its commits share this
// end, so that the outcome reaches each request in time.
func (q *Queue[In, Out]) end(entries []*entry[In, Out], latest time.Time) time.Time {
	for _, e := range entries {
		// The rest is for the way back to the request.
		if end := e.deadline.Add(-q.options.Timeout / 20); !e.deadline.IsZero() && end.Before(latest) {
			latest = end
		}
	}
	return latest
}

// store stores entries and fills in their outcomes. It finds one bad item among n by halving, with
// about 2 log n additional commits.
func (q *Queue[In, Out]) store(ctx context.Context, entries []*entry[In, Out]) {
	if len(entries) == 0 {
		return
	}

	outs, err := q.try(ctx, entries)
	switch {
	case err == nil:
		for i, e := range entries {
			e.out = outs[i]
		}
	case len(entries) > 1 && (errors.Is(err, ErrPanic) || q.options.Isolate(err)):
		q.store(ctx, entries[:len(entries)/2])
		q.store(ctx, entries[len(entries)/2:])
	default:
		for _, e := range entries {
			e.err = err
		}
	}
}

// try calls the commit function once. A panic of it becomes an ErrPanic.
func (q *Queue[In, Out]) try(ctx context.Context, entries []*entry[In, Out]) (outs []Out, err error) {
	if q.ctx.Err() != nil {
		return nil, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	items := make([]In, len(entries))
	for i, e := range entries {
		items[i] = e.item
	}

	end := q.options.Observer.begin(len(items))
	defer func() {
		// In this goroutine a panic would end the process.
		if p := recover(); p != nil {
			outs, err = nil, fmt.Errorf("%w: %v\n%s", ErrPanic, p, debug.Stack())
		}
		end(err)
	}()

	return q.commit(ctx, items)
}
