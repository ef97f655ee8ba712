package ingest

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tallygate/tallygate/db/celllist"
	"github.com/tallygate/tallygate/db/tables"
)

// step is one statement of a batch with the rows that it runs for: PostgreSQL takes all rows at
// once, as arrays, SQLite runs the statement row by row. The rows need no network there, and larger
// statements measured no faster.
type step interface {
	// queue adds the statement to a round trip to PostgreSQL.
	queue(*pgx.Batch)

	// run runs the statement on SQLite.
	run(context.Context, *Statements) error
}

// text is a statement in both dialects. Its parameters are the columns of its rows, in order, then
// values that all rows share: ?3 in SQLite is $3 in PostgreSQL.
type text struct {
	postgres, sqlite string
}

// withRows puts the rows into the PostgreSQL statement: "@rows" stands for them, as relation k,
// with the given additional column.
func withRows[Row any](t text, columns tables.Columns[Row], ordinality, number string) text {
	rows := columns.Unnest() + ordinality + " AS k (" + columns.List("") + number + ")"
	t.postgres = strings.ReplaceAll(t.postgres, "@rows", rows)
	return t
}

// write is a statement that changes rows.
type write[Row any] struct {
	text
	columns tables.Columns[Row]
}

func newWrite[Row any](columns tables.Columns[Row], t text) *write[Row] {
	return &write[Row]{text: withRows(t, columns, "", ""), columns: columns}
}

// insert is the statement that inserts rows into a table.
func insert[Row any](t tables.Table[Row]) *write[Row] {
	return &write[Row]{text: text{postgres: insertPostgres(t), sqlite: t.InsertSQLite()}, columns: t.Columns}
}

// insertPostgres returns the statement that inserts all rows of a batch. In a table of a cell it
// reads a table of the cell as well, which always has a row by then: Citus sends such a statement
// to the cell's node as it is, and would otherwise evaluate the rows on the coordinator and copy
// them.
func insertPostgres[Row any](t tables.Table[Row]) string {
	if !celllist.HasTable(t.Name) {
		return t.InsertPostgres()
	}
	return t.InsertPostgres() + " WHERE EXISTS (SELECT 1 FROM site_usage)"
}

// insertCopied is an insert that can be a COPY on PostgreSQL, which then logs one record per page
// instead of one per row: a tenth of all that a page view writes to the log.
type insertCopied[Row any] struct {
	write[Row]
	statement string // the COPY
}

func newInsertCopied[Row any](t tables.Table[Row]) *insertCopied[Row] {
	return &insertCopied[Row]{write: *insert(t), statement: t.CopyPostgres()}
}

// rows returns the step that inserts rows; nil without any.
func (c *insertCopied[Row]) rows(rows []Row) step {
	if len(rows) == 0 {
		return nil
	}
	return &copying[Row]{writing: writing[Row]{write: &c.write, rows: rows}, statement: c.statement}
}

// copier is a step that can be a COPY.
type copier interface {
	step

	// isLarge reports whether the rows are worth a COPY.
	isLarge() bool

	// copyIn returns the statement and its rows.
	copyIn() (statement string, rows []byte)
}

type copying[Row any] struct {
	writing[Row]
	statement string
}

// minCopied is the least rows for a COPY, which the server must parse each time.
const minCopied = 16

// copiedSize is about the size of a row in a COPY, in bytes.
const copiedSize = 160

func (c *copying[Row]) isLarge() bool { return len(c.writing.rows) >= minCopied }

func (c *copying[Row]) copyIn() (statement string, rows []byte) {
	buf := make([]byte, 0, len(c.writing.rows)*copiedSize)
	return c.statement, c.columns.AppendCopy(buf, c.writing.rows)
}

// insertMissing is the statement that inserts rows and skips existing keys.
func insertMissing[Row any](t tables.Table[Row]) *write[Row] {
	w := insert(t)
	w.postgres += skipExisting
	w.sqlite += skipExisting
	return w
}

// skipExisting makes an insert skip existing keys.
const skipExisting = " ON CONFLICT DO NOTHING"

// rows returns the step that runs the statement for rows; nil without any.
func (w *write[Row]) rows(rows []Row, shared ...int64) step {
	if len(rows) == 0 {
		return nil
	}
	return &writing[Row]{write: w, rows: rows, shared: shared}
}

type writing[Row any] struct {
	*write[Row]
	rows   []Row
	shared []int64
}

func (w *writing[Row]) queue(b *pgx.Batch) {
	b.Queue(w.postgres, arrays(w.columns, w.rows, w.shared)...)
}

func (w *writing[Row]) run(ctx context.Context, statements *Statements) error {
	exec := func(stmt statement, _ int, args []driver.NamedValue) error {
		_, err := stmt.ExecContext(unwatched, args)
		return err
	}
	return each(ctx, statements, w.sqlite, w.columns, w.rows, w.shared, exec)
}

// read is a statement that looks rows up by their keys. On PostgreSQL it returns k.number first,
// the position of the key, which counts from 1.
type read[Key, Row any] struct {
	text
	keys    tables.Columns[Key]
	columns tables.Columns[Row]
}

