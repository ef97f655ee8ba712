// Package snapshot keeps what requests need to know of rows that change rarely, such as captcha
// sitekeys, by the names under which requests ask for them. It is told of changes, and does not
// trust itself for long when it may not have been. It knows neither contract.
package snapshot

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/tallygate/tallygate/dataplane/flight"
	"github.com/tallygate/tallygate/db/model"
)

const (
	ttl         = 10 * time.Second       // a snapshot is at most this old, should a notice of a change get lost
	unsyncedTTL = 500 * time.Millisecond // or this, while no notices can arrive
	unknownTTL  = 2 * time.Second        // so old is the knowledge that a name is nobody's
	loadTimeout = 5 * time.Second
	limit       = 50_000 // snapshots kept
	unknownMax  = 10_000 // names kept that are nobody's, apart, so that made-up ones push no known one out

	// strangerLimit is how many names that are not among the snapshots a cache looks up at once. It
	// leaves connections for everybody else: SQLite has eight to read with, PostgreSQL's pool has
	// sixteen, and there are several caches.
	strangerLimit = 3
	strangerWait  = time.Second // so long such a look-up waits for its turn
)

// ErrStrangers is returned for a name without a snapshot while too many others are being looked up.
var ErrStrangers = errors.New("snapshot: too many unknown names are asked for")

// Cache keeps snapshots by name. Concurrent requests for one name ask the database once. It is
// bounded, so that a flood of made-up names cannot grow it; and names without a snapshot wait for a
// few places, so that such a flood does not keep the snapshots from being renewed. It is safe for
// concurrent use.
type Cache[Value any] struct {
	load      Load[Value]
	now       func() time.Time
	entries   *lru.Cache[string, *entry[Value]]
	unknown   *lru.Cache[string, time.Time] // since when
	flight    flight.Group[*Value]
	strangers chan struct{} // one token for each look-up of a name without an entry
	changes   atomic.Int64  // counts notices, so that what was loaded across one is not used again
	unsynced  atomic.Bool
}

// Load reads what has a name, and the id under which its changes are told. model.ErrNotFound says
// that nobody has the name.
type Load[Value any] func(ctx context.Context, name string) (id int64, value *Value, err error)

// entry stays when it is out of date: its name is then known to be somebody's, or to have been
// until now.
type entry[Value any] struct {
	id      int64
	value   *Value // never changed
	loaded  time.Time
	changed atomic.Bool // it may be another since
}

// New returns an empty cache, which believes to miss notices until Synced says otherwise.
func New[Value any](load Load[Value], now func() time.Time) *Cache[Value] {
	c := &Cache[Value]{
		load:      load,
		now:       now,
		entries:   newLRU[*entry[Value]](limit),
		unknown:   newLRU[time.Time](unknownMax),
		strangers: make(chan struct{}, strangerLimit),
	}

	c.unsynced.Store(true)
	return c
}

func newLRU[Value any](limit int) *lru.Cache[string, Value] {
	cache, err := lru.New[string, Value](limit)
	if err != nil {
		// only a limit below one fails
		panic(err)
	}
	return cache
}

// Get returns what has this name, or nil for an unknown name. It fails only with the database, with
// ErrStrangers, or with context.DeadlineExceeded at the deadline.
func (c *Cache[Value]) Get(deadline time.Time, name string) (*Value, error) {
	if value, fresh, _ := c.kept(name); fresh {
		return value, nil
	}

	return c.flight.Get(deadline, name, loadTimeout, func(ctx context.Context) (*Value, error) {
		// Another lookup may have ended since the caller looked.
		value, fresh, known := c.kept(name)
		if fresh {
			return value, nil
		}
		if known {
			return c.fetch(ctx, name)
		}

		return c.fetchStranger(ctx, name)
	})
}

// kept returns what memory has of a name, and whether it is fresh: a value, or nil for a name that
// nothing has. known says that there is a value, fresh or not.
func (c *Cache[Value]) kept(name string) (value *Value, fresh, known bool) {
	e, known := c.entries.Get(name)
	if known && !e.changed.Load() && c.isFresh(e.loaded, ttl) {
		return e.value, true, true
	}
	since, unknown := c.unknown.Get(name)
	return nil, unknown && c.isFresh(since, unknownTTL), known
}

// isFresh reports whether what is known since a time is younger than the TTL. What is from the
// future was loaded before the clock was set back: it is read again, instead of kept until that
// time comes again.
func (c *Cache[Value]) isFresh(since time.Time, ttl time.Duration) bool {
	if c.unsynced.Load() {
		ttl = unsyncedTTL
	}
	age := c.now().Sub(since)
	return age >= 0 && age < ttl
}

// fetchStranger is fetch for a name that may well be made up.
func (c *Cache[Value]) fetchStranger(ctx context.Context, name string) (*Value, error) {
	turn := time.NewTimer(strangerWait)
	defer turn.Stop()

	select {
	case c.strangers <- struct{}{}:
		defer func() { <-c.strangers }()

		return c.fetch(ctx, name)
	case <-turn.C:
		return nil, ErrStrangers
	}
}

func (c *Cache[Value]) fetch(ctx context.Context, name string) (*Value, error) {
	changes, loaded := c.changes.Load(), c.now()
	id, value, err := c.load(ctx, name)
	if errors.Is(err, model.ErrNotFound) {
		c.entries.Remove(name)
		c.unknown.Add(name, loaded)

		// as below
		if c.changes.Load() != changes {
			c.unknown.Remove(name)
		}

		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	e := &entry[Value]{id: id, value: value, loaded: loaded}
	c.entries.Add(name, e)

	// after Add: either Changed sees the entry, or this sees the change
	if c.changes.Load() != changes {
		e.changed.Store(true)
	}

	return value, nil
}

// Changed makes the next request read an id's value again. A request that comes after it sees the
// change, unless it shares a look-up that had begun before: that one ends within moments and is not
// used again.
func (c *Cache[Value]) Changed(id int64) {
	c.forget(func(e *entry[Value]) bool { return e.id == id })
}

// Synced says whether notices of changes arrive. Whatever was missed is read again when they do.
func (c *Cache[Value]) Synced(yes bool) {
	c.unsynced.Store(!yes)
	if yes {
		c.forget(func(*entry[Value]) bool { return true })
	}
}

func (c *Cache[Value]) forget(which func(*entry[Value]) bool) {
	c.changes.Add(1)

	for _, e := range c.entries.Values() {
		if which(e) {
			e.changed.Store(true)
		}
	}

	// a name may be somebody's from now on
	c.unknown.Purge()
}
