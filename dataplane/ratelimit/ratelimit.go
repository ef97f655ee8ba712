// Package ratelimit limits the rate of client networks with token buckets in a fixed amount of
// memory. The flood limit of hits and the captcha's challenges use it. It knows neither contract,
// and stores no address.
package ratelimit

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

const (
	ways = 8    // buckets in a set
	sets = 8192 // 1.1 MB

	// Limit is the number of buckets that a Limiter keeps: 65,536.
	Limit = ways * sets
)

// Limiter holds one token bucket for each key. A bucket holds time: it regains one second per
// second up to its capacity, and each call takes its cost. It is safe for concurrent use.
//
// A Limiter keeps Limit buckets in 1.1 MB and never allocates. It stores keys as hashes only, under
// a seed that each start replaces.
type Limiter struct {
	capacity time.Duration
	seed     maphash.Seed
	epoch    time.Time
	sets     []set
}

// Key identifies a bucket. The zero Network is a network of its own.
type Key struct {
	ID      int64 // what the limit is for, such as a site
	Network netip.Prefix
}

// set holds the buckets whose hashes share their lower bits.
type set struct {
	mu      sync.Mutex
	buckets [ways]bucket
}

// bucket is one bucket; the zero bucket is unused.
type bucket struct {
	hash uint64        // of the key, never 0
	full time.Duration // time since the epoch at which the bucket is full again
}

// New returns a limiter whose buckets are full and have the given capacity, which must be positive.
func New(capacity time.Duration) *Limiter {
	return &Limiter{
		capacity: capacity,
		seed:     maphash.MakeSeed(),
		epoch:    time.Now(),
		sets:     make([]set, sets),
	}
}

// Take takes the cost, which must not exceed the capacity, from the key's bucket and returns 0. If
// the bucket does not hold the cost, Take takes nothing and returns how long to wait. The wait
// never exceeds the cost, whatever the clock does.
func (l *Limiter) Take(now time.Time, key Key, cost time.Duration) (wait time.Duration) {
	// For readings of time.Now, Sub uses the monotonic clock, which is never set back.
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

// find returns the bucket of the hash and its debt. Without one it returns the bucket to replace:
// the one with the least debt, since its network gains least from that. So a client cannot refill
// its own bucket by using many others.
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

// debt returns the time that the bucket lacks. A bucket that lacks more than its capacity was used
// before the clock was set back. It counts as full, so that no network waits until the wrong time
// is reached again.
func (b *bucket) debt(at, capacity time.Duration) time.Duration {
	debt := b.full - at
	if b.hash == 0 || debt < 0 || debt > capacity {
		return 0
	}
	return debt
}
