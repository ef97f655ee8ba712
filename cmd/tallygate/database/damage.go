package database

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/files"
)

// restore is what to do with a file that cannot be used.
const restore = "; restore a backup into an empty data folder, see docs/backup.md"

// ErrEmptyFile means that an empty database file is next to the application key of an earlier one.
var ErrEmptyFile = errors.New("the database file is empty, and the application key next to it belongs to a database " +
	"with rows: a copy or a backup did not end" + restore + ", or remove the empty file to begin without rows")

// refuseEmpty returns ErrEmptyFile for an empty database file without a log next to the application
// key. The file gets its first page, or a log, before the key is created.
func refuseEmpty(c *config.Config) error {
	path, ok := db.SQLiteFile(c.Database())
	if !ok {
		return nil
	}

	file, err := os.Stat(path)
	if err != nil || file.Size() > 0 || exists(path+"-wal") || !exists(filepath.Join(c.DataDir, config.KeyFile)) {
		return nil
	}
	return ErrEmptyFile
}

// hasDatabase reports whether there is a database file with content and without a log.
func hasDatabase(c *config.Config) bool {
	path, ok := db.SQLiteFile(c.Database())
	if !ok {
		return false
	}

	file, err := os.Stat(path)
	return err == nil && file.Size() > 0 && !exists(path+"-wal")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// inspectFile reads the whole database file if it did not come from a process that stopped cleanly
// and has no log, as after a restore. What a killed process leaves with its log needs no check.
func (h *Hold) inspectFile(ctx context.Context, c *config.Config, log *slog.Logger) error {
	if h.noted() != holdUnchecked && h.lost != LogAbsent || !hasDatabase(c) {
		return nil
	}

	path, _ := db.SQLiteFile(c.Database())
	log.InfoContext(ctx, "the database file was not left by a clean stop: reading it once", "file", path)

	if err := files.QuickCheckFile(ctx, path); err != nil {
		return fmt.Errorf("%w"+restore, err)
	}
	return nil
}
