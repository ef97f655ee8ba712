package db

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/saltfile"
)

// Migrations are plain SQL files, one folder per dialect with the same names, applied in name
// order. A released file is never edited.
//
//go:embed migrations/sqlite/*.sql migrations/postgres/*.sql
var migrationFiles embed.FS

// Migrate applies every pending migration. Each runs in one transaction together with its record,
// under a lock that a crash releases, so that any number of processes may start at once.
func (d *DB) Migrate(ctx context.Context, now func() time.Time) error {
	if err := repeatUntil(ctx, func() error { return d.createMigrationTable(ctx) }); err != nil {
		return fmt.Errorf("create schema_migrations: %w", err)
	}

	for _, name := range d.migrationNames() {
		if err := repeatUntil(ctx, func() error { return d.applyMigration(ctx, name, now) }); err != nil {
			return fmt.Errorf("migration %s: %w", name, err)
		}
	}

	return nil
}

// truncateLog removes deleted content from SQLite's log after a migration. A reader in another
// process may prevent it. Then the log is overwritten in time, and removed when the last process
// closes the database.
func (d *DB) truncateLog(ctx context.Context) {
	if !d.IsPostgres() {
		_, _ = d.Write.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	}
}

// beforeMigration holds the steps of migrations that SQL cannot express. A step runs in the
// migration's transaction and may run again.
var beforeMigration = map[string]func(context.Context, *DB, *Tx) error{
	"20261122_000012_salts": moveSalts,
}

// moveSalts copies the salts of the last two days out of the table of earlier releases, before a
// migration drops that table. It does nothing on PostgreSQL, where the migration itself copies
// them.
func moveSalts(ctx context.Context, d *DB, tx *Tx) error {
	if d.IsPostgres() {
		return nil
	}

	var rows []struct {
		Day  model.Day
		Salt []byte
	}
	if err := tx.NewSelect().Table("day_salts").Column("day", "salt").OrderExpr("day DESC").Limit(2).
		Scan(ctx, &rows); err != nil {
		return err
	}

	for _, row := range rows {
		if err := saltfile.Of(d.SQLitePath).Write(row.Day, row.Salt); err != nil {
			return err
		}
	}

	return nil
}

// migratePatience bounds how long a start waits for other processes that migrate at the same time.
const migratePatience = 30 * time.Second

// repeatUntil repeats run while other processes keep it from succeeding, for at most
// migratePatience. SQLite needs it: while several processes switch a new file to write-ahead
// logging, some are refused without having waited.
func repeatUntil(ctx context.Context, run func() error) error {
	ctx, cancel := context.WithTimeout(ctx, migratePatience)
	defer cancel()

	for {
		err := run()
		if err == nil || !IsRetryable(err) {
			return err
		}

		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// createMigrationTable creates the list of applied migrations. It takes the lock: of two concurrent
// CREATE TABLE IF NOT EXISTS, one can fail on PostgreSQL.
func (d *DB) createMigrationTable(ctx context.Context) error {
	return d.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		if err := tx.LockKey(ctx, MigrationLock); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS schema_migrations "+
			"(name text PRIMARY KEY, applied_at bigint NOT NULL)")
		return err
	})
}

func (d *DB) applyMigration(ctx context.Context, name string, now func() time.Time) error {
	step := beforeMigration[name]
	err := d.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		if err := tx.LockKey(ctx, MigrationLock); err != nil {
			return err
		}

		applied, err := tx.NewSelect().Table("schema_migrations").Where("name = ?", name).Exists(ctx)
		if err != nil || applied {
			return err
		}

		script, err := migrationFiles.ReadFile("migrations/" + d.Dialect() + "/" + name + ".sql")
		if err != nil {
			return err
		}

		if step != nil {
			if err := step(ctx, d, tx); err != nil {
				return err
			}
		}

		// Use the plain database/sql transaction: bun would look for its own placeholders in the
		// script.
		if _, err := tx.Tx.Tx.ExecContext(ctx, string(script)); err != nil {
			return err
		}

		_, err = tx.ExecContext(ctx, "INSERT INTO schema_migrations (name, applied_at) VALUES (?, ?)", name,
			now().UnixMicro())
		return err
	})
	if err == nil && step != nil {
		d.truncateLog(ctx)
	}

	return err
}

// PendingMigrations lists the migrations of this program that the database does not have. It fails
// while the database is unavailable or was never migrated.
func (d *DB) PendingMigrations(ctx context.Context) ([]string, error) {
	var applied []string
	if err := d.Read.NewSelect().Table("schema_migrations").Column("name").Scan(ctx, &applied); err != nil {
		return nil, err
	}

	have := make(map[string]bool, len(applied))
	for _, name := range applied {
		have[name] = true
	}

	var pending []string
	for _, name := range d.migrationNames() {
		if !have[name] {
			pending = append(pending, name)
		}
	}

	return pending, nil
}

func (d *DB) migrationNames() []string {
	paths, err := fs.Glob(migrationFiles, "migrations/"+d.Dialect()+"/*.sql")
	if err != nil {
		// The pattern is a constant, so it is never malformed.
		panic(err)
	}

	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = strings.TrimSuffix(p[strings.LastIndexByte(p, '/')+1:], ".sql")
	}

	return names
}

// MigrationsHash identifies the set of PostgreSQL migrations, for tests that keep a migrated
// template.
func MigrationsHash() string {
	h := sha256.New()
	paths, _ := fs.Glob(migrationFiles, "migrations/postgres/*.sql")
	for _, p := range paths {
		script, _ := migrationFiles.ReadFile(p)
		fmt.Fprintf(h, "%s %d\n%s", p, len(script), script)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
