package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/tallygate/tallygate/db/files"
)

// holdFile is the file in the data folder that processes hold locked while they use the folder. Its
// content is holdInUse from a start until the last process ended cleanly.
const (
	holdFile  = "lock"
	holdInUse = "in use\n"
)

// errInUse means that a process uses the data folder.
var errInUse = errors.New("tallygate is running on this data folder; stop it first")

// folderHold is a process's use of the data folder, shared with other processes. A nil hold is
// valid and holds nothing.
type folderHold struct {
	file *os.File

	logLost  string // what a warning has to say about commits that may be lost; empty: nothing
	accepted bool   // commits are lost, and the configuration accepts that
}

// holdFolder takes hold of the data folder. The first process looks whether the last one left the
// database's log as it was. It refuses a log that lost commits, unless the configuration accepts
// that: as long as nothing is written, the log can be put back.
func holdFolder(ctx context.Context, c *Config, log *slog.Logger) (*folderHold, error) {
	file, err := openHoldFile(c.DataDir)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}

	h := &folderHold{file: file}
	first, err := tryLock(file)
	if err == nil && first {
		err = h.inspectLog(ctx, c, log)
	}
	if err == nil {
		err = lockShared(file)
	}
	if err == nil {
		err = h.note(holdInUse)
	}

	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return h, nil
}

// holdFolderAlone is holdFolder for a command that must not run beside another process.
func holdFolderAlone(ctx context.Context, c *Config, log *slog.Logger) (*folderHold, error) {
	file, err := openHoldFile(c.DataDir)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}

	h := &folderHold{file: file}
	alone, err := tryLock(file)
	switch {
	case err == nil && alone:
		err = h.inspectLog(ctx, c, log)
	case err == nil && canLock:
		err = errInUse
	}

	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return h, nil
}

// openHoldFile opens the file, and makes it and the folder when they are missing. A command of root
// leaves it to the folder's owner, who runs the service.
func openHoldFile(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}

	file, err := os.OpenFile(filepath.Join(dir, holdFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		giveToOwner(file, dir)
	}

	return file, err
}

// note replaces the file's content.
func (h *folderHold) note(text string) error {
	_, err := h.file.WriteAt([]byte(text), 0)
	if err == nil {
		err = h.file.Truncate(int64(len(text)))
	}
	return err
}

// wasInUse reports whether the last processes ended without release.
func (h *folderHold) wasInUse() bool {
	info, err := h.file.Stat()
	return err == nil && info.Size() > 0
}

// release gives the folder back after the database was closed. The last process notes that the end
// was clean.
func (h *folderHold) release() {
	if h == nil {
		return
	}

	if last, err := tryLock(h.file); err == nil && last {
		// otherwise the next start warns without need
		_ = h.note("")
	}

	_ = h.file.Close()
}

// The messages about a log that is not as the last process left it.
const (
	logLostMessage = "the SQLite log (tallygate.sqlite-wal) was removed after the last process was killed: commits that were acknowledged are lost"

	logStaleMessage = "the SQLite log (tallygate.sqlite-wal) is not the one that the last process wrote, or was cut off: commits that were acknowledged are lost"

	logAbsentMessage = "the last process was killed, and the SQLite log that it left is gone: if neither sqlite3 nor a restored backup explains that, the last commits before the kill are lost"

	logRefusal = "; put the right file back, or set TALLYGATE_ACCEPT_LOST_LOG=true to go on without these commits"
)

// inspectLog looks at the log that a killed process left.
func (h *folderHold) inspectLog(ctx context.Context, c *Config, log *slog.Logger) error {
	if c.DatabaseURL != "" {
		return nil
	}

	state, err := files.CheckLog(c.databaseURL())
	if err != nil {
		return fmt.Errorf("look at the SQLite log: %w", err)
	}

	switch state {
	case files.LogLost:
		h.logLost = logLostMessage
	case files.LogStale:
		h.logLost = logStaleMessage
	case files.LogAbsent:
		if h.wasInUse() {
			h.logLost = logAbsentMessage
			log.WarnContext(ctx, h.logLost)
		}

		return nil
	default:
		return nil
	}

	if !c.AcceptLostLog {
		return errors.New(h.logLost + logRefusal)
	}

	h.accepted = true
	aside, err := files.SetLogAside(c.databaseURL(), time.Now())
	if err != nil {
		return fmt.Errorf("set the SQLite log aside: %w", err)
	}

	log.ErrorContext(ctx, h.logLost+"; going on without them, as configured", "unused_log", aside)
	return nil
}

// warnOfExposedFiles logs which of the data folder's files other users of the machine can read.
func (a *app) warnOfExposedFiles() {
	if !a.config.usesDataFolder() {
		return
	}

	exposed := files.Exposed(a.config.databaseURL())

	if a.config.DatabaseURL != "" {
		exposed = exposedFolder(a.config.DataDir)
	}
	if len(exposed) > 0 {
		a.log.Warn("other users of this machine can read the data folder or files in it; take their rights away, for instance with chmod -R go= on the folder", "paths", exposed)
	}
}

func exposedFolder(dir string) []string {
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o055 != 0 {
		return []string{dir}
	}
	return nil
}
