//go:build !linux

package files

// FreeBytes returns false: free space is read on Linux only.
func FreeBytes(string) (free uint64, known bool) { return 0, false }
