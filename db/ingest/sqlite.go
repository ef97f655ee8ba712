package ingest

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/tallygate/tallygate/db"
)

// sqlite is the engine of a writer on SQLite. It borrows the database's one writing connection for
// each transaction. The prepared statements belong to that connection.
type sqlite struct {
	db *db.DB
}

func (s sqlite) inTx(ctx context.Context, fn func(transaction) error) error {
	return s.db.WithSQLiteConn(ctx, func(conn *db.SQLiteConn) error {
		statements, err := db.Prepared(conn, func(conn *db.SQLiteConn) (*Statements, error) {
			return &Statements{conn: conn, byText: make(map[string]statement)}, nil
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
	statements *Statements
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
	if err := open.Commit(); err != nil {
		return unknownOutcome{err}
	}
	return nil
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

// Statements holds the prepared statements of one connection of SQLite. It is not safe for
// concurrent use.
//
// database/sql is made for many connections and types: around a statement that takes SQLite three
// microseconds, it spends seven on locks, contexts and conversions. A batch runs a hundred
// statements on one connection, which package db lends to one caller at a time, so batches use the
// driver's own interfaces.
type Statements struct {
	conn   driver.ConnPrepareContext
	byText map[string]statement
}

// statement lists what a prepared statement of the driver can do.
type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// of returns the prepared statement of a text. The first call prepares it, so texts must be
// constants: none is ever dropped.
func (s *Statements) of(ctx context.Context, text string) (statement, error) {
	if known := s.byText[text]; known != nil {
		return known, nil
	}

	prepared, err := s.conn.PrepareContext(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", text, err)
	}

	made, ok := prepared.(statement)
	if !ok {
		return nil, errors.Join(fmt.Errorf("the SQLite driver's statements are %T", prepared), prepared.Close())
	}

	s.byText[text] = made
	return made, nil
}

// Close closes the statements. The connection's owner calls it before it closes the connection.
func (s *Statements) Close() error {
	var errs []error
	for _, prepared := range s.byText {
		errs = append(errs, prepared.Close())
	}

	clear(s.byText)
	return errors.Join(errs...)
}
