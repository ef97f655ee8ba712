package exports

import (
	"context"
	"slices"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/rawrows"
	"github.com/tallygate/tallygate/db/tables"
)

// Both databases must follow the index on site and time, which is the order of the export except
// within one microsecond, and then look up the visit and the engagement of each row of the page.
// Any other plan reads or sorts the whole range for every page. SQLite joins the tables in the
// order in which they are written, so the page is a query of its own within the joins. On
// PostgreSQL the lookups are queries of their own, and pgExportInOrder prevents a sort of the
// range.
const sqliteExportVisit = `LEFT JOIN visits AS v ON v.site_id = r.site_id AND v.day = r.at / 86400000000
  AND v.visitor = r.visitor AND v.n = r.n`

var pgExportInOrder = []string{
	"SET LOCAL enable_sort = off", "SET LOCAL enable_bitmapscan = off", "SET LOCAL enable_seqscan = off", "SET LOCAL jit = off",
}

// page is a page of an export. The next one uses its memory.
type page[Row any] struct {
	of   *exported[Row]
	rows []Row
	more bool // rows may follow

	bytes  int // of the texts of the rows
	visits map[visitKey]struct{}
	full   bool
}

func newPage[Row any](of *exported[Row]) *page[Row] {
	return &page[Row]{of: of, visits: make(map[visitKey]struct{})}
}

// read replaces the page with the first rows of a range, all from one snapshot of the database. A
// row without a visit, which is being deleted, has no visit columns.
func (p *page[Row]) read(ctx context.Context, cell *db.Cell, r Range) error {
	// Without their texts, the rows of the last page keep no memory.
	clear(p.rows)
	clear(p.visits)
	p.rows, p.bytes, p.full = p.rows[:0], 0, false

	limit := min(r.Limit, exportPage)
	q := rangeQuery(cell, p.of.table, r).Limit(int64(limit))
	hold, err := cell.HoldPartitions(ctx)
	if err != nil {
		return err
	}

	err = cell.LongConn(ctx, func(driverConn any) error {
		if cell.Common.IsPostgres() {
			settings := slices.Concat(hold, pgExportInOrder)
			query := q.ColumnExpr(p.of.own.list("r.")).String()
			return p.readPostgres(ctx, driverConn, r.SiteID, settings, query)
		}
		return p.readSQLite(ctx, driverConn, joined(cell, p.of.own.list("r."), p.of.setEngaged != nil, q))
	})
	p.more = p.full || len(p.rows) == limit
	return err
}

// joined returns SQLite's query for a page with the visits and the engagement of its rows.
func joined(cell *db.Cell, columns string, engagement bool, page *bun.SelectQuery) string {
	q := cell.Read.NewSelect().TableExpr("(?) AS r", page.ColumnExpr("r.*")).Join(sqliteExportVisit).
		ColumnExpr(columns).ColumnExpr(exportedVisits.list("v.")).
		OrderExpr("r.at, r.id")

	if engagement {
		q.ColumnExpr(tables.EngagedMS(false)).ColumnExpr(tables.EngagedScroll(false)).
			Join(tables.EngagementJoin(false, 0))
	}
	return q.String()
}

func (p *page[Row]) readSQLite(ctx context.Context, driverConn any, query string) error {
	visit := len(p.of.own.names) // the first column of the visit
	engaged := visit + len(exportedVisits.names)

	return rawrows.Each(ctx, driverConn, query, nil, func(r rawrows.Row) error {
		row := p.add(r)
		if row == nil {
			return nil
		}

		v := p.of.visit(row)
		exportedVisits.scan(v, r, visit)
		p.bytes += v.bytes()
		if p.of.setEngaged != nil {
			p.of.setEngaged(row, int32(r.Int64(engaged)), int16(r.Int64(engaged+1)))
		}
		return nil
	})
}

// add appends a row with its own columns, and returns it. It returns nil once the page is full.
func (p *page[Row]) add(from rawrows.Row) *Row {
	if p.full = p.full || p.bytes >= pageBytes || len(p.visits) >= pageVisits; p.full {
		return nil
	}

	p.rows = append(p.rows, *new(Row))
	row := &p.rows[len(p.rows)-1]
	p.of.own.scan(row, from, 0)

	p.bytes += p.of.bytes(row)
	v := p.of.visit(row)
	p.visits[visitKey{p.of.cursor(row).At.Day(), v.Visitor, v.N}] = struct{}{}
	return row
}

// bytes returns the length of the texts of a visit.
func (v *Visit) bytes() int {
	n := len(v.UserID) + len(v.Referrer)
	for _, text := range [...]string{
		v.Source, v.Medium, v.Name, v.Content, v.Term, v.Gclid, v.Gbraid, v.Wbraid, v.Fbclid, v.Msclkid,
	} {
		n += len(text)
	}
	return n
}
