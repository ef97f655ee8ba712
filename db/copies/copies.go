// Package copies copies a whole installation into another database, of the same engine or the other
// one.
//
// The migrations give the list of tables, and the catalog gives columns, so that a later table or
// column is copied without a change here. Rows are copied in batches, each in a transaction. The
// setting migrations.CopySetting keeps the service off the target until the end. At the end all
// rows of both databases are read and compared, and migrations.CopiedSetting keeps the service off
// the source.
package copies

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
)

// notCopied are tables that belong to one database.
var notCopied = []string{
	"schema_migrations",                                        // each database has its own list
	"changes",                                                  // notices for running processes on SQLite
	"detached_partitions",                                      // tables that PostgreSQL drops within a day
	"day_salts_0", "day_salts_1", "day_salts_2", "day_salts_3", // package ingest copies the salts
}

// seeded are tables that migrations fill. They are small, and Finish replaces their rows.
var seeded = []string{"cells", "claim_spaces", settingsTable}

const settingsTable = "settings"

// Copy is a copy of an installation. No process may use either database meanwhile.
type Copy struct {
	from, to *db.DB
	now      model.Instant
	progress func(table string, rows, total int64)

	tables []table // in an order in which a row's references are there before it
	rows   int64
}

// New returns a copy from one database into another one. progress is called after each batch.
func New(from, to *db.DB, now time.Time, progress func(table string, rows, total int64)) *Copy {
	return &Copy{from: from, to: to, now: model.At(now), progress: progress}
}

// Tables returns how many tables are copied, after Begin.
func (c *Copy) Tables() int { return len(c.tables) }

// Rows returns how many rows the installation has, after Run.
func (c *Copy) Rows() int64 { return c.rows }

// Begin checks the source, and migrates and marks the target, which must be empty. It fails with
// migrations.ErrUnfinishedCopy for a target of a copy that was interrupted. It changes nothing in
// the source.
func (c *Copy) Begin(ctx context.Context) error {
	if err := c.checkSource(ctx); err != nil {
		return err
	}
	if err := c.checkTarget(ctx); err != nil {
		return err
	}

	same, err := isSame(ctx, c.from, c.to)
	if err != nil {
		return err
	}
	if same {
		return errors.New("the target is the database to copy; name an empty one")
	}

	// mark refuses the source of an earlier copy for its rows.
	if err := migrations.Apply(ctx, c.to); err != nil && !errors.Is(err, migrations.ErrCopied) {
		return fmt.Errorf("prepare the target: %w", err)
	}
	if c.tables, err = c.list(ctx); err != nil {
		return err
	}
	return c.mark(ctx)
}

// checkSource returns an error that says what to do before the installation can be copied.
func (c *Copy) checkSource(ctx context.Context) error {
	// The source of an earlier copy can be copied again.
	schema, err := migrations.ReadSchemaOrEmpty(ctx, c.from)
	switch {
	case err != nil && !errors.Is(err, migrations.ErrCopied):
		return err
	case len(schema.Unknown) > 0:
		return fmt.Errorf("a newer program has migrated this database (%s); copy it with that program", schema.Unknown[0])
	case len(schema.Pending) > 0:
		return fmt.Errorf("%d migrations are pending; run \"tallygate migrate\" first", len(schema.Pending))
	}

	others, err := c.from.OtherConnections(ctx)
	if err != nil {
		return fmt.Errorf("look for other processes: %w", err)
	}
	if others > 0 {
		return fmt.Errorf("other Tallygate processes have %d connections to the database; stop all of them first", others)
	}

	cells, err := c.from.Cells(ctx)
	if err != nil {
		return err
	}
	if len(cells) > 1 {
		return fmt.Errorf("the installation has %d cells, and a copy has one; copy a database with cells with pg_dump, "+
			"see docs/operator/backup.md", len(cells))
	}

	return nil
}

