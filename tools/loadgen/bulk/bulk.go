// Package bulk fills a database with visits, page views, engagement and events as fast as the
// engine takes rows, and measures their storage. Only the load program uses it: it compares the
// rate of the service with the rate of this package, and makes large databases with it. It is the
// one package outside db that speaks SQL.
package bulk

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/tables"
)

// Rows are rows to load together. Each list is loaded fastest in the order of its primary key. The
// page views' visits are among the visits of this or an earlier load.
type Rows struct {
	Visits     []model.Visit
	Pageviews  []model.Pageview
	Engagement []model.Engagement
	Events     []model.Event
}

// Load adds rows in one transaction by the engine's fastest way, and counts the page views for
// the sites' quotas: COPY on PostgreSQL, one prepared statement per row on SQLite.
func Load(ctx context.Context, d *db.DB, rows Rows) error {
	if d.IsPostgres() {
		return copyAll(ctx, d.Postgres(), rows)
	}
	return d.InTx(ctx, func(_ context.Context, tx *db.Tx) error {
		return insertAll(tx.Tx.Tx, rows)
	})
}

// Sort brings the rows into the order of their primary keys.
func (r *Rows) Sort() {
	slices.SortFunc(r.Visits, func(a, b model.Visit) int { return a.Compare(&b) })
	slices.SortFunc(r.Pageviews, func(a, b model.Pageview) int {
		return cmp.Or(cmp.Compare(a.SiteID, b.SiteID), cmp.Compare(a.At, b.At), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(r.Engagement, func(a, b model.Engagement) int { return a.EngagementKey.Compare(b.EngagementKey) })
	slices.SortFunc(r.Events, func(a, b model.Event) int {
		return cmp.Or(cmp.Compare(a.SiteID, b.SiteID), cmp.Compare(a.At, b.At), cmp.Compare(a.ID, b.ID))
	})
}

func copyAll(ctx context.Context, config *pgx.ConnConfig, rows Rows) (err error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()

	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		err := errors.Join(copyRows(ctx, tx, tables.Visits, rows.Visits), copyRows(ctx, tx, tables.Pageviews, rows.Pageviews),
			copyRows(ctx, tx, tables.Engagement, rows.Engagement), copyRows(ctx, tx, tables.Events, rows.Events))
		for key, n := range rows.used() {
			if err == nil {
				_, err = tx.Exec(ctx, addUsage("$1", "$2", "$3"), key.SiteID, int32(key.Month), n)
			}
		}
		return err
	})
}

func copyRows[Row any](ctx context.Context, tx pgx.Tx, table tables.Table[Row], rows []Row) error {
	var values []driver.Value
	args := make([]any, len(table.Columns))

	_, err := tx.CopyFrom(ctx, pgx.Identifier{table.Name}, table.Columns.Names(), pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) {
		values = table.Columns.AppendValues(values[:0], &rows[i])
		for i, value := range values {
			args[i] = value
		}
		return args, nil
	}))

	return err
}

func insertAll(tx *sql.Tx, rows Rows) error {
	err := errors.Join(insertRows(tx, tables.Visits, rows.Visits), insertRows(tx, tables.Pageviews, rows.Pageviews),
		insertRows(tx, tables.Engagement, rows.Engagement), insertRows(tx, tables.Events, rows.Events))
	for key, n := range rows.used() {
		if err == nil {
			_, err = tx.Exec(addUsage("?", "?", "?"), key.SiteID, key.Month, n)
		}
	}
	return err
}

func insertRows[Row any](tx *sql.Tx, table tables.Table[Row], rows []Row) error {
	statement, err := tx.Prepare(table.InsertSQLite())
	if err != nil {
		return err
	}

	var values []driver.Value
	args := make([]any, len(table.Columns))
	for i := range rows {
		values = table.Columns.AppendValues(values[:0], &rows[i])
		for i, value := range values {
			args[i] = value
		}

		if _, err := statement.Exec(args...); err != nil {
			return err
		}
	}

	return nil
}

func addUsage(site, month, n string) string {
	return fmt.Sprintf(`INSERT INTO site_usage (site_id, month, used) VALUES (%s, %s, %s)
		ON CONFLICT (site_id, month) DO UPDATE SET used = site_usage.used + excluded.used`, site, month, n)
}

// used counts the page views per site and month.
func (r *Rows) used() map[model.UsageKey]int64 {
	used := make(map[model.UsageKey]int64)
	for i := range r.Pageviews {
		used[model.UsageKey{SiteID: r.Pageviews[i].SiteID, Month: r.Pageviews[i].At.Month()}]++
	}
	return used
}

// Fill runs load, which calls Load many times, and leaves the database as if the rows had
// always been there: with its statistics, and without a backlog of log to write back.
func Fill(ctx context.Context, d *db.DB, load func() error) error {
	if err := load(); err != nil {
		return err
	}
	if !d.IsPostgres() {
		return execAll(ctx, d, "PRAGMA wal_checkpoint(TRUNCATE)")
	}

	return execAll(ctx, d, "VACUUM (ANALYZE) visits", "VACUUM (ANALYZE) pageviews", "VACUUM (ANALYZE) engagement",
		"VACUUM (ANALYZE) events", "CHECKPOINT")
}

func execAll(ctx context.Context, d *db.DB, statements ...string) error {
	for _, statement := range statements {
		if _, err := d.Write.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// Storage is the storage of a database, in bytes.
type Storage struct {
	Tables int64 // all tables with their indexes
	Log    int64 // all that was ever written to the write-ahead log; only on PostgreSQL, where it grows without end
}

// Measure measures the database.
func Measure(ctx context.Context, d *db.DB) (s Storage, err error) {
	query := `SELECT page_count * page_size, 0 FROM pragma_page_count(), pragma_page_size()`
	if d.IsPostgres() {
		query = `SELECT pg_database_size(current_database()), (pg_current_wal_insert_lsn() - '0/0')::bigint`
	}
	err = d.Read.NewRaw(query).Scan(ctx, &s.Tables, &s.Log)
	return s, err
}
