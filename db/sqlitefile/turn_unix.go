//go:build unix

package sqlitefile

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks a folder, unless another process has locked it. It is true where folders cannot be
// locked.
func tryLock(folder *os.File) bool {
	err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	return !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR)
}

func unlock(folder *os.File) {
	// Closing the folder unlocks it in any case.
	_ = syscall.Flock(int(folder.Fd()), syscall.LOCK_UN)
}
