// Package batch is group commit: requests hand in what they want stored and wait; one writer stores everything that has
// gathered since its previous commit in one transaction and wakes each request with its own outcome. It knows nothing of
// what is stored: both halves of the data plane use it.
package batch

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Errors that Do returns beside those of the commit function. In each case the item is not known to be stored.
var (
	ErrFull   = errors.New("batch: too many items are waiting")
	ErrClosed = errors.New("batch: the writer has stopped")
)

// Commit stores items in one transaction and returns one outcome per item, in order. An error means that nothing was
// stored. It is never called twice at once. Its context ends when Stop gives up waiting, never with a request.
type Commit[In, Out any] func(ctx context.Context, items []In) ([]Out, error)

// Options bound the queue. Zero values take the defaults.
type Options struct {
	MaxItems  int // most items in one batch; default 2,000
	MaxBytes  int // most bytes in one batch, by the sizes that Do is told; default 1 MiB
	MaxQueued int // most batches waiting before Do answers ErrFull; default 8

	// Isolate reports whether a commit error is the fault of one item's values, so that the others may succeed without it.
	// Default: never.
	Isolate func(error) bool
}

// Queue is one queue with one writer. It is safe for concurrent use.
type Queue[In, Out any] struct {
	commit  Commit[In, Out]
	options Options

	mu      sync.Mutex
	waiting []*group[In, Out] // oldest first; only the last one still grows
	closed  bool

	wake    chan struct{} // holds one token when there is something to do
	stopped chan struct{} // closed when the writer has ended
	ctx     context.Context
	cancel  context.CancelFunc
	start   sync.Once
}

// group is the requests that will be stored together. What the writer finds out is in the entries before done is closed,
// and does not change after.
type group[In, Out any] struct {
	entries []*entry[In, Out]
	bytes   int
	taken   bool // the writer has it
	done    chan struct{}
}

// entry is one request's item and its outcome.
type entry[In, Out any] struct {
	item In
	left bool // the request has gone
	out  Out
	err  error
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

// Stop refuses new items, stores those that wait and ends the writer. When ctx ends first, the commit under way is
// cancelled and what still waits is answered with ErrClosed. It may be called again.
func (q *Queue[In, Out]) Stop(ctx context.Context) error {
	q.Start() // a writer that never ran still has to answer those who wait
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

// Do queues an item of the given size in bytes and waits until it is stored. When ctx ends first, Do returns its error and
// the item is withdrawn, unless the writer has taken it already: then it may still be stored.
func (q *Queue[In, Out]) Do(ctx context.Context, item In, size int) (Out, error) {
	var none Out
	g, e, err := q.add(item, size)
	if err != nil {
		return none, err
	}
	select {
	case <-g.done:
		return e.out, e.err
	case <-ctx.Done():
		q.withdraw(g, e)
		return none, ctx.Err()
	}
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

func (q *Queue[In, Out]) add(item In, size int) (*group[In, Out], *entry[In, Out], error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, nil, ErrClosed
	}
	g := q.open(size)
	if g == nil {
		return nil, nil, ErrFull
	}
	e := &entry[In, Out]{item: item}
	g.entries = append(g.entries, e)
	g.bytes += size
	return g, e, nil
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
			q.store(g.staying())
			close(g.done)
		case more:
			<-q.wake
		default:
			return
		}
	}
}

// staying lists the entries whose requests still wait.
func (g *group[In, Out]) staying() []*entry[In, Out] {
	return slices.DeleteFunc(g.entries, func(e *entry[In, Out]) bool { return e.left })
}

// store stores entries and fills in their outcomes. One bad item among n is found by halving, which costs about 2 log n
// extra commits.
func (q *Queue[In, Out]) store(entries []*entry[In, Out]) {
	if len(entries) == 0 {
		return
	}
	outs, err := q.try(entries)
	switch {
	case err == nil:
		for i, e := range entries {
			e.out = outs[i]
		}
	case len(entries) > 1 && q.options.Isolate(err):
		q.store(entries[:len(entries)/2])
		q.store(entries[len(entries)/2:])
	default:
		for _, e := range entries {
			e.err = err
		}
	}
}

func (q *Queue[In, Out]) try(entries []*entry[In, Out]) ([]Out, error) {
	if q.ctx.Err() != nil {
		return nil, ErrClosed
	}
	items := make([]In, len(entries))
	for i, e := range entries {
		items[i] = e.item
	}
	return q.commit(q.ctx, items)
}
