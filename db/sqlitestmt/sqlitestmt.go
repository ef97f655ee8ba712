// Package sqlitestmt calls the SQLite driver without database/sql, for the batches of package
// ingest.
//
// database/sql is made for many connections and types: around a statement that takes SQLite three
// microseconds, it spends seven on locks, contexts and conversions. A batch runs a hundred
// statements on one connection with four types. Package db lends the connection to one
// caller at a time. This package knows no table.
package sqlitestmt

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
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
		errs = append(errs, s.stmt.Close())
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

	s := &Stmt{stmt: prepared}
	c.statements[text] = s

	return s, nil
}

// Stmt is a prepared statement. Its calls take no context: nothing in them waits.
type Stmt struct {
	stmt driver.Stmt
	args []driver.NamedValue
	row  []driver.Value
}

// Exec runs the statement and returns the number of rows that it changed. Arguments are int64,
// bool, string, []byte or nil.
func (s *Stmt) Exec(args []driver.Value) (rows int64, err error) {
	result, err := s.stmt.(driver.StmtExecContext).ExecContext(context.Background(), s.bind(args))
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Query runs the statement and calls each for every row, which each must not keep. Arguments and
// values are int64, bool, string, []byte or nil.
func (s *Stmt) Query(args []driver.Value, each func(row []driver.Value)) (err error) {
	rows, err := s.stmt.(driver.StmtQueryContext).QueryContext(context.Background(), s.bind(args))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()

	if s.row == nil {
		s.row = make([]driver.Value, len(rows.Columns()))
	}

	for {
		switch err := rows.Next(s.row); err {
		case nil:
			each(s.row)
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}

// bind numbers the arguments, as the driver wants them.
func (s *Stmt) bind(args []driver.Value) []driver.NamedValue {
	s.args = s.args[:0]
	for i, arg := range args {
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: arg})
	}
	return s.args
}
