package migrations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
)

// Apply applies every pending migration of this program. Each runs in one transaction together with
// its record, under a lock that a crash releases, so that any number of processes may start at
// once.
//
// A migration waits for a table of PostgreSQL for half a second at a time, because every statement
// on the table queues behind it. It tries again every three seconds, for ten minutes in all.
//
// It fails with ErrProgramTooOld for a schema that this program does not understand, with
// ErrEarlierBuild for a database of the builds before the first release, with an IncompleteError
// for one that was restored in part, with ErrUnfinishedCopy for one that was copied in part, and with
// ErrCopied for the source of a copy.
func Apply(ctx context.Context, d *db.DB) error {
	if err := ApplySet(ctx, d, programMigrations); err != nil {
		return err
	}
	return CheckComplete(ctx, d)
}

// ApplySet is Apply with another set of migrations. Tests call it.
func ApplySet(ctx context.Context, d *db.DB, migrations *Set) error {
	// Read first: a role without the right to create tables may serve a schema that is up to date.
	var done bool
	err := patiently(ctx, func() (err error) { done, err = isMigrated(ctx, d, migrations); return err })
	if done || err != nil {
		return err
	}

	if err := patiently(ctx, func() error { return createMigrationTable(ctx, d) }); err != nil {
		return fmt.Errorf("create schema_migrations: %w", err)
	}

	for _, name := range migrations.names {
		migration, err := migrations.read(name, d.Dialect())
		if err == nil {
			err = patiently(ctx, func() error { return applyMigration(ctx, d, migration) })
		}
		if err != nil {
			return fmt.Errorf("migration %s: %w", name, err)
		}
	}

	return nil
}

// isMigrated reports whether the database has all migrations.
func isMigrated(ctx context.Context, d *db.DB, migrations *Set) (bool, error) {
	exists, err := hasList(ctx, d)
	if err != nil || !exists {
		return false, err
	}

	schema, err := readSchema(ctx, d, migrations)
	if err == nil && schema.TooNew() {
		err = ErrProgramTooOld
	}

	return len(schema.Pending) == 0, err
}

// HasSchema reports whether a version of the program has migrated the database.
func HasSchema(ctx context.Context, d *db.DB) (bool, error) {
	return hasTable(ctx, d, "schema_migrations")
}

// hasTable reports whether the database has a table.
func hasTable(ctx context.Context, d *db.DB, name string) (exists bool, err error) {
	query := "SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = ?"
	if d.IsPostgres() {
		query = "SELECT to_regclass(?) IS NOT NULL"
	}

	if err := d.Write.NewRaw(query, name).Scan(ctx, &exists); err != nil {
		return false, fmt.Errorf("look for the table %s: %w", name, err)
	}

	return exists, nil
}

// The limits of waiting. A lock of a table is requested for migrationLockWait at a time, so that
// ingestion stands still for half a second of four at most, and another process that migrates is
// asked for again after migrationPoll.
const (
	migrationLockWait  = 500 * time.Millisecond
	migrationLockPause = 3 * time.Second
	migrationPoll      = 50 * time.Millisecond
	migrationPatience  = 10 * time.Minute

	// busyPatience bounds the wait for SQLite. While several processes switch a new file to
	// write-ahead logging, some are refused without having waited.
	busyPatience = 30 * time.Second
)

// errMigrating means that another process applies migrations.
var errMigrating = errors.New("another process is applying migrations")

