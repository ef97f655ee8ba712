package cells_test

import (
	"os"
	"slices"
	"testing"

	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

// layoutQuery describes the tables of a schema, a line for each property: columns, storage options,
// partition keys, indexes and constraints.
const layoutQuery = `
SELECT c.relname || ': column ' || a.attnum || ' ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' ||
  a.attnotnull || ' ' || a.attstorage::text || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '') AS line
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relkind IN ('r', 'p') AND c.relnamespace = ?0::regnamespace
UNION ALL
SELECT c.relname || ': options ' || coalesce(c.reloptions::text, '') || ' ' || coalesce(pg_get_partkeydef(c.oid), '') || ' ' ||
  coalesce(pg_get_expr(c.relpartbound, c.oid), '')
FROM pg_class c WHERE c.relkind IN ('r', 'p') AND c.relnamespace = ?0::regnamespace
UNION ALL
SELECT i.tablename || ': ' || replace(i.indexdef, i.schemaname || '.', '') FROM pg_indexes i WHERE i.schemaname = ?0
UNION ALL
SELECT c.relname || ': ' || k.conname || ' ' || pg_get_constraintdef(k.oid)
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid WHERE c.relnamespace = ?0::regnamespace`

// TestLayout compares the tables of a new cell with those that the migrations make.
func TestLayout(t *testing.T) {
	t.Parallel()
	d := dbtest.Open(t, dbtest.CellURL(t))
	list, err := d.Cells(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatalf("cells %+v, error %v; want two", list, err)
	}

	read := func(schema string) (lines []string) {
		t.Helper()
		testkit.NoError(t, d.Read.NewRaw(layoutQuery, schema).Scan(t.Context(), &lines))

		// A partition's primary key has a name of its own, and the common tables are in one schema
		// only.
		return slices.DeleteFunc(lines, func(line string) bool { return !ofCell(line) })
	}

	want, got := read("public"), read(list[1].Schema)
	if len(want) < 100 {
		t.Fatalf("%d properties of the default cell's tables, want more than 100", len(want))
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("the new cell lacks: %s", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("only the new cell has: %s", line)
		}
	}
}

// ofCell reports whether a line is about a table of a cell.
func ofCell(line string) bool {
	return slices.ContainsFunc(celllist.Tables, func(table string) bool {
		rest, ok := cutPrefix(line, table)
		return ok && (rest == ":" || rest == "_")
	})
}

// cutPrefix returns the character after a prefix.
func cutPrefix(line, prefix string) (next string, ok bool) {
	if len(line) <= len(prefix) || line[:len(prefix)] != prefix {
		return "", false
	}
	return line[len(prefix) : len(prefix)+1], true
}
