package cells_test

import (
	"testing"
	"testing/fstest"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestMigrationInEachCell checks that a column, and an index that is built while its table is in
// use, reach the tables of each cell.
func TestMigrationInEachCell(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		d := open(t, dbtest.CellURL(t))
		schema, err := migrations.ReadSchema(t.Context(), d)
		testkit.NoError(t, err)

		// The first file was applied: it is there because its name identifies databases of this
		// program.
		err = migrations.ApplySet(t.Context(), d, migrations.MustSet(fstest.MapFS{
			schema.Applied[0] + ".sql": {},
			"998_column.sql": {Data: []byte("-- in each cell\n" +
				"ALTER TABLE visits ADD COLUMN extra integer NOT NULL DEFAULT 0;\n")},
			"999_index.sql": {Data: []byte("-- outside of a transaction\n-- in each cell\n" +
				"CREATE INDEX @concurrently IF NOT EXISTS visits_extra ON visits (extra);\n")},
		}))
		testkit.NoError(t, err)

		var cells int
		err = d.EachCell(t.Context(), func(cell *db.Cell) error {
			cells++
			var columns, indexes int
			err := cell.Read.NewRaw(`
SELECT count(*) FILTER (WHERE attname = 'extra'), (SELECT count(*) FROM pg_index JOIN pg_class i ON i.oid = indexrelid
  WHERE indrelid = 'visits'::regclass AND indisvalid AND i.relname = 'visits_extra')
FROM pg_attribute WHERE attrelid = 'visits'::regclass`).Scan(t.Context(), &columns, &indexes)
			if err != nil || columns != 1 || indexes != 1 {
				t.Errorf("cell %d has %d columns and %d indexes, %v; want one each", cell.ID, columns, indexes, err)
			}
			return nil
		})
		if err != nil || cells != 2 {
			t.Errorf("%d cells, error %v; want two", cells, err)
		}
	})
}