// patiently repeats run while other processes keep it from succeeding.
func patiently(ctx context.Context, run func() error) error {
	began := time.Now()

	for {
		err := run()

		pause, patience := migrationPoll, busyPatience
		switch {
		case errors.Is(err, errMigrating):
			patience = migrationPatience
		case db.IsLockTimeout(err):
			pause, patience = migrationLockPause, migrationPatience
		case err == nil || !db.IsRetryable(err):
			return err
		}

		if time.Since(began) > patience {
			return err
		}

		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// tryLock takes the lock of the processes that migrate until the transaction ends. It fails
// with errMigrating instead of waiting: CREATE INDEX CONCURRENTLY, which the lock's holder may run,
// waits for all older transactions, and would wait for this one.
func tryLock(ctx context.Context, d *db.DB, tx *db.Tx) error {
	if !d.IsPostgres() {
		return nil
	}

	var locked bool
	if err := tx.NewRaw("SELECT pg_try_advisory_xact_lock(?)", db.MigrationLock).Scan(ctx, &locked); err != nil {
		return err
	}
	if !locked {
		return errMigrating
	}

	return nil
}

// createMigrationTable creates the list of applied migrations. It takes the lock: of two concurrent
// CREATE TABLE IF NOT EXISTS, one can fail on PostgreSQL.
func createMigrationTable(ctx context.Context, d *db.DB) error {
	return d.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tryLock(ctx, d, tx); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS schema_migrations "+
			"(name text PRIMARY KEY, applied_at bigint NOT NULL)")
		return err
	})
}

// applyMigration applies a migration and records it, unless it was applied before.
func applyMigration(ctx context.Context, d *db.DB, m Migration) error {
	if m.Outside {
		return applyOutside(ctx, d, m)
	}

	return d.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tryLock(ctx, d, tx); err != nil {
			return err
		}

		applied, err := tx.NewSelect().Table("schema_migrations").Where("name = ?", m.Name).Exists(ctx)
		if err != nil || applied {
			return err
		}

		if d.IsPostgres() {
			_, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = ?", migrationLockWait.Milliseconds())
			if err != nil {
				return err
			}
		}

		// Use the plain database/sql transaction: bun would look for its own placeholders in the
		// script.
		if m.EachCell {
			err = inEachCell(ctx, d, tx, Statements(m.SQL))
		} else {
			_, err = tx.Tx.Tx.ExecContext(ctx, m.SQL)
		}
		if err != nil {
			return err
		}

		return recordMigration(ctx, tx.Tx.Tx, d, m)
	})
}

// inEachCell runs statements in each cell. Citus takes one at a time.
func inEachCell(ctx context.Context, d *db.DB, tx *db.Tx, statements []string) error {
	// A cell may have been added since the list was read.
	d.ForgetCells()
	list, err := d.Cells(ctx)
	if err != nil {
		return err
	}

	for _, cell := range list {
		in, err := tx.EnterCell(ctx, cell.ID)
		if err != nil {
			return err
		}
		for _, statement := range statements {
			if _, err := in.Tx.Tx.Tx.ExecContext(ctx, statement); err != nil {
				return db.InCell(cell.ID, fmt.Errorf("%s: %w", statement, err))
			}
		}
	}

	_, err = tx.EnterCell(ctx, db.DefaultCell)
	return err
}

// recordMigration notes that a migration was applied, and the oldest program that may use the
// schema from now on.
func recordMigration(ctx context.Context, to bun.IConn, d *db.DB, m Migration) error {
	_, err := d.Write.NewRaw("INSERT INTO schema_migrations (name, applied_at) VALUES (?, ?)", m.Name, time.Now().UnixMicro()).
		Conn(to).Exec(ctx)
	if err != nil || m.OldestProgram == "" {
		return err
	}

	_, err = d.Write.NewRaw(
		"INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
		oldestProgramSetting, m.OldestProgram).Conn(to).Exec(ctx)
	return err
}

// ErrEarlierBuild is returned for a database that a build before the first release created. Such a
// database lacks the first migration, and no migration leads from its tables to the tables of this
// program.
var ErrEarlierBuild = db.Refusef("the database was created by a build of Tallygate before its first release, " +
	"and was not changed: this version needs an empty database; of the earlier one, that build's " +
	"\"tallygate admin export-config\" prints the settings for \"tallygate admin apply\", and downloads keep the rows")

// CopySetting is the setting of a database into which an installation is being copied, until the
// copy is complete. Package copies stores and removes it.
const CopySetting = "copy_of"

// ErrUnfinishedCopy is returned by Apply and ReadSchema for a database with CopySetting.
var ErrUnfinishedCopy = db.Refusef("a copy into this database did not end; empty the database, and run \"tallygate " +
	"admin copy\" again with the settings of the copied installation")

// CopiedSetting is the setting of a database that was copied into another one: the kind of that one
// and the time. Package copies stores it at the end of a copy, and does not copy it.
const CopiedSetting = "copied_to"

