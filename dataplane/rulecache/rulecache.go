// Package rulecache caches what requests need of rows that change rarely: the rules of sites and
// the settings of sitekeys, by public key or by secret. The services of the data plane call it.
// Change notifications invalidate it, and a TTL bounds the effect of a lost one. While the database
// is away, what was known a few minutes ago still serves. It never writes, and knows neither
// contract.
//
// A loading cache such as otter could replace only the bounded maps. The caller's own deadline, the
// invalidation by row id, the TTL that depends on the notifications, the separate space for unknown
// keys and their limit would all remain here.
package rulecache

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/semaphore"

	"github.com/tallygate/tallygate/dataplane/flight"
	"github.com/tallygate/tallygate/db/model"
)

const (
	ttl         = 5 * time.Minute        // greatest age of an entry
	unsyncedTTL = 500 * time.Millisecond // greatest age while no notifications arrive
	unknownTTL  = 2 * time.Second        // greatest age of a key that was not found
	loadTimeout = 5 * time.Second

	// While no notifications arrive and lookups fail, an entry serves up to this age, unless it is
	// known to have changed. The first lookup that fails may take retryWait. After it requests wait
	// for none, until one succeeds. Meanwhile an entry that is asked for is looked up once in
	// retryWait, and at most maxRetries entries at once.
	staleTTL  = 10 * time.Minute
	retryWait = time.Second

	maxRetries = 2

	limit      = 50_000 // entries
	unknownMax = 10_000 // keys that were not found, kept apart so that made-up keys evict no entry

	// unknownLimit is the number of lookups at once of keys without an entry. The data plane has
	// four connections for lookups (dataPool of package db), so that one remains for known keys.
	unknownLimit = 3
	unknownWait  = time.Second // longest wait for such a lookup to start
)

// ErrUnknownKeys is returned for a key without an entry while too many others are being looked up.
var ErrUnknownKeys = errors.New("rulecache: too many lookups of unknown keys")

// Cache caches values by key. Concurrent requests for one key cause one lookup. The cache is
// bounded, so that a flood of made-up keys cannot grow it. Few keys without an entry are looked up
// at once, so that such a flood does not delay the refresh of entries. It is safe for concurrent
// use.
type Cache[Value any] struct {
	load     Load[Value]
	now      func() time.Time
	entries  *lru.Cache[string, *entry[Value]]
	unknown  *lru.Cache[string, time.Time] // time of the lookup
	flight   flight.Group[*Value]
	lookups  *semaphore.Weighted // of keys without an entry
	changes  atomic.Int64        // number of changes, to detect one during a lookup
	unsynced atomic.Bool
	failing  atomic.Bool         // the last lookup failed
	retries  *semaphore.Weighted // lookups while it is set

	hits, misses, stale atomic.Int64 // calls of Get, see Measure
}

// Load reads the value of a key, and the id by which Changed invalidates it. It returns
// model.ErrNotFound for an unknown key. It must not depend on the request that caused it, because
// other requests share its result.
type Load[Value any] func(ctx context.Context, key string) (id int64, value *Value, err error)

// entry is a cached value. It stays when it is out of date, so that its key still counts as known.
type entry[Value any] struct {
	id      int64
	value   *Value // never changed
	loaded  time.Time
	changed atomic.Bool  // invalidated
	tried   atomic.Int64 // when a lookup failed, or one began that nothing waits for, in Unix nanoseconds; 0: never
}

// New returns an empty cache. It assumes that no notifications arrive until Synced reports them.
func New[Value any](load Load[Value], now func() time.Time) *Cache[Value] {
	c := &Cache[Value]{
		load:    load,
		now:     now,
		entries: newLRU[*entry[Value]](limit),
		unknown: newLRU[time.Time](unknownMax),
		lookups: semaphore.NewWeighted(unknownLimit),
		retries: semaphore.NewWeighted(maxRetries),
	}

	c.unsynced.Store(true)
	return c
}

func newLRU[Value any](limit int) *lru.Cache[string, Value] {
	cache, err := lru.New[string, Value](limit)
	if err != nil {
		// Only a limit below one fails.
		panic(err)
	}
	return cache
}

// Get returns the value of a key, or nil for an unknown key. It fails with the error of the lookup,
// with ErrUnknownKeys, or with context.DeadlineExceeded at the deadline.
func (c *Cache[Value]) Get(deadline time.Time, key string) (*Value, error) {
	if value, fresh, _ := c.cached(key); fresh {
		c.hits.Add(1)
		return value, nil
	}
	c.misses.Add(1)

	// The key may share the memory of a whole request, which the cache must not keep.
	key = strings.Clone(key)

	if e, known := c.entries.Peek(key); known && c.failing.Load() && c.maySubstitute(e) {
		c.stale.Add(1)
		c.retry(key, e)
		return e.value, nil
	}
	return c.lookUp(deadline, key)
}