// isSame reports whether both are one database.
func isSame(ctx context.Context, a, b *db.DB) (bool, error) {
	if a.IsPostgres() != b.IsPostgres() {
		return false, nil
	}

	var identities [2]string
	for i, d := range []*db.DB{a, b} {
		if !d.IsPostgres() {
			// Opening the target has created the file.
			path, err := filepath.EvalSymlinks(d.SQLitePath)
			if err == nil {
				identities[i], err = filepath.Abs(path)
			}
			if err != nil {
				return false, err
			}
			continue
		}

		err := d.Read.NewRaw("SELECT pg_postmaster_start_time()::text || ' ' || oid || ' ' || current_schema() "+
			"FROM pg_database WHERE datname = current_database()").Scan(ctx, &identities[i])
		if err != nil {
			return false, err
		}
	}

	return identities[0] == identities[1], nil
}

// mark stores the mark of an unfinished copy in a target without rows.
func (c *Copy) mark(ctx context.Context) error {
	return c.to.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := c.refuseRows(ctx, tx); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO settings (name, value) VALUES (?, '')", migrations.CopySetting)
		return err
	})
}

// refuseRows returns an error for a target with rows that no migration makes.
func (c *Copy) refuseRows(ctx context.Context, tx *db.Tx) error {
	for _, t := range c.tables {
		q := tx.NewSelect().Table(t.name)
		switch {
		case t.name == settingsTable:
			q.Where("name <> 'oldest_program'")
		case t.isSeeded():
			continue
		}

		used, err := q.Exists(ctx)
		if err != nil {
			return err
		}
		if used {
			return fmt.Errorf("the target is in use: its table %s has rows; name an empty database", t.name)
		}
	}
	return nil
}

// Run copies the rows and compares them. Begin must have succeeded.
func (c *Copy) Run(ctx context.Context) error {
	// Rows that arrive before their partition would be moved again.
	oldest, err := retention.New(c.from).OldestHit(ctx)
	if err != nil {
		return err
	}
	if oldest == 0 {
		oldest = c.now
	}
	if err := retention.New(c.to).EnsurePartitionsSince(ctx, oldest, c.now); err != nil {
		return fmt.Errorf("create the target's partitions: %w", err)
	}

	for _, t := range c.tables {
		if t.isSeeded() {
			continue
		}
		if err := c.copyTable(ctx, t); err != nil {
			return fmt.Errorf("copy the table %s: %w", t.name, err)
		}
	}

	if err := c.copySequences(ctx); err != nil {
		return fmt.Errorf("copy the next ids: %w", err)
	}

	// Housekeeping destroys the salts of the days before yesterday.
	if err := ingest.New(c.from).CopyDaySalts(ctx, c.now.Day()-1, ingest.New(c.to)); err != nil {
		return err
	}

	c.rows, err = c.compare(ctx, false)
	return err
}

// Finish makes the target an installation that can be started, in one transaction, and compares the
// rows of that transaction. Run must have succeeded.
func (c *Copy) Finish(ctx context.Context) error {
	err := c.to.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		for _, t := range c.tables {
			if !t.isSeeded() {
				continue
			}
			if err := c.replace(ctx, tx, t); err != nil {
				return fmt.Errorf("copy the table %s: %w", t.name, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}

	_, err = c.compare(ctx, true)
	return err
}

// MarkSource lets no service start on the source from now on, see migrations.ErrCopied. Finish must
// have succeeded.
func (c *Copy) MarkSource(ctx context.Context) error {
	kind := "a SQLite file"
	if c.to.IsPostgres() {
		kind = "a PostgreSQL database"
	}
	_, err := c.from.Write.ExecContext(ctx, "INSERT INTO settings (name, value) VALUES (?, ?) "+
		"ON CONFLICT (name) DO UPDATE SET value = excluded.value", migrations.CopiedSetting,
		kind+" on "+c.now.Time().UTC().Format("2 January 2006 at 15:04 UTC"))
	return err
}

// replace replaces all rows of a small table.
func (c *Copy) replace(ctx context.Context, tx *db.Tx, t table) error {
	rows, err := t.readAll(ctx, c.from)
	if err != nil {
		return err
	}

	if _, err := tx.ExecContext(ctx, "DELETE FROM ?", bun.Ident(t.name)); err != nil {
		return err
	}
	return t.insert(ctx, tx.Tx.Tx, c.to, rows)
}
