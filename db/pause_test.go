package db_test

import (
	"context"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
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
