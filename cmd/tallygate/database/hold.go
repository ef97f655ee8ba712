package database

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/files"
)

// holdFile is the file in the data folder that processes lock while they use the folder. It
// contains holdInUse from the first start until the last process has stopped cleanly, and
// holdUnchecked while a database that came from elsewhere was not read yet.
const (
	holdFile      = "lock"
	holdInUse     = "in use\n"
	holdUnchecked = "unchecked\n"
)

// ErrInUse means that another process uses the data folder.
var ErrInUse = errors.New("tallygate is running on this data folder; stop it first")

// Hold is a process's shared lock on the data folder. A nil hold is valid and holds nothing.
type Hold struct {
	file *os.File

	lost     string // warning about commits that may be lost; empty: none
	accepted bool   // commits are lost, and the configuration accepts that
}

// holdFolder locks the data folder. The first process checks the log that the last one left. It
// refuses a log with lost commits unless the configuration accepts that, because the right log can
// be restored while nothing is written.
func holdFolder(ctx context.Context, c *config.Config, log *slog.Logger) (*Hold, error) {
	file, err := openHoldFile(c)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}

	h := &Hold{file: file}
	first, err := tryLock(file)
	if err == nil && first {
		err = h.inspect(ctx, c, log)
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

// holdFolderAlone is holdFolder for a command that must be the only process.
func holdFolderAlone(ctx context.Context, c *config.Config, log *slog.Logger) (*Hold, error) {
	file, err := openHoldFile(c)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}

	h := &Hold{file: file}
	alone, err := tryLock(file)
	switch {
	case err == nil && alone:
		err = h.inspect(ctx, c, log)
	case err == nil && canLock:
		err = ErrInUse
	}

	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return h, nil
}

// openHoldFile opens the file, and creates it and the folder if missing. Root gives a new file to
// the folder's owner, who runs the service.
func openHoldFile(c *config.Config) (*os.File, error) {
	dir := c.DataDir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}

	path := filepath.Join(dir, holdFile)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return os.OpenFile(path, os.O_RDWR, 0o600)
	}
	if err != nil {
		return nil, err
	}

	giveToOwner(file, dir)
	if hasDatabase(c) {
		_, err = file.WriteString(holdUnchecked)
	}

	return file, err
}

// note replaces the file's content.
func (h *Hold) note(text string) error {
	_, err := h.file.WriteAt([]byte(text), 0)
	if err == nil {
		err = h.file.Truncate(int64(len(text)))
	}
	return err
}

// noted returns the file's content, or "" if it cannot be read.
func (h *Hold) noted() string {
	text := make([]byte, len(holdUnchecked))
	n, _ := h.file.ReadAt(text, 0)
	return string(text[:n])
}

// wasInUse reports whether the last processes terminated without release.
func (h *Hold) wasInUse() bool { return h.noted() == holdInUse }

// Release unlocks the folder after the database was closed. The last process records the clean
// stop.
func (h *Hold) Release() {
	if h == nil {
		return
	}

	if last, err := tryLock(h.file); err == nil && last {
		// After a failure the next start only warns unnecessarily.
		_ = h.note("")
	}

	_ = h.file.Close()
}

// The messages about a log that differs from what the last process left.
const (
	LogLost = "the SQLite log (tallygate.sqlite-wal) was removed after the last process was killed: acknowledged " +
		"commits are lost"

	LogStale = "the SQLite log (tallygate.sqlite-wal) is not the one that the last process wrote, or was " +
		"truncated: acknowledged commits are lost"

	LogAbsent = "the last process was killed, and its SQLite log is missing: unless sqlite3 or a restored backup " +
		"explains that, the last commits before the kill are lost"

	logRefusal = "; restore the right file, or set TALLYGATE_ACCEPT_LOST_LOG=true to continue without these commits"
)

// LogLost returns a warning, in one line, about commits that were lost with the log, or "".
func (h *Hold) LogLost() string { return h.lost }

// inspect checks the database file and its log before the first process opens them.
func (h *Hold) inspect(ctx context.Context, c *config.Config, log *slog.Logger) error {
	if c.DatabaseURL != "" {
		return nil
	}
	if err := refuseEmpty(c); err != nil {
		return err
	}
	if err := h.inspectLog(ctx, c, log); err != nil {
		return err
	}
	return h.inspectFile(ctx, c, log)
}

// inspectLog checks the log that a killed process left.
func (h *Hold) inspectLog(ctx context.Context, c *config.Config, log *slog.Logger) error {
	lost, err := lostLog(c, h)
	if err != nil {
		return fmt.Errorf("check the SQLite log: %w", err)
	}
	h.lost = lost

	switch lost {
	case "":
		return nil
	case LogAbsent:
		log.WarnContext(ctx, lost)
		return nil
	}

	if !c.AcceptLostLog {
		return db.Refusef("%s"+logRefusal, h.lost)
	}

	h.accepted = true
	aside, err := files.SetLogAside(c.Database(), time.Now())
	if err != nil {
		return fmt.Errorf("set the SQLite log aside: %w", err)
	}

	log.ErrorContext(ctx, h.lost+"; continuing without them, as configured", "unused_log", aside)
	return nil
}

// Exposed returns which files in the data folder, or which folder, other users of the machine can
// read.
func Exposed(c *config.Config) []string {
	switch {
	case !c.UsesDataFolder():
		return nil
	case c.DatabaseURL != "":
		return exposedFolder(c.DataDir)
	}
	return files.Exposed(c.Database())
}

func exposedFolder(dir string) []string {
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o055 != 0 {
		return []string{dir}
	}
	return nil
}
