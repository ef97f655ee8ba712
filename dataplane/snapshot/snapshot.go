// Package snapshot keeps what requests need to know of rows that change rarely, such as captcha sitekeys, by the names under
// which requests ask for them. It is told of changes, and does not trust itself for long when it may not have been. It knows
// neither contract.
package snapshot

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/tallygate/tallygate/db/model"
)

const (
	ttl         = 10 * time.Second       // a snapshot is at most this old, should a notice of a change get lost
	unsyncedTTL = 500 * time.Millisecond // or this, while no notices can arrive
	unknownTTL  = 2 * time.Second        // so old is the knowledge that a name is nobody's
	loadTimeout = 5 * time.Second
	limit       = 50_000 // snapshots kept
	unknownMax  = 10_000 // names kept that are nobody's, apart, so that made-up ones push no known one out
)

// Cache keeps snapshots by name. Concurrent requests for one name ask the database once. It is bounded, so that a flood of
// made-up names cannot grow it. It is safe for concurrent use.
type Cache[Value any] struct {
	load     Load[Value]
	now      func() time.Time
	entries  *lru.Cache[string, entry[Value]]
	unknown  *lru.Cache[string, time.Time] // since when
	flight   singleflight.Group
	changes  atomic.Int64 // counts notices, so that what was loaded across one is not kept
	unsynced atomic.Bool
}

// Load reads what has a name, and the id under which its changes are told. model.ErrNotFound says that nobody has the name.
type Load[Value any] func(ctx context.Context, name string) (id int64, value *Value, err error)

type entry[Value any] struct {
	id     int64
	value  *Value // never changed
	loaded time.Time
}

// New returns an empty cache, which believes to miss notices until Synced says otherwise.
func New[Value any](load Load[Value], now func() time.Time) *Cache[Value] {
	c := &Cache[Value]{load: load, now: now, entries: newLRU[entry[Value]](limit), unknown: newLRU[time.Time](unknownMax)}
	c.unsynced.Store(true)
	return c
}

func newLRU[Value any](limit int) *lru.Cache[string, Value] {
	cache, err := lru.New[string, Value](limit)
	if err != nil {
		panic(err) // only a limit below one fails
	}
	return cache
}

// Get returns what has this name, or nil when nobody has. It fails only with the database.
func (c *Cache[Value]) Get(ctx context.Context, name string) (*Value, error) {
	if entry, ok := c.entries.Get(name); ok && c.isFresh(entry.loaded, ttl) {
		return entry.value, nil
	}
	if since, ok := c.unknown.Get(name); ok && c.isFresh(since, unknownTTL) {
		return nil, nil
	}
	found, err, _ := c.flight.Do(name, func() (any, error) {
		// Several requests share this look-up: the first one's leaving must not fail the others.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
		defer cancel()
		return c.fetch(ctx, name)
	})
	if err != nil {
		return nil, err
	}
	return found.(*Value), nil
}

func (c *Cache[Value]) isFresh(since time.Time, ttl time.Duration) bool {
	if c.unsynced.Load() {
		ttl = unsyncedTTL
	}
	return c.now().Sub(since) < ttl
}

func (c *Cache[Value]) fetch(ctx context.Context, name string) (*Value, error) {
	changes, loaded := c.changes.Load(), c.now()
	id, value, err := c.load(ctx, name)
	if errors.Is(err, model.ErrNotFound) {
		c.entries.Remove(name)
		c.unknown.Add(name, loaded)
		if c.changes.Load() != changes { // as below
			c.unknown.Remove(name)
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c.entries.Add(name, entry[Value]{id: id, value: value, loaded: loaded})
	if c.changes.Load() != changes { // after Add: either Changed sees the entry, or this sees the change
		c.entries.Remove(name)
	}
	return value, nil
}

// Changed forgets the snapshots of an id. A request that comes after it sees the change, unless it shares a look-up that had
// begun before: that one ends within moments and is not kept.
func (c *Cache[Value]) Changed(id int64) {
	c.changes.Add(1)
	for _, name := range c.entries.Keys() {
		if entry, ok := c.entries.Peek(name); ok && entry.id == id {
			c.entries.Remove(name)
		}
	}
	c.unknown.Purge() // a name may be this one's from now on
}

// Synced says whether notices of changes arrive. Whatever was missed is forgotten when they do again.
func (c *Cache[Value]) Synced(yes bool) {
	c.unsynced.Store(!yes)
	if yes {
		c.changes.Add(1)
		c.entries.Purge()
		c.unknown.Purge()
	}
}
