package db

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/uptrace/bun"
	"modernc.org/sqlite"

	"github.com/tallygate/tallygate/db/model"
)

// SetClockForTest makes d take the time and the uptime from functions, and trust the clock as it is
// now or, as a process that starts, know nothing of it. Only package dbtest calls it.
func SetClockForTest(d *DB, now func() time.Time, uptime func() time.Duration, trusted bool) {
	d.clock.mu.Lock()
	defer d.clock.mu.Unlock()
	d.clock.now, d.clock.uptime = now, uptime
	d.clock.agreed, d.clock.seen = reading{}, reading{}
	if trusted {
		d.clock.agreed = reading{model.At(now()), uptime()}
	}
}

// ExecForTest runs one statement. Only package dbtest calls it, for tests that need a state which
// the product itself does not make.
func ExecForTest(ctx context.Context, d *DB, statement string, args ...any) error {
	_, err := d.Write.ExecContext(ctx, statement, args...)
	return err
}

// CountForTest returns the number of rows of a table. Only package dbtest calls it.
func CountForTest(d *DB, table string) (int, error) {
	n, err := d.Read.NewSelect().Table(table).Count(context.Background())
	return int(n), err
}

// RowsForTest reads rows into a slice. Only package dbtest calls it.
func RowsForTest(d *DB, rows any, query string, args ...any) error {
	return d.Read.NewRaw(query, args...).Scan(context.Background(), rows)
}

// WebhookSecretForTest opens a site's webhook secret. Only tests of this package call it.
func WebhookSecretForTest(ctx context.Context, d *DB, siteID int64) (string, error) {
	var sealed []byte
	if err := d.Read.NewSelect().Table("sites").Column("conversion_webhook_secret").Where("id = ?", siteID).Scan(ctx, &sealed); err != nil {
		return "", err
	}
	return d.openSecret(siteID, sealed)
}

// IsBusyForTest reports whether all pooled connections are in use. Only package dbtest calls it.
func IsBusyForTest(d *DB) bool {
	stats := d.Write.Stats()
	return stats.InUse >= max(stats.MaxOpenConnections, 1)
}

// QuietForTest calls a function while nothing of this process writes to SQLite, without keeping
// other processes from it. On PostgreSQL it just calls it. Only package dbtest calls it.
func QuietForTest(d *DB, call func()) error {
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

// WatchStatementsForTest makes d tell every statement that goes through bun, which are all but
// those of the group commit. Only package dbtest calls it, before d is used.
func WatchStatementsForTest(d *DB, told func(statement string)) {
	hookForTest(d, statementHook{told: told, lost: func() {}})
}

// WatchTransactionsForTest makes d call before ahead of every statement that goes through bun, and
// lost when one failed because its transaction lost to another one. Only package dbtest calls it,
// while d is not in use.
func WatchTransactionsForTest(d *DB, before func(statement string), lost func()) {
	hookForTest(d, statementHook{told: before, lost: lost})
}

// TransactionForTest runs statements in one transaction, as the product runs its own. Only package
// dbtest calls it.
func TransactionForTest(ctx context.Context, d *DB, statements ...string) error {
	return d.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		for _, statement := range statements {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// IsWaitingForTest reports whether a transaction waits for another one's lock: never in SQLite,
// where they take turns. Only package dbtest calls it.
func IsWaitingForTest(d *DB) (waiting bool, err error) {
	if !d.IsPostgres() {
		return false, nil
	}
	err = d.Read.NewRaw("SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')").
		Scan(context.Background(), &waiting)
	return waiting, err
}

func hookForTest(d *DB, hook statementHook) {
	// a pool can have two uses
	hooked := make(map[*bun.DB]*bun.DB)
	for _, pool := range []**bun.DB{&d.Write, &d.Read, &d.DataWrite, &d.DataRead} {
		if hooked[*pool] == nil {
			hooked[*pool] = (*pool).WithQueryHook(hook)
		}

		*pool = hooked[*pool]
	}
}

type statementHook struct {
	told func(string)
	lost func()
}

func (h statementHook) BeforeQuery(ctx context.Context, event *bun.QueryEvent) context.Context {
	h.told(event.Query)
	return ctx
}

func (h statementHook) AfterQuery(_ context.Context, event *bun.QueryEvent) {
	if IsRetryable(event.Err) {
		h.lost()
	}
}

// TablesForTest returns the names of all tables, without the parts of others, each with its
// columns. Only package dbtest calls it.
func TablesForTest(d *DB) (map[string][]string, error) {
	query := `SELECT m.name AS table_name, c.name AS column_name FROM sqlite_schema AS m, pragma_table_info(m.name) AS c
WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'`

	if d.IsPostgres() {
		query = `SELECT c.relname AS table_name, a.attname AS column_name FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped`
	}

	var rows []struct{ TableName, ColumnName string }
	if err := d.Read.NewRaw(query).Scan(context.Background(), &rows); err != nil {
		return nil, err
	}

	tables := make(map[string][]string)
	for _, row := range rows {
		tables[row.TableName] = append(tables[row.TableName], row.ColumnName)
	}

	return tables, nil
}

// DumpForTest returns every row of a table as a text. Only package dbtest calls it.
func DumpForTest(d *DB, table string) ([]string, error) {
	var rows []map[string]any
	if err := d.Read.NewSelect().Table(table).Scan(context.Background(), &rows); err != nil {
		return nil, err
	}

	texts := make([]string, len(rows))
	for i, row := range rows {
		// fmt sorts the keys
		texts[i] = fmt.Sprint(row)
	}

	return texts, nil
}

// PagesReadForTest returns how many pages the writing connection of a SQLite database has asked its
// cache for. Only package dbtest calls it.
func PagesReadForTest(d *DB) (pages int, err error) {
	err = withSQLiteConn(context.Background(), d.Write.DB, func(conn *SQLiteConn) error {
		status, ok := conn.DriverConn.(sqlite.DBStatus)
		if !ok {
			return fmt.Errorf("%T counts nothing", conn.DriverConn)
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

// SnapshotForTest lets read see one state of the database: several queries of it belong together.
// Only package dbtest calls it.
func SnapshotForTest(d *DB, read func(rows func(into any, query string, args ...any) error) error) error {
	ctx := context.Background()
	options := &sql.TxOptions{ReadOnly: true}

	if d.IsPostgres() {
		options.Isolation = sql.LevelRepeatableRead
	}

	return d.Read.RunInTx(ctx, options, func(ctx context.Context, tx bun.Tx) error {
		return read(func(into any, query string, args ...any) error { return tx.NewRaw(query, args...).Scan(ctx, into) })
	})
}