// ErrCopied is part of the error of Apply and ReadSchema for a database with CopiedSetting. Two
// services on both databases would send each delivery twice and divide the hits.
var ErrCopied = db.Refusef("this database was copied")

// ForgetCopy removes CopiedSetting.
func ForgetCopy(ctx context.Context, d *db.DB) error {
	_, err := d.Write.ExecContext(ctx, "DELETE FROM settings WHERE name = ?", CopiedSetting)
	return err
}

// oldestProgramSetting names the newest migration that a program must know to use the schema.
const oldestProgramSetting = "oldest_program"

// ErrProgramTooOld is returned for a database whose schema a newer program has changed so that this
// one cannot use it.
var ErrProgramTooOld = db.Refusef("the database's schema belongs to a newer version of Tallygate; " +
	"start that version, see \"tallygate migrate --check\"")

// Schema compares a database's schema with what a program understands.
type Schema struct {
	Applied       []string // in the order of their names
	Pending       []string // of the program, in their order, that the database does not have
	Unknown       []string // applied by a newer program
	Newest        string   // the newest migration that the program understands
	OldestProgram string   // the newest migration that a program must know; empty: any
}

// TooNew reports whether the program cannot use the schema.
func (s Schema) TooNew() bool { return s.OldestProgram > s.Newest }

// ReadSchema returns the state of the schema for this program. It fails while the database is
// unavailable or was never migrated, with ErrEarlierBuild, and with ErrUnfinishedCopy or
// ErrCopied in addition to the state.
func ReadSchema(ctx context.Context, d *db.DB) (Schema, error) {
	return readSchema(ctx, d, programMigrations)
}

// ReadSchemaOrEmpty is ReadSchema, also for a database that was never migrated.
func ReadSchemaOrEmpty(ctx context.Context, d *db.DB) (Schema, error) {
	exists, err := hasList(ctx, d)
	switch {
	case err != nil:
		return Schema{}, err
	case !exists:
		return Schema{Newest: programMigrations.Newest(), Pending: programMigrations.names}, nil
	}

	return ReadSchema(ctx, d)
}

func readSchema(ctx context.Context, d *db.DB, migrations *Set) (Schema, error) {
	s := Schema{Newest: migrations.Newest()}

	// SQLite takes the name of a missing column for a string, unless the table's name is part of
	// it.
	err := d.Read.NewSelect().Table("schema_migrations").Column("schema_migrations.name").Order("name").
		Scan(ctx, &s.Applied)
	switch {
	case err != nil:
		// Other programs have a table of this name with other columns.
		return s, errors.Join(refuseForeign(ctx, d), fmt.Errorf("read schema_migrations: %w", err))
	case len(s.Applied) > 0 && !slices.Contains(s.Applied, migrations.names[0]):
		return s, ErrEarlierBuild
	}

	for _, name := range migrations.names {
		if !slices.Contains(s.Applied, name) {
			s.Pending = append(s.Pending, name)
		}
	}

	for _, name := range s.Applied {
		if !slices.Contains(migrations.names, name) {
			s.Unknown = append(s.Unknown, name)
		}
	}

	if len(s.Applied) == 0 {
		return s, nil
	}

	// The first migration creates the table.
	var settings []struct{ Name, Value string }
	err = d.Read.NewSelect().Table("settings").Column("name", "value").
		Where("name IN (?)", bun.List([]string{oldestProgramSetting, CopySetting, CopiedSetting})).Scan(ctx, &settings)
	for _, setting := range settings {
		switch setting.Name {
		case CopySetting:
			err = ErrUnfinishedCopy
		case CopiedSetting:
			err = fmt.Errorf("%w into %s, and the service belongs there: set TALLYGATE_DATABASE_URL or TALLYGATE_DATA_DIR to it; "+
				"to continue with this one instead, run \"tallygate serve --again\"", ErrCopied, setting.Value)
		default:
			s.OldestProgram = setting.Value
		}
	}

	return s, err
}

// Read returns a migration of this program in the database's dialect.
func Read(d *db.DB, name string) (Migration, error) {
	return programMigrations.read(name, d.Dialect())
}
