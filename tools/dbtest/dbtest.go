// Package dbtest gives tests fresh, migrated databases of both dialects: SQLite files and
// PostgreSQL databases, each a copy of a template that was migrated once. PostgreSQL is the server
// named by TALLYGATE_TEST_POSTGRES_URL, or a private one started from the installed binaries.
package dbtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/tools/testkit"
)

// Each runs test once per dialect, as subtests named "sqlite" and "postgres", each with its own
// fresh database.
func Each(t *testing.T, test func(t *testing.T, d *db.DB)) {
	t.Helper()
	EachURL(t, func(t *testing.T, databaseURL string) { test(t, Open(t, databaseURL)) })
	if withCell {
		t.Run("cell", func(t *testing.T) { test(t, Open(t, CellURL(t))) })
	}
}

// EachURL is Each for tests that open the database themselves, for instance in another process.
func EachURL(t *testing.T, test func(t *testing.T, databaseURL string)) {
	t.Helper()
	onDatabase(t, "sqlite", func(t *testing.T) { test(t, SQLiteURL(t)) })
	onDatabase(t, "postgres", func(t *testing.T) { test(t, PostgresURL(t)) })
}

// Parallel is Each for a test that runs in parallel with others.
func Parallel(t *testing.T, test func(t *testing.T, d *db.DB)) {
	t.Helper()
	t.Parallel()
	Each(t, test)
}

// ParallelURL is EachURL for a test that runs in parallel with others.
func ParallelURL(t *testing.T, test func(t *testing.T, databaseURL string)) {
	t.Helper()
	t.Parallel()
	EachURL(t, test)
}

// ParallelSQLite is Parallel for a test that needs SQLite alone.
func ParallelSQLite(t *testing.T, test func(t *testing.T, d *db.DB)) {
	t.Helper()
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) { test(t, Open(t, SQLiteURL(t))) })
}

// ParallelPostgres is Parallel for a test that needs PostgreSQL alone.
func ParallelPostgres(t *testing.T, test func(t *testing.T, d *db.DB)) {
	t.Helper()
	t.Parallel()
	t.Run("postgres", func(t *testing.T) { test(t, Open(t, PostgresURL(t))) })
}

// EachBenchmark is Each for benchmarks. Both engines are then as durable as in production.
func EachBenchmark(b *testing.B, bench func(b *testing.B, d *db.DB)) {
	b.Run("sqlite", func(b *testing.B) { bench(b, Open(b, SQLiteURL(b))) })
	b.Run("postgres", func(b *testing.B) { bench(b, Open(b, PostgresURL(b))) })
}

// EachEmptyURL is EachURL with databases that were never migrated.
func EachEmptyURL(t *testing.T, test func(t *testing.T, databaseURL string)) {
	t.Helper()
	onDatabase(t, "sqlite", func(t *testing.T) { test(t, "sqlite:"+filepath.Join(t.TempDir(), "empty.sqlite")) })
	onDatabase(t, "postgres", func(t *testing.T) { test(t, EmptyPostgresURL(t)) })
}

// SQLiteURL returns the address of a fresh, migrated SQLite database.
func SQLiteURL(tb testing.TB) string {
	tb.Helper()
	template, err := sqliteTemplate()
	if err != nil {
		tb.Fatalf("migrate a SQLite database: %v", err)
	}

	file := filepath.Join(tb.TempDir(), "test.sqlite")
	testkit.NoError(tb, os.WriteFile(file, template, 0o600))

	return "sqlite:" + file
}

// sqliteTemplate returns the file of a migrated database. Migrating each database would take 20 ms
// of processor time, and 200 ms under the race detector.
var sqliteTemplate = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "tallygate-sqlite-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)

	file := filepath.Join(dir, "template.sqlite")
	d, err := db.Open("sqlite:" + file)
	if err != nil {
		return nil, err
	}
	if err := migrations.Apply(context.Background(), d); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if err := errors.Join(addLaterColumns(context.Background(), d), d.Close()); err != nil {
		return nil, err
	}

	// A remaining log would hold changes that the file does not have.
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		return nil, fmt.Errorf("%v is left of the template, %v", files, err)
	}

	return os.ReadFile(file)
})

// PostgresURL returns the address of a fresh, migrated PostgreSQL database. Without a server it
// skips the test, or fails it when CI=true.
func PostgresURL(tb testing.TB) string {
	tb.Helper()
	if onCitus() {
		return CellURL(tb)
	}
	return DefaultCellURL(tb)
}

// DefaultCellURL is PostgresURL for a database with the default cell alone, also on
// Citus. It is for tests that add cells, or that look at what only the server of a single cell has:
// its statistics and plans.
func DefaultCellURL(tb testing.TB) string {
	tb.Helper()
	return migrated.copyURL(tb, plain.connected(tb, postgresServer), "")
}

// EmptyPostgresURL is PostgresURL with a database that was never migrated.
func EmptyPostgresURL(tb testing.TB) string {
	tb.Helper()
	return plain.connected(tb, postgresServer).emptyURL(tb)
}

// RestrictedURL returns the address of a PostgreSQL database for a role that has the rights of
// docs/operator/operations.md: it reads and writes rows, and cannot create, change or drop tables.
func RestrictedURL(tb testing.TB, databaseURL string) string {
	tb.Helper()

	u, err := url.Parse(databaseURL)
	testkit.NoError(tb, err)

	role := "restricted_" + strings.ToLower(rand.Text())
	d := Open(tb, databaseURL)
	for _, statement := range []string{
		"CREATE ROLE ? LOGIN PASSWORD 'x'",
		"REVOKE CREATE ON SCHEMA public FROM PUBLIC",
		"GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON ALL TABLES IN SCHEMA public TO ?",
		"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO ?",
	} {
		testkit.NoError(tb, Exec(d, statement, bun.Ident(role)))
	}

	tb.Cleanup(func() {
		if err := Exec(d, "DROP OWNED BY ?0; DROP ROLE ?0", bun.Ident(role)); err != nil {
			tb.Error(err)
		}
	})

	u.User = url.UserPassword(role, "x")
	return u.String()
}

// ApplicationKey is the key of the databases that Open opens.
const ApplicationKey = "an application key that only tests know"

// Open opens a database and closes it with the test.
func Open(tb testing.TB, databaseURL string) *db.DB {
	tb.Helper()

	d, err := db.Open(databaseURL)
	if err != nil {
		tb.Fatalf("open %s: %v", databaseURL, err)
	}
	d.UseApplicationKey([]byte(ApplicationKey))
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Errorf("close database: %v", err)
		}
	})

	return d
}

// SetClock makes d take the time from a function instead of from its server or machine, and trust
// that time even when it jumps.
func SetClock(d *db.DB, now func() time.Time) {
	began := now()
	d.Clock.Set(now, func() time.Duration { return now().Sub(began) }, true)
}

// SetClocks is SetClock for tests whose clock can jump: uptime returns the time that really passed,
// and the clock is not trusted yet.
func SetClocks(d *db.DB, now func() time.Time, uptime func() time.Duration) {
	d.Clock.Set(now, uptime, false)
}

// Exec runs a statement, for a test that needs a state which the product does not create itself.
func Exec(d *db.DB, statement string, args ...any) error {
	return ExecContext(context.Background(), d, statement, args...)
}

// ExecContext is Exec until ctx ends.
func ExecContext(ctx context.Context, d *db.DB, statement string, args ...any) error {
	cell, err := newest(ctx, d)
	if err != nil {
		return err
	}
	_, err = cell.Write.ExecContext(ctx, statement, args...)
	return err
}
