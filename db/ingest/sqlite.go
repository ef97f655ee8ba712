package ingest

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/sqlitestmt"
)

// sqlite is the engine of a writer on SQLite. It borrows the database's one writing connection for
// each transaction. The prepared statements belong to that connection.
type sqlite struct {
	db *db.DB
}

func (s sqlite) inTx(ctx context.Context, fn func(transaction) error) error {
	return s.db.WithSQLiteConn(ctx, func(conn *db.SQLiteConn) error {
		statements, err := db.Prepared(conn, func(conn *db.SQLiteConn) (*sqlitestmt.Cache, error) {
			return sqlitestmt.New(conn), nil
		})
		if err != nil {
			return err
		}

		// A panic in fn makes WithSQLiteConn close the connection, which rolls back.
		tx := &sqliteTx{conn: conn, statements: statements}
		return errors.Join(fn(tx), tx.rollback())
	})
}

func (sqlite) close() error { return nil }

// sqliteTx is one transaction, which begins with the database's write lock.
type sqliteTx struct {
	conn       *db.SQLiteConn
	statements *sqlitestmt.Cache
	open       driver.Tx // nil before begin and after the end
}

func (t *sqliteTx) begin(ctx context.Context, steps []step) (err error) {
	if t.open, err = t.conn.BeginTx(ctx, driver.TxOptions{}); err != nil {
		t.open = nil
		return err
	}
	return t.run(ctx, steps)
}

func (t *sqliteTx) run(ctx context.Context, steps []step) error {
	for _, s := range steps {
		if s == nil {
			continue
		}
		if err := s.run(ctx, t.statements); err != nil {
			return err
		}
	}

	return nil
}

func (t *sqliteTx) apart(ctx context.Context, steps []step) error {
	if err := t.rollback(); err != nil {
		return err
	}
	if err := t.begin(ctx, steps); err != nil {
		return err
	}
	return t.commit(ctx, nil)
}

func (t *sqliteTx) commit(ctx context.Context, steps []step) error {
	if err := t.run(ctx, steps); err != nil {
		return err
	}

	// After the batch's deadline its requests have already been answered with an error.
	if err := ctx.Err(); err != nil {
		return err
	}

	open := t.open
	t.open = nil
	return open.Commit()
}

// rollback ends a transaction that was not committed.
func (t *sqliteTx) rollback() error {
	if t.open == nil {
		return nil
	}

	open := t.open
	t.open = nil
	return open.Rollback()
}
