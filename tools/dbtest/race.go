package dbtest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
)

// Race runs first, and starts second when first is about to send a statement that contains at. On
// PostgreSQL first continues when second has ended or waits for a lock, so that the two meet in the
// same way each time. On SQLite, where write transactions run one after the other, second waits for
// first. It returns the errors of both. The test fails when first sends no such statement. Nothing
// else may use d meanwhile, and a database supports one Race.
func Race(t *testing.T, d *db.DB, at string, first, second func() error) (firstErr, secondErr error) {
	t.Helper()
	_, firstErr, secondErr = race(t, d, at, first, second)
	return firstErr, secondErr
}

// RaceInOrder is Race for transactions that take their locks in the same order. The test also fails
// when one of them ran again because of a deadlock.
func RaceInOrder(t *testing.T, d *db.DB, at string, first, second func() error) (firstErr, secondErr error) {
	t.Helper()
	lost, firstErr, secondErr := race(t, d, at, first, second)
	if lost > 0 {
		t.Errorf("%d transactions lost to the other one: their locks are in different orders", lost)
	}
	return firstErr, secondErr
}

func race(t *testing.T, d *db.DB, at string, first, second func() error) (lost int64, firstErr, secondErr error) {
	t.Helper()

	var met atomic.Bool
	var losers atomic.Int64
	done := make(chan error, 1)
	meet := func(statement string) {
		if !strings.Contains(statement, at) || !met.CompareAndSwap(false, true) {
			return
		}

		ended := make(chan struct{})
		go func() {
			defer close(ended)
			err := errors.New("second ended the test")
			defer func() { done <- err }()
			err = second()
		}()

		if d.Dialect() == "postgres" {
			awaitLock(t, d, ended)
		}
	}

	hook(d, statementHook{before: meet, lost: func() { losers.Add(1) }})
	firstErr = first()

	if !met.Load() {
		t.Fatalf("no statement contained %q; the error was %v", at, firstErr)
	}

	secondErr = <-done
	return losers.Load(), firstErr, secondErr
}

// awaitLock returns when a transaction waits for a lock, or ended is closed.
func awaitLock(t *testing.T, d *db.DB, ended <-chan struct{}) {
	t.Helper()

	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()

	for {
		select {
		case <-ended:
			return
		case <-poll.C:
		}

		waiting, err := isWaiting(d)
		if err != nil {
			t.Errorf("look for locks: %v", err)
			return
		}

		if waiting {
			return
		}
	}
}

// isWaiting reports whether a transaction of PostgreSQL waits for another one's lock, on Citus on
// any node.
func isWaiting(d *db.DB) (waiting bool, err error) {
	isCitus, err := d.IsCitus(context.Background())
	if err != nil {
		return false, err
	}
	sessions := "pg_stat_activity"
	if isCitus {
		sessions = "citus_stat_activity"
	}

	err = d.Read.NewRaw("SELECT EXISTS (SELECT 1 FROM ? WHERE datname = current_database() AND wait_event_type = 'Lock')",
		bun.Ident(sessions)).Scan(context.Background(), &waiting)
	return waiting, err
}

// Transaction runs statements in one transaction, in the way the product does.
func Transaction(ctx context.Context, d *db.DB, statements ...string) error {
	cell, err := newest(ctx, d)
	if err != nil {
		return err
	}
	return cell.InTx(ctx, func(ctx context.Context, tx *db.CellTx) error {
		for _, statement := range statements {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}
