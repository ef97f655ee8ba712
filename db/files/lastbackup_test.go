package files_test

import (
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/files"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestLastBackup: the newest time is kept, also if records arrive in another order.
func TestLastBackup(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		store := files.New(d)
		for _, step := range []struct{ record, want model.Instant }{{0, 0}, {2_000_000, 2_000_000}, {1_000_000, 2_000_000}, {3_000_000, 3_000_000}} {
			testkit.NoError(t, store.RecordBackup(t.Context(), step.record))
			if got, err := store.LastBackup(t.Context()); got != step.want || err != nil {
				t.Errorf("after %d: %d, %v; want %d", step.record, got, err, step.want)
			}
		}
	})
}

// TestSize: the size of SQLite is its file's, and any database grows with its rows.
func TestSize(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		store := files.New(d)
		before, err := store.Size(t.Context())
		if err != nil || before < 100_000 {
			t.Fatalf("%d bytes, %v", before, err)
		}

		if _, err := d.Write.ExecContext(t.Context(), "CREATE TABLE filler AS WITH RECURSIVE n (i) AS "+
			"(SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT i, 'a text of forty bytes, which takes its room' AS text FROM n"); err != nil {
			t.Fatal(err)
		}
		after, err := store.Size(t.Context())
		if err != nil || after < before+20_000*40 {
			t.Errorf("%d bytes, then %d, %v", before, after, err)
		}
	})
}
