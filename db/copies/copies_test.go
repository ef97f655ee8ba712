package copies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

var now = dbtest.Noon.Time()

// open opens a new database, without the later columns of dbtest's templates.
func open(t *testing.T, engine string) *db.DB {
	t.Helper()
	databaseURL := "sqlite:" + filepath.Join(t.TempDir(), "test.sqlite")
	if engine == "postgres" {
		databaseURL = dbtest.EmptyPostgresURL(t)
	}

	d, err := db.OpenWith(databaseURL, db.Options{}.ForCopy())
	testkit.NoError(t, err)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// source returns a migrated database in which each table that is copied has rows of each kind of
// value.
func source(t *testing.T, engine string) *db.DB {
	t.Helper()
	d := open(t, engine)
	testkit.NoError(t, migrations.Apply(t.Context(), d))

	tables, err := tablesOf(t.Context(), d)
	testkit.NoError(t, err)
	references, err := referencesOf(t.Context(), d)
	testkit.NoError(t, err)

	for _, table := range inOrder(tables, references) {
		var rows []row
		for n := range sampleRows {
			rows = append(rows, sample(t, d, table, int64(n)))
		}
		if table.name == "cells" {
			rows = nil // PostgreSQL would have the schemas of the cells
		}
		if err := table.write(t.Context(), d, rows); err != nil {
			t.Fatalf("fill %s: %v", table.name, err)
		}
	}
	return d
}

// sampleRows is the number of sample rows of each table.
const sampleRows = 5

// sample returns the n-th sample row of a table. Ids are n+1, so that all references have rows.
func sample(t *testing.T, d *db.DB, table table, n int64) row {
	t.Helper()

	nullable, err := dbtest.Rows[string](d, nullableQuery(d), table.name)
	testkit.NoError(t, err)

	r := make(row, len(table.columns))
	for i, column := range table.columns {
		switch {
		case n == 0 && slices.Contains(nullable, column.name):
			continue
		case column.name == "cell":
			r[i] = int64(1)
		case column.kind == booleans:
			r[i] = n%2 == 0
		case column.kind == texts:
			r[i] = fmt.Sprintf("%s %d: ä\u2028\"'\\ %c", column.name, n, 'z'-n)
		case column.kind == blobs && n == 1 && !strings.HasSuffix(column.name, "_hash"):
			r[i] = []byte{}
		case column.kind == blobs:
			r[i] = []byte{0, byte(n), 0xff, '\\', 'x'}
		case column.name == "at":
			r[i] = int64(model.At(now.AddDate(0, int(-n), 0)))
		case column.name == "day" && (table.name == "visits" || table.name == "engagement"):
			r[i] = int64(model.At(now.AddDate(0, int(-n), 0)).Day())
		case column.name == "visitor":
			r[i] = -1<<62 + n
		case column.name == "state":
			r[i] = n // one import of a site is loading
		default:
			r[i] = n + 1
		}
	}
	return r
}

// nullableQuery lists the columns of a table that can be NULL.
func nullableQuery(d *db.DB) string {
	if d.IsPostgres() {
		return "SELECT attname FROM pg_attribute WHERE attrelid = ?::regclass AND attnum > 0 AND NOT attisdropped AND NOT attnotnull"
	}
	return `SELECT name FROM pragma_table_info(?) WHERE "notnull" = 0 AND pk = 0`
}

// contents returns the rows of each table that is copied, as texts in order.
func contents(t *testing.T, d *db.DB) map[string][]string {
	t.Helper()
	tables, err := tablesOf(t.Context(), d)
	testkit.NoError(t, err)

	all := make(map[string][]string)
	for _, table := range tables {
		rows, err := table.readAll(t.Context(), d)
		testkit.NoError(t, err)
		for _, r := range rows {
			text := ""
			for i, column := range table.columns {
				text += fmt.Sprintf(" %s=%T %q", column.name, r[i], fmt.Sprint(r[i]))
			}
			all[table.name] = append(all[table.name], text)
		}
		slices.Sort(all[table.name])
	}
	return all
}

// copyAll copies an installation.
func copyAll(ctx context.Context, from, to *db.DB) (*Copy, error) {
	c := New(from, to, now, func(string, int64, int64) {})
	if err := c.Begin(ctx); err != nil {
		return c, err
	}
	if err := c.Run(ctx); err != nil {
		return c, err
	}
	return c, c.Finish(ctx)
}

// eachPair runs a test for the pairs of engines.
func eachPair(t *testing.T, test func(t *testing.T, from, to string)) {
	t.Helper()
	for _, pair := range [][2]string{{"sqlite", "postgres"}, {"postgres", "sqlite"}, {"sqlite", "sqlite"}, {"postgres", "postgres"}} {
		t.Run(pair[0]+" to "+pair[1], func(t *testing.T) { test(t, pair[0], pair[1]) })
	}
}

// TestCopyEverything fills each table of the program, copies the installation, and compares each
// column of each row, the next ids and the salts. A new table of a migration is filled as well.
func TestCopyEverything(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, from, to string) {
		source, target := source(t, from), open(t, to)
		salts := make(map[model.Day][]byte)
		for _, day := range []model.Day{dbtest.Noon.Day() - 2, dbtest.Noon.Day() - 1, dbtest.Noon.Day()} {
			salt, err := ingest.New(source).DaySalt(t.Context(), day)
			testkit.NoError(t, err)
			salts[day] = salt
		}

		// The newest account was deleted.
		testkit.NoError(t, dbtest.Exec(source, "INSERT INTO accounts (id, name, created_at) VALUES (70, 'gone', 1)"))
		if source.IsPostgres() {
			testkit.NoError(t, dbtest.Exec(source, "SELECT setval(pg_get_serial_sequence('accounts', 'id'), 70)"))
		}
		testkit.NoError(t, dbtest.Exec(source, "DELETE FROM accounts WHERE id = 70"))

		before := contents(t, source)
		for table, rows := range before {
			if len(rows) < sampleRows && table != "cells" {
				t.Errorf("the table %s has %d rows: this test compares nothing", table, len(rows))
			}
		}

		c, err := copyAll(t.Context(), source, target)
		testkit.NoError(t, err)
		if c.Rows() < int64(50*sampleRows) {
			t.Errorf("%d rows are counted", c.Rows())
		}

		after := contents(t, target)
		for table, rows := range before {
			if !slices.Equal(rows, after[table]) {
				t.Errorf("%s: copied\n%s\nwant\n%s", table, strings.Join(after[table], "\n"), strings.Join(rows, "\n"))
			}
		}
		wantEqual(t, "the source", contents(t, source), before)

		wantNextID(t, target, 71)
		wantSalts(t, target, salts)
		wantPartitions(t, target)

		// A started service compares the settings of the program with the schema.
		testkit.Succeeds(t, migrations.Apply(t.Context(), target), "the copy cannot be used")
	})
}

