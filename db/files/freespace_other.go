//go:build !linux

package files

// freeBytes returns false: free space is read on Linux only.
func freeBytes(string) (free uint64, known bool) { return 0, false }
