package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/files"
	"github.com/tallygate/tallygate/db/inspect"
	"github.com/tallygate/tallygate/db/migrations"
)

// integrityTimeout bounds reading a whole database, which has a limit of its own.
const integrityTimeout = 10 * time.Minute

// largeFile is the size in bytes of a database file from which reading it is announced.
var largeFile int64 = 256 << 20

// restoreBackup is what to do about a damaged file.
const restoreBackup = "Stop the service and restore a backup, see docs/operator/backup.md."

// checkIntegrity reads the whole database file, or on PostgreSQL every table and index with its own
// check if that is installed. It returns whether further checks can rely on the database.
func (e *examination) checkIntegrity(ctx context.Context, d *db.DB) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), integrityTimeout)
	defer cancel()

	if d.IsPostgres() {
		return e.checkRows(ctx, d)
	}

	if path, isFile := db.SQLiteFile(e.c.Database()); isFile && e.Progress != nil {
		if info, err := os.Stat(path); err == nil && info.Size() >= largeFile {
			e.Progress(fmt.Sprintf("Reading the database file of %d MB, which can take minutes …", info.Size()>>20))
		}
	}

	err := files.New(d).QuickCheck(ctx)
	switch {
	case err == nil:
		return true
	case errors.Is(err, files.ErrDamaged):
		e.fault("database-damaged", restoreBackup, "%v", err)
		return false
	}

	e.warn("database-unchecked", "Run doctor again when the machine has less to do.",
		"the database file could not be read to its end: %v", cause(err))
	return true
}

// checkRows reports damaged tables and indexes, and lists the check as skipped without the
// extension for it.
func (e *examination) checkRows(ctx context.Context, d *db.DB) bool {
	checked, err := inspect.New(d).CheckRows(ctx)
	switch {
	case errors.Is(err, inspect.ErrDamaged):
		e.fault("database-damaged", "Stop the service and restore a backup, or rebuild the index if the message names one; see docs/operator/incidents.md.", "%v", err)
		return false
	case err != nil:
		e.warn("database-unchecked", "Run doctor again when the server has less to do.",
			"the tables could not be read to their end: %v", cause(err))
	case !checked:
		e.report.Skipped = append(e.report.Skipped, "tables and indexes of PostgreSQL (create the extension amcheck, and let the role execute bt_index_check and verify_heapam)")
	}

	return true
}

func isForeign(err error) bool {
	_, ok := errors.AsType[*migrations.ForeignError](err)
	return ok
}

func isIncomplete(err error) bool {
	_, ok := errors.AsType[*migrations.IncompleteError](err)
	return ok
}