func wantEqual(t *testing.T, what string, got, want map[string][]string) {
	t.Helper()
	for table, rows := range want {
		if !slices.Equal(got[table], rows) {
			t.Errorf("%s of %s has changed", table, what)
		}
	}
}

// wantNextID checks that no id of a deleted row comes back.
func wantNextID(t *testing.T, d *db.DB, want int64) {
	t.Helper()
	ids, err := dbtest.Rows[int64](d, "INSERT INTO accounts (name, created_at) VALUES ('next', 1) RETURNING id")
	if d.IsPostgres() && (err != nil || len(ids) != 1 || ids[0] != want) {
		t.Errorf("the next id is %v, %v; want %d", ids, err, want)
	}
	if !d.IsPostgres() {
		seq, err := dbtest.Rows[int64](d, "SELECT seq FROM sqlite_sequence WHERE name = 'accounts'")
		if err != nil || len(seq) != 1 || seq[0] < want-1 {
			t.Errorf("the last id is %v, %v; want %d", seq, err, want-1)
		}
	}
}

// wantSalts checks that the copy has the salts in use of the source, and no older one.
func wantSalts(t *testing.T, d *db.DB, salts map[model.Day][]byte) {
	t.Helper()
	days, err := ingest.New(d).SaltDays(t.Context())
	if err != nil || len(days) != len(salts)-1 {
		t.Errorf("salts of %v, %v", days, err)
	}
	for _, day := range days {
		salt, err := ingest.New(d).DaySalt(t.Context(), day)
		if err != nil || !bytes.Equal(salt, salts[day]) {
			t.Errorf("the salt of %v is %x, %v; want %x", day, salt, err, salts[day])
		}
	}
}

