package db

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/pgpool"
	"github.com/tallygate/tallygate/db/watch"
)

const (
	// retryFor bounds the retries of a transaction on SQLite by time. A transaction that ran longer
	// has already waited for the lock. On PostgreSQL a conflict's loser can run again, however long
	// it took to meet the other one.
	retryFor = 4 * time.Second

	// deadlockPause is the first wait after a deadlock; each further one is twice as long.
	deadlockPause = 50 * time.Millisecond

	// retryAttempts bounds how often a transaction is run.
	retryAttempts = 4
)

// Tx is a transaction of InTx or InDataTx, for the common tables. Functions that also run outside
// of one take a bun.IDB, which Tx implements.
type Tx struct {
	bun.Tx

	db      *DB
	cell    int64 // its tables come first in the search_path, see CellTx; 0: the default cell
	hasTurn bool  // the transaction has called TakeTurn, and needed it
	stored  bool  // the transaction has stored changes for watchers, on SQLite
	ended   bool  // by commit
}

// InTx runs fn in one transaction and commits it. A transaction that loses a conflict with another
// one (a serialization failure, a deadlock or a busy database) runs again, up to 4 times in all: fn
// must set its results again each time. The order of locks is in locks.go.
func (d *DB) InTx(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) error {
	return d.inTx(ctx, d.Write, d.isPooled, fn)
}

// InDataTx is InTx with the data plane's connections. On SQLite it is served before InTx.
func (d *DB) InDataTx(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) error {
	return d.inTx(ctx, d.DataWrite, d.isPooled, fn)
}

// inTx is InTx with the connections of a pool.
func (d *DB) inTx(
	ctx context.Context, pool *bun.DB, isPooled bool, fn func(ctx context.Context, tx *Tx) error,
) error {
	began := time.Now()
	lost := func(err error) bool {
		return IsRetryable(err) && (d.IsPostgres() || time.Since(began) < retryFor)
	}

	return Retry(lost, func() error {
		tx, err := d.begin(ctx, pool, isPooled)
		if err != nil {
			return err
		}
		defer tx.end()

		if err := fn(ctx, tx); err != nil {
			return err
		}
		return tx.commit()
	})
}

// begin begins a transaction with a connection of a pool.
func (d *DB) begin(ctx context.Context, pool *bun.DB, isPooled bool) (*Tx, error) {
	begun, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}

	tx := &Tx{Tx: begun, db: d}
	if isPooled {
		if _, err := tx.ExecContext(ctx, pgpool.Local); err != nil {
			tx.end()
			return nil, err
		}
	}

	return tx, nil
}

// commit commits the transaction, and announces its changes on SQLite.
func (tx *Tx) commit() error {
	tx.ended = true
	if err := tx.Commit(); err != nil {
		return err
	}

	if tx.stored {
		tx.db.changes.Committed()
	}
	return nil
}

// end rolls back a transaction that was not committed, also when its function panics: otherwise it
// would keep its connection and its locks.
func (tx *Tx) end() {
	if !tx.ended {
		_ = tx.Rollback()
	}
}

// RetryNewIDs runs a transaction again when it lost a conflict with another one. A violated unique
// key counts as one: ids are partly random, and each run makes new ones.
func RetryNewIDs(transaction func() error) error {
	return Retry(func(err error) bool { return IsRetryable(err) || IsUnique(err) }, transaction)
}

// Retry runs a transaction up to 4 times in all, while lost reports that its error is a lost
// conflict with another transaction. After a deadlock it waits: on a busy machine it could
// otherwise take the same lock again before the other transaction, which waits for it, runs.
func Retry(lost func(error) bool, transaction func() error) error {
	var err error
	for attempt := range retryAttempts {
		if err = transaction(); err == nil || !lost(err) {
			return err
		}
		if isDeadlock(err) && attempt < retryAttempts-1 {
			time.Sleep(deadlockPause << attempt)
		}
	}

	return fmt.Errorf("after %d attempts: %w", retryAttempts, err)
}

// NotifySites announces changes of sites to every process that watches them, when tx commits.
func (tx *Tx) NotifySites(ctx context.Context, ids ...model.SiteID) error {
	return notify(ctx, tx, watch.Sites, ids)
}

// NotifySitekeys announces changes of sitekeys to every process that watches them, when tx commits.
func (tx *Tx) NotifySitekeys(ctx context.Context, ids ...model.SitekeyID) error {
	return notify(ctx, tx, watch.Sitekeys, ids)
}

func notify[ID ~int64](ctx context.Context, tx *Tx, channel watch.Channel, ids []ID) error {
	if len(ids) == 0 {
		return nil
	}

	if tx.db.IsPostgres() {
		_, err := tx.ExecContext(ctx, "SELECT pg_notify(?, id::text) FROM unnest(ARRAY[?]::bigint[]) AS id",
			string(channel), bun.List(ids))
		return err
	}

	tx.stored = true
	return watch.Store(ctx, tx, channel, ids)
}

// ReadChanges makes this process read the changes that other processes have announced on SQLite at
// once. PostgreSQL notifies each process itself.
func (d *DB) ReadChanges() {
	if d.changes != nil {
		d.changes.Read()
	}
}

// AfterNotify sets what runs after each commit with announced changes on SQLite. It must be called
// before the first transaction.
func (d *DB) AfterNotify(notify func()) {
	if d.changes != nil {
		d.changes.Notify = notify
	}
}

// Watch calls changed with the id of every row whose change was announced on the channel with
// Notify, by this or another process. It returns ctx's error when ctx ends. It calls synced(nil)
// when it reports every later change, and synced with an error when it loses the database.
// WatchSites of package sites describes the guarantees.
func (d *DB) Watch(ctx context.Context, channel watch.Channel, changed func(id int64), synced func(error)) error {
	if d.IsPostgres() {
		return d.notifications.Watch(ctx, channel, changed, synced)
	}
	return d.changes.Watch(ctx, channel, changed, synced)
}
