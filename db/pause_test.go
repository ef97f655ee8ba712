package db_test

import (
	"context"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// TestPausedTransaction: a process that is paused while it holds a lock delays the other processes
// until PostgreSQL ends its transaction, and not until it continues. The test takes 30 seconds, in
// which it waits for the server.
func TestPausedTransaction(t *testing.T) {
	t.Parallel()

	type transaction = func(context.Context, *db.Tx) error

	for name, inTx := range map[string]func(*db.DB, context.Context, transaction) error{
		"InTx": (*db.DB).InTx, "InDataTx": (*db.DB).InDataTx,
	} {
		t.Run(name+"/postgres", func(t *testing.T) {
			t.Parallel()

			databaseURL := dbtest.PostgresURL(t)
			paused, other := dbtest.Open(t, databaseURL), dbtest.Open(t, databaseURL)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()

			locked, resume, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				ended <- inTx(paused, ctx, func(ctx context.Context, tx *db.Tx) error {
					if err := tx.LockKey(ctx, db.PartitionLock); err != nil {
						return err
					}

					close(locked)
					<-resume

					_, err := tx.ExecContext(ctx, "SELECT 1")
					return err
				})
			}()

			select {
			case <-locked:
			case err := <-ended:
				t.Fatal(err)
			}

			err := inTx(other, ctx, func(ctx context.Context, tx *db.Tx) error { return tx.LockKey(ctx, db.PartitionLock) })
			if err != nil {
				t.Errorf("another process takes the lock: %v", err)
			}

			close(resume)
			if err := <-ended; err == nil || !db.IsUnavailable(err) {
				t.Errorf("the paused transaction returns %v, want that the database was unavailable", err)
			}
			if err := inTx(paused, ctx, func(context.Context, *db.Tx) error { return nil }); err != nil {
				t.Errorf("the next transaction: %v", err)
			}
		})
	}
}

// TestClockIsComparedWithoutALock: a process that is paused while it compares the clock for the first
// time delays no other one, and accepts what that one has stored meanwhile.
func TestClockIsComparedWithoutALock(t *testing.T) {
	t.Parallel()

	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		t.Parallel()

		paused, other := dbtest.Open(t, databaseURL), dbtest.Open(t, databaseURL)
		calls := 0
		empty := func(context.Context, bun.IDB) (model.Instant, error) { return 0, nil }
		now, err := paused.TrustedNow(t.Context(), func(ctx context.Context, _ bun.IDB) (model.Instant, error) {
			calls++
			_, err := other.TrustedNow(ctx, empty)
			return 0, err
		})
		if err != nil || calls != 1 {
			t.Fatalf("%v after %d readings of the newest row, %v; want one", now.Time(), calls, err)
		}

		if last, trusted, err := other.LastTrusted(t.Context()); err != nil || !trusted || last < now {
			t.Errorf("stored: %v, trusted %t, %v; want %v or later", last.Time(), trusted, err, now.Time())
		}
	})
}
