package database

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db/files"
)

// Folder is the state of a data folder.
type Folder struct {
	InUse   bool   // another process uses it
	LogLost string // what a start would report about the SQLite log; "": nothing
	Empty   error  // why a start would refuse a missing or empty database file; nil: it would not
}

// Examine reads the state of the data folder as a start does, and changes nothing. Until release is
// called, no command can start that must be alone. With a lost log the database must not be opened:
// closing it would remove the evidence.
func Examine(c *config.Config) (folder Folder, release func(), err error) {
	release = func() {}

	if c.DatabaseURL == "" {
		folder.Empty = refuseEmpty(c)
	}

	file, err := os.OpenFile(filepath.Join(c.DataDir, holdFile), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return folder, release, nil
	}
	if err != nil {
		return folder, release, err
	}

	first, err := tryLock(file)
	if err == nil && first && c.DatabaseURL == "" {
		folder.LogLost, err = lostLog(c, &Hold{file: file})
	}
	if err == nil {
		folder.InUse = !first && canLock
		err = lockShared(file)
	}
	if err != nil {
		return folder, release, errors.Join(err, file.Close())
	}

	return folder, func() { _ = file.Close() }, nil
}

// lostLog returns what inspectLog would report.
func lostLog(c *config.Config, h *Hold) (string, error) {
	state, err := files.CheckLog(c.Database())

	switch {
	case err != nil:
		return "", err
	case state == files.LogLost:
		return LogLost, nil
	case state == files.LogStale:
		return LogStale, nil
	case state == files.LogAbsent && h.wasInUse():
		return LogAbsent, nil
	}

	return "", nil
}
