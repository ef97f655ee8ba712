package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histogram counts durations with an error of at most 1 %. The zero value is empty. It is not safe
// for concurrent use; Merge adds the histograms of several goroutines.
type Histogram struct {
	Max time.Duration // the longest duration, exact

	counts *hdrhistogram.Histogram // nil while empty
}

// The range and accuracy of a histogram, which takes about 37 KB. Longer durations are counted as
// longestCounted.
const (
	longestCounted    = time.Hour
	significantDigits = 2
)

// Add counts a duration. A negative duration counts as 0.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	h.Max = max(h.Max, d)
	h.allocate()

	// The value is within the range, so this cannot fail.
	_ = h.counts.RecordValue(int64(min(d, longestCounted)))
}

// Merge adds the durations of another histogram.
func (h *Histogram) Merge(other *Histogram) {
	if other.counts == nil {
		return
	}

	h.Max = max(h.Max, other.Max)
	h.allocate()
	h.counts.Merge(other.counts)
}

// Count returns the number of durations.
func (h *Histogram) Count() int64 {
	if h.counts == nil {
		return 0
	}
	return h.counts.TotalCount()
}

// Quantile returns the duration that the share q of all durations, from 0 to 1, does not exceed. It
// returns 0 for an empty histogram, and Max for a q of 1.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.counts == nil || q >= 1 {
		return h.Max
	}
	return min(time.Duration(h.counts.ValueAtPercentile(100*q)), h.Max)
}

func (h *Histogram) allocate() {
	if h.counts == nil {
		h.counts = hdrhistogram.New(1, int64(longestCounted), significantDigits)
	}
}
