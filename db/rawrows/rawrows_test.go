package rawrows_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"modernc.org/sqlite"

	"github.com/tallygate/tallygate/db/rawrows"
	"github.com/tallygate/tallygate/tools/testkit"
)

// open returns a connection of the driver to an empty database.
func open(t *testing.T) driver.Conn {
	t.Helper()

	connector, err := sqlite.NewConnector("file:" + filepath.Join(t.TempDir(), "test.db"))
	testkit.NoError(t, err)
	conn, err := connector.Connect(t.Context())
	testkit.NoError(t, err)
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})

	return conn
}

// TestSQLiteRows checks what the columns of a row are read as, and that a query has its arguments.
func TestSQLiteRows(t *testing.T) {
	t.Parallel()
	conn := open(t)

	type row struct {
		number int64
		text   string
		isNull bool
	}
	want := []row{
		{0, "", true}, {1, "", false}, {math.MaxInt64, "a\x00b", false}, {math.MinInt64, "ü€😀", false}, {-1, "\xff", false},
		{7, strings.Repeat("z", 100_000), false},
	}

	exec := func(query string, args ...driver.NamedValue) {
		t.Helper()
		if _, err := conn.(driver.ExecerContext).ExecContext(t.Context(), query, args); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TABLE v (n INTEGER PRIMARY KEY, a, b)")
	exec("INSERT INTO v VALUES (0, NULL, NULL)")
	for i, r := range want[1:] {
		exec("INSERT INTO v VALUES (?, ?, ?)", driver.NamedValue{Ordinal: 1, Value: int64(i + 1)},
			driver.NamedValue{Ordinal: 2, Value: r.number}, driver.NamedValue{Ordinal: 3, Value: r.text})
	}
	exec("UPDATE v SET b = CAST(b AS BLOB) WHERE n % 2 = 0")

	var got []row
	err := rawrows.Each(t.Context(), conn, "SELECT a, b FROM v WHERE n >= ? ORDER BY n", []int64{0}, func(r rawrows.Row) error {
		got = append(got, row{r.Int64(0), string(r.Bytes(1)), r.IsNull(0) && r.IsNull(1)})
		return nil
	})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %.300v, want %.300v; error %v", got, want, err)
	}
}

// TestSQLiteQueryEnds checks that a long query ends with its context or with an error, and that the
// connection can be used again.
func TestSQLiteQueryEnds(t *testing.T) {
	t.Parallel()
	conn := open(t)
	const count = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT i FROM n"

	ctx, cancel := context.WithCancel(t.Context())
	rows := 0
	err := rawrows.Each(ctx, conn, count, []int64{1 << 40}, func(rawrows.Row) error {
		if rows++; rows == 10 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || rows > 2_000 {
		t.Errorf("error %v after %d rows; want canceled", err, rows)
	}

	full := errors.New("full")
	if err := rawrows.Each(t.Context(), conn, count, []int64{1 << 40}, func(rawrows.Row) error { return full }); !errors.Is(err, full) {
		t.Errorf("error %v, want that of the receiver", err)
	}
	if err := rawrows.Each(t.Context(), conn, count, nil, func(rawrows.Row) error { return nil }); err == nil {
		t.Error("no error for a missing argument")
	}

	rows = 0
	err = rawrows.Each(t.Context(), conn, count, []int64{3}, func(rawrows.Row) error { rows++; return nil })
	if err != nil || rows != 3 {
		t.Errorf("error %v, %d rows; want 3", err, rows)
	}
}
