package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/db"
)

// Batches stores batches of one kind, one transaction each. It belongs to one writer: it is not
// safe for concurrent use.
//
// # Durability
//
// Update returns nil when the batch is on disk, and never stores a batch twice. The reasons are the
// same for hits and claims:
//
//   - Locked are the usage rows that the keys name: one per site (or account) and month. All
//     writers take them in the order of their keys, so that they never deadlock. On SQLite the
//     transaction begins with the database's write lock, which includes them.
//   - Read under these locks are quota, visits, transactions and claims. Only a holder of a site's
//     usage row changes them, except for transactions, which have no month: their primary key decides between
//     the batches of two months. And READ COMMITTED lets every statement after the lock see the last
//     holder's commit. So the state that decide sees is still true when its changes are committed.
//     A claim without a usage row (a challenge) relies on its primary key: PostgreSQL waits for
//     another transaction that inserts the same key.
//   - Missing usage rows, in the first batch of a month, are added in a transaction of their own
//     before the batch begins again. A transaction that holds locks must not wait for another one
//     to insert the same row: both could deadlock.
//   - Acknowledged means committed: PostgreSQL commits with synchronous_commit = on, SQLite with
//     synchronous = FULL. Both return from COMMIT after the log is on disk.
//   - Begun are only commits that have time to end, so that few requests are answered with an error
//     although their batch is stored.
//   - Retried are only transactions that are known to be rolled back: after a conflict with another
//     transaction (serialization failure, deadlock, busy), after a violated unique key, and after
//     an idle connection was found closed before COMMIT was sent. Any other error of COMMIT is
//     returned: the batch is stored or not, and its requests are answered with an error.
//   - A retry begins with the locks and runs decide again on the rows that it reads then, so it
//     does not depend on the previous attempt. Ids are partly random: a retry makes new ids, which
//     resolves a collision.
type Batches[Keys, State, Changes any] struct {
	engine     engine
	common     engine // of batches that need the common address; nil if engine is at that address
	statements statements[Keys, State, Changes]

	commits time.Duration // that a commit took lately
}

// statements are the reads and writes of one kind of batch.
type statements[Keys, State, Changes any] interface {
	// needsCommon reports whether a batch changes tables that the address of a cell may not have.
	needsCommon(Keys) bool

	// read returns the steps that lock the usage rows and read the rows of the keys, and the state
	// that they fill.
	read(Keys) (*State, []step)

	// missing reports whether usage rows were not there. Rows of a deleted site or account are
	// missing for ever.
	missing(Keys, *State) bool

	// add returns the steps that add missing usage rows.
	add(Keys) []step

	// complete returns the steps that read what read left out by an assumption that proved wrong.
	complete(Keys, *State) []step

	// write returns the steps that store the changes.
	write(Keys, *Changes) []step
}

// Update runs one transaction: it locks and reads what keys name, calls decide with it, and stores
// the changes that decide returns. On an error they are not stored, unless the connection was lost,
// or ctx ended, during the commit.
//
// After a conflict with another transaction, or a violated unique key, the transaction runs again,
// up to 4 times in all. Each attempt runs twice if the connection was found closed. So decide may
// be called several times, and only its last result is stored.
func (b *Batches[Keys, State, Changes]) Update(ctx context.Context, keys Keys, decide func(*State) *Changes) error {
	engine := b.engine
	if b.common != nil && b.statements.needsCommon(keys) {
		engine = b.common
	}

	return db.RetryNewIDs(func() error {
		return engine.inTx(ctx, func(tx transaction) error {
			state, err := b.read(ctx, tx, keys)
			if err != nil {
				return err
			}
			return b.commit(ctx, tx, b.statements.write(keys, decide(state)))
		})
	})
}

// errTooLate is returned instead of a commit that may take longer than the rest of the time: its
// outcome would come too late, or would not be known.
var errTooLate = fmt.Errorf("too little time is left for a commit: %w", context.DeadlineExceeded)

// commit writes and commits, if three times the time that this took lately is left, or a second.
func (b *Batches[Keys, State, Changes]) commit(ctx context.Context, tx transaction, steps []step) error {
	began := time.Now()
	if end, bounded := ctx.Deadline(); bounded && end.Sub(began) < min(3*b.commits, time.Second) {
		return errTooLate
	}

	err := tx.commit(ctx, steps)
	b.commits = max(time.Since(began), b.commits/2)
	return err
}

// unknownOutcome is the error of a COMMIT that may have succeeded.
type unknownOutcome struct{ error }

// Unwrap implements the interface of package errors.
func (u unknownOutcome) Unwrap() error { return u.error }

// IsRolledBack reports whether nothing of a batch is stored for certain, after an error of Update.
func IsRolledBack(err error) bool {
	_, unknown := errors.AsType[unknownOutcome](err)
	return !unknown
}

// read begins the transaction and returns the state under its locks.
func (b *Batches[Keys, State, Changes]) read(ctx context.Context, tx transaction, keys Keys) (*State, error) {
	state, steps := b.statements.read(keys)
	if err := tx.begin(ctx, steps); err != nil {
		return nil, err
	}

	if b.statements.missing(keys, state) {
		// Not in this transaction: it must not wait for an insert while it holds locks.
		if err := tx.apart(ctx, b.statements.add(keys)); err != nil {
			return nil, err
		}

		state, steps = b.statements.read(keys)
		if err := tx.begin(ctx, steps); err != nil {
			return nil, err
		}
	}

	if steps := b.statements.complete(keys, state); len(steps) > 0 {
		if err := tx.run(ctx, steps); err != nil {
			return nil, err
		}
	}

	return state, nil
}

// Close ends the writer's connections, if it has any of its own.
func (b *Batches[Keys, State, Changes]) Close() error {
	err := b.engine.close()
	if b.common != nil {
		err = errors.Join(err, b.common.close())
	}
	return err
}

// engine runs the transactions of one writer.
type engine interface {
	// inTx calls fn with a transaction that has not begun, and rolls it back unless fn committed
	// it. fn may be called a second time if it failed without having committed.
	inTx(ctx context.Context, fn func(transaction) error) error

	close() error
}

// transaction runs steps in order and skips nil. PostgreSQL takes one round trip for each call.
type transaction interface {
	// begin begins the transaction and runs steps in it.
	begin(context.Context, []step) error

	// run runs further steps.
	run(context.Context, []step) error

	// apart rolls the transaction back and runs steps in a transaction of their own.
	apart(context.Context, []step) error

	// commit runs the last steps and commits.
	commit(context.Context, []step) error
}

// newEngine returns an engine at the address of a cell.
func newEngine(cell *db.Cell) engine {
	if cell.Common.IsPostgres() {
		return &postgres{config: cell.BatchPostgres(), isCitus: cell.Common.IsCitus}
	}
	return sqlite{db: cell.Common}
}

// newCommon returns an engine at the common address, or nil if newEngine does.
func newCommon(cell *db.Cell) engine {
	if cell.HasOwnAddress() {
		return &postgres{config: cell.Postgres(), isCitus: cell.Common.IsCitus}
	}
	return nil
}
