package reports

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tallygate/tallygate/db/model"
)

// cache keeps values for seconds, in bounded memory. Concurrent callers with the same key share one
// load. It is safe for concurrent use; its values must not be changed.
type cache[Key comparable, Value any] struct {
	mu       sync.Mutex
	kept     *simplelru.LRU[Key, cached[Value]]
	loading  map[Key]*load[Value]
	bytes    int64 // of the kept values
	maxBytes int64
}

// cached is a value as it was at a time.
type cached[Value any] struct {
	value Value
	at    model.Instant
	keep  time.Duration
	bytes int64
}

// load is a load in progress.
type load[Value any] struct {
	done  chan struct{} // closed at the end
	value Value
	ok    bool
}

func newCache[Key comparable, Value any](maxBytes int64) *cache[Key, Value] {
	c := &cache[Key, Value]{loading: make(map[Key]*load[Value]), maxBytes: maxBytes}
	kept, err := simplelru.NewLRU(1<<20, func(_ Key, old cached[Value]) { c.bytes -= old.bytes })
	if err != nil {
		// Only a size below 1 fails.
		panic(err)
	}
	c.kept = kept
	return c
}

// get returns a value that is kept, or that another caller loads, or else the one that the function
// loads. A failure is returned to its own caller only: another one then loads. wait, which may be
// nil, is called instead of waiting for another caller's load, with a function that waits.
func (c *cache[Key, Value]) get(
	ctx context.Context, key Key, now model.Instant, fetch func() (cached[Value], error), wait func(func()) error,
) (value Value, err error) {
	for {
		value, own, other := c.begin(key, now)
		if own == nil && other == nil {
			return value, nil
		}
		if own != nil {
			return c.fetch(key, own, fetch)
		}

		loaded := func() {
			select {
			case <-other.done:
			case <-ctx.Done():
			}
		}
		if wait == nil {
			loaded()
		} else if err := wait(loaded); err != nil {
			return value, err
		}

		select {
		case <-other.done:
			if other.ok {
				return other.value, nil
			}
		default:
		}
		if err := ctx.Err(); err != nil {
			return value, err
		}
	}
}

// begin returns the value that is kept, or a load that this caller must do, or that of another one.
func (c *cache[Key, Value]) begin(key Key, now model.Instant) (value Value, own, other *load[Value]) {
	c.mu.Lock()
	defer c.mu.Unlock()

	// The value can be of a later time than now, of a request that began later.
	if d, ok := c.kept.Get(key); ok && now < d.at.Add(d.keep) && now > d.at.Add(-d.keep) {
		return d.value, nil, nil
	}
	if other := c.loading[key]; other != nil {
		return value, nil, other
	}
	own = &load[Value]{done: make(chan struct{})}
	c.loading[key] = own
	return value, own, nil
}

// fetch loads a value, and keeps it if it fits.
func (c *cache[Key, Value]) fetch(
	key Key, own *load[Value], fetch func() (cached[Value], error),
) (value Value, err error) {
	var loaded cached[Value]
	defer func() {
		// Also after a panic, so that no caller waits for this load.
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.loading, key)
		close(own.done)
		if own.ok {
			c.keep(key, loaded)
		}
	}()

	if loaded, err = fetch(); err != nil {
		return value, err
	}
	own.value, own.ok = loaded.value, true
	return loaded.value, nil
}

// keep stores a value in place of the oldest ones. The caller holds the lock.
func (c *cache[Key, Value]) keep(key Key, d cached[Value]) {
	c.kept.Remove(key)
	if d.bytes > c.maxBytes {
		return
	}

	c.kept.Add(key, d)
	for c.bytes += d.bytes; c.bytes > c.maxBytes; {
		c.kept.RemoveOldest()
	}
}
