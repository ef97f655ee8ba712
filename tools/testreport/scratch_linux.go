package main

import (
	"os"
	"syscall"
)

const (
	tmpfsMagic = 0x01021994 // statfs(2): the type of tmpfs
	noExec     = 0x8        // statfs(2): ST_NOEXEC
)

// memory returns how many bytes are free in a file system in memory, 0 for any other one, and
// whether programs in it can run.
func memory(path string) (free uint64, exec bool) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil || fs.Type != tmpfsMagic {
		return 0, false
	}
	return fs.Bavail * uint64(fs.Bsize), fs.Flags&noExec == 0
}

// lock creates and locks a file, and returns nil when another process has locked it. The lock ends
// with this process.
func lock(path string) *os.File {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil
	}
	return f
}
