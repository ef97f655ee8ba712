package reports

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/rawrows"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/db/tables"
)

// All queries of visits, page views and events. Each reads rows of one site by a range of its
// primary key, so that its cost depends on that site alone.

// hasVisits is the condition that the site of a usage row u has visits on the day ?. LIMIT keeps
// PostgreSQL from a join, which would read the visits of all sites.
const hasVisits = "(SELECT 1 FROM visits AS v WHERE v.site_id = u.site_id AND v.day = ? LIMIT 1) IS NOT NULL"

// The columns that a segment is built from. NULL reads as 0 or as no text.
const (
	dayVisits = `SELECT visitor, n, started_at, channel, user_id, attribution, pageviews
FROM visits WHERE site_id = ? AND day = ?`

	dayViews = `SELECT visitor, n, at, id, path, language, width_range
FROM pageviews WHERE site_id = ? AND at >= ? AND at < ?`

	dayEvents = `SELECT visitor, n, at, id, name, path, value, currency, properties
FROM events WHERE site_id = ? AND at >= ? AND at < ?`

	// Reports on the page views of a day arrive on that day and the following ones. To read all of
	// these days in the order of their key is cheaper than to look up each page view on each day.
	dayEngagement = `SELECT id, ms, scroll, repeated_at FROM engagement
WHERE site_id = ? AND day >= ? AND day <= ?`
)

// maxRoom bounds the page views for which a day makes room before it reads them.
const maxRoom = 1 << 20

// dayRows are the rows of one site and UTC day.
type dayRows struct {
	segment.Rows
	lost int // page views and events without a visit, which the export leaves out too
}

// readDay reads the rows of a day in one snapshot.
func (s *Store) readDay(ctx context.Context, siteID int64, day model.Day) (*dayRows, error) {
	var rows *dayRows
	err := s.snapshotRows(ctx, func(ctx context.Context, each eachRow) error {
		r := &dayReader{
			each: each, site: siteID, rows: &dayRows{Rows: segment.Rows{Day: day}},
			numbers: make(map[segment.VisitKey]int16), texts: make(map[string]string),
		}
		rows = r.rows
		return r.read(ctx)
	})

	return rows, err
}

// snapshotRows is snapshot for queries below database/sql.
func (s *Store) snapshotRows(ctx context.Context, read func(context.Context, eachRow) error) error {
	return s.snapshot(ctx, func(ctx context.Context, _ bun.Tx, conn bun.Conn) error {
		return conn.Raw(func(driverConn any) error { return read(ctx, s.rowsOf(driverConn)) })
	})
}

// snapshot runs reads that see one state of the database, as one of the long reads. conn is the
// connection of tx. PostgreSQL could otherwise read the whole table of a month without statistics.
func (s *Store) snapshot(ctx context.Context, read func(context.Context, bun.Tx, bun.Conn) error) error {
	return s.db.Snapshot(ctx, []string{"SET LOCAL enable_seqscan = off", "SET LOCAL jit = off"}, read)
}

// eachRow runs a query below database/sql and calls take for each row.
type eachRow func(ctx context.Context, query string, args []int64, take func(rawrows.Row)) error

// rowsOf returns the function that queries through a driver's connection. The function may be used
// only while the connection is held.
func (s *Store) rowsOf(driverConn any) eachRow {
	return func(ctx context.Context, query string, args []int64, take func(rawrows.Row)) error {
		s.observe(query)
		return rawrows.Each(ctx, driverConn, query, args, take)
	}
}

// dayReader reads the rows of a day.
type dayReader struct {
	each    eachRow
	site    int64
	rows    *dayRows
	numbers map[segment.VisitKey]int16 // from the stored number of a visit to its number by start
	texts   map[string]string          // each text once
}

// read reads all rows. Page views and events name their visit, and engagement its page view.
func (r *dayReader) read(ctx context.Context) error {
	if err := r.readVisits(ctx); err != nil {
		return err
	}
	if err := r.readViews(ctx); err != nil {
		return err
	}
	if err := r.readEngagement(ctx); err != nil {
		return err
	}
	return r.readEvents(ctx)
}

// text returns a text of the current row, which is shared with equal ones.
func (r *dayReader) text(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	if text, ok := r.texts[string(raw)]; ok {
		return text
	}

	text := string(raw)
	r.texts[text] = text
	return text
}