// wantPartitions checks that no hit is in a default partition.
func wantPartitions(t *testing.T, d *db.DB) {
	t.Helper()
	if !d.IsPostgres() {
		return
	}
	for _, table := range []string{"visits", "pageviews", "engagement", "events"} {
		dbtest.HasRows(t, d, table+"_default", 0, "rows of %s have no partition", table)
	}
}

// TestCopyInterrupted stops a copy within a table of several batches. Neither a service nor another
// copy starts on the target.
func TestCopyInterrupted(t *testing.T) {
	testkit.SkipLong(t, "tables of 12,000 rows")
	t.Parallel()
	eachPair(t, func(t *testing.T, from, to string) {
		source, target := source(t, from), open(t, to)
		testkit.NoError(t, dbtest.Exec(source, "DELETE FROM pageviews"))
		table := tableNamed(t, source, "pageviews")
		id := slices.IndexFunc(table.columns, func(c column) bool { return c.name == "id" })
		rows := make([]row, 12_000)
		for n := range rows {
			rows[n] = sample(t, source, table, 3)
			rows[n][id] = int64(n)
		}
		testkit.NoError(t, table.write(t.Context(), source, rows))

		ctx, stop := context.WithCancel(t.Context())
		var part int64
		c := New(source, target, now, func(table string, rows, total int64) {
			if table == "pageviews" {
				part = rows
				stop()
			}
		})
		testkit.NoError(t, c.Begin(ctx))
		if err := c.Run(ctx); err == nil || part == 0 || part >= 12_000 {
			t.Fatalf("the copy did not stop: %d rows, %v", part, err)
		}

		testkit.ErrorIs(t, migrations.Apply(t.Context(), target), migrations.ErrUnfinishedCopy, "the service starts on half a copy")
		if _, err := copyAll(t.Context(), source, target); !errors.Is(err, migrations.ErrUnfinishedCopy) {
			t.Errorf("another copy into half a copy: %v", err)
		}

		whole := open(t, to)
		if _, err := copyAll(t.Context(), source, whole); err != nil {
			t.Fatal(err)
		}
		wantEqual(t, "the copy", contents(t, whole), contents(t, source))
	})
}

// TestMarkSource checks that no service starts on the source after a copy until the mark is removed,
// and that the mark is in no copy: neither the first one, nor one made of a marked source.
func TestMarkSource(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, from, to string) {
		source, target := source(t, from), open(t, to)
		c, err := copyAll(t.Context(), source, target)
		if err == nil {
			err = c.MarkSource(t.Context())
		}
		testkit.NoError(t, err)

		_, schemaErr := migrations.ReadSchema(t.Context(), source)
		kind := map[string]string{"sqlite": "a SQLite file", "postgres": "a PostgreSQL database"}[to]
		for _, err := range []error{schemaErr, migrations.Apply(t.Context(), source)} {
			if !errors.Is(err, migrations.ErrCopied) || !strings.Contains(err.Error(), "copied into "+kind+" on "+now.Format("2 January 2006")) {
				t.Errorf("the source is not refused: %v", err)
			}
		}
		testkit.Succeeds(t, migrations.Apply(t.Context(), target), "the copy is refused")
		if _, err := copyAll(t.Context(), target, source); err == nil || !strings.Contains(err.Error(), "the target is in use") {
			t.Errorf("a copy back into the source: %v", err)
		}

		another := open(t, to)
		if c, err = copyAll(t.Context(), source, another); err == nil {
			err = c.MarkSource(t.Context())
		}
		if err == nil {
			err = migrations.Apply(t.Context(), another)
		}
		testkit.Succeeds(t, err, "another copy of the source")

		testkit.NoError(t, migrations.ForgetCopy(t.Context(), source))
		testkit.Succeeds(t, migrations.Apply(t.Context(), source), "the source without its mark is refused")
		wantEqual(t, "the copy", contents(t, another), contents(t, source))
	})
}

