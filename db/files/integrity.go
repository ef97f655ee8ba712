package files

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/db/model"
)

// ErrDamaged is part of each error about a file that contradicts itself.
var ErrDamaged = db.Refusef("the database file is damaged")

// QuickCheck reads the whole SQLite database and returns ErrDamaged with a description of the first
// inconsistency. It does not compare indexes with their tables. On PostgreSQL it does nothing.
func (s *Store) QuickCheck(ctx context.Context) error {
	if s.db.IsPostgres() {
		return nil
	}
	return s.check(ctx, "PRAGMA quick_check(1)")
}

// check runs one of SQLite's checks of a whole file, which returns "ok" or a description.
func (s *Store) check(ctx context.Context, pragma string) error {
	var found string
	err := s.db.Read.QueryRowContext(ctx, pragma).Scan(&found)

	switch {
	case db.IsDamaged(err):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case err != nil:
		return err
	case found != "ok":
		return fmt.Errorf("%w: %s", ErrDamaged, found)
	}

	return nil
}

// QuickCheckFile is QuickCheck for a file that no process has open, and without a log next to it.
func QuickCheckFile(ctx context.Context, path string) error {
	d, err := db.OpenCopy(path)
	if err != nil {
		return err
	}
	return errors.Join(New(d).QuickCheck(ctx), d.Close())
}

// Contents describes a verified backup.
type Contents struct {
	Migration string // the newest one
	Accounts  int64
	Sites     int64
	Pageviews int64
	Events    int64
	Newest    model.Instant // time of the newest page view or event; 0: there is none
}

// Verify reads a whole backup of SQLite and compares its tables, indexes and references. It returns
// an error for a file that is damaged, incomplete, of another program, or of a newer version. It
// changes nothing, also no other files.
func Verify(ctx context.Context, path string) (c Contents, err error) {
	if info, err := os.Stat(path); err != nil {
		return c, err
	} else if info.Size() == 0 {
		return c, db.Refusef("the file is empty")
	}

	d, err := db.OpenCopy(path)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()

	s := New(d)
	if err := s.check(ctx, "PRAGMA integrity_check(1)"); err != nil {
		return c, err
	}
	if c.Migration, err = s.verifySchema(ctx); err != nil {
		return c, err
	}
	if err := s.checkReferences(ctx); err != nil {
		return c, err
	}

	return c, s.count(ctx, &c)
}

// verifySchema returns the newest migration of a database with all tables of this or an older
// program.
func (s *Store) verifySchema(ctx context.Context) (newest string, err error) {
	schema, err := migrations.ReadSchemaOrEmpty(ctx, s.db)
	switch {
	case err != nil:
		return "", err
	case schema.TooNew():
		return "", migrations.ErrProgramTooOld
	case len(schema.Applied) == 0:
		return "", db.Refusef("the file is no database of Tallygate")
	}

	return schema.Applied[len(schema.Applied)-1], migrations.CheckComplete(ctx, s.db)
}

// checkReferences returns ErrDamaged for a row that refers to a row that is missing.
func (s *Store) checkReferences(ctx context.Context) error {
	rows, err := s.db.Read.QueryContext(ctx, `SELECT "table", "parent" FROM pragma_foreign_key_check LIMIT 1`)
	if err != nil {
		return err
	}
	defer rows.Close()

	if rows.Next() {
		var table, parent string
		if err := rows.Scan(&table, &parent); err != nil {
			return err
		}
		return fmt.Errorf("%w: rows of %s refer to rows of %s that are missing", ErrDamaged, table, parent)
	}

	return rows.Err()
}

// count reads how much a backup holds.
func (s *Store) count(ctx context.Context, c *Contents) error {
	err := s.db.Read.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM accounts), (SELECT count(*) FROM sites)").
		Scan(&c.Accounts, &c.Sites)
	if err != nil {
		return err
	}

	return countHits(ctx, s.db.DefaultCell(), c)
}

// countHits reads how many hits a cell holds.
func countHits(ctx context.Context, cell *db.Cell, c *Contents) error {
	return cell.Read.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM pageviews), (SELECT count(*) FROM events),
	(SELECT coalesce(max(at), 0) FROM (SELECT max(at) AS at FROM pageviews UNION ALL SELECT max(at) FROM events))`).
		Scan(&c.Pageviews, &c.Events, &c.Newest)
}
