// Package tally counts the calls of a site that were refused or ignored, so that its owner can be
// told (analytics contract, section 6). Counting costs a request one addition in memory; once a
// second what has gathered is stored. Only calls of known sites are counted: the caller sees to it,
// so that a flood of unknown keys costs nothing here.
package tally

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db"
)

// Key says what is counted: calls of one site on one UTC day to one endpoint that were answered
// with one code.
type Key = db.RejectionKey

// storeTimeout bounds one attempt to store counts, so that a database that hangs is asked again.
const storeTimeout = 5 * time.Second

// Options are the limits of a Tally. Zero values take the defaults.
type Options struct {
	Interval time.Duration // between two flushes; default 1 s
	MaxKeys  int           // most distinct keys waiting for a flush; counts of further ones are dropped; default 10,000
	Log      *slog.Logger  // told about failed flushes and dropped counts; default nobody
}

// Tally is counts on their way to storage. It is safe for concurrent use.
type Tally struct {
	store    func(ctx context.Context, counts map[Key]int64) error
	interval time.Duration
	max      int
	log      *slog.Logger

	mu      sync.Mutex
	counts  map[Key]int64 // waiting for the next flush; at most max keys
	dropped int64         // counts, not keys

	start, stop sync.Once
	stopping    chan struct{} // closed by Stop
	stopped     chan struct{} // closed when no goroutine flushes any more
	ctx         context.Context
	cancel      context.CancelFunc
}

// New returns a tally that counts at once and stores after Start. store adds counts to what is
// stored, all of them or none; it must not keep the map. When it fails, they are kept and handed
// over again with the next flush: an error after they were stored after all counts them twice.
func New(store func(ctx context.Context, counts map[Key]int64) error, o Options) *Tally {
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
	return &Tally{
		store:    store,
		interval: o.Interval,
		max:      o.MaxKeys,
		log:      o.Log,
		counts:   make(map[Key]int64),
		stopping: make(chan struct{}),
		stopped:  make(chan struct{}),
		ctx:      ctx,
		cancel:   cancel,
	}
}

// Add counts one call. It never waits for the database.
func (t *Tally) Add(key Key) {
	t.mu.Lock()
	t.add(key, 1)
	t.mu.Unlock()
}

func (t *Tally) add(key Key, n int64) {
	if len(t.counts) >= t.max {
		if _, ok := t.counts[key]; !ok {
			t.dropped += n
			return
		}
	}
	t.counts[key] += n
}

// Dropped is how many calls were not counted because too many keys were waiting.
func (t *Tally) Dropped() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropped
}

// Start starts to store. Later calls do nothing.
func (t *Tally) Start() { t.start.Do(func() { go t.run() }) }

// Stop ends the flushing once a second and stores what has gathered. When ctx ends first, the
// attempt under way is cancelled and an error is returned. Called again, it stores what was added
// or had failed since.
func (t *Tally) Stop(ctx context.Context) error {
	// never started, and from now on never will be
	t.start.Do(func() { close(t.stopped) })
	t.stop.Do(func() { close(t.stopping) })

	select {
	case <-t.stopped:
	case <-ctx.Done():
		t.cancel()
		<-t.stopped
	}

	t.cancel()
	return t.flush(ctx)
}

func (t *Tally) run() {
	defer close(t.stopped)

	ticker := time.NewTicker(t.interval)
	defer ticker.Stop()

	report := reporter{log: t.log}
	for {
		select {
		case <-t.stopping:
			return
		case <-ticker.C:
			err := t.flush(t.ctx)
			report.flushed(t.ctx, err, t.Dropped())
		}
	}
}

// flush stores what is waiting. What could not be stored waits on.
func (t *Tally) flush(ctx context.Context) error {
	counts := t.take()
	if len(counts) == 0 {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()

	err := t.store(ctx, counts)
	if err != nil {
		t.putBack(counts)
	}

	return err
}

func (t *Tally) take() map[Key]int64 {
	t.mu.Lock()
	defer t.mu.Unlock()

	if len(t.counts) == 0 {
		return nil
	}

	counts := t.counts
	t.counts = make(map[Key]int64, len(counts))
	return counts
}

// putBack adds counts that could not be stored to those that came since, within the bound.
func (t *Tally) putBack(counts map[Key]int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, n := range counts {
		t.add(key, n)
	}
}

// reporter writes to the log when flushing begins to fail, when it works again, and when counts
// were dropped: not with every attempt.
type reporter struct {
	log     *slog.Logger
	failing bool
	dropped int64
}

func (r *reporter) flushed(ctx context.Context, err error, dropped int64) {
	switch {
	case err != nil && !r.failing:
		r.log.WarnContext(ctx, "refused calls are not stored; they are kept in memory", "error", err)
	case err == nil && r.failing:
		r.log.InfoContext(ctx, "refused calls are stored again")
	}

	r.failing = err != nil
	if dropped > r.dropped && !r.failing {
		r.log.WarnContext(ctx, "too many kinds of refused calls at once; some were not counted", "dropped", dropped-r.dropped)
		r.dropped = dropped
	}
}
