package main

import (
	"errors"
	"os"
	"time"
)

// minScratch is the free memory that newScratch asks for, in bytes: several times what the tests
// and the programs that go test builds occupy at once.
const minScratch = 6 << 30

// newScratch creates a folder in memory for the temporary files of go test and of the tests, and
// returns its path. On a disk, SQLite's fsync takes a third of the suite's processor time. No test
// depends on it: tests kill processes, never the machine. It returns "" when parent has less than
// minScratch free or runs no programs, and when the user chose a folder for temporary files.
func newScratch(parent string, getenv func(string) string) string {
	if getenv("TMPDIR") != "" || getenv("GOTMPDIR") != "" {
		return ""
	}
	if free, exec := memory(parent); free < minScratch || !exec {
		return ""
	}

	dir, err := os.MkdirTemp(parent, "tallygate-test-")
	if err != nil {
		return ""
	}

	// PostgreSQL, which root runs as another user, must reach its own folder in this one.
	if err := os.Chmod(dir, 0o711); err != nil {
		return ""
	}

	return dir
}

// removeScratch removes the folder. Processes that end with the tests can still add files for a
// while, so it tries again until patience has passed.
func removeScratch(dir string, patience time.Duration) error {
	var err error
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if err = os.RemoveAll(dir); err == nil || time.Now().After(deadline) {
			break
		}
	}

	if err != nil {
		return errors.Join(errors.New("remove the tests' temporary files"), err)
	}

	return nil
}
