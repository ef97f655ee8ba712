package db_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
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

			lock := func() error {
				return inTx(other, ctx, func(ctx context.Context, tx *db.Tx) error { return tx.LockKey(ctx, db.PartitionLock) })
			}

			// On a busy machine a connection may take too long.
			err := lock()
			for db.IsUnavailable(err) && ctx.Err() == nil {
				err = lock()
			}
			testkit.Succeeds(t, err, "another process takes the lock")

			close(resume)
			if err := <-ended; err == nil || !db.IsUnavailable(err) {
				t.Errorf("the paused transaction returns %v, want that the database was unavailable", err)
			}
			testkit.Succeeds(t, inTx(paused, ctx, func(context.Context, *db.Tx) error { return nil }), "the next transaction")
		})
	}
}

// TestWaitOutlastsAnOutage checks that the wait after a jump of the clock goes on while a process
// cannot read the database's time, if the process's uptime explains the pause, and begins again if
// not.
func TestWaitOutlastsAnOutage(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		at, uptime := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC), time.Hour
		d.Clock.Set(func() time.Time { return at }, func() time.Duration { return uptime }, false)
		if _, err := d.TrustedNow(t.Context()); err != nil {
			t.Fatal(err)
		}

		until := func(passed, up time.Duration) time.Time {
			t.Helper()
			at, uptime = at.Add(passed), uptime+up
			_, err := d.TrustedNow(t.Context())
			jump, ok := errors.AsType[*db.ClockJump](err)
			if !ok {
				t.Fatalf("the clock is trusted: %v", err)
			}
			return jump.Until.Time()
		}
		first := until(48*time.Hour, time.Minute)
		if got := until(15*time.Minute, 15*time.Minute); !got.Equal(first) {
			t.Errorf("after an outage of 15 minutes the wait ends at %v, want %v", got, first)
		}
		if got := until(15*time.Minute, time.Minute); !got.After(first) {
			t.Errorf("after another jump the wait ends at %v, as before", got)
		}
	})
}