// shared returns a text that is shared with equal ones and holds no longer text in memory.
func (r *dayReader) shared(text string) string {
	if shared, ok := r.texts[text]; ok || text == "" {
		return shared
	}
	text = strings.Clone(text)
	r.texts[text] = text
	return text
}

// mark stands for click ids: segments hold only whether there is one.
func mark(ids ...string) string {
	for _, id := range ids {
		if id != "" {
			return "1"
		}
	}
	return ""
}

// visitKey returns the key of a visit from its first two columns.
func visitKey(row rawrows.Row) (key segment.VisitKey) {
	binary.BigEndian.PutUint64(key.Visitor[:], uint64(row.Int64(0)))
	key.N = int16(row.Int64(1))
	return key
}

func (r *dayReader) readVisits(ctx context.Context) error {
	origins := make(map[string]origin)
	pageviews := int64(0)

	err := r.each(ctx, dayVisits, []int64{r.site, int64(r.rows.Day)}, func(row rawrows.Row) {
		attribution := row.Bytes(5)
		from, ok := origins[string(attribution)]
		if !ok {
			packed := string(attribution)
			from = r.origin(packed)
			origins[packed] = from
		}

		r.rows.Visits = append(r.rows.Visits, segment.Visit{
			VisitKey: visitKey(row), StartedAt: model.Instant(row.Int64(2)), UserID: r.text(row.Bytes(4)),
			Channel: string(model.ChannelOf(int16(row.Int64(3)))), Referrer: from.referrer, Campaign: from.campaign,
		})
		pageviews += row.Int64(6)
	})
	if err != nil {
		return err
	}

	// Growing the slice row by row would take a tenth of the time.
	r.rows.Views = make([]segment.View, 0, min(pageviews, maxRoom))
	r.number()
	return nil
}

// origin is where visits come from. Many have the same one.
type origin struct {
	referrer string
	campaign model.Campaign
}

// origin returns what a packed attribution says.
func (r *dayReader) origin(packed string) origin {
	referrer, c := model.UnpackAttribution(packed)
	return origin{r.shared(referrer), model.Campaign{
		Source: r.shared(c.Source), Medium: r.shared(c.Medium), Name: r.shared(c.Name),
		Content: r.shared(c.Content), Term: r.shared(c.Term),
		Gclid: mark(c.Gclid, c.Gbraid, c.Wbraid), Fbclid: mark(c.Fbclid), Msclkid: mark(c.Msclkid),
	}}
}

// number gives each visit its number among its visitor's visits by start. The stored numbers follow
// the order in which visits were committed.
func (r *dayReader) number() {
	visits := r.rows.Visits
	slices.SortFunc(visits, func(a, b segment.Visit) int {
		if c := bytes.Compare(a.Visitor[:], b.Visitor[:]); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(a.StartedAt, b.StartedAt), cmp.Compare(a.N, b.N))
	})

	n := int16(0)
	for i := range visits {
		v := &visits[i]
		if n++; i == 0 || visits[i-1].Visitor != v.Visitor {
			n = 1
		}
		r.numbers[v.VisitKey] = n
		v.N = n
	}
}

// visit returns the key of the visit of a page view or event by its stored key.
func (r *dayReader) visit(stored segment.VisitKey) (key segment.VisitKey, ok bool) {
	n, ok := r.numbers[stored]
	if !ok {
		r.rows.lost++
	}
	return segment.VisitKey{Visitor: stored.Visitor, N: n}, ok
}

// between returns the arguments of a query of the day's page views or events.
func (r *dayReader) between() []int64 {
	return []int64{r.site, int64(r.rows.Day.Start()), int64((r.rows.Day + 1).Start())}
}

func (r *dayReader) readViews(ctx context.Context) error {
	return r.each(ctx, dayViews, r.between(), func(row rawrows.Row) {
		if key, ok := r.visit(visitKey(row)); ok {
			r.rows.Views = append(r.rows.Views, segment.View{
				VisitKey: key, At: model.Instant(row.Int64(2)), ID: row.Int64(3), Path: r.text(row.Bytes(4)),
				Language: r.text(row.Bytes(5)), Width: int16(row.Int64(6)),
			})
		}
	})
}

