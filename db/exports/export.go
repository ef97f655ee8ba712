package exports

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// Range selects rows of a site, in the order of time and then id.
type Range struct {
	SiteID   model.SiteID
	From, To model.Instant // From is inclusive, To is not
	After    *Cursor       // only rows after this one; nil: all
	Limit    int
	Offset   int
}

// Cursor identifies a row of the export by its position in the order.
type Cursor struct {
	At model.Instant
	ID int64
}

// The bounds of a page, the rows that are read at once. No connection is held between two pages, so
// that a slow reader delays no other process. Its page stays in memory meanwhile.
const (
	exportPage = 1_000   // rows
	pageBytes  = 2 << 20 // of texts. The row that exceeds it is the last on its page
	pageVisits = 500     // of different visits. PostgreSQL reads them after the rows
)

// skipStep is how many rows one statement skips for an offset.
const skipStep = 100_000

// ExportPageviews calls each with the page views of the range, in order. It stops at the first
// error, which it returns, and when ctx ends. Memory does not grow with the number of rows: each
// must not keep the row. Rows that are stored while it runs can be among them.
func (s *Store) ExportPageviews(ctx context.Context, r Range, each func(*Pageview) error) error {
	return exportPages(ctx, s, &exportedPageviews, r, each)
}

// ExportEvents is ExportPageviews for events.
func (s *Store) ExportEvents(ctx context.Context, r Range, each func(*Event) error) error {
	return exportPages(ctx, s, &exportedEvents, r, each)
}

// exportPages reads the range page by page, each page after the last row of the previous one.
func exportPages[Row any](ctx context.Context, s *Store, e *exported[Row], r Range, each func(*Row) error) error {
	if r.After != nil {
		r = r.behind(*r.After)
	}

	if r.Offset > 0 {
		last, err := s.lastSkipped(ctx, e.table, r)
		if last == nil || err != nil {
			return err
		}

		r = r.behind(*last)
	}

	p := newPage(e)
	for r.Limit > 0 {
		// The next page may be in another cell.
		cell, err := s.db.OfSite(ctx, r.SiteID)
		if err != nil {
			return err
		}
		if err := p.read(ctx, cell, r); err != nil {
			return err
		}

		for i := range p.rows {
			if e.visit(&p.rows[i]).StartedAt == 0 {
				continue // a visit that is being deleted
			}

			r.Limit--
			if err := each(&p.rows[i]); err != nil {
				return err
			}
		}

		if !p.more {
			return nil
		}

		r = r.behind(e.cursor(&p.rows[len(p.rows)-1]))
	}

	return nil
}

// behind returns the part of the range after a row. The lower bound of time follows from After, but
// PostgreSQL does not derive from a comparison of pairs which partitions to skip.
func (r Range) behind(row Cursor) Range {
	r.After, r.From = &row, max(r.From, row.At)
	return r
}

// lastSkipped returns the last row that the offset skips, or nil if the range ends before it.
func (s *Store) lastSkipped(ctx context.Context, table string, r Range) (*Cursor, error) {
	for left := r.Offset; ; {
		step := min(left, skipStep)
		cell, err := s.db.OfSite(ctx, r.SiteID)
		if err != nil {
			return nil, err
		}

		var rows []Cursor
		q := rangeQuery(cell, table, r).ColumnExpr("r.at, r.id").Limit(1).Offset(int64(step) - 1)
		err = exportRows(ctx, cell, func(ctx context.Context, tx bun.Tx, _ bun.Conn) error { return q.Conn(tx).Scan(ctx, &rows) })
		if err != nil || len(rows) == 0 {
			return nil, err
		}
		if left -= step; left == 0 {
			return &rows[0], nil
		}

		r = r.behind(rows[0])
	}
}

// rangeQuery returns the query for all rows of the range, in order. The table's alias is r.
func rangeQuery(cell *db.Cell, table string, r Range) *bun.SelectQuery {
	q := cell.Read.NewSelect().TableExpr("? AS r", bun.Ident(table)).
		Where("r.site_id = ?", r.SiteID).
		Where("r.at >= ? AND r.at < ?", r.From, r.To).
		OrderExpr("r.at, r.id")

	if r.After != nil {
		q.Where("(r.at, r.id) > (?, ?)", r.After.At, r.After.ID)
	}

	return q
}

// exportRows runs queries of a range's rows, which see the same rows.
func exportRows(ctx context.Context, cell *db.Cell, read func(context.Context, bun.Tx, bun.Conn) error) error {
	return cell.Snapshot(ctx, pgExportInOrder, read)
}
