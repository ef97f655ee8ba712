//go:build unix

package doctor

import (
	"io/fs"
	"syscall"
)

// descriptors returns how many files this process may open. Go raises the soft limit to the hard
// one at the start.
func descriptors() (uint64, bool) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, false
	}
	return uint64(limit.Max), true
}

func ownerOf(info fs.FileInfo) uint32 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Uid
	}
	return 0
}
