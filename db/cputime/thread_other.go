//go:build !linux

package cputime

import "time"

// ofThread returns a time that grows as fast as a thread that never waits.
func ofThread() time.Duration { return elapsed() }
