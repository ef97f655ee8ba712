package sqlitestmt_test

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/tallygate/tallygate/db/sqlitestmt"
)

// open returns an empty cache on a new database, and the connection itself.
func open(t *testing.T) (*sqlitestmt.Cache, driver.Conn) {
	t.Helper()

	connector, err := sqlite.NewConnector("file:" + filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}

	conn, err := connector.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	statements := sqlitestmt.New(conn.(driver.ConnPrepareContext))
	t.Cleanup(func() {
		if err := errors.Join(statements.Close(), conn.Close()); err != nil {
			t.Error(err)
		}
	})

	return statements, conn
}

func statement(t *testing.T, statements *sqlitestmt.Cache, text string) *sqlitestmt.Stmt {
	t.Helper()

	s, err := statements.Statement(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}

	return s
}

func exec(t *testing.T, statements *sqlitestmt.Cache, text string, args ...driver.Value) int64 {
	t.Helper()

	changed, err := statement(t, statements, text).Exec(args)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}

	return changed
}

// TestValues checks that values of every type come back as they were bound, from a buffer that one
// row makes grow and the next one reuses, and that the driver reads the same.
func TestValues(t *testing.T) {
	statements, conn := open(t)
	exec(t, statements, "CREATE TABLE v (n INTEGER PRIMARY KEY, a, b)")

	values := []driver.Value{
		nil, int64(0), int64(math.MinInt64), int64(math.MaxInt64), "", "a", "\x00b\x00", "ü€😀", "\xff", []byte{}, []byte{0, 1},
		strings.Repeat("x", 511), strings.Repeat("y", 512), strings.Repeat("z", 100_000), bytes.Repeat([]byte{7}, 70_000), "short",
	}

	for i, a := range values {
		b := values[len(values)-1-i]
		if changed := exec(t, statements, "INSERT INTO v VALUES (?1, ?2, ?3)", int64(i), a, b); changed != 1 {
			t.Errorf("%d rows inserted", changed)
		}
	}

	for i, a := range values {
		want := []driver.Value{a, values[len(values)-1-i]}
		var got []driver.Value
		if err := statement(t, statements, "SELECT a, b FROM v WHERE n = ?").Query([]driver.Value{int64(i), "unused"},
			func(row []driver.Value) { got = append(got, row...) }); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("row %d: %.60q, want %.60q", i, got, want)
		}
	}

	rows, err := conn.(driver.QueryerContext).QueryContext(t.Context(), "SELECT a FROM v ORDER BY n", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()

	for i, want := range values {
		got := make([]driver.Value, 1)
		if err := rows.Next(got); err != nil {
			t.Fatal(err)
		}

		// The driver reads an empty blob as nil.
		if b, ok := want.([]byte); ok && len(b) == 0 {
			continue
		}
		if !reflect.DeepEqual(got[0], want) {
			t.Errorf("row %d: the driver reads %.60q, want %.60q", i, got[0], want)
		}
	}
}

// TestBool checks that a boolean is stored as 0 or 1.
func TestBool(t *testing.T) {
	statements, _ := open(t)
	var got []driver.Value
	if err := statement(t, statements, "SELECT ?1, ?2").Query([]driver.Value{true, false}, func(row []driver.Value) {
		got = append(got, row...)
	}); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, []driver.Value{int64(1), int64(0)}) {
		t.Errorf("got %v", got)
	}
}

// TestChanges checks the number of changed rows, also of a statement that changes none.
func TestChanges(t *testing.T) {
	statements, _ := open(t)
	exec(t, statements, "CREATE TABLE v (n INTEGER PRIMARY KEY)")

	const insert = "INSERT INTO v VALUES (?), (?) ON CONFLICT DO NOTHING"
	for i, want := range []int64{2, 0} {
		if got := exec(t, statements, insert, int64(1), int64(2)); got != want {
			t.Errorf("insert %d changed %d rows, want %d", i, got, want)
		}
	}

	if got := exec(t, statements, "UPDATE v SET n = n + 10"); got != 2 {
		t.Errorf("update changed %d rows, want 2", got)
	}
}