// readEngagement sets the engagement of the page views, which have been read. A page view whose id a
// later one repeats has none.
func (r *dayReader) readEngagement(ctx context.Context) error {
	if len(r.rows.Views) == 0 {
		return nil
	}

	// Most reports are on page views of other days, so the lookup must be cheap.
	sums := make([]model.Engaged, len(r.rows.Views))
	first := make(map[int64]int32, len(r.rows.Views)) // from an id to its place in sums
	for i := range r.rows.Views {
		first[r.rows.Views[i].ID] = int32(i)
	}

	last := int64(r.rows.Day) + int64(tables.EngagementDays) - 1
	err := r.each(ctx, dayEngagement, []int64{r.site, int64(r.rows.Day), last}, func(row rawrows.Row) {
		if i, ok := first[row.Int64(0)]; ok {
			sums[i].Add(row.Int64(1), row.Int64(2), row.Int64(3))
		}
	})
	if err != nil {
		return err
	}

	for i := range r.rows.Views {
		v := &r.rows.Views[i]
		v.EngagedMS, v.Scroll = sums[first[v.ID]].Of(v.At)
	}
	return nil
}

func (r *dayReader) readEvents(ctx context.Context) error {
	return r.each(ctx, dayEvents, r.between(), func(row rawrows.Row) {
		if key, ok := r.visit(visitKey(row)); ok {
			r.rows.Events = append(r.rows.Events, segment.Event{
				VisitKey: key, At: model.Instant(row.Int64(2)), ID: row.Int64(3), Name: r.text(row.Bytes(4)),
				Path: r.text(row.Bytes(5)), Value: model.Money(row.Int64(6)), Currency: r.text(row.Bytes(7)),
				Properties: string(row.Bytes(8)),
			})
		}
	})
}

// nextVisit returns the day of the site's first visit from a day on. ok is false if there is none.
func (s *Store) nextVisit(ctx context.Context, siteID int64, from model.Day) (day model.Day, ok bool, err error) {
	var days []model.Day
	err = s.db.Read.NewSelect().Table("visits").Column("day").Where("site_id = ? AND day >= ?", siteID, from).
		Order("day").Limit(1).Scan(ctx, &days)
	if err != nil || len(days) == 0 {
		return 0, false, err
	}
	return days[0], true, nil
}

// The rows of the last minutes, newest first, with what their visits say about them. LATERAL and
// CROSS JOIN look each visit up by its key, as in package exports.
const (
	recentViews = `SELECT r.at, r.path, '' AS event, v.visitor, v.channel, v.attribution
FROM pageviews AS r {{visit}} WHERE r.site_id = ? AND r.at >= ? AND r.at <= ? ORDER BY r.at DESC, r.id DESC LIMIT ?`

	recentEvents = `SELECT r.at, r.path, r.name AS event, v.visitor, v.channel, v.attribution
FROM events AS r {{visit}} WHERE r.site_id = ? AND r.at >= ? AND r.at <= ? ORDER BY r.at DESC, r.id DESC LIMIT ?`

	sqliteRecentVisit = `CROSS JOIN visits AS v ON v.site_id = r.site_id
  AND v.day = r.at / 86400000000 AND v.visitor = r.visitor AND v.n = r.n`

	pgRecentVisit = `CROSS JOIN LATERAL (
  SELECT * FROM visits WHERE site_id = r.site_id AND day = (r.at / 86400000000)::integer AND visitor = r.visitor AND n = r.n LIMIT 1) AS v`
)

// recentRow is a page view or event of the last minutes.
type recentRow struct {
	At          model.Instant
	Path        string
	Event       string // empty for a page view
	Visitor     model.VisitorID
	Channel     model.Channel
	Attribution string // see model.PackAttribution
}

// readRecent reads up to limit rows of a query from a time until another one.
func (s *Store) readRecent(
	ctx context.Context, query string, siteID int64, since, now model.Instant, limit int,
) ([]recentRow, error) {
	visit := sqliteRecentVisit
	if s.db.IsPostgres() {
		visit = pgRecentVisit
	}

	var rows []recentRow
	err := s.snapshot(ctx, func(ctx context.Context, tx bun.Tx, _ bun.Conn) error {
		return tx.NewRaw(strings.Replace(query, "{{visit}}", visit, 1), siteID, since, now, limit).Scan(ctx, &rows)
	})
	return rows, err
}
