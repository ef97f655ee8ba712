// Package bulk fills a database with visits and page views as fast as the engine takes rows, and
// measures what they occupy. Only the load program uses it: the rate of the service is compared with
// this one, and large databases are made with it. It is the one package outside db that speaks SQL.
package bulk

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// Rows are rows to load together, each list in the order of its primary key. The page views'
// visits are among the visits of this or an earlier load.
type Rows struct {
	Visits    []model.Visit
	Pageviews []model.Pageview
}

// Load adds rows in one transaction by the engine's fastest way, and counts the page views for
// the sites' quotas: COPY on PostgreSQL, one prepared statement per row on SQLite. All indexes are
// kept.
func Load(ctx context.Context, d *db.DB, rows Rows) error {
	if d.IsPostgres() {
		return copyRows(ctx, d.Postgres(), rows)
	}
	return d.InTx(ctx, func(_ context.Context, tx *db.Tx) error {
		return insertRows(tx.Tx.Tx, rows)
	})
}

func copyRows(ctx context.Context, config *pgx.ConnConfig, rows Rows) (err error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()

	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		visits := []string{"site_id", "id", "visitor", "started_at", "last_pageview_at", "pageviews", "channel", "referrer", "utm_source", "utm_campaign"}
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"visits"}, visits, pgx.CopyFromSlice(len(rows.Visits), func(i int) ([]any, error) {
			v := &rows.Visits[i]
			return []any{v.SiteID, v.ID, v.Visitor[:], int64(v.StartedAt), int64(v.LastPageviewAt), v.Pageviews, v.Channel, orNull(&v.Referrer),
				orNull(&v.Source), orNull(&v.Name)}, nil
		})); err != nil {
			return err
		}

		pageviews := []string{"site_id", "at", "id", "visit_id", "engaged_ms", "scroll", "width_range", "manual", "path", "language"}
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"pageviews"}, pageviews, pgx.CopyFromSlice(len(rows.Pageviews), func(i int) ([]any, error) {
			p := &rows.Pageviews[i]
			return []any{p.SiteID, int64(p.At), p.ID, p.VisitID, p.EngagedMS, p.Scroll, p.WidthRange, p.Manual, p.Path, orNull(&p.Language)}, nil
		})); err != nil {
			return err
		}

		for key, n := range rows.used() {
			if _, err := tx.Exec(ctx, addUsage("$1", "$2", "$3"), key.SiteID, int32(key.Month), n); err != nil {
				return err
			}
		}

		return nil
	})
}

func insertRows(tx *sql.Tx, rows Rows) error {
	visit, err := tx.Prepare(`INSERT INTO visits (site_id, id, visitor, started_at, last_pageview_at, pageviews, channel, referrer,
		utm_source, utm_campaign) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}

	for i := range rows.Visits {
		v := &rows.Visits[i]
		if _, err := visit.Exec(v.SiteID, v.ID, v.Visitor[:], v.StartedAt, v.LastPageviewAt, v.Pageviews, v.Channel, orNull(&v.Referrer),
			orNull(&v.Source), orNull(&v.Name)); err != nil {
			return err
		}
	}

	pageview, err := tx.Prepare(`INSERT INTO pageviews (site_id, at, id, visit_id, engaged_ms, scroll, width_range, manual, path, language)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}

	for i := range rows.Pageviews {
		p := &rows.Pageviews[i]
		if _, err := pageview.Exec(p.SiteID, p.At, p.ID, p.VisitID, p.EngagedMS, p.Scroll, p.WidthRange, p.Manual, p.Path, orNull(&p.Language)); err != nil {
			return err
		}
	}

	for key, n := range rows.used() {
		if _, err := tx.Exec(addUsage("?", "?", "?"), key.SiteID, key.Month, n); err != nil {
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
// always been there: with its statistics, and without a backlog of log to write back. On SQLite the
// secondary indexes of the two tables are created again at the end: adding millions of random keys to
// them one by one would take hours with a small cache.
func Fill(ctx context.Context, d *db.DB, load func() error) error {
	if d.IsPostgres() {
		if err := load(); err != nil {
			return err
		}

		return execAll(ctx, d, "VACUUM (ANALYZE) visits", "VACUUM (ANALYZE) pageviews", "CHECKPOINT")
	}

	var indexes []struct{ Name, SQL string }
	err := d.Read.NewRaw(`SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name IN ('visits', 'pageviews') AND sql IS NOT NULL`).
		Scan(ctx, &indexes)
	if err != nil {
		return err
	}

	for _, index := range indexes {
		if err := execAll(ctx, d, "DROP INDEX "+index.Name); err != nil {
			return err
		}
	}

	err = load()
	for _, index := range indexes {
		err = errors.Join(err, execAll(ctx, d, index.SQL))
	}

	return errors.Join(err, execAll(ctx, d, "PRAGMA wal_checkpoint(TRUNCATE)"))
}

func execAll(ctx context.Context, d *db.DB, statements ...string) error {
	for _, statement := range statements {
		if _, err := d.Write.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// Storage is what a database occupies, in bytes.
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

// orNull stores an empty text as NULL.
func orNull(s *string) *string {
	if *s == "" {
		return nil
	}
	return s
}
