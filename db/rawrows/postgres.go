package rawrows

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"
)

// Query is a query of PostgreSQL, with $1 and so on for its parameters. All other values are in its
// text: without parameters, pgx itself would ask for the rows as texts, or for a description of each
// new text.
type Query struct {
	Text   string
	Arrays []any     // the parameters: []int16, []int32 or []int64
	Take   func(Row) // called for each row
}

// Postgres runs queries in one round trip, one after the other, through a connection of PostgreSQL's
// driver. The caller holds the connection.
func Postgres(ctx context.Context, driverConn any, queries ...Query) error {
	conn, ok := driverConn.(*stdlib.Conn)
	if !ok {
		return fmt.Errorf("the driver's connections are %T", driverConn)
	}

	batch := new(pgconn.Batch)
	for i := range queries {
		if err := queries[i].add(batch, conn.Conn().TypeMap()); err != nil {
			return err
		}
	}

	results := conn.Conn().PgConn().ExecBatch(ctx, batch)
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
