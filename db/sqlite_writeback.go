package db

import (
	"context"
	"time"
)

// writeBackPause is between two passes of WriteBack.
const writeBackPause = 100 * time.Millisecond

// WriteBack copies SQLite's log back into the database file, beside the writer, until ctx ends. Otherwise the writer would do it
// itself, between two batches, while all hits wait. It does what is left, and begins the log anew, when that has 16,000 pages (see
// sqliteDSN); so a pass that fails, for instance because the writer is at it, is made up for. On PostgreSQL there is nothing to do.
func (d *DB) WriteBack(ctx context.Context) {
	if d.pg != nil {
		return
	}
	ticker := time.NewTicker(writeBackPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_, _ = d.read.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
		}
	}
}
