package sqlitefile

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"reflect"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Conn is SQLite's writing connection as the driver made it. Batches of a hundred statements
// use it without database/sql. For a statement that takes SQLite three microseconds, database/sql
// takes another seven for locks, contexts and conversions.
type Conn struct {
	DriverConn
	turns    *turnstile
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

// lockPause is how long SQLite waits for the lock at a time. In it SQLite looks after 1, 3, 8 and
// 10 milliseconds, then patiently begins again. Left to itself SQLite would look ten times a second
// in the end, and find the lock taken each time by a process that writes without a pause, such as
// the previous program during an upgrade.
const lockPause = 10 * time.Millisecond

// patiently runs a statement, and again for 5 seconds while another process holds the lock. SQLite
// refuses a statement for that reason before it changes anything, and sometimes at once: hence the
// pause.
func patiently[R any](ctx context.Context, run func() (R, error)) (R, error) {
	for began := time.Now(); ; {
		result, err := run()
		if !isLocked(err) || ctx.Err() != nil || time.Since(began) > lockTimeout {
			return result, err
		}
		time.Sleep(time.Millisecond)
	}
}

// isLocked reports whether another process holds the lock that a statement needs.
func isLocked(err error) bool {
	failed, ok := errors.AsType[*sqlite.Error](err)
	return ok && failed.Code()&0xff == sqlite3.SQLITE_BUSY
}

// BeginTx implements driver.ConnBeginTx. It takes the lock, in turn with other processes.
func (c *Conn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	c.turns.enter(ctx)
	defer c.turns.leave()

	return patiently(ctx, func() (driver.Tx, error) { return c.DriverConn.BeginTx(ctx, options) })
}

// ExecContext implements driver.ExecerContext.
func (c *Conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return patiently(ctx, func() (driver.Result, error) { return c.DriverConn.ExecContext(ctx, query, args) })
}

// QueryContext implements driver.QueryerContext.
func (c *Conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return patiently(ctx, func() (driver.Rows, error) { return c.DriverConn.QueryContext(ctx, query, args) })
}

// Close implements driver.Conn.
func (c *Conn) Close() error {
	for _, statements := range c.prepared {
		// Closing the connection ends the statements in any case.
		_ = statements.Close()
	}
	c.turns.close()
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
