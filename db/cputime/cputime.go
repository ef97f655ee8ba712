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

// Run calls f and adds its processor time, without the time of goroutines that f starts. Outside of
// Linux, which alone has a clock for each thread here, it adds the elapsed time.
func (m *Meter) Run(f func()) {
	// Another goroutine would otherwise take the thread while f waits.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m.add(1, f)
}

// Without calls f, which is a part of the work of a Run in this goroutine, and leaves its processor
// time out.
func (m *Meter) Without(f func()) { m.add(-1, f) }

// add calls f and adds its processor time with a sign. The goroutine must keep its thread.
func (m *Meter) add(sign int64, f func()) {
	if m == nil {
		f()
		return
	}

	began := ofThread()
	defer func() { m.spent.Add(sign * int64(ofThread()-began)) }()
	f()
}

// Spent returns the processor time of all calls of Run that have ended.
func (m *Meter) Spent() time.Duration { return time.Duration(m.spent.Load()) }

var started = time.Now()

// elapsed is the clock where threads have none.
func elapsed() time.Duration { return time.Since(started) }
