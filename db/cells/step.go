package cells

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/db/model"
)

// step is one transaction of a move, which holds the lock of the move's row.
type step struct {
	store *Store
	tx    *db.Tx
	move  *move
	schemas
}

// run does the next step and records it.
func (s *step) run(ctx context.Context) error {
	m := s.move
	exists, err := s.tx.NewSelect().Table("sites").Where("id = ?", m.SiteID).Exists(ctx)
	if err != nil {
		return err
	}
	if !exists {
		// Its rows in all cells are deleted with it.
		_, err := s.tx.NewDelete().Model(m).WherePK().Exec(ctx)
		return err
	}

	switch {
	case m.State == copying && m.Copied == 0 && m.NextDay == 0:
		err = s.clear(ctx)
	case m.State == copying && m.Copied < len(hitTables):
		err = s.copyDay(ctx, m.LastDay)
	case m.State == copying:
		err = s.close(ctx)
	case m.Copied == 0 && m.NextDay == 0:
		err = s.copyUsage(ctx)
	case m.Copied < len(hitTables):
		err = s.copyDay(ctx, lastDay)
	case m.Copied < len(hitTables)+len(otherTables):
		table := otherTables[m.Copied-len(hitTables)]
		err = s.copyTable(ctx, table)
		m.Copied++
	default:
		err = s.switchCell(ctx)
	}
	if err != nil {
		return err
	}

	_, err = s.tx.NewUpdate().Model(m).Column("state", "copied", "next_day", "switched_at").WherePK().Exec(ctx)
	return err
}

// firstDay is the next day of a table of which nothing is copied yet, after the step before it.
const firstDay = 1

// lastDay is later than the day of any row.
const lastDay = model.Day(1 << 30)

// exec runs a statement for the site, see schemas.exec.
func (s *step) exec(ctx context.Context, statement, table string, args ...any) error {
	return s.schemas.exec(ctx, s.tx, int64(s.move.SiteID), statement, table, args...)
}

// clear deletes what an earlier move may have left of the site in its new cell.
func (s *step) clear(ctx context.Context) error {
	for _, table := range celllist.SiteTables {
		if err := s.exec(ctx, "DELETE FROM ?to.?table WHERE site_id = ?id", table); err != nil {
			return err
		}
	}

	s.move.NextDay = firstDay
	return nil
}

// copyDay copies the next day with rows of the table in progress, up to a day. After the last one
// it goes on to the next table.
func (s *step) copyDay(ctx context.Context, until model.Day) error {
	m := s.move
	table := hitTables[m.Copied]

	var next []int64
	err := s.tx.NewRaw("SELECT ?0 FROM ?1 WHERE site_id = ?2 AND ?0 >= ?3 ORDER BY ?0 LIMIT 1", bun.Ident(table.key),
		bun.Safe(s.from+"."+table.name), m.SiteID, table.of(m.NextDay)).Scan(ctx, &next)
	if err != nil {
		return err
	}
	if len(next) == 0 || table.day(next[0]) > until {
		m.Copied++
		m.NextDay = s.firstOfState()
		return nil
	}

	day := table.day(next[0])
	rows := "site_id = ?id AND " + table.key + " >= ? AND " + table.key + " < ?"
	from, to := table.of(day), table.of(day+1)
	if err := s.exec(ctx, "DELETE FROM ?to.?table WHERE "+rows, table.name, from, to); err != nil {
		return err
	}
	if err := s.copy(ctx, s.tx, int64(m.SiteID), table.name, rows, from, to); err != nil {
		return err
	}

	m.NextDay = day + 1
	return nil
}

// firstOfState returns the first day that is copied in the current state.
func (s *step) firstOfState() model.Day {
	if s.move.State == closed {
		return s.move.LastDay + 1
	}
	return firstDay
}

// close ends the storing of hits. It waits for the transactions that have entered the site; for
// batches of hits, copyUsage does.
func (s *step) close(ctx context.Context) error {
	if err := s.tx.LockCellOf(ctx, s.move.SiteID); err != nil {
		return err
	}
	_, err := s.tx.ExecContext(ctx, "UPDATE sites SET cell_closed = true WHERE id = ?", s.move.SiteID)

	s.move.State, s.move.Copied, s.move.NextDay = closed, 0, 0
	return err
}

// usageLockWait is the longest wait for the batches of hits in progress. Later ones wait behind it.
const usageLockWait = 2 * time.Second

// copyUsage waits for the cell's batches of hits in progress, which may have read that the site is
// open, and copies the usage rows. A batch that waits meanwhile reads after its wait that the site
// is closed.
func (s *step) copyUsage(ctx context.Context) error {
	if _, err := s.tx.ExecContext(ctx, "SET LOCAL lock_timeout = ?", usageLockWait.Milliseconds()); err != nil {
		return err
	}

	for _, statement := range []string{
		// A node of Citus that was restarted while the site was closed may not have committed it
		// yet. Then this waits.
		"UPDATE sites SET cell_closed = true WHERE id = ?id",
		"LOCK TABLE ?from.?table IN EXCLUSIVE MODE",
	} {
		if err := s.exec(ctx, statement, "site_usage"); err != nil {
			return err
		}
	}
	if err := s.copyTable(ctx, "site_usage"); err != nil {
		return err
	}

	s.move.NextDay = s.firstOfState()
	return nil
}

// copyTable copies a table as a whole.
func (s *step) copyTable(ctx context.Context, table string) error {
	if err := s.exec(ctx, "DELETE FROM ?to.?table WHERE site_id = ?id", table); err != nil {
		return err
	}
	return s.copy(ctx, s.tx, int64(s.move.SiteID), table, "site_id = ?id")
}

// switchCell opens the site in its new cell.
func (s *step) switchCell(ctx context.Context) error {
	m := s.move
	_, err := s.tx.ExecContext(ctx, "UPDATE sites SET cell = ?, cell_closed = false WHERE id = ?", m.ToCell, m.SiteID)
	if err != nil {
		return err
	}

	m.State = switched
	if m.SwitchedAt, err = s.store.db.Now(ctx); err != nil {
		return err
	}
	return s.tx.NotifySites(ctx, m.SiteID)
}
