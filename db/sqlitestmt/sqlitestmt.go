// Package sqlitestmt runs prepared statements of SQLite without database/sql and without most of the
// driver, for the batches of package ingest and the rows of package rawrows.
//
// database/sql is made for many connections and types: around a statement that takes SQLite three
// microseconds, it spends seven on locks, contexts and conversions. The driver itself spends two more
// on names of parameters and columns, and on one C allocation for each text. A batch runs a hundred
// statements on one connection with four types. Package db lends the connection to one caller at a
// time. This package knows no table.
//
// The driver prepares and closes the statements. Binding, stepping and reading call SQLite's C
// interface, as the driver does; see raw.go.
package sqlitestmt

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
)

// Cache holds the prepared statements of one connection. It is not safe for concurrent use.
type Cache struct {
	conn       driver.ConnPrepareContext
	statements map[string]*Stmt // by their text
}

// New returns an empty cache for a connection.
func New(conn driver.ConnPrepareContext) *Cache {
	return &Cache{conn: conn, statements: make(map[string]*Stmt)}
}

// Close closes the statements. The connection's owner calls it before it closes the connection.
func (c *Cache) Close() error {
	var errs []error
	for _, s := range c.statements {
		errs = append(errs, s.close())
	}

	clear(c.statements)
	return errors.Join(errs...)
}

// Statement returns the prepared statement of a text. The first call prepares it, so texts must be
// constants: none is ever dropped.
func (c *Cache) Statement(ctx context.Context, text string) (*Stmt, error) {
	if s := c.statements[text]; s != nil {
		return s, nil
	}

	prepared, err := c.conn.PrepareContext(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", text, err)
	}

	s, err := newStmt(prepared)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare %q: %w", text, err), prepared.Close())
	}

	c.statements[text] = s
	return s, nil
}

// Stmt is a prepared statement. Its calls take no context: nothing in them waits.
type Stmt struct {
	prepared driver.Stmt
	raw      raw
	row      []driver.Value
}

func newStmt(prepared driver.Stmt) (*Stmt, error) {
	r, err := rawOf(prepared)
	if err != nil {
		return nil, err
	}
	return &Stmt{prepared: prepared, raw: r, row: make([]driver.Value, r.columns())}, nil
}

func (s *Stmt) close() error {
	err := s.prepared.Close()
	s.raw.free()
	return err
}

// Exec runs the statement and returns the number of rows that it changed. Arguments are int64,
// bool, string, []byte or nil.
func (s *Stmt) Exec(args []driver.Value) (rows int64, err error) {
	err = s.run(args, func([]driver.Value) {})
	if err != nil {
		return 0, err
	}
	return s.raw.changes(), nil
}

// Query runs the statement and calls each for every row, which each must not keep. Arguments and
// values are int64, bool, string, []byte or nil.
func (s *Stmt) Query(args []driver.Value, each func(row []driver.Value)) error {
	return s.run(args, each)
}

// Row is the current row of Each. It must not be used after the call that got it.
type Row struct{ raw *raw }

// Int64 returns an integer, and 0 for NULL.
func (r Row) Int64(column int) int64 { return r.raw.int64(int32(column)) }

// Bytes returns a text or bytes without copying them, and nil for NULL and for nothing. They are
// SQLite's and change with the next row.
func (r Row) Bytes(column int) []byte { return r.raw.borrow(int32(column)) }

// IsNull reports whether the value is NULL.
func (r Row) IsNull(column int) bool { return r.raw.isNull(int32(column)) }

// contextEvery is the number of rows after which Each looks whether its context has ended.
const contextEvery = 1_000

// Each runs the statement and calls take for every row, until ctx ends or take fails, whose error it
// returns. It allocates nothing for a row. Arguments are as in Query.
func (s *Stmt) Each(ctx context.Context, args []driver.Value, take func(Row) error) error {
	// Without a reset the statement would keep its snapshot of the database open.
	defer s.raw.reset()

	if err := s.raw.bind(args); err != nil {
		return err
	}

	for n := 0; ; n++ {
		if n%contextEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		more, err := s.raw.step()
		if err != nil || !more {
			return err
		}
		if err := take(Row{&s.raw}); err != nil {
			return err
		}
	}
}

// run runs the statement to its end and resets it, also after an error.
func (s *Stmt) run(args []driver.Value, each func(row []driver.Value)) (err error) {
	// Without a reset the statement would keep its snapshot of the database open.
	defer s.raw.reset()

	if err := s.raw.bind(args); err != nil {
		return err
	}

	for {
		more, err := s.raw.step()
		if err != nil || !more {
			return err
		}
		if err := s.raw.read(s.row); err != nil {
			return err
		}
		each(s.row)
	}
}
