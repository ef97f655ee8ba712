// Package ratelimit limits how often client networks may do something, by token buckets in a fixed
// amount of memory. It knows neither contract: hits and captcha challenges use it alike.
package ratelimit

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

const (
	ways = 8    // buckets in a set
	sets = 8192 // 65,536 buckets, 1.1 MB

	// Limit is the number of buckets that a Limiter keeps.
	Limit = ways * sets
)

// Limiter holds one token bucket for each key. A bucket holds time: it regains one second each
// second up to its capacity, and every call takes its cost. It is safe for concurrent use.
//
// A Limiter keeps the last Limit buckets in 1.1 MB and never allocates. Of keys it stores only a
// hash, under a seed that is made at each start.
type Limiter struct {
	capacity time.Duration
	seed     maphash.Seed
	epoch    time.Time
	sets     []set
}

// Key names a bucket. The zero Network is a network of its own.
type Key struct {
	ID      int64 // what the limit is for, such as a site
	Network netip.Prefix
}

// set is the buckets whose hashes share their lower bits.
type set struct {
	mu      sync.Mutex
	buckets [ways]bucket
}

// bucket is one bucket; the zero bucket is unused.
type bucket struct {
	hash uint64        // of the key, never 0
	full time.Duration // when the bucket is full again, since the epoch
}

// New returns a limiter whose buckets are full and hold the capacity, which must be positive.
func New(capacity time.Duration) *Limiter {
	return &Limiter{
		capacity: capacity,
		seed:     maphash.MakeSeed(),
		epoch:    time.Now(),
		sets:     make([]set, sets),
	}
}

// Take takes the cost, which must not exceed the capacity, from the key's bucket. It returns 0, or
// how long to wait for the bucket to hold the cost; then nothing was taken. The wait never exceeds
// the cost, whatever the clock does.
func (l *Limiter) Take(now time.Time, key Key, cost time.Duration) (wait time.Duration) {
	// With readings of time.Now the difference is that of the monotonic clock, which is never set
	// back.
	at := now.Sub(l.epoch)
	hash := max(1, maphash.Comparable(l.seed, key))

	s := &l.sets[hash%sets]
	s.mu.Lock()
	defer s.mu.Unlock()

	b, debt := s.find(hash, at, l.capacity)

	if wait := debt + cost - l.capacity; wait > 0 {
		return wait
	}

	b.hash, b.full = hash, at+debt+cost
	return 0
}

// find returns the bucket of the hash and what it lacks. Without one it returns the bucket to
// replace: the one that lacks least, since forgetting it gives its network least. So a client
// cannot refill its own bucket by using many others.
func (s *set) find(hash uint64, at, capacity time.Duration) (_ *bucket, debt time.Duration) {
	var replaced *bucket
	least := capacity + 1
	for i := range s.buckets {
		b := &s.buckets[i]
		debt := b.debt(at, capacity)

		if b.hash == hash {
			return b, debt
		}
		if debt < least {
			replaced, least = b, debt
		}
	}

	return replaced, 0
}

// debt is what the bucket lacks. A bucket that lacks more than its capacity was used before the
// clock was set back: it counts as full, so that no network waits until the wrong time is reached
// again.
func (b *bucket) debt(at, capacity time.Duration) time.Duration {
	debt := b.full - at
	if b.hash == 0 || debt < 0 || debt > capacity {
		return 0
	}
	return debt
}
