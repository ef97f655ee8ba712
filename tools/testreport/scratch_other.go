//go:build !linux

package main

import "os"

// memory returns 0: file systems in memory are used on Linux only.
func memory(string) (free uint64, exec bool) { return 0, false }

// lock returns nil: there is no folder to lock.
func lock(string) *os.File { return nil }