func newRead[Key, Row any](keys tables.Columns[Key], columns tables.Columns[Row], t text) *read[Key, Row] {
	return &read[Key, Row]{text: withRows(t, keys, " WITH ORDINALITY", ", number"), keys: keys, columns: columns}
}

// rows returns the step that calls found for each row that it reads, which found must not keep; nil
// without any key.
func (r *read[Key, Row]) rows(keys []Key, found func(*Key, *Row), shared ...int64) step {
	if len(keys) == 0 {
		return nil
	}
	return &reading[Key, Row]{read: r, wanted: keys, found: found, shared: shared}
}

type reading[Key, Row any] struct {
	*read[Key, Row]
	wanted []Key
	found  func(*Key, *Row)
	shared []int64
}

func (r *reading[Key, Row]) queue(b *pgx.Batch) {
	b.Queue(r.postgres, arrays(r.keys, r.wanted, r.shared)...).Query(r.scan)
}

func (r *reading[Key, Row]) scan(rows pgx.Rows) error {
	var number int64
	var row, empty Row
	targets := r.columns.Targets([]any{&number}, &row)

	for rows.Next() {
		row = empty

		if err := rows.Scan(targets...); err != nil {
			return err
		}

		r.found(&r.wanted[number-1], &row)
	}

	return rows.Err()
}

func (r *reading[Key, Row]) run(ctx context.Context, statements *Statements) error {
	var values []driver.Value

	query := func(stmt statement, i int, args []driver.NamedValue) error {
		rows, err := stmt.QueryContext(unwatched, args)
		if err != nil {
			return err
		}

		// Where the existence of a row is the answer, the statement has a column that is not read.
		if values == nil {
			values = make([]driver.Value, len(rows.Columns()))
		}
		return errors.Join(r.take(rows, values, &r.wanted[i]), rows.Close())
	}

	return each(ctx, statements, r.sqlite, r.keys, r.wanted, r.shared, query)
}

// take calls found for the rows of a key. values has room for the columns of a row.
func (r *reading[Key, Row]) take(rows driver.Rows, values []driver.Value, key *Key) error {
	var row, empty Row

	for {
		if err := rows.Next(values); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}

		row = empty
		r.columns.Set(&row, values)
		r.found(key, &row)
	}
}

// insertNew is a statement that inserts rows, skips existing keys, and returns the inserted rows.
type insertNew[Row any] struct{ write[Row] }

func newInsertNew[Row any](columns tables.Columns[Row], t text) *insertNew[Row] {
	w := newWrite(columns, t)
	w.postgres += skipExisting + " RETURNING " + columns.List("")
	w.sqlite += skipExisting
	return &insertNew[Row]{*w}
}

// rows returns the step that calls inserted for each row that was inserted, which inserted must not
// keep; nil without any row.
func (n *insertNew[Row]) rows(rows []Row, inserted func(*Row), shared ...int64) step {
	if len(rows) == 0 {
		return nil
	}
	return &inserting[Row]{insertNew: n, rows: rows, inserted: inserted, shared: shared}
}

type inserting[Row any] struct {
	*insertNew[Row]
	rows     []Row
	inserted func(*Row)
	shared   []int64
}

func (n *inserting[Row]) queue(b *pgx.Batch) {
	b.Queue(n.postgres, arrays(n.columns, n.rows, n.shared)...).Query(n.scan)
}

func (n *inserting[Row]) scan(rows pgx.Rows) error {
	var row Row
	targets := n.columns.Targets(nil, &row)

	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}

		n.inserted(&row)
	}

	return rows.Err()
}

func (n *inserting[Row]) run(ctx context.Context, statements *Statements) error {
	exec := func(stmt statement, i int, args []driver.NamedValue) error {
		result, err := stmt.ExecContext(unwatched, args)
		if err != nil {
			return err
		}

		changed, err := result.RowsAffected()
		if changed > 0 {
			n.inserted(&n.rows[i])
		}

		return err
	}

	return each(ctx, statements, n.sqlite, n.columns, n.rows, n.shared, exec)
}

// arrays returns PostgreSQL's parameters.
func arrays[Row any](columns tables.Columns[Row], rows []Row, shared []int64) []any {
	args := columns.Arrays(rows, len(shared))
	for _, value := range shared {
		args = append(args, value)
	}
	return args
}

// unwatched is the context of single statements of SQLite, which wait for nothing. For a context
// that can end, the driver would start a goroutine with each.
var unwatched = context.Background()

// each runs a statement of SQLite for each row, with the row's parameters.
func each[Row any](
	ctx context.Context, statements *Statements, text string,
	columns tables.Columns[Row], rows []Row, shared []int64,
	run func(stmt statement, row int, args []driver.NamedValue) error,
) error {
	stmt, err := statements.of(ctx, text)
	if err != nil {
		return err
	}

	args := make([]driver.NamedValue, len(columns)+len(shared))
	for i := range args {
		args[i].Ordinal = i + 1
	}
	for i, value := range shared {
		args[len(columns)+i].Value = value
	}

	values := make([]driver.Value, 0, len(columns))
	for i := range rows {
		values = columns.AppendValues(values[:0], &rows[i])
		for k, value := range values {
			args[k].Value = value
		}

		if err := run(stmt, i, args); err != nil {
			return err
		}
	}

	return nil
}