// lookUp reads the value of a key, or waits until the deadline for another request that does.
func (c *Cache[Value]) lookUp(deadline time.Time, key string) (*Value, error) {
	return c.flight.Get(deadline, key, loadTimeout, func(ctx context.Context) (*Value, error) {
		// Another lookup may have ended since the check above.
		value, fresh, known := c.cached(key)
		if fresh {
			return value, nil
		}
		if known {
			return c.refresh(ctx, key)
		}

		return c.fetchUnknown(ctx, key)
	})
}

// cached returns the cached value of a key, or nil for a key that was not found, and whether that
// is fresh. known reports whether the key has an entry, fresh or not.
func (c *Cache[Value]) cached(key string) (value *Value, fresh, known bool) {
	e, known := c.entries.Get(key)
	if known && !e.changed.Load() && c.isFresh(e.loaded, ttl) {
		return e.value, true, true
	}

	since, unknown := c.unknown.Get(key)
	return nil, unknown && c.isFresh(since, unknownTTL), known
}

// isFresh reports whether a lookup at a given time is younger than the TTL. A lookup in the future
// was made before the clock was set back. It is not fresh, since it could stay so for any time.
func (c *Cache[Value]) isFresh(since time.Time, ttl time.Duration) bool {
	if c.unsynced.Load() {
		ttl = unsyncedTTL
	}
	age, ok := c.age(since)
	return ok && age < ttl
}

// age returns how old a time is. It is false for one in the future, see isFresh.
func (c *Cache[Value]) age(since time.Time) (time.Duration, bool) {
	age := c.now().Sub(since)
	return age, age >= 0
}

// maySubstitute reports whether an entry that is out of date serves while the database is away.
func (c *Cache[Value]) maySubstitute(e *entry[Value]) bool {
	age, ok := c.age(e.loaded)
	return c.unsynced.Load() && !e.changed.Load() && ok && age < staleTTL
}

// retry begins a lookup that nothing waits for, unless one of the entry has just begun or too many
// run.
func (c *Cache[Value]) retry(key string, e *entry[Value]) {
	tried := e.tried.Load()
	if age, ok := c.age(time.Unix(0, tried)); ok && age < retryWait || !c.retries.TryAcquire(1) {
		return
	}
	if !e.tried.CompareAndSwap(tried, c.now().UnixNano()) {
		c.retries.Release(1)
		return
	}

	go func() {
		defer c.retries.Release(1)
		_, _ = c.lookUp(time.Time{}, key)
	}()
}

// refresh is fetch for a key with an entry, which is returned while the database is away.
func (c *Cache[Value]) refresh(ctx context.Context, key string) (*Value, error) {
	e, known := c.entries.Peek(key)
	if !known || !c.maySubstitute(e) {
		return c.fetch(ctx, key)
	}

	limited, cancel := context.WithTimeout(ctx, retryWait)
	defer cancel()

	value, err := c.fetch(limited, key)
	if err != nil && c.maySubstitute(e) {
		c.failing.Store(true)
		e.tried.Store(c.now().UnixNano())
		c.stale.Add(1)
		return e.value, nil
	}

	return value, err
}

// fetchUnknown is fetch for a key without an entry, which may be made up.
func (c *Cache[Value]) fetchUnknown(ctx context.Context, key string) (*Value, error) {
	wait, cancel := context.WithTimeout(ctx, unknownWait)
	defer cancel()

	if c.lookups.Acquire(wait, 1) != nil {
		return nil, ErrUnknownKeys
	}
	defer c.lookups.Release(1)

	return c.fetch(ctx, key)
}

// fetch loads the value of a key and caches the result.
func (c *Cache[Value]) fetch(ctx context.Context, key string) (*Value, error) {
	changes, loaded := c.changes.Load(), c.now()
	id, value, err := c.load(ctx, key)
	if err == nil || errors.Is(err, model.ErrNotFound) {
		c.failing.Store(false)
	}

	if errors.Is(err, model.ErrNotFound) {
		c.entries.Remove(key)
		c.unknown.Add(key, loaded)

		if c.changes.Load() != changes {
			c.unknown.Remove(key)
		}

		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	e := &entry[Value]{id: id, value: value, loaded: loaded}
	c.entries.Add(key, e)

	// This follows Add, so that either Changed finds the entry or this detects the change.
	if c.changes.Load() != changes {
		e.changed.Store(true)
	}

	return value, nil
}

// Changed invalidates the value with an id. Requests after it see the change, unless they share a
// lookup that began before it. The result of that lookup is not cached.
func (c *Cache[Value]) Changed(id int64) {
	c.invalidate(func(e *entry[Value]) bool { return e.id == id })
}

// Synced sets whether change notifications arrive. When they start to, it invalidates all values,
// since notifications may have been lost before.
func (c *Cache[Value]) Synced(yes bool) {
	c.unsynced.Store(!yes)
	if yes {
		c.invalidate(func(*entry[Value]) bool { return true })
	}
}

// invalidate marks the selected entries as changed, and forgets the unknown keys.
func (c *Cache[Value]) invalidate(which func(*entry[Value]) bool) {
	c.changes.Add(1)

	for _, e := range c.entries.Values() {
		if which(e) {
			e.changed.Store(true)
		}
	}

	// The change may have created an unknown key.
	c.unknown.Purge()
}
