package exports

import (
	"context"
	"database/sql"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/model"
)

// ExportedPageview is a page view with all that is stored of it and of its visit.
type Pageview struct {
	At         model.Instant
	ID         int64 // the page view id
	Path       string
	Language   string // empty when unknown
	WidthRange int16  // see model.WidthRangeName
	EngagedMS  int32  `bun:"engaged_ms"`
	Scroll     int16
	Manual     bool // sent by the page's own call, not by the script itself
	Visit      `bun:",extend"`
}

// ExportedEvent is an event with all that is stored of it and of its visit.
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

// ExportedVisit is what every exported row tells of its visit.
type Visit struct {
	VisitID        int64
	Visitor        []byte
	StartedAt      model.Instant
	LastPageviewAt model.Instant // means nothing while Pageviews is 0
	Pageviews      int32
	Channel        string
	Referrer       string
	UserID         []byte // nil for none
	model.Campaign `bun:",extend"`
}

// visitColumns are the columns of ExportedVisit, from a row r and its visit v.
const visitColumns = "r.visit_id, v.visitor, v.started_at, v.last_pageview_at, v.pageviews, v.channel, v.referrer, v.user_id, " +
	"v.utm_source, v.utm_medium, v.utm_campaign, v.utm_content, v.utm_term, v.gclid, v.gbraid, v.wbraid, v.fbclid, v.msclkid"

// ExportRange says which rows of a site to export, in the order of time and then id.
type Range struct {
	SiteID   int64
	From, To model.Instant // From is inclusive, To is not
	After    *Cursor       // only rows after this one, when given
	Limit    int
	Offset   int
}

// ExportCursor names a row of the export by its place in the order.
type Cursor struct {
	At model.Instant
	ID int64
}

// exportPage is how many rows are read at once. Between two pages no connection is held, so that a
// reader that takes its time keeps nobody else waiting.
const exportPage = 1_000

// skipStep is how many rows one statement leaves out for an offset.
const skipStep = 100_000

// ExportPageviews calls each with the page views of the range, in their order. Memory does not grow
// with their number. It stops at the first error, which it returns, and when ctx ends. Rows that
// come while it runs may be among them.
func (s *Store) ExportPageviews(ctx context.Context, r Range, each func(*Pageview) error) error {
	return exportPages(ctx, s, exportedPageviews, r, each)
}

// ExportEvents is ExportPageviews for events.
func (s *Store) ExportEvents(ctx context.Context, r Range, each func(*Event) error) error {
	return exportPages(ctx, s, exportedEvents, r, each)
}

// exported is a table to export, and those of the columns that are its own.
type exported struct{ table, columns string }

var (
	exportedPageviews = exported{"pageviews", "r.at, r.id, r.path, r.language, r.width_range, r.engaged_ms, r.scroll, r.manual"}
	exportedEvents    = exported{"events", "r.at, r.id, r.name, r.path, r.value, r.currency, r.transaction_id, r.properties"}
)

func (p Pageview) cursor() Cursor { return Cursor{At: p.At, ID: p.ID} }
func (e Event) cursor() Cursor    { return Cursor{At: e.At, ID: e.ID} }

// exportPages reads the range page by page, each one after the last row of the one before.
func exportPages[Row interface{ cursor() Cursor }](ctx context.Context, s *Store, e exported, r Range, each func(*Row) error) error {
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

		var rows []Row
		if err := s.exportRows(ctx, s.exportQuery(e, page), &rows); err != nil {
			return err
		}

		for i := range rows {
			if err := each(&rows[i]); err != nil {
				return err
			}
		}

		if len(rows) < page.Limit {
			return nil
		}

		r = r.behind(rows[len(rows)-1].cursor())
		r.Limit -= len(rows)
	}

	return nil
}

// behind is the range after a row of it. That the range begins with the row's moment follows from
// After, but PostgreSQL does not conclude from a comparison of pairs which months to leave out.
func (r Range) behind(row Cursor) Range {
	r.After, r.From = &row, max(r.From, row.At)
	return r
}

// lastSkipped finds the last of the rows that the offset leaves out, without their visits; nil when
// the range ends before.
func (s *Store) lastSkipped(ctx context.Context, e exported, r Range) (*Cursor, error) {
	for left := r.Offset; ; {
		step := min(left, skipStep)
		var rows []Cursor

		q := s.rangeQuery(e, r).ColumnExpr("r.at, r.id").Limit(1).Offset(int64(step) - 1)
		if err := s.exportRows(ctx, q, &rows); err != nil || len(rows) == 0 {
			return nil, err
		}
		if left -= step; left == 0 {
			return &rows[0], nil
		}

		r = r.behind(rows[0])
	}
}

// Both databases have to walk along the rows' primary key, which is the order of the export, and
// look up each row's visit: anything else reads or sorts the whole range for every page. SQLite
// takes the tables of a CROSS JOIN in the order in which they are written. PostgreSQL cannot take
// the LATERAL part any other way; without statistics, as in a new month, it would compare each row
// with all visits. What keeps it from sorting is in pgExportInOrder.
const (
	sqliteExportVisit = `CROSS JOIN visits AS v ON v.site_id = r.site_id AND v.id = r.visit_id`

	pgExportVisit = `CROSS JOIN LATERAL (
  SELECT * FROM visits WHERE site_id = r.site_id AND id = r.visit_id AND id >= ? AND id < ? LIMIT 1) AS v`

	pgExportInOrder = `SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_seqscan = off; SET LOCAL jit = off`
)

// exportQuery selects a page of the range's rows, with their visits.
func (s *Store) exportQuery(e exported, r Range) *bun.SelectQuery {
	q := s.rangeQuery(e, r).ColumnExpr(visitColumns).ColumnExpr(e.columns).Limit(int64(r.Limit))
	if !s.db.IsPostgres() {
		return q.Join(sqliteExportVisit)
	}
	first, end := r.visits()
	return q.Join(pgExportVisit, first, end)
}

// rangeQuery is all rows of the range, in their order. The table's name within the query is r.
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

// exportRows runs a query of a range's rows, when it is its turn.
func (s *Store) exportRows(ctx context.Context, q *bun.SelectQuery, rows any) error {
	return s.db.LongRead(ctx, func() error {
		if !s.db.IsPostgres() {
			return q.Scan(ctx, rows)
		}

		return s.db.Read.RunInTx(ctx, &sql.TxOptions{ReadOnly: true}, func(ctx context.Context, tx bun.Tx) error {
			if _, err := tx.ExecContext(ctx, pgExportInOrder); err != nil {
				return err
			}
			return q.Conn(tx).Scan(ctx, rows)
		})
	})
}

// visits returns bounds, the upper one exclusive, of the ids of all visits of the range's rows, so
// that PostgreSQL leaves out the other months. A visit starts on the UTC day of its rows; one more
// day on both sides is for clocks that were set.
func (r Range) visits() (first, end int64) {
	const day = 24 * time.Hour
	return firstTimeID(r.From.Day().Start().Add(-day)), firstTimeID(r.To.Add(day))
}

// Moments that an id made of time can tell; see model.NewTimeID.
var (
	firstTimeIDAt = model.At(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	lastTimeIDAt  = model.At(time.Date(2091, 1, 1, 0, 0, 0, 0, time.UTC))
)

// firstTimeID is model.FirstTimeID for any moment: one that is too early or too late counts as the
// first or last.
func firstTimeID(at model.Instant) int64 {
	return model.FirstTimeID(min(max(at, firstTimeIDAt), lastTimeIDAt))
}
