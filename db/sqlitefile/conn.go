package sqlitefile

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"reflect"
)

// Conn is SQLite's writing connection as the driver made it. Batches of a hundred statements
// use it without database/sql. For a statement that takes SQLite three microseconds, database/sql
// takes another seven for locks, contexts and conversions.
type Conn struct {
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

// Prepared returns the connection's set of prepared statements of type S. The first call makes it
// with prepare. The set is closed with the connection.
func Prepared[S io.Closer](conn *Conn, prepare func(*Conn) (S, error)) (S, error) {
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
func (c *Conn) Close() error {
	for _, statements := range c.prepared {
		// Closing the connection ends the statements in any case.
		_ = statements.Close()
	}
	return c.DriverConn.Close()
}

// InTx runs fn in a transaction.
func (c *Conn) InTx(ctx context.Context, fn func() error) error {
	tx, err := c.BeginTx(ctx, driver.TxOptions{})
	if err != nil {
		return err
	}

	if err = fn(); err == nil {
		// The callers that wait for this transaction have already got an error.
		err = ctx.Err()
	}

	if err != nil {
		return errors.Join(err, tx.Rollback())
	}

	return tx.Commit()
}
