package main

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"time"
)

// minScratch is the free memory that newScratch asks for, in bytes: several times what the tests
// and the programs that go test builds occupy at once.
const minScratch = 6 << 30

// newScratch creates a folder in memory for the temporary files of go test and of the tests. On a
// disk, SQLite's fsync takes a third of the suite's processor time. No test depends on the folder:
// tests kill processes, never the machine. It returns nil when parent has less than minScratch free
// or runs no programs, and when the user chose a folder for temporary files.
//
// The folder has the same path in each run of a user in a working folder, because TMPDIR is part of
// the key of go test's cache. While another run uses this path, the folder gets another one.
func newScratch(parent string, getenv func(string) string) *scratch {
	if getenv("TMPDIR") != "" || getenv("GOTMPDIR") != "" {
		return nil
	}
	if free, exec := memory(parent); free < minScratch || !exec {
		return nil
	}
	working, err := os.Getwd()
	if err != nil {
		return nil
	}

	name := fnv.New32a()
	fmt.Fprintf(name, "%d %s", os.Getuid(), working)
	s := &scratch{dir: filepath.Join(parent, fmt.Sprintf("tallygate-test-%08x", name.Sum32()))}
	if s.lock = lock(s.dir + ".lock"); s.lock != nil {
		// A run that was killed has left its files.
		err = errors.Join(os.RemoveAll(s.dir), os.Mkdir(s.dir, 0o700))
	} else {
		s.dir, err = os.MkdirTemp(parent, "tallygate-test-")
	}

	// PostgreSQL, which root runs as another user, must reach its own folder in this one.
	if err == nil {
		err = os.Chmod(s.dir, 0o711)
	}
	if err != nil {
		return nil
	}
	return s
}

// scratch is a folder for temporary files.
type scratch struct {
	dir  string
	lock *os.File // locked while this run uses a path that other runs use, too; else nil
}

// remove removes the folder. Processes that end with the tests can still add files for a while, so
// it tries again until patience has passed.
func (s *scratch) remove(patience time.Duration) error {
	var err error
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if err = os.RemoveAll(s.dir); err == nil || time.Now().After(deadline) {
			break
		}
	}

	if err != nil {
		return errors.Join(errors.New("remove the tests' temporary files"), err)
	}
	// The file stays: another run may have opened it to lock it.
	if s.lock != nil {
		return s.lock.Close()
	}
	return nil
}
