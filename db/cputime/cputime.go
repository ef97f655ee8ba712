// Package cputime measures the processor time of work. Elapsed time would also count how long the
// work waits while others have the processors.
package cputime

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Meter adds up the processor time of work, which several goroutines may do at once. Its zero value
// is ready to use. A nil Meter measures nothing.
type Meter struct{ spent atomic.Int64 }

// Begin begins work of this goroutine. At the End of the span its processor time counts, without
// the time of goroutines that it starts. Outside of Linux, which alone has a clock for each thread
// here, the elapsed time counts.
func (m *Meter) Begin() Span { return m.begin(1) }

// Leave begins a part of the work of a span in this goroutine. The processor time of the part does
// not count. It must end before the span.
func (m *Meter) Leave() Span { return m.begin(-1) }

// begin begins work. Its processor time is added with a sign.
func (m *Meter) begin(sign int64) Span {
	if m == nil {
		return Span{}
	}
	// Another goroutine would otherwise take the thread while this one waits.
	runtime.LockOSThread()
	return Span{meter: m, sign: sign, began: ofThread()}
}

// Span is work in progress.
type Span struct {
	meter *Meter
	sign  int64
	began time.Duration
}

// End ends the work. The goroutine that began it must call End, in a defer if the work can panic.
func (s Span) End() {
	if s.meter != nil {
		s.meter.spent.Add(s.sign * int64(ofThread()-s.began))
		runtime.UnlockOSThread()
	}
}

// Spent returns the processor time of all spans that have ended.
func (m *Meter) Spent() time.Duration { return time.Duration(m.spent.Load()) }

var started = time.Now()

// elapsed is the clock where threads have none.
func elapsed() time.Duration { return time.Since(started) }
