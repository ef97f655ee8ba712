// Package batch is group commit: requests hand in what they want stored and wait; one writer stores
// everything that has gathered since its previous commit in one transaction and wakes each request
// with its own outcome. It knows nothing of what is stored: both halves of the data plane use it.
package batch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Errors that Do returns beside those of the commit function. In each case the item is not stored.
var (
	ErrFull   = errors.New("batch: too many items are waiting")
	ErrLate   = errors.New("batch: too little time is left to store the item")
	ErrClosed = errors.New("batch: the writer has stopped")
	ErrPanic  = errors.New("batch: panic") // of the commit function; the message has value and stack
)

// Commit stores items in one transaction and returns one outcome per item, in order. An error means
// that nothing was stored, and so does a panic, which is taken for the fault of one item. It is
// never called twice at once. Its context ends with Options.Timeout and when Stop gives up waiting,
// never with a request; it must return soon after that.
type Commit[In, Out any] func(ctx context.Context, items []In) ([]Out, error)

// Options bound the queue. Zero values take the defaults.
type Options struct {
	MaxItems  int // most items in one batch; default 2,000
	MaxBytes  int // most bytes in one batch, by the sizes that Do is told; default 1 MiB
	MaxQueued int // most batches waiting before Do answers ErrFull; default 8

	// Timeout bounds the storing of one batch, with all that Isolate repeats. An item whose request
	// would give up within it, or a tenth later, is answered with ErrLate when the writer comes to
	// it, and not stored. Default: no bound.
	Timeout time.Duration

	// Isolate reports whether a commit error is the fault of one item's values, so that the others
	// may succeed without it. Default: never.
	Isolate func(error) bool
}

// Queue is one queue with one writer. It is safe for concurrent use.
type Queue[In, Out any] struct {
	commit  Commit[In, Out]
	options Options

	mu      sync.Mutex
	waiting []*group[In, Out] // oldest first; only the last one still grows
	closed  bool

	timers  sync.Pool     // of *time.Timer, stopped
	wake    chan struct{} // holds one token when there is something to do
	stopped chan struct{} // closed when the writer has ended
	ctx     context.Context
	cancel  context.CancelFunc
	start   sync.Once
}

// group is the requests that will be stored together. What the writer finds out is in the entries
// before done is closed, and does not change after.
type group[In, Out any] struct {
	entries []*entry[In, Out]
	bytes   int
	taken   bool // the writer has it
	done    chan struct{}
}

// entry is one request's item and its outcome.
type entry[In, Out any] struct {
	item     In
	deadline time.Time // when the request gives up; zero: never
	left     bool      // the request has gone
	out      Out
	err      error
}

// New returns a queue that starts taking items at once and storing them after Start.
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

// Stop refuses new items, stores those that wait and ends the writer. When ctx ends first, the
// commit under way is cancelled and what still waits is answered with ErrClosed. It may be called
// again.
func (q *Queue[In, Out]) Stop(ctx context.Context) error {
	// a writer that never ran still has to answer those who wait
	q.Start()
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.ring()

	select {
	case <-q.stopped:
		return nil
	case <-ctx.Done():
		q.cancel()
		<-q.stopped
		return ctx.Err()
	}
}

// Do queues an item of the given size in bytes and waits until it is stored. When ctx ends first,
// Do returns ctx's error, and the item is withdrawn, unless the writer has taken it already: then
// it may still be stored. With a Timeout the writer takes no item that it cannot answer for before
// the deadline, so that only a cancelled request is left without the outcome.
func (q *Queue[In, Out]) Do(ctx context.Context, item In, size int) (Out, error) {
	return q.DoBefore(ctx, time.Time{}, item, size)
}

// DoBefore is Do that also ends at a deadline, with context.DeadlineExceeded. It must leave more
// than Timeout and a tenth, or the item is too late. The zero time is no deadline. It costs less
// than a context that ends.
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
	return none, err
}

// timer returns a timer. Timers are used again: a context with a deadline for each item was a fifth
// of all that a hit allocates.
func (q *Queue[In, Out]) timer(d time.Duration) *time.Timer {
	timer, ok := q.timers.Get().(*time.Timer)
	if !ok {
		return time.NewTimer(d)
	}
	timer.Reset(d)
	return timer
}

func (q *Queue[In, Out]) stopTimer(timer *time.Timer) {
	timer.Stop()
	q.timers.Put(timer)
}

// Len is the number of items that wait for the writer.
func (q *Queue[In, Out]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, g := range q.waiting {
		n += len(g.entries)
	}
	return n
}

// add puts an entry into a group and returns that.
func (q *Queue[In, Out]) add(e *entry[In, Out], size int) (*group[In, Out], error) {
	q.mu.Lock()
	defer q.mu.Unlock()

	if q.closed {
		return nil, ErrClosed
	}

	g := q.open(size)
	if g == nil {
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
	q.ring()

	return g
}

// withdraw takes an item back that the writer has not taken yet.
func (q *Queue[In, Out]) withdraw(g *group[In, Out], e *entry[In, Out]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !g.taken {
		e.left = true
	}
}

func (q *Queue[In, Out]) ring() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// next takes the oldest group. Without one, more says whether any may come.
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

// storeGroup stores the entries whose requests will still wait for the outcome. All attempts share
// one end, which is known before: that is what makes the outcome reach them in time.
func (q *Queue[In, Out]) storeGroup(g *group[In, Out]) {
	timeout := q.options.Timeout
	if timeout <= 0 {
		q.store(q.ctx, g.staying(time.Time{}))
		return
	}

	end := time.Now().Add(timeout)
	ctx, cancel := context.WithDeadline(q.ctx, end)
	defer cancel()

	// a tenth for the way back to the request
	q.store(ctx, g.staying(end.Add(timeout/10)))
}

// staying lists the entries whose requests still wait, and will until the given moment.
func (g *group[In, Out]) staying(until time.Time) []*entry[In, Out] {
	staying := g.entries[:0]

	for _, e := range g.entries {
		switch {
		case e.left:
		case !e.deadline.IsZero() && e.deadline.Before(until):
			e.err = ErrLate
		default:
			staying = append(staying, e)
		}
	}

	return staying
}

// store stores entries and fills in their outcomes. One bad item among n is found by halving, which
// costs about 2 log n extra commits.
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

	defer func() {
		// in this goroutine it would end the process
		if p := recover(); p != nil {
			outs, err = nil, fmt.Errorf("%w: %v\n%s", ErrPanic, p, debug.Stack())
		}
	}()

	return q.commit(ctx, items)
}
