package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"github.com/tallygate/tallygate/db/model"
)

// This file lets the batches of hits and of the captcha's claims speak to SQLite's driver directly.
// database/sql is made for many connections and types: around a statement that takes SQLite three
// microseconds, it spends seven on locks, contexts and conversions. A batch has a hundred of them,
// on one connection, with four types.

// sqliteStmt is a prepared statement of the driver. Its calls do not end with a context: nothing in
// them waits.
type sqliteStmt struct {
	stmt driver.Stmt
	args []driver.NamedValue
	row  []driver.Value
}

func prepareSQLite(ctx context.Context, c *SQLiteConn, query string) (*sqliteStmt, error) {
	stmt, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return &sqliteStmt{stmt: stmt}, nil
}

// nothing depends on it any more
func (s *sqliteStmt) close() { _ = s.stmt.Close() }

// exec runs the statement.
func (s *sqliteStmt) exec(args ...any) error {
	_, err := s.change(args)
	return err
}

// change runs the statement and returns how many rows it changed.
func (s *sqliteStmt) change(args []any) (rows int64, err error) {
	if err := s.bind(args); err != nil {
		return 0, err
	}

	result, err := s.stmt.(driver.StmtExecContext).ExecContext(context.Background(), s.args)
	if err != nil {
		return 0, err
	}

	return result.RowsAffected()
}

// query hands each row of the answer to the function, which must not keep it. Values are int64,
// string, []byte or nil.
func (s *sqliteStmt) query(args []any, each func(row []driver.Value)) (err error) {
	if err := s.bind(args); err != nil {
		return err
	}

	rows, err := s.stmt.(driver.StmtQueryContext).QueryContext(context.Background(), s.args)
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

// bind turns arguments into the driver's types.
func (s *sqliteStmt) bind(args []any) error {
	if s.args == nil {
		s.args = make([]driver.NamedValue, len(args))
	}

	for i, arg := range args {
		value, err := sqliteValue(arg)
		if err != nil {
			return err
		}

		s.args[i] = driver.NamedValue{Ordinal: i + 1, Value: value}
	}

	return nil
}

func sqliteValue(arg any) (driver.Value, error) {
	switch v := arg.(type) {
	case nil, int64, bool, string, []byte:
		return v, nil
	case int32:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case model.Instant:
		return int64(v), nil
	case model.Month:
		return int64(v), nil
	case *string:
		if v == nil {
			return nil, nil
		}

		return *v, nil
	case *int64:
		if v == nil {
			return nil, nil
		}

		return *v, nil
	}

	return nil, fmt.Errorf("SQLite has no value for %T", arg)
}

// number reads a column that is never NULL.
func number(v driver.Value) int64 { n, _ := v.(int64); return n }

// text reads a column whose NULL means no text.
func text(v driver.Value) string { s, _ := v.(string); return s }

// blob reads a column whose NULL means no bytes.
func blob(v driver.Value) []byte { b, _ := v.([]byte); return b }