// TestErrors checks the codes of failed statements, and that a statement and the others still run
// after a failure.
func TestErrors(t *testing.T) {
	statements, _ := open(t)
	exec(t, statements, "CREATE TABLE v (n INTEGER PRIMARY KEY, a TEXT NOT NULL, UNIQUE (a)) STRICT")

	insert := statement(t, statements, "INSERT INTO v VALUES (?, ?)")
	if _, err := insert.Exec([]driver.Value{int64(1), "a"}); err != nil {
		t.Fatal(err)
	}

	for _, test := range []struct {
		name string
		args []driver.Value
		code int
	}{
		{"primary key", []driver.Value{int64(1), "b"}, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY},
		{"unique key", []driver.Value{int64(2), "a"}, sqlite3.SQLITE_CONSTRAINT_UNIQUE},
		{"not null", []driver.Value{int64(2), nil}, sqlite3.SQLITE_CONSTRAINT_NOTNULL},
		{"type", []driver.Value{int64(2), []byte{1}}, sqlite3.SQLITE_CONSTRAINT_DATATYPE},
		{"too few arguments", []driver.Value{int64(2)}, 0},
		{"argument of another type", []driver.Value{int64(2), 1.5}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := insert.Exec(test.args)
			e, ok := errors.AsType[*sqlitestmt.Error](err)

			switch {
			case err == nil:
				t.Error("no error")
			case test.code != 0 && (!ok || e.Code() != test.code || len(e.Error()) < 20):
				t.Errorf("error %v, want code %d with SQLite's message", err, test.code)
			case test.code == 0 && ok:
				t.Errorf("error %v of SQLite", err)
			}
		})
	}

	if _, err := statements.Statement(t.Context(), "SELECT nothing FROM v"); err == nil {
		t.Error("a wrong statement was prepared")
	}
	if _, err := insert.Exec([]driver.Value{int64(2), "b"}); err != nil {
		t.Errorf("after failures: %v", err)
	}
	if got := exec(t, statements, "DELETE FROM v"); got != 2 {
		t.Errorf("%d rows, want 2", got)
	}
}

// TestSchemaChange checks that a prepared statement survives a change of its table.
func TestSchemaChange(t *testing.T) {
	statements, _ := open(t)
	exec(t, statements, "CREATE TABLE v (n INTEGER PRIMARY KEY)")
	exec(t, statements, "INSERT INTO v (n) VALUES (?)", int64(1))
	exec(t, statements, "ALTER TABLE v ADD COLUMN a TEXT")
	exec(t, statements, "INSERT INTO v (n) VALUES (?)", int64(2))

	count := 0
	if err := statement(t, statements, "SELECT n FROM v").Query(nil, func([]driver.Value) { count++ }); err != nil || count != 2 {
		t.Errorf("%d rows, %v", count, err)
	}
}

// TestEach checks what the columns of a row are read as, and that a row's bytes are read before the
// next one.
func TestEach(t *testing.T) {
	statements, _ := open(t)
	type row struct {
		number int64
		text   string
	}
	want := []row{
		{0, ""}, {1, ""}, {math.MaxInt64, "a\x00b"}, {math.MinInt64, "ü€😀"}, {-1, "\xff"}, {7, strings.Repeat("z", 100_000)},
	}
	exec(t, statements, "CREATE TABLE v (n INTEGER PRIMARY KEY, a, b)")
	exec(t, statements, "INSERT INTO v VALUES (0, NULL, NULL)")
	for i, r := range want[1:] {
		exec(t, statements, "INSERT INTO v VALUES (?, ?, ?)", int64(i+1), r.number, r.text)
	}
	exec(t, statements, "UPDATE v SET b = CAST(b AS BLOB) WHERE n % 2 = 0")

	var got []row
	s := statement(t, statements, "SELECT a, b FROM v WHERE n >= ? ORDER BY n")
	if err := s.Each(t.Context(), []driver.Value{int64(0)}, func(r sqlitestmt.Row) error {
		got = append(got, row{r.Int64(0), string(r.Bytes(1))})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %.300v, want %.300v", got, want)
	}
}

// TestEachEnds checks that a long query ends with its context or with an error, and that the
// statement can run again.
func TestEachEnds(t *testing.T) {
	statements, _ := open(t)
	s := statement(t, statements, "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT i FROM n")

	ctx, cancel := context.WithCancel(t.Context())
	rows := 0
	count := func(sqlitestmt.Row) error {
		if rows++; rows == 10 {
			cancel()
		}
		return nil
	}
	if err := s.Each(ctx, []driver.Value{int64(1 << 40)}, count); !errors.Is(err, context.Canceled) || rows > 2_000 {
		t.Errorf("error %v after %d rows; want canceled", err, rows)
	}
	if err := s.Each(t.Context(), nil, count); err == nil {
		t.Error("no error for a missing argument")
	}

	rows = 100
	if err := s.Each(t.Context(), []driver.Value{int64(3)}, count); err != nil || rows != 103 {
		t.Errorf("error %v, %d rows; want 3", err, rows-100)
	}
}
