package exports

import (
	"context"
	"slices"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/rawrows"
	"github.com/tallygate/tallygate/db/tables"
)

// Both databases must follow the index on site and time, which is the order of the export up to rows
// of one microsecond, and then look up the visit and the engagement of each row of the page. Any
// other plan reads or sorts the whole range for every page. SQLite joins the tables in the order in
// which they are written, so the page is a query of its own within the joins. On PostgreSQL the lookups
// are queries of their own, and pgExportInOrder prevents a sort of the range.
const sqliteExportVisit = `LEFT JOIN visits AS v ON v.site_id = r.site_id AND v.day = r.at / 86400000000
  AND v.visitor = r.visitor AND v.n = r.n`

var pgExportInOrder = []string{
	"SET LOCAL enable_sort = off", "SET LOCAL enable_bitmapscan = off", "SET LOCAL enable_seqscan = off", "SET LOCAL jit = off",
}

// readPage reads the rows of one page into rows, which are empty. All of it is of one state of the
// database. A row whose visit is missing, because it is being deleted, has no columns of it.
func (e *exported[Row]) readPage(ctx context.Context, s *Store, page Range, rows []Row) ([]Row, error) {
	q := s.rangeQuery(e.table, page).Limit(int64(page.Limit))
	hold, err := s.db.HoldPartitions(ctx)
	if err != nil {
		return nil, err
	}

	err = s.db.LongConn(ctx, func(driverConn any) (err error) {
		if s.db.IsPostgres() {
			settings := slices.Concat(hold, pgExportInOrder)
			query := q.ColumnExpr(e.own.list("r.")).String()
			rows, err = e.readPostgres(ctx, driverConn, page.SiteID, settings, query, rows)
		} else {
			rows, err = e.readSQLite(ctx, driverConn, s.joined(e.own.list("r."), e.setEngaged != nil, q), rows)
		}
		return err
	})
	return rows, err
}

// joined returns SQLite's query for a page with the visits and the engagement of its rows.
func (s *Store) joined(columns string, engagement bool, page *bun.SelectQuery) string {
	q := s.db.Read.NewSelect().TableExpr("(?) AS r", page.ColumnExpr("r.*")).Join(sqliteExportVisit).
		ColumnExpr(columns).ColumnExpr(exportedVisits.list("v.")).
		OrderExpr("r.at, r.id")

	if engagement {
		q.ColumnExpr(tables.EngagedMS(false)).ColumnExpr(tables.EngagedScroll(false)).
			Join(tables.EngagementJoin(false, 0))
	}
	return q.String()
}

func (e *exported[Row]) readSQLite(ctx context.Context, driverConn any, query string, rows []Row) ([]Row, error) {
	visit := len(e.own.names) // the first column of the visit
	engaged := visit + len(exportedVisits.names)

	err := rawrows.Each(ctx, driverConn, query, nil, func(r rawrows.Row) error {
		row := e.add(&rows, r)
		exportedVisits.scan(e.visit(row), r, visit)
		if e.setEngaged != nil {
			e.setEngaged(row, int32(r.Int64(engaged)), int16(r.Int64(engaged+1)))
		}
		return nil
	})
	return rows, err
}

// add appends a row with its own columns, and returns it.
func (e *exported[Row]) add(rows *[]Row, from rawrows.Row) *Row {
	*rows = append(*rows, *new(Row))
	row := &(*rows)[len(*rows)-1]
	e.own.scan(row, from, 0)
	return row
}
