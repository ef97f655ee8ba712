package exports

import (
	"context"
	"database/sql"
	"encoding/hex"
	"strconv"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/tables"
)

// Pageview is a page view with everything stored about it and its visit.
type Pageview struct {
	At         model.Instant
	ID         int64 // the page view id
	Path       string
	Language   string // empty if unknown
	WidthRange int16  // see model.WidthRangeName
	EngagedMS  int32  `bun:"engaged_ms"`
	Scroll     int16
	Manual     bool // sent by the page's own call, not automatically by the script
	Visit      `bun:",extend"`
}

// Event is an event with everything stored about it and its visit.
type Event struct {
	At            model.Instant
	ID            int64
	Name          string
	Path          string
	Value         *model.Money // negative for a refund; nil: the event has no value
	Currency      string       // empty: the event has no value
	TransactionID string       // of a purchase or refund; otherwise empty
	Properties    string       // JSON object; empty for none
	Visit         `bun:",extend"`
}

// Visit holds the columns of a row's visit.
type Visit struct {
	Visitor        model.VisitorID
	N              int16 // number of the visit among the visitor's visits of the day
	StartedAt      model.Instant
	LastPageviewAt model.Instant // meaningless while Pageviews is 0
	Pageviews      int32
	Channel        model.Channel
	UserID         []byte // empty for none
	Referrer       string `bun:"-"`
	model.Campaign `bun:"-"`

	// Attribution is Referrer and Campaign as they are stored.
	Attribution string
}

// ID returns the id of the visit among those of all sites and days. Callers compare
// ids and read nothing from them.
func (v *Visit) ID() string {
	day, n := strconv.FormatInt(int64(v.StartedAt.Day()), 36), strconv.FormatInt(int64(v.N), 36)
	return day + hex.EncodeToString(v.Visitor[:]) + n
}

// unpack sets what follows from stored columns. It is false for a visit that is missing.
func (v *Visit) unpack() bool {
	v.Referrer, v.Campaign = model.UnpackAttribution(v.Attribution)
	return v.StartedAt != 0
}

// The exported columns of a row r and its visit v. They follow db/tables, so that a new column is
// exported too: it needs a field in Pageview, Event or Visit, or an exception here.
var (
	// The visit's key is also in the row. The other exceptions only decide which visit a hit belongs to.
	visitColumns = tables.Visits.Columns.Without("site_id", "day", "visitor", "n", "recent", "awaited", "viewed").List("v.")

	exportedPageviews = exported{tables.Pageviews.Name, tables.Pageviews.Columns.Without("site_id").List("r."), true}
	exportedEvents    = exported{tables.Events.Name, tables.Events.Columns.Without("site_id").List("r."), false}
)

