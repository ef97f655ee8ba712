package rawrows

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"
)

// Query is a statement of PostgreSQL, with $1 and so on for its parameters. All other values are in
// its text: without parameters, pgx itself would ask for the rows as texts, or for a description of
// each new text.
type Query struct {
	Text   string
	Arrays []any     // the parameters: []int16, []int32 or []int64
	Take   func(Row) // called for each row; nil for a statement without rows
}

// pgSnapshot begins a transaction whose statements see one state of the database.
const pgSnapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

// Snapshot runs a query through a connection of PostgreSQL's driver, and then the queries that then
// returns, if any. All see one state of the database. It takes two round trips; a transaction of
// database/sql takes five. settings are statements that run first, such as "SET LOCAL jit = off".
// The caller holds the connection, which is in no transaction before and after.
func Snapshot(ctx context.Context, driverConn any, settings []string, first Query, then func() []Query) error {
	conn, ok := driverConn.(*stdlib.Conn)
	if !ok {
		return fmt.Errorf("the driver's connections are %T", driverConn)
	}

	begin := []Query{{Text: pgSnapshot}}
	for _, setting := range settings {
		begin = append(begin, Query{Text: setting})
	}
	err := roundTrip(ctx, conn.Conn(), append(begin, first))
	if err == nil {
		err = roundTrip(ctx, conn.Conn(), append(then(), Query{Text: "COMMIT"}))
	}
	if err == nil || conn.Conn().IsClosed() {
		return err
	}

	// A connection that cannot leave the transaction must not be used again.
	if rollback := conn.Conn().PgConn().Exec(ctx, "ROLLBACK").Close(); rollback != nil {
		return errors.Join(err, rollback, conn.Close())
	}
	return err
}

// roundTrip runs queries one after the other.
func roundTrip(ctx context.Context, conn *pgx.Conn, queries []Query) error {
	batch := new(pgconn.Batch)
	for i := range queries {
		if err := queries[i].add(batch, conn.TypeMap()); err != nil {
			return err
		}
	}

	results := conn.PgConn().ExecBatch(ctx, batch)
	current := new(binaryRow)
	for n := 0; results.NextResult(); n++ {
		rows := results.ResultReader()
		for rows.NextRow() {
			current.values = rows.Values()
			queries[n].Take(current)
		}
	}
	return results.Close()
}

// add adds the query to a batch.
func (q *Query) add(batch *pgconn.Batch, types *pgtype.Map) error {
	values := make([][]byte, len(q.Arrays))
	oids := make([]uint32, len(q.Arrays))
	formats := make([]int16, len(q.Arrays))
	for i, array := range q.Arrays {
		known, ok := types.TypeForValue(array)
		if !ok {
			return fmt.Errorf("parameter $%d is %T", i+1, array)
		}

		var err error
		oids[i], formats[i] = known.OID, pgx.BinaryFormatCode
		if values[i], err = types.Encode(known.OID, pgx.BinaryFormatCode, array, nil); err != nil {
			return fmt.Errorf("parameter $%d: %w", i+1, err)
		}
	}

	batch.ExecParams(q.Text, values, oids, formats, []int16{pgx.BinaryFormatCode})
	return nil
}
