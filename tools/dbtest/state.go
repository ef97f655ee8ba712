package dbtest

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/uptrace/bun"
	"modernc.org/sqlite"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/testkit"
)

// Quiet calls a function while this process writes nothing to SQLite. Other processes can still
// write. It is for a process that is about to be stopped and must not hold the database's lock
// then. On PostgreSQL it only calls the function.
func Quiet(d *db.DB, call func()) error {
	if !d.IsPostgres() {
		conn, err := d.Write.DB.Conn(context.Background())
		if err != nil {
			return err
		}
		defer conn.Close()
	}

	call()
	return nil
}

// IsBusy reports whether all pooled connections of a cell are in use.
func IsBusy(cell *db.Cell) bool {
	stats := cell.Write.Stats()
	return stats.InUse >= max(stats.MaxOpenConnections, 1)
}

// Rows reads rows with a query, for tests of what the product itself does not return.
func Rows[Row any](d *db.DB, query string, args ...any) ([]Row, error) {
	cell, err := newest(context.Background(), d)
	if err != nil {
		return nil, err
	}

	var rows []Row
	err = cell.Read.NewRaw(query, args...).Scan(context.Background(), &rows)
	return rows, err
}

// Statements records the statements sent to a database, except those of the group commit.
type Statements struct {
	mu   sync.Mutex
	list []string
}

// WatchStatements records the statements of d, which must not be in use yet.
func WatchStatements(d *db.DB) *Statements {
	s := &Statements{}
	hook(d, statementHook{before: func(statement string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.list = append(s.list, statement)
	}, lost: func() {}})
	return s
}

// OnStatement calls before for every statement of d just before it is sent. d must not be in use
// yet.
func OnStatement(d *db.DB, before func(statement string)) {
	hook(d, statementHook{before: before, lost: func() {}})
}

// Take returns the statements since the last Take.
func (s *Statements) Take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.list
	s.list = nil
	return list
}

// hook adds a hook to all pools of d, which must not be in use.
func hook(d *db.DB, hook statementHook) {
	// A pool can serve two purposes.
	hooked := make(map[*bun.DB]*bun.DB)
	pools := []**bun.DB{&d.Write, &d.Read, &d.DataWrite, &d.DataRead}
	if cell, err := newest(context.Background(), d); err == nil && cell.ID != db.DefaultCell {
		if in, err := d.Connect(context.Background(), cell.ID); err == nil {
			pools = append(pools, &in.Pool)
		}
	}

	for _, pool := range pools {
		if hooked[*pool] == nil {
			hooked[*pool] = (*pool).WithQueryHook(hook)
		}

		*pool = hooked[*pool]
	}
}

// statementHook is called for every statement sent through bun: all but those of the group commit.
type statementHook struct {
	before func(statement string)
	lost   func() // the statement failed because its transaction lost to another one
}

func (h statementHook) BeforeQuery(ctx context.Context, event *bun.QueryEvent) context.Context {
	h.before(event.Query)
	return ctx
}

func (h statementHook) AfterQuery(_ context.Context, event *bun.QueryEvent) {
	if db.IsRetryable(event.Err) {
		h.lost()
	}
}

// Tables returns the columns of all tables by the names of the tables, without partitions and
// without LaterColumn.
func Tables(d *db.DB) (map[string][]string, error) {
	query := `SELECT m.name AS table_name, c.name AS column_name FROM sqlite_schema AS m, pragma_table_info(m.name) AS c
WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'`

	if d.IsPostgres() {
		query = `SELECT c.relname AS table_name, a.attname AS column_name
FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace
AND a.attnum > 0 AND NOT a.attisdropped`
	}

	rows, err := Rows[struct{ TableName, ColumnName string }](d, query)
	if err != nil {
		return nil, err
	}

	tables := make(map[string][]string)
	for _, row := range rows {
		if row.ColumnName == LaterColumn {
			continue
		}
		tables[row.TableName] = append(tables[row.TableName], row.ColumnName)
	}

	return tables, nil
}

// Dump returns every row of a table as a text, in no order.
func Dump(d *db.DB, table string) ([]string, error) { return DumpWhere(d, table, "1 = 1") }

// DumpWhere is Dump for the rows that meet a condition.
func DumpWhere(d *db.DB, table, condition string) ([]string, error) {
	cell, err := newest(context.Background(), d)
	if err != nil {
		return nil, err
	}

	// The map model of bun panics for a column of SQLite that is NULL in the first row and bytes in
	// another.
	rows, err := cell.Read.NewSelect().Table(table).Where(condition).Rows(context.Background())
	if err != nil {
		return nil, err
	}
	defer rows.Close()

	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	values, targets := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		targets[i] = &values[i]
	}

	var texts []string
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return nil, err
		}
		row := make(map[string]any, len(columns))
		for i, column := range columns {
			row[column] = values[i]
		}

		// fmt sorts the keys of a map.
		texts = append(texts, fmt.Sprint(row))
	}

	return texts, rows.Err()
}

// Count returns the number of rows of a table.
func Count(d *db.DB, table string) (int, error) {
	cell, err := newest(context.Background(), d)
	if err != nil {
		return 0, err
	}

	n, err := cell.Read.NewSelect().Table(table).Count(context.Background())
	return int(n), err
}

// HasRows checks the number of rows of a table. The format and args name them.
func HasRows(tb testing.TB, d *db.DB, table string, want int, format string, args ...any) {
	tb.Helper()
	n, err := Count(d, table)
	testkit.NoError(tb, err)
	testkit.Equal(tb, n, want, format, args...)
}

// PagesRead returns how many pages the writing connection of a SQLite database has read, from
// memory or from the file.
func PagesRead(d *db.DB) (pages int, err error) {
	err = d.WithSQLiteConn(context.Background(), func(conn *db.SQLiteConn) error {
		status, ok := conn.DriverConn.(sqlite.DBStatus)
		if !ok {
			return fmt.Errorf("%T has no counters", conn.DriverConn)
		}

		for _, op := range []sqlite.DBStatusOp{sqlite.DBStatusCacheHit, sqlite.DBStatusCacheMiss} {
			n, _, err := status.Status(op, false)
			if err != nil {
				return err
			}

			pages += n
		}

		return nil
	})

	return pages, err
}

// snapshot calls read with one snapshot of the database for all its queries.
func snapshot(d *db.DB, read func(rows func(into any, query string, args ...any) error) error) error {
	ctx := context.Background()
	cell, err := newest(ctx, d)
	if err != nil {
		return err
	}

	options := &sql.TxOptions{ReadOnly: true}

	if d.IsPostgres() {
		options.Isolation = sql.LevelRepeatableRead
	}

	return cell.Read.RunInTx(ctx, options, func(ctx context.Context, tx bun.Tx) error {
		return read(func(into any, query string, args ...any) error { return tx.NewRaw(query, args...).Scan(ctx, into) })
	})
}
