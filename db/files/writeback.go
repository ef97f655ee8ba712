package files

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

const (
	// writeBackPause is between two passes of WriteBack.
	writeBackPause = 100 * time.Millisecond

	// logPages, of 4 KiB, are how long SQLite's log may become before WriteBack sees to it that it
	// begins anew.
	logPages = 4_000
)

// WriteBack copies SQLite's log back into the database file, beside the writer, until ctx ends.
// Otherwise the writer would do it itself, between two batches, while all hits wait. On PostgreSQL
// there is nothing to do.
//
// A log begins anew when a write finds all of it copied, which a busy writer never does. So the
// little that was written during a pass is copied on the writer's own connection, between two
// batches. A pass that fails is made up for by later ones, in the end by the writer itself, see
// sqliteDSN.
func (s *Store) WriteBack(ctx context.Context) {
	if s.db.IsPostgres() {
		return
	}

	ticker := time.NewTicker(writeBackPause)
	defer ticker.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if pages, all := copyLog(ctx, s.db.Read); all && pages >= logPages {
				copyLog(ctx, s.db.Write)
			}
		}
	}
}

// copyLog copies what no reader's snapshot holds back. It returns the length of the log, and
// whether it was all copied.
func copyLog(ctx context.Context, db *bun.DB) (pages int, all bool) {
	var busy, copied int
	err := db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &pages, &copied)
	return pages, err == nil && busy == 0 && copied == pages
}
