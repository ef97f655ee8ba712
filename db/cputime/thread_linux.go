package cputime

import (
	"time"

	"golang.org/x/sys/unix"
)

// ofThread returns the processor time of the current thread since it began.
func ofThread() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		// A sandbox may refuse this clock.
		return elapsed()
	}
	return time.Duration(t.Nano())
}
