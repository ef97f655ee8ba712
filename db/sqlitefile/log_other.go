//go:build !linux

package sqlitefile

const canSyncData = false

// syncData is for Linux only.
func syncData(uintptr) error { panic("no fdatasync on this system") }
