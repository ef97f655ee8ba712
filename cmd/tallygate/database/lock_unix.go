//go:build unix

package database

import (
	"errors"
	"os"
	"syscall"
)

// canLock reports whether processes on one data folder notice each other.
const canLock = true

// tryLock locks the file exclusively, and reports whether that was possible. If not, a shared lock
// that the file had is lost. The lock ends with the process.
func tryLock(file *os.File) (bool, error) {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// lockShared locks the file together with other processes. It waits while another process has
// locked it exclusively.
func lockShared(file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_SH)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// giveToOwner changes the owner of a file that root created to the folder's owner, as SQLite does
// with its files.
func giveToOwner(file *os.File, dir string) {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return
	}

	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		// The service reports the file if it cannot open it.
		_ = file.Chown(int(owner.Uid), int(owner.Gid))
	}
}
