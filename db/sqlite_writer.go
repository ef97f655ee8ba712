package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"modernc.org/sqlite"
)

// sqliteWriter is SQLite's one writing connection and the queue in front of it. Two pools of
// database/sql borrow the connection for each use: the urgent one, whose batches visitors wait for,
// goes ahead of the ordinary one. A pool's own queue could not do that: it picks one of those that
// wait at random.
type sqliteWriter struct {
	connector driver.Connector

	mu       sync.Mutex
	conn     *SQLiteConn // nil until needed and after a failure
	borrowed bool
	ordinary bool // the last use was an ordinary one
	closed   bool
	waiting  [2][]*sqliteTurn // by urgency, oldest first
}

// sqliteTurn is one caller that waits for the connection.
type sqliteTurn struct {
	since time.Time
	ready chan error // gets nil with the connection, or errWriterClosed
}

// The two urgencies, as indexes of sqliteWriter.waiting.
const (
	ordinaryWrite = iota
	urgentWrite
)

// maxYield bounds how long ordinary writes give way to urgent ones. After that one of them goes
// first, never two in a row: a batch of hits waits for two ordinary writes at most, the one in
// progress included.
const maxYield = 100 * time.Millisecond

var errWriterClosed = errors.New("the database is closed")

// newSQLiteWriter prepares the writing connection of a database, which is opened by its first use.
func newSQLiteWriter(dsn string) (*sqliteWriter, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	return &sqliteWriter{connector: connector}, nil
}

// pool returns a pool that borrows the connection. It keeps none, so that each use passes the
// queue.
func (w *sqliteWriter) pool(urgency int) *sql.DB {
	pool := sql.OpenDB(sqliteBorrower{writer: w, urgency: urgency})
	pool.SetMaxIdleConns(-1)
	return pool
}

// sqliteBorrower is the driver.Connector of a pool.
type sqliteBorrower struct {
	writer  *sqliteWriter
	urgency int
}

// Connect waits for the connection, until ctx ends.
func (b sqliteBorrower) Connect(ctx context.Context) (driver.Conn, error) {
	if err := b.writer.take(ctx, b.urgency); err != nil {
		return nil, err
	}

	conn, err := b.writer.open(ctx)
	if err != nil {
		b.writer.giveBack(b.urgency, false)
		return nil, err
	}

	return &borrowedConn{SQLiteConn: conn, borrower: b}, nil
}

// Driver implements driver.Connector.
func (b sqliteBorrower) Driver() driver.Driver { return b.writer.connector.Driver() }

// borrowedConn is the writing connection during one use.
type borrowedConn struct {
	*SQLiteConn
	borrower sqliteBorrower
	bad      bool // must not be used again
}

// Close gives the connection back.
func (c *borrowedConn) Close() error {
	return c.borrower.writer.giveBack(c.borrower.urgency, c.bad || !c.IsValid())
}

// take waits for the right to use the connection.
func (w *sqliteWriter) take(ctx context.Context, urgency int) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return errWriterClosed
	}

	if !w.borrowed {
		w.borrowed = true
		w.mu.Unlock()
		return nil
	}

	turn := &sqliteTurn{since: time.Now(), ready: make(chan error, 1)}
	w.waiting[urgency] = append(w.waiting[urgency], turn)
	w.mu.Unlock()

	select {
	case err := <-turn.ready:
		return err
	case <-ctx.Done():
	}

	// the turn came at the same time
	if !w.leave(turn, urgency) {
		if err := <-turn.ready; err == nil {
			_ = w.giveBack(urgency, false)
		}
	}

	return ctx.Err()
}

// leave removes a turn from the queue. It is false when the turn has come already.
func (w *sqliteWriter) leave(turn *sqliteTurn, urgency int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()

	i := slices.Index(w.waiting[urgency], turn)
	if i < 0 {
		return false
	}

	w.waiting[urgency] = slices.Delete(w.waiting[urgency], i, i+1)
	return true
}

// open returns the connection to the caller whose turn it is.
func (w *sqliteWriter) open(ctx context.Context) (*SQLiteConn, error) {
	if w.conn != nil {
		return w.conn, nil
	}

	conn, err := w.connector.Connect(ctx)
	if err != nil {
		return nil, err
	}

	able, ok := conn.(DriverConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("SQLite's connections are %T, which cannot do what is asked of them", conn), conn.Close())
	}

	w.conn = &SQLiteConn{DriverConn: able}
	return w.conn, nil
}

// giveBack ends a use and gives the connection to the next caller. A broken connection is closed:
// the next use opens another.
func (w *sqliteWriter) giveBack(urgency int, broken bool) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	if (broken || w.closed) && w.conn != nil {
		err = w.conn.Close()
		w.conn = nil
	}

	w.ordinary = urgency == ordinaryWrite
	next, ok := w.next()
	if !ok {
		w.borrowed = false
		return err
	}

	turn := w.waiting[next][0]
	w.waiting[next] = slices.Delete(w.waiting[next], 0, 1)
	turn.ready <- nil

	return err
}

// next returns the urgency of the caller that is served next. It is false when no caller waits.
func (w *sqliteWriter) next() (urgency int, ok bool) {
	ordinary, urgent := w.waiting[ordinaryWrite], w.waiting[urgentWrite]
	switch {
	case len(urgent) == 0:
		return ordinaryWrite, len(ordinary) > 0
	case len(ordinary) > 0 && !w.ordinary && time.Since(ordinary[0].since) >= maxYield:
		return ordinaryWrite, true
	}

	return urgentWrite, true
}

// close closes the connection, or has it closed by its last use, and refuses those that wait.
func (w *sqliteWriter) close() (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.closed = true
	for urgency, turns := range w.waiting {
		for _, turn := range turns {
			turn.ready <- errWriterClosed
		}

		w.waiting[urgency] = nil
	}

	if !w.borrowed && w.conn != nil {
		err = w.conn.Close()
		w.conn = nil
	}

	return err
}
