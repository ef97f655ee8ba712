package sqlitefile

import (
	"errors"
	"syscall"

	sqlite3 "modernc.org/sqlite/lib"
)

const canSyncData = true

// syncData waits until the bytes and the size of one of SQLite's files are on the disk.
func syncData(file uintptr) error {
	for {
		err := syscall.Fdatasync(int(at[sqlite3.TunixFile](file).Fh))
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
