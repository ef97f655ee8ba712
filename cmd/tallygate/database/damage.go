package database

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/tallygate/tallygate/cmd/tallygate/config"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/files"
)

// restore is what to do with a file that cannot be used.
const restore = "restore a backup into an empty data folder, see docs/operator/backup.md"

// refuseEmpty returns an error for a database file that is missing, or empty without a log, next to
// an application key: the key belongs to a database with rows. A first start gives the file its
// first page, or a log, before it creates the key.
func refuseEmpty(c *config.Config) error {
	path, ok := db.SQLiteFile(c.Database())
	key := filepath.Join(c.DataDir, config.KeyFile)
	if !ok || !exists(key) {
		return nil
	}

	switch file, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return db.Refusef("there is no database at %s, and the application key %s belongs to one with rows: if it moved, set "+
			"TALLYGATE_DATABASE_URL to its server, or TALLYGATE_DATA_DIR to its folder; or "+restore+"; or remove the key to "+
			"begin without rows", path, key)
	case err == nil && file.Size() == 0 && !exists(path+"-wal"):
		return db.Refusef("the database file %s is empty, and the application key %s belongs to a database with rows: a copy or "+
			"a backup did not end; "+restore+"; or remove both files to begin without rows", path, key)
	}
	return nil
}

// Damaged adds what to do to an error about a damaged file, and returns other errors unchanged.
func Damaged(err error) error {
	if !db.IsDamaged(err) {
		return err
	}
	return fmt.Errorf("%w: %w; "+restore, files.ErrDamaged, err)
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
		return fmt.Errorf("%w; "+restore, err)
	}
	return nil
}
