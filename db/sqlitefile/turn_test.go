package sqlitefile

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestBusyProcessLeavesTurns opens a database file twice, as two processes do during an upgrade.
// One writes without a pause. The other one must get its turns, too: it would find SQLite's lock
// free by chance only.
func TestBusyProcessLeavesTurns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sqlite")
	busy, patient := openAt(t, path), openAt(t, path)
	if _, err := busy.urgent.ExecContext(t.Context(), "CREATE TABLE writes (who TEXT)"); err != nil {
		t.Fatal(err)
	}

	const turns, hold = 20, 5 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	written := make(chan int)
	go func() {
		n := 0
		for ctx.Err() == nil {
			if err := holding(busy.urgent, hold); err != nil {
				t.Error(err)
				break
			}
			n++
		}
		written <- n
	}()

	for range turns {
		testkit.NoError(t, holding(patient.urgent, 0))
	}
	stop()

	if n := <-written; n > 10*turns {
		t.Errorf("the busy process wrote %d times while the other one wrote %d times", n, turns)
	} else {
		t.Logf("%d writes of the busy process, %d of the other one", n, turns)
	}
}

// holding writes a row in a transaction that keeps the lock for a time.
func holding(pool *sql.DB, hold time.Duration) error {
	tx, err := pool.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()

	if _, err := tx.Exec("INSERT INTO writes VALUES ('x')"); err != nil {
		return err
	}
	time.Sleep(hold)

	return tx.Commit()
}
