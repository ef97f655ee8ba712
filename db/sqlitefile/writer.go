package sqlitefile

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

// Writer is SQLite's one writing connection with a queue of callers. Two pools of database/sql
// borrow the connection for each use. The urgent pool is served before the ordinary one, because
// visitors wait for its batches. A single pool could not do that: it picks a waiting caller at
// random.
type Writer struct {
	path      string
	connector driver.Connector
	used      chan struct{} // with room for one

	mu       sync.Mutex
	conn     *Conn // nil until needed and after a failure
	borrowed bool
	ordinary bool // the last use was an ordinary one
	closed   bool
	waiting  [2][]*queuedTurn // by urgency, oldest first
}

// queuedTurn is a caller that waits for the connection.
type queuedTurn struct {
	since time.Time
	ready chan error // gets nil with the connection, or errWriterClosed
}

// Urgency says which callers of a Writer are served first.
type Urgency int

// The urgencies, as indexes of Writer.waiting.
const (
	Ordinary Urgency = iota
	Urgent
)

// maxYield bounds how long ordinary writes wait for urgent ones. After that one ordinary write is
// served first, never two in a row: a batch of hits waits for at most two ordinary writes,
// including the one in progress.
const maxYield = 100 * time.Millisecond

var errWriterClosed = errors.New("the database is closed")

// NewWriter prepares the writing connection of a database file. The first use opens it.
func NewWriter(path string) (*Writer, error) {
	if errUnwatched != nil {
		return nil, errUnwatched
	}
	if err := registerLogVFS(); err != nil {
		return nil, err
	}

	connector, err := sqlite.NewConnector(dsn(path, "immediate", logVFS, lockPause))
	if err != nil {
		return nil, err
	}
	return &Writer{path: path, connector: connector, used: make(chan struct{}, 1)}, nil
}

// Used returns a channel for one receiver, which receives after a use of the connection. Several
// uses before a receive count as one.
func (w *Writer) Used() <-chan struct{} { return w.used }

// Pool returns a pool that borrows the connection with an urgency. It keeps no idle connection, so
// that each use goes through the queue.
func (w *Writer) Pool(urgency Urgency) *sql.DB {
	pool := sql.OpenDB(borrower{writer: w, urgency: urgency})
	pool.SetMaxIdleConns(-1)
	return pool
}

// borrower is the driver.Connector of a pool.
type borrower struct {
	writer  *Writer
	urgency Urgency
}

// Connect waits for the connection until ctx ends.
func (b borrower) Connect(ctx context.Context) (driver.Conn, error) {
	if err := b.writer.take(ctx, b.urgency); err != nil {
		return nil, err
	}

	conn, err := b.writer.open(ctx)
	if err != nil {
		b.writer.giveBack(b.urgency, false)
		return nil, err
	}

	return &borrowedConn{Conn: conn, borrower: b}, nil
}

// Driver implements driver.Connector.
func (b borrower) Driver() driver.Driver { return b.writer.connector.Driver() }

// borrowedConn is the writing connection during one use.
type borrowedConn struct {
	*Conn
	borrower borrower
	bad      bool // must not be used again
}

// Close returns the connection to the writer.
func (c *borrowedConn) Close() error {
	return c.borrower.writer.giveBack(c.borrower.urgency, c.bad || !c.IsValid())
}

// take waits for the right to use the connection.
func (w *Writer) take(ctx context.Context, urgency Urgency) error {
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

	turn := &queuedTurn{since: time.Now(), ready: make(chan error, 1)}
	w.waiting[urgency] = append(w.waiting[urgency], turn)
	w.mu.Unlock()

	select {
	case err := <-turn.ready:
		return err
	case <-ctx.Done():
	}

	// The connection was assigned when ctx ended: pass it on.
	if !w.leave(turn, urgency) {
		if err := <-turn.ready; err == nil {
			_ = w.giveBack(urgency, false)
		}
	}

	return ctx.Err()
}

// leave removes a turn from the queue. It is false when the turn is no longer queued.
func (w *Writer) leave(turn *queuedTurn, urgency Urgency) bool {
	w.mu.Lock()
	defer w.mu.Unlock()

	i := slices.Index(w.waiting[urgency], turn)
	if i < 0 {
		return false
	}

	w.waiting[urgency] = slices.Delete(w.waiting[urgency], i, i+1)
	return true
}

// open returns the connection, and opens it if necessary. The caller must have taken it.
func (w *Writer) open(ctx context.Context) (*Conn, error) {
	if w.conn != nil {
		return w.conn, nil
	}

	conn, err := w.connector.Connect(ctx)
	if err != nil {
		return nil, err
	}

	able, ok := conn.(DriverConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("SQLite's connections are %T, which lacks an interface of the driver", conn),
			conn.Close())
	}

	w.conn = &Conn{DriverConn: able, turns: openTurnstile(w.path)}
	return w.conn, nil
}

// giveBack ends a use and assigns the connection to the next caller. A broken connection is closed;
// the next use opens another.
func (w *Writer) giveBack(urgency Urgency, broken bool) (err error) {
	select {
	case w.used <- struct{}{}:
	default:
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	if (broken || w.closed) && w.conn != nil {
		err = w.conn.Close()
		w.conn = nil
	}

	w.ordinary = urgency == Ordinary
	next, ok := w.next()
	if !ok {
		w.borrowed = false
		return err
	}

	turn := w.waiting[next][0]
	w.waiting[next] = slices.Delete(w.waiting[next], 0, 1)

	// The channel has a buffer, so this cannot block under the lock.
	turn.ready <- nil

	return err
}

// next returns the urgency of the next caller to serve. It is false when no caller waits.
func (w *Writer) next() (urgency Urgency, ok bool) {
	ordinary, urgent := w.waiting[Ordinary], w.waiting[Urgent]
	switch {
	case len(urgent) == 0:
		return Ordinary, len(ordinary) > 0
	case len(ordinary) > 0 && !w.ordinary && time.Since(ordinary[0].since) >= maxYield:
		return Ordinary, true
	}

	return Urgent, true
}

// Close closes the connection now or at the end of its current use, and refuses waiting callers.
func (w *Writer) Close() (err error) {
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

// WithConn runs fn with the writing connection, borrowed through a pool of Writer.Pool.
func WithConn(ctx context.Context, db *sql.DB, fn func(*Conn) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}

	err = conn.Raw(func(c any) error {
		borrowed := c.(*borrowedConn)
		// A panic in fn leaves a transaction open, so mark the connection until fn has returned.
		borrowed.bad = true
		err := fn(borrowed.Conn)
		borrowed.bad = errors.Is(err, driver.ErrBadConn)
		return err
	})

	return errors.Join(err, conn.Close())
}