// Range selects rows of a site, in the order of time and then id.
type Range struct {
	SiteID   int64
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

// exportPage is how many rows are read at once. No connection is held between two pages, so that a
// slow reader delays no other process.
const exportPage = 1_000

// skipStep is how many rows one statement skips for an offset.
const skipStep = 100_000

// ExportPageviews calls each with the page views of the range, in order. It stops at the first
// error, which it returns, and when ctx ends. Memory does not grow with the number of rows. Rows
// that are stored while it runs can be among them.
func (s *Store) ExportPageviews(ctx context.Context, r Range, each func(*Pageview) error) error {
	return exportPages(ctx, s, exportedPageviews, r, each)
}

// ExportEvents is ExportPageviews for events.
func (s *Store) ExportEvents(ctx context.Context, r Range, each func(*Event) error) error {
	return exportPages(ctx, s, exportedEvents, r, each)
}

// exported is a table to export, with its own columns and, of page views, their engagement.
type exported struct {
	table, columns string
	engagement     bool
}

func (p *Pageview) cursor() Cursor { return Cursor{At: p.At, ID: p.ID} }
func (e Event) cursor() Cursor     { return Cursor{At: e.At, ID: e.ID} }

// exportPages reads the range page by page, each page after the last row of the previous one.
func exportPages[Row any, P interface {
	*Row
	cursor() Cursor
	unpack() bool
}](ctx context.Context, s *Store, e exported, r Range, each func(P) error) error {
	if r.After != nil {
		r = r.behind(*r.After)
	}

	if r.Offset > 0 {
		last, err := s.lastSkipped(ctx, e, r)
		if last == nil || err != nil {
			return err
		}

		r = r.behind(*last)
	}

	for r.Limit > 0 {
		page := r
		page.Limit = min(r.Limit, exportPage)

		in, err := s.ofSite(ctx, r.SiteID)
		if err != nil {
			return err
		}

		var rows []Row
		if err := in.exportRows(ctx, func(ctx context.Context, conn bun.IConn) error {
			if err := in.narrow(ctx, conn, e, &page); err != nil {
				return err
			}
			return in.exportQuery(e, page).Conn(conn).Scan(ctx, &rows)
		}); err != nil {
			return err
		}

		for i := range rows {
			if !P(&rows[i]).unpack() {
				continue
			}

			r.Limit--
			if err := each(&rows[i]); err != nil {
				return err
			}
		}

		if len(rows) < page.Limit {
			return nil
		}

		r = r.behind(P(&rows[len(rows)-1]).cursor())
	}

	return nil
}

// behind returns the range after one of its rows. The lower bound of time follows from After, but
// PostgreSQL does not derive from a comparison of pairs which partitions to skip.
func (r Range) behind(row Cursor) Range {
	r.After, r.From = &row, max(r.From, row.At)
	return r
}

// lastSkipped returns the last row that the offset skips, or nil if the range ends before it.
func (s *Store) lastSkipped(ctx context.Context, e exported, r Range) (*Cursor, error) {
	for left := r.Offset; ; {
		step := min(left, skipStep)
		in, err := s.ofSite(ctx, r.SiteID)
		if err != nil {
			return nil, err
		}

		var rows []Cursor
		q := in.rangeQuery(e, r).ColumnExpr("r.at, r.id").Limit(1).Offset(int64(step) - 1)
		err = in.exportRows(ctx, func(ctx context.Context, conn bun.IConn) error { return q.Conn(conn).Scan(ctx, &rows) })
		if err != nil || len(rows) == 0 {
			return nil, err
		}
		if left -= step; left == 0 {
			return &rows[0], nil
		}

		r = r.behind(rows[0])
	}
}

// Both databases must follow the index on site and time, which is the order of the export up to rows
// of one microsecond, and then look up the visit and the engagement of each row of the page. Any
// other plan reads or sorts the whole range for every page. So the page is a query of its own within
// the joins. SQLite joins the tables in the order in which they are written; PostgreSQL has no other
// plan for LATERAL. Without statistics, as in a new month, it would otherwise compare each row with
// all visits. pgExportInOrder prevents a sort of the range.
const (
	sqliteExportVisit = `LEFT JOIN visits AS v ON v.site_id = r.site_id AND v.day = r.at / 86400000000
  AND v.visitor = r.visitor AND v.n = r.n`

	pgExportVisit = `LEFT JOIN LATERAL (
  SELECT * FROM visits WHERE site_id = r.site_id AND visitor = r.visitor AND n = r.n AND ? LIMIT 1) AS v ON true`

	pgExportInOrder = `SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_seqscan = off; SET LOCAL jit = off`
)

// exportQuery returns the query for one page of the range's rows, with their visits. A row whose
// visit is missing, because it is being deleted, has no columns of it.
func (s *Store) exportQuery(e exported, r Range) *bun.SelectQuery {
	postgres := s.db.IsPostgres()
	page := s.rangeQuery(e, r).ColumnExpr("r.*").Limit(int64(r.Limit))
	q := s.db.Read.NewSelect().TableExpr("(?) AS r", page).ColumnExpr(visitColumns).ColumnExpr(e.columns).
		OrderExpr("r.at, r.id")

	if postgres {
		q.Join(pgExportVisit, bun.Safe(tables.DayOf("r.at", r.From, r.To, "0")))
	} else {
		q.Join(sqliteExportVisit)
	}

	if e.engagement {
		q.ColumnExpr(tables.EngagedMS(postgres) + " AS engaged_ms").ColumnExpr(tables.EngagedScroll(postgres) + " AS scroll").
			Join(tables.EngagementJoin(postgres, r.From, r.To))
	}

	return q
}

// rangeQuery returns the query for all rows of the range, in order. The table's alias is r.
func (s *Store) rangeQuery(e exported, r Range) *bun.SelectQuery {
	q := s.db.Read.NewSelect().TableExpr("? AS r", bun.Ident(e.table)).
		Where("r.site_id = ?", r.SiteID).
		Where("r.at >= ? AND r.at < ?", r.From, r.To).
		OrderExpr("r.at, r.id")

	if r.After != nil {
		q.Where("(r.at, r.id) > (?, ?)", r.After.At, r.After.ID)
	}

	return q
}

// narrow ends the range with the last row of its page, on PostgreSQL. The planner then leaves out
// the partitions of other months. A statement that keeps them chooses one again for each lookup.
func (s *Store) narrow(ctx context.Context, conn bun.IConn, e exported, page *Range) error {
	if !s.db.IsPostgres() {
		return nil
	}

	var last []model.Instant
	q := s.rangeQuery(e, *page).ColumnExpr("r.at").Limit(1).Offset(int64(page.Limit) - 1)
	if err := q.Conn(conn).Scan(ctx, &last); err != nil {
		return err
	}

	// Without such a row, the page is the rest of the range.
	if len(last) > 0 {
		page.To = last[0] + 1
	}

	return nil
}

// exportRows calls read with a connection for queries of a range's rows, which see the same rows. It
// waits for a slot among the long reads.
func (s *Store) exportRows(ctx context.Context, read func(context.Context, bun.IConn) error) error {
	return s.db.LongRead(ctx, func() error {
		if !s.db.IsPostgres() {
			return read(ctx, s.db.Read)
		}

		options := &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}
		return s.db.Read.RunInTx(ctx, options, func(ctx context.Context, tx bun.Tx) error {
			if _, err := tx.ExecContext(ctx, pgExportInOrder); err != nil {
				return err
			}
			return read(ctx, tx)
		})
	})
}
