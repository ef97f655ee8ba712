package reports

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tallygate/tallygate/db/sqlitestmt"
)

// A day has up to a hundred thousand rows, and a segment megabytes. database/sql and the drivers take
// four times as long to convert such values as the database takes to read them, and allocate each. So
// both are read through the interfaces below database/sql.

// row is the current row of a query.
type row interface {
	// Int64 returns an integer, and 0 for NULL.
	Int64(column int) int64
	// Bytes returns a text or bytes, and nothing for NULL. They change with the next row.
	Bytes(column int) []byte
}

// eachRow runs a query and calls take for each row.
type eachRow func(ctx context.Context, query string, args []int64, take func(row)) error

// rowsOf returns the function that queries through a driver's connection. The function may be used
// only while the connection is held.
func (s *Store) rowsOf(driverConn any) eachRow {
	return func(ctx context.Context, query string, args []int64, take func(row)) error {
		s.observe(query)
		switch conn := driverConn.(type) {
		case *stdlib.Conn:
			return s.eachPostgres(ctx, conn, query, args, take)
		case driver.ConnPrepareContext:
			return eachSQLite(ctx, conn, query, args, take)
		default:
			return fmt.Errorf("the driver's connections are %T", driverConn)
		}
	}
}

// eachSQLite prepares the statement for this use only, so that the pool's connections hold none.
func eachSQLite(
	ctx context.Context, conn driver.ConnPrepareContext, query string, args []int64, take func(row),
) (err error) {
	statements := sqlitestmt.New(conn)
	defer func() { err = errors.Join(err, statements.Close()) }()

	statement, err := statements.Statement(ctx, query)
	if err != nil {
		return err
	}
	values := make([]driver.Value, len(args))
	for i, arg := range args {
		values[i] = arg
	}
	return statement.Each(ctx, values, func(r sqlitestmt.Row) { take(r) })
}

// eachPostgres reads rows in PostgreSQL's binary form.
func (s *Store) eachPostgres(
	ctx context.Context, conn *stdlib.Conn, query string, args []int64, take func(row),
) error {
	values := make([]any, len(args))
	for i, arg := range args {
		values[i] = arg
	}
	text, values := s.binaryQuery(query, values...)

	rows, err := conn.Conn().Query(ctx, text, values...)
	if err != nil {
		return err
	}
	defer rows.Close()

	current := new(binaryRow)
	for rows.Next() {
		current.values = rows.RawValues()
		take(current)
	}
	return rows.Err()
}

// binaryRow is a row in PostgreSQL's binary form.
type binaryRow struct{ values [][]byte }

// Int64 implements row for smallint, integer and bigint.
func (r *binaryRow) Int64(column int) int64 {
	switch value := r.values[column]; len(value) {
	case 2:
		return int64(int16(binary.BigEndian.Uint16(value)))
	case 4:
		return int64(int32(binary.BigEndian.Uint32(value)))
	case 8:
		return int64(binary.BigEndian.Uint64(value))
	default:
		return 0 // NULL
	}
}

// Bytes implements row for text and bytea, whose binary form is what they hold.
func (r *binaryRow) Bytes(column int) []byte { return r.values[column] }