func tableNamed(t *testing.T, d *db.DB, name string) table {
	t.Helper()
	tables, err := tablesOf(t.Context(), d)
	i := slices.IndexFunc(tables, func(t table) bool { return t.name == name })
	if err != nil || i < 0 {
		t.Fatalf("there is no table %s, %v", name, err)
	}
	return tables[i]
}

// TestCopyRefuses checks what a copy needs of its source and its target.
func TestCopyRefuses(t *testing.T) {
	t.Parallel()
	eachPair(t, func(t *testing.T, from, to string) {
		source := source(t, from)
		refused := func(target *db.DB, want string) {
			t.Helper()
			if _, err := copyAll(t.Context(), source, target); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got the error %v, want %q", err, want)
			}
		}
		exec := func(d *db.DB, statement string) {
			t.Helper()
			testkit.NoError(t, dbtest.Exec(d, statement))
		}

		refused(source, "the target is the database to copy")

		used := open(t, to)
		testkit.NoError(t, migrations.Apply(t.Context(), used))
		exec(used, "INSERT INTO accounts (name, created_at) VALUES ('a', 1)")
		refused(used, "the target is in use: its table accounts has rows")
		exec(used, "DELETE FROM accounts")
		exec(used, "INSERT INTO settings (name, value) VALUES ('node_id_key', 'x')")
		refused(used, "the target is in use: its table settings has rows")

		foreign := open(t, to)
		exec(foreign, "CREATE TABLE orders (id integer)")
		refused(foreign, "the database belongs to another program: it has a table orders")

		// Rows that were changed while they were copied.
		for statement, want := range map[string]string{
			"UPDATE visits SET pageviews = pageviews + 1 WHERE n = 2": "rows of the table visits differ after the copy",
			"DELETE FROM visits WHERE n = 3":                          "the table visits has 4 rows, and 5 in the target",
		} {
			changed := false
			c := New(source, open(t, to), now, func(table string, _, _ int64) {
				if table == "visits" {
					changed = true
					exec(source, statement)
				}
			})
			testkit.NoError(t, c.Begin(t.Context()))
			if err := c.Run(t.Context()); err == nil || !changed || !strings.Contains(err.Error(), want) {
				t.Errorf("changed %t: got the error %v, want %q", changed, err, want)
			}
		}

		exec(source, "INSERT INTO schema_migrations (name, applied_at) VALUES ('99990101_000001_later', 1)")
		refused(open(t, to), "a newer program has migrated this database (99990101_000001_later)")
		exec(source, "DELETE FROM schema_migrations WHERE name > '010_cells'")
		refused(open(t, to), "migrations are pending; run \"tallygate migrate\" first")
	})
}

// TestCopyNeedsAStoppedService checks that a source of PostgreSQL is refused while other processes
// use it.
func TestCopyNeedsAStoppedService(t *testing.T) {
	t.Parallel()
	source := source(t, "postgres")
	service := dbtest.Open(t, source.Postgres().ConnString())
	testkit.NoError(t, service.Ping(t.Context()))

	_, err := copyAll(t.Context(), source, open(t, "sqlite"))
	if err == nil || !strings.Contains(err.Error(), "other Tallygate processes have 1 connections to the database") {
		t.Errorf("got the error %v", err)
	}
}
