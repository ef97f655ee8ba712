package files

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

const (
	// writeBackPause is the time between the beginnings of two passes of WriteBack.
	writeBackPause = 100 * time.Millisecond

	// writeBackIdle is the time between two passes while this process writes nothing. Another
	// process may write, which copies its log itself, or may have ended in between.
	writeBackIdle = 5 * time.Second

	// logPages is the length of SQLite's log, in pages of 4 KiB, from which WriteBack makes it
	// restart.
	logPages = 4_000
)

// WriteBack copies SQLite's log into the database file until ctx ends, concurrently with the
// writer. Otherwise the writer would do it, between two batches, while all hits wait. On PostgreSQL
// it does nothing.
//
// SQLite restarts the log only when a write finds all of it copied, which a busy writer never does.
// So the pages written during a pass are copied on the writer's own connection, between two
// batches. Later passes make up for a failed pass. In the end the writer itself does, at the
// wal_autocheckpoint of package sqlitefile.
func (s *Store) WriteBack(ctx context.Context) {
	if s.db.IsPostgres() {
		return
	}

	written := s.db.Written()
	for {
		began := time.Now()
		pages, all := copyLog(ctx, s.db.Read)
		if all && pages >= logPages {
			copyLog(ctx, s.db.Write)

			// This was a use of the writer's connection, too. The idle pass sees a write that is
			// missed here.
			select {
			case <-written:
			default:
			}
		}

		// A reader or a write during the pass can leave pages.
		if all && !wait(ctx, writeBackIdle, written) {
			return
		}
		if !wait(ctx, writeBackPause-time.Since(began), nil) {
			return
		}
	}
}

// wait waits for a duration or an event, and reports false if ctx ended.
func wait(ctx context.Context, duration time.Duration, event <-chan struct{}) bool {
	timer := time.NewTimer(duration)
	defer timer.Stop()

	select {
	case <-ctx.Done():
		return false
	case <-event:
	case <-timer.C:
	}
	return ctx.Err() == nil
}

// copyLog copies all pages of the log that no reader's snapshot needs. It returns the length of the
// log in pages, and whether all of it was copied.
func copyLog(ctx context.Context, db *bun.DB) (pages int, all bool) {
	var busy, copied int
	err := db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &pages, &copied)
	return pages, err == nil && busy == 0 && copied == pages
}
