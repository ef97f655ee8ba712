package main

import (
	"math/bits"
	"time"
)

// histogram counts durations in buckets of at most 1/64 of their value, from a nanosecond to hours.
// The zero value is empty. It belongs to one goroutine; merge adds those of several.
type histogram struct {
	buckets [64 * 64]int64
	count   int64
	largest time.Duration
}

// subBuckets is how many buckets each power of two has, as a power of two itself.
const subBuckets = 6

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.buckets[bucketOf(d)]++
	h.count++
	h.largest = max(h.largest, d)
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.buckets {
		h.buckets[i] += n
	}
	h.count += other.count
	h.largest = max(h.largest, other.largest)
}

// quantile returns the duration that the share q of all, from 0 to 1, does not exceed: exact to
// 1/64. It is 0 when there is none.
func (h *histogram) quantile(q float64) time.Duration {
	rank := int64(q * float64(h.count))
	for i, n := range h.buckets {
		if rank -= n; rank < 0 {
			return min(upperEnd(i), h.largest)
		}
	}
	return h.largest
}

// bucketOf numbers the buckets: durations below 64 ns have one each, then each power of two has 64.
func bucketOf(d time.Duration) int {
	shift := max(bits.Len64(uint64(d))-subBuckets-1, 0)
	return shift<<subBuckets + int(uint64(d)>>shift)
}

// upperEnd is the longest duration of a bucket.
func upperEnd(bucket int) time.Duration {
	shift := max(bucket>>subBuckets-1, 0)
	first := bucket - shift<<subBuckets
	return time.Duration((uint64(first)+1)<<shift) - 1
}
