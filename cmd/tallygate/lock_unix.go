//go:build unix

package main

import (
	"errors"
	"os"
	"syscall"
)

// canLock reports whether processes on one data folder see each other.
const canLock = true

// tryLock takes the file's lock for this process alone, and reports whether that was possible. A
// shared lock that the file had is lost when it was not. The lock ends with the process.
func tryLock(file *os.File) (bool, error) {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// lockShared takes the file's lock together with others. It waits for a process that has it alone.
func lockShared(file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_SH)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// giveToOwner gives a file that root made to the folder's owner, as SQLite does with its own.
func giveToOwner(file *os.File, dir string) {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return
	}

	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		// the service would name the file when it cannot open it
		_ = file.Chown(int(owner.Uid), int(owner.Gid))
	}
}
