// Package counter counts what owners read by day and that no quota depends on: refused and ignored
// calls, names of unknown events, and what happens with the challenges of a captcha. The data plane
// counts for known sites and sitekeys only, so that a flood of unknown keys costs nothing here.
// Counting takes one addition in memory. A background flush stores the counts once a second; a
// crash loses those of the last one.
package counter

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// storeTimeout bounds one attempt to store counts, so that a database that does not answer is tried
// again.
const storeTimeout = 5 * time.Second

// lastFlushes is how often Stop tries to store the remaining counts.
const lastFlushes = 3

// Options are the limits of a Counter. Zero values take the defaults.
type Options struct {
	Interval time.Duration // between two flushes; default 1 s
	MaxKeys  int           // most distinct keys waiting for a flush; counts of further ones are dropped; default 10,000
	Log      *slog.Logger  // of failed flushes and dropped counts; default none
	What     string        // what is counted, in the plural, for the log
}

// Counter keeps counts by key until they are stored. It is safe for concurrent use.
type Counter[Key comparable] struct {
	store       func(ctx context.Context, counts map[Key]int64) error
	group       func(Key) int64
	maxPerGroup int // 0: groups are not bounded
	interval    time.Duration
	max         int
	log         *slog.Logger
	what        string

	mu      sync.Mutex
	counts  map[Key]int64 // waiting for the next flush; at most max keys
	grouped map[int64]int // keys of each group among them
	dropped int64         // counts, not keys
	waiting chan struct{} // with room for one; receives when the first count waits

	start, stop sync.Once
	stopping    chan struct{} // closed by Stop
	stopped     chan struct{} // closed when no goroutine flushes any more
	ctx         context.Context
	cancel      context.CancelFunc
}

// New returns a counter that counts at once and stores after Start.
//
// store adds counts to the stored ones, all of them or none, and must not keep the map. After an
// error the counts are kept and handed over again with the next flush. An error after the counts
// were stored therefore counts them twice.
func New[Key comparable](store func(ctx context.Context, counts map[Key]int64) error, o Options) *Counter[Key] {
	return NewGrouped(store, func(Key) int64 { return 0 }, 0, o)
}

// NewGrouped returns a counter that keeps at most maxPerGroup distinct keys of a group between two
// flushes, so that the keys of one site cannot use up the room of all others.
func NewGrouped[Key comparable](
	store func(ctx context.Context, counts map[Key]int64) error, group func(Key) int64, maxPerGroup int, o Options,
) *Counter[Key] {
	if o.Interval <= 0 {
		o.Interval = time.Second
	}
	if o.MaxKeys <= 0 {
		o.MaxKeys = 10_000
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	ctx, cancel := context.WithCancel(context.Background())
	return &Counter[Key]{
		store:       store,
		group:       group,
		maxPerGroup: maxPerGroup,
		interval:    o.Interval,
		max:         o.MaxKeys,
		log:         o.Log,
		what:        o.What,
		counts:      make(map[Key]int64),
		grouped:     make(map[int64]int),
		waiting:     make(chan struct{}, 1),
		stopping:    make(chan struct{}),
		stopped:     make(chan struct{}),
		ctx:         ctx,
		cancel:      cancel,
	}
}

// Add counts one call. It never waits for the database.
func (c *Counter[Key]) Add(key Key) {
	c.mu.Lock()
	c.add(key, 1)
	c.mu.Unlock()
}

// add adds n to the count of a key, or drops n if a bound of keys is reached. The caller holds mu.
func (c *Counter[Key]) add(key Key, n int64) {
	if _, known := c.counts[key]; !known {
		group := c.group(key)
		if len(c.counts) >= c.max || c.maxPerGroup > 0 && c.grouped[group] >= c.maxPerGroup {
			c.dropped += n
			return
		}
		c.grouped[group]++

		if len(c.counts) == 0 {
			select {
			case c.waiting <- struct{}{}:
			default:
			}
		}
	}
	c.counts[key] += n
}

// Dropped returns how many calls were not counted because too many keys were waiting.
func (c *Counter[Key]) Dropped() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dropped
}

// Start starts the flushes. Later calls do nothing.
func (c *Counter[Key]) Start() { c.start.Do(func() { go c.run() }) }

// Stop ends the regular flushes and stores the remaining counts. It tries again an interval after a
// failure, at most three times in all, because the database may have closed the connection
// while it was idle. It does not if the database does not answer. When ctx ends first, the flush in
// progress is cancelled and an error is returned. A later call stores what was added, or had
// failed, since.
func (c *Counter[Key]) Stop(ctx context.Context) error {
	// A counter that was not started never will be.
	c.start.Do(func() { close(c.stopped) })
	c.stop.Do(func() { close(c.stopping) })

	select {
	case <-c.stopped:
	case <-ctx.Done():
		c.cancel()
		<-c.stopped
	}

	c.cancel()
	err := c.flush(ctx)
	for n := 1; err != nil && !errors.Is(err, context.DeadlineExceeded) && n < lastFlushes; n++ {
		select {
		case <-ctx.Done():
			return err
		case <-time.After(c.interval):
			err = c.flush(ctx)
		}
	}
	return err
}

// run flushes an interval after the first count that waits, until Stop. Without counts it sleeps.
func (c *Counter[Key]) run() {
	defer close(c.stopped)

	report := reporter{log: c.log, what: c.what}
	for {
		select {
		case <-c.stopping:
			return
		case <-c.waiting:
		}

		select {
		case <-c.stopping:
			return
		case <-time.After(c.interval):
			err := c.flush(c.ctx)
			report.flushed(c.ctx, err, c.Dropped())
		}
	}
}

// flush stores the waiting counts. Counts that could not be stored wait for the next flush.
func (c *Counter[Key]) flush(ctx context.Context) error {
	counts := c.take()
	if len(counts) == 0 {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()

	err := c.store(ctx, counts)
	if err != nil {
		c.putBack(counts)
	}

	return err
}

// take returns the waiting counts and starts again without any. It returns nil for none.
func (c *Counter[Key]) take() map[Key]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()

	if len(c.counts) == 0 {
		return nil
	}

	counts := c.counts
	c.counts = make(map[Key]int64, len(counts))
	clear(c.grouped)
	return counts
}

// putBack adds counts that could not be stored to those that came since, within the bound.
func (c *Counter[Key]) putBack(counts map[Key]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, n := range counts {
		c.add(key, n)
	}
}

// reporter logs when flushes begin to fail, when they succeed again, and when counts were dropped:
// not at every attempt.
type reporter struct {
	log     *slog.Logger
	what    string
	failing bool
	dropped int64
}

func (r *reporter) flushed(ctx context.Context, err error, dropped int64) {
	switch {
	case err != nil && !r.failing:
		r.log.WarnContext(ctx, "counts are not stored; they are kept in memory", "of", r.what, "error", err)
	case err == nil && r.failing:
		r.log.InfoContext(ctx, "counts are stored again", "of", r.what)
	}

	r.failing = err != nil
	if dropped > r.dropped && !r.failing {
		r.log.WarnContext(ctx, "too many different counts at once; some were dropped", "of", r.what,
			"dropped", dropped-r.dropped)
		r.dropped = dropped
	}
}
