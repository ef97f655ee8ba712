// Package rawrows reads the rows of a query through the interfaces below database/sql.
//
// A day of a report has up to a hundred thousand rows, a page of an export a thousand, and a
// segment megabytes. database/sql and the drivers take longer to convert such values than the
// database takes to read them, and allocate each.
package rawrows

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Row is the current row of a query.
type Row interface {
	// Int64 returns an integer, 1 or 0 for a truth value, and 0 for NULL.
	Int64(column int) int64
	// Bytes returns a text or bytes, and nothing for NULL. The bytes may change with the next row.
	Bytes(column int) []byte
	// IsNull reports whether the value is NULL.
	IsNull(column int) bool
}

// Each runs a query through a driver's connection and calls take for each row, until ctx ends or
// take fails, whose error it returns. The caller holds the connection. The query has ? for its
// parameters, of which PostgreSQL needs at least one: otherwise pgx asks for texts. See also
// Snapshot.
func Each(ctx context.Context, driverConn any, query string, args []int64, take func(Row) error) error {
	switch conn := driverConn.(type) {
	case *stdlib.Conn:
		return eachPostgres(ctx, conn, query, args, take)
	case driver.QueryerContext:
		return eachSQLite(ctx, conn, query, args, take)
	default:
		return fmt.Errorf("the driver's connections are %T", driverConn)
	}
}

// contextEvery is the number of rows after which a query of SQLite looks whether its context has
// ended.
const contextEvery = 1_000

// eachSQLite prepares the statement for this use only, so that the pool's connections hold none.
// For a context that can end, the driver would start a goroutine with each row.
func eachSQLite(
	ctx context.Context, conn driver.QueryerContext, query string, args []int64, take func(Row) error,
) (err error) {
	values := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: arg}
	}

	rows, err := conn.QueryContext(context.WithoutCancel(ctx), query, values)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()

	row := make(valueRow, len(rows.Columns()))
	for n := 0; ; n++ {
		if n%contextEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}

		if err := rows.Next(row); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}

		if err := take(row); err != nil {
			return err
		}
	}
}

// valueRow is a row as SQLite's driver reads it.
type valueRow []driver.Value

// Int64 implements Row.
func (r valueRow) Int64(column int) int64 {
	n, _ := r[column].(int64)
	return n
}

// Bytes implements Row.
func (r valueRow) Bytes(column int) []byte {
	switch value := r[column].(type) {
	case string:
		return []byte(value)
	case []byte:
		return value
	default:
		return nil // NULL
	}
}

// IsNull implements Row.
func (r valueRow) IsNull(column int) bool { return r[column] == nil }

// eachPostgres reads rows in PostgreSQL's binary form.
func eachPostgres(ctx context.Context, conn *stdlib.Conn, query string, args []int64, take func(Row) error) error {
	values := make([]any, 0, len(args)+1)
	values = append(values, pgx.QueryExecModeCacheDescribe)
	for _, arg := range args {
		values = append(values, arg)
	}
	rows, err := conn.Conn().Query(ctx, Numbered(query), values...)
	if err != nil {
		return err
	}
	defer rows.Close()

	current := new(binaryRow)
	for rows.Next() {
		current.values = rows.RawValues()
		if err := take(current); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Numbered returns a query with ? for its parameters in PostgreSQL's form, $1 and so on. It has no
// other question marks.
func Numbered(query string) string {
	var b strings.Builder
	for i, piece := range strings.Split(query, "?") {
		if i > 0 {
			fmt.Fprintf(&b, "$%d", i)
		}
		b.WriteString(piece)
	}
	return b.String()
}

// binaryRow is a row in PostgreSQL's binary form.
type binaryRow struct{ values [][]byte }

// Int64 implements Row for boolean, smallint, integer and bigint.
func (r *binaryRow) Int64(column int) int64 {
	switch value := r.values[column]; len(value) {
	case 1:
		return int64(value[0])
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

// Bytes implements Row for text and bytea, whose binary form is what they hold.
func (r *binaryRow) Bytes(column int) []byte { return r.values[column] }

// IsNull implements Row.
func (r *binaryRow) IsNull(column int) bool { return r.values[column] == nil }
