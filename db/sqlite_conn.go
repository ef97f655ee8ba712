package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"reflect"
)

// SQLiteConn is SQLite's writing connection as the driver made it. database/sql is made for many
// connections and types: around a statement that takes SQLite three microseconds, it spends seven
// on locks, contexts and conversions. Batches of a hundred statements use the driver directly.
type SQLiteConn struct {
	DriverConn
	prepared map[reflect.Type]io.Closer // by Prepared; closed with the connection
}

// DriverConn lists the driver's interfaces that database/sql uses.
type DriverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// Prepared returns the connection's set of prepared statements of type S, which prepare makes when
// it is asked for the first time. The set is closed with the connection.
func Prepared[S io.Closer](conn *SQLiteConn, prepare func(*SQLiteConn) (S, error)) (S, error) {
	key := reflect.TypeFor[S]()
	if known, ok := conn.prepared[key]; ok {
		return known.(S), nil
	}

	made, err := prepare(conn)
	if err != nil {
		return made, err
	}

	if conn.prepared == nil {
		conn.prepared = make(map[reflect.Type]io.Closer)
	}
	conn.prepared[key] = made

	return made, nil
}

// Close implements driver.Conn.
func (c *SQLiteConn) Close() error {
	for _, statements := range c.prepared {
		// Closing the connection ends the statements in any case.
		_ = statements.Close()
	}
	return c.DriverConn.Close()
}

// WithSQLiteConn runs fn with the writing connection, which no other caller uses until fn returns.
// It goes ahead of InTx.
func (d *DB) WithSQLiteConn(ctx context.Context, fn func(*SQLiteConn) error) error {
	return withSQLiteConn(ctx, d.DataWrite.DB, fn)
}

func withSQLiteConn(ctx context.Context, db *sql.DB, fn func(*SQLiteConn) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}

	err = conn.Raw(func(c any) error {
		borrowed := c.(*borrowedConn)
		// A panic of fn leaves a transaction open.
		borrowed.bad = true
		err := fn(borrowed.SQLiteConn)
		borrowed.bad = errors.Is(err, driver.ErrBadConn)
		return err
	})

	return errors.Join(err, conn.Close())
}

// InTx runs fn in a transaction.
func (c *SQLiteConn) InTx(ctx context.Context, fn func() error) error {
	tx, err := c.BeginTx(ctx, driver.TxOptions{})
	if err != nil {
		return err
	}

	if err = fn(); err == nil {
		// The callers that wait for this transaction have got an error already.
		err = ctx.Err()
	}

	if err != nil {
		return errors.Join(err, tx.Rollback())
	}

	return tx.Commit()
}
