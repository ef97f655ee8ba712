package copies

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"golang.org/x/sync/errgroup"

	"github.com/tallygate/tallygate/db"
)

// The bounds of a batch, which is in memory as a whole: the first one that is reached ends it.
const (
	batchRows  = 5_000
	batchBytes = 4 << 20
)

// row has a value for each column of a table: nil, or an int64, bool, string or []byte as the
// column's kind says.
type row []any

// copyTable copies the rows of a table.
func (c *Copy) copyTable(ctx context.Context, t table) error {
	total, err := t.count(ctx, c.from)
	if err != nil {
		return err
	}

	var batch []row
	done, size := int64(0), 0
	flush := func() error {
		if err := t.write(ctx, c.to, batch); err != nil {
			return err
		}
		done += int64(len(batch))
		batch, size = nil, 0
		c.progress(t.name, done, total)
		return nil
	}

	err = t.each(ctx, c.from, func(r row) error {
		batch = append(batch, r)
		size += r.size()
		if len(batch) < batchRows && size < batchBytes {
			return nil
		}
		return flush()
	})
	if err != nil || len(batch) == 0 {
		return err
	}
	return flush()
}

// count returns the number of rows.
func (t table) count(ctx context.Context, d *db.DB) (rows int64, err error) {
	err = d.Read.NewSelect().Table(t.name).ColumnExpr("count(*)").Scan(ctx, &rows)
	return rows, err
}

// parameters returns n placeholders of an engine's own statements.
func parameters(d *db.DB, n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = "?"
		if d.IsPostgres() {
			list[i] = fmt.Sprintf("$%d", i+1)
		}
	}
	return strings.Join(list, ", ")
}

// readAll returns all rows of a small table.
func (t table) readAll(ctx context.Context, d *db.DB) (found []row, err error) {
	err = t.each(ctx, d, func(r row) error {
		found = append(found, r)
		return nil
	})
	return found, err
}

// each calls take for each row, until take fails.
func (t table) each(ctx context.Context, d *db.DB, take func(row) error) error {
	return d.DefaultCell().Snapshot(ctx, nil, func(ctx context.Context, tx bun.Tx, _ bun.Conn) error {
		rows, err := tx.Tx.QueryContext(ctx, "SELECT "+t.names()+` FROM "`+t.name+`"`+t.condition())
		if err != nil {
			return err
		}
		defer rows.Close()

		for rows.Next() {
			r, err := t.scan(rows)
			if err == nil {
				err = take(r)
			}
			if err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

// scan reads the current row.
func (t table) scan(rows *sql.Rows) (row, error) {
	r := make(row, len(t.columns))
	into := make([]any, len(r))
	for i := range r {
		into[i] = &r[i]
	}
	if err := rows.Scan(into...); err != nil {
		return nil, err
	}

	for i, column := range t.columns {
		var err error
		if r[i], err = column.value(r[i]); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// value returns a value that a driver read, as the type of the column's kind.
func (c column) value(v any) (any, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case int64:
		if c.kind == booleans {
			return v != 0, nil
		}
		if c.kind == integers {
			return v, nil
		}

	case bool:
		if c.kind == booleans {
			return v, nil
		}

	case string:
		// The default of a column of bytes is a text on SQLite.
		if c.kind == blobs {
			return []byte(v), nil
		}
		if c.kind == texts {
			return v, nil
		}

	case []byte:
		// The driver of SQLite returns an empty value as nil bytes.
		if c.kind == blobs {
			return append([]byte{}, v...), nil
		}
		if c.kind == texts {
			return string(v), nil
		}
	}
	return nil, fmt.Errorf("the column %s has a value of %T, not %s", c.name, v, c.kind)
}

// size returns about how much memory a row takes.
func (r row) size() int {
	size := 16 * len(r)
	for _, v := range r {
		switch v := v.(type) {
		case string:
			size += len(v)
		case []byte:
			size += len(v)
		}
	}
	return size
}

// write inserts rows in one transaction.
func (t table) write(ctx context.Context, d *db.DB, rows []row) error {
	if !d.IsPostgres() {
		return d.InTx(ctx, func(ctx context.Context, tx *db.Tx) error { return t.insert(ctx, tx.Tx.Tx, d, rows) })
	}

	conn, err := d.Write.DB.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()

	return conn.Raw(func(c any) error {
		_, err := c.(*stdlib.Conn).Conn().CopyFrom(ctx, pgx.Identifier{t.name}, t.columnNames(),
			pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) { return rows[i], nil }))
		return err
	})
}

// columnNames returns the names of all columns.
func (t table) columnNames() []string {
	names := make([]string, len(t.columns))
	for i, column := range t.columns {
		names[i] = column.name
	}
	return names
}

// insert inserts rows one by one.
func (t table) insert(ctx context.Context, tx *sql.Tx, d *db.DB, rows []row) error {
	query := `INSERT INTO "` + t.name + `" (` + t.names() + ") VALUES (" + parameters(d, len(t.columns)) + ")"
	if len(rows) == 0 {
		return nil
	}

	statement, err := tx.PrepareContext(ctx, query)
	if err != nil {
		return err
	}
	defer statement.Close()

	for _, r := range rows {
		if _, err := statement.ExecContext(ctx, r...); err != nil {
			return err
		}
	}
	return nil
}

// digest is the number of a table's rows, and a sum of two hashes of each, which does not depend on
// their order: the engines sort texts differently.
type digest struct {
	rows   int64
	hashes [2]uint64
}

// seeds are the seeds of the two hashes.
var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// compare compares all rows of both databases, in the tables that migrations fill or in the other
// ones. It returns how many there are.
func (c *Copy) compare(ctx context.Context, seeded bool) (rows int64, err error) {
	for _, t := range c.tables {
		if t.isSeeded() != seeded {
			continue
		}

		var from, to digest
		var reads errgroup.Group
		reads.Go(func() (err error) { from, err = t.digest(ctx, c.from); return err })
		reads.Go(func() (err error) { to, err = t.digest(ctx, c.to); return err })
		if err := reads.Wait(); err != nil {
			return 0, fmt.Errorf("compare the table %s: %w", t.name, err)
		}

		switch {
		case from.rows != to.rows:
			return 0, fmt.Errorf("the table %s has %d rows, and %d in the target; empty the target and begin again, with all "+
				"processes stopped", t.name, from.rows, to.rows)
		case from != to:
			return 0, fmt.Errorf("rows of the table %s differ after the copy; empty the target and begin again, with all "+
				"processes stopped", t.name)
		}
		rows += from.rows
	}
	return rows, nil
}

// digest reads all rows.
func (t table) digest(ctx context.Context, d *db.DB) (sum digest, err error) {
	var encoded []byte
	err = t.each(ctx, d, func(r row) error {
		encoded = r.encode(encoded[:0])
		sum.rows++
		for i, seed := range seeds {
			sum.hashes[i] += maphash.Bytes(seed, encoded)
		}
		return nil
	})
	return sum, err
}

// encode appends the values so that different rows have different encodings.
func (r row) encode(to []byte) []byte {
	for _, v := range r {
		switch v := v.(type) {
		case nil:
			to = append(to, 'n')
		case int64:
			to = binary.BigEndian.AppendUint64(append(to, 'i'), uint64(v))
		case bool:
			to = append(to, 'f')
			if v {
				to[len(to)-1] = 't'
			}
		case string:
			to = append(binary.BigEndian.AppendUint64(append(to, 's'), uint64(len(v))), v...)
		case []byte:
			to = append(binary.BigEndian.AppendUint64(append(to, 'b'), uint64(len(v))), v...)
		}
	}
	return to
}
