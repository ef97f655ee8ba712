package reports

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/db/tables"
)

// All queries of visits, page views and events. Each reads rows of one site by a range of its
// primary key, so that its cost depends on that site alone.

// hasVisits is the condition that the site of a usage row u has visits on the day ?. LIMIT keeps
// PostgreSQL from a join, which would read the visits of all sites.
const hasVisits = "(SELECT 1 FROM visits AS v WHERE v.site_id = u.site_id AND v.day = ? LIMIT 1) IS NOT NULL"

// The columns that a segment is built from.
const (
	dayVisits = "SELECT visitor, n, started_at, channel, user_id, attribution FROM visits WHERE site_id = ? AND day = ?"

	dayViews = `SELECT visitor, n, at, id, path, language, width_range
FROM pageviews WHERE site_id = ? AND at >= ? AND at < ?`

	dayEvents = `SELECT visitor, n, at, id, name, path, coalesce(value, 0), coalesce(currency, ''), coalesce(properties, '')
FROM events WHERE site_id = ? AND at >= ? AND at < ?`

	// Reports on the page views of a day arrive on that day and the following ones. To read all of
	// these days in the order of their key is cheaper than to look up each page view on each day.
	dayEngagement = `SELECT id, ms, scroll, coalesce(repeated_at, 0) FROM engagement
WHERE site_id = ? AND day >= ? AND day <= ?`
)

// dayRows are the rows of one site and UTC day.
type dayRows struct {
	segment.Rows
	lost int // page views and events without a visit, which the export leaves out too
}

// readDay reads the rows of a day in one snapshot.
func (s *Store) readDay(ctx context.Context, siteID int64, day model.Day) (*dayRows, error) {
	var rows *dayRows
	err := s.snapshot(ctx, func(ctx context.Context, tx bun.Tx) error {
		r := &dayReader{
			tx: tx, site: siteID, rows: &dayRows{Rows: segment.Rows{Day: day}},
			numbers: make(map[segment.VisitKey]int16), texts: make(map[string]string),
		}
		rows = r.rows

		// Page views and events name their visit, and engagement its page view.
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
	})

	return rows, err
}

// snapshot runs reads that see one state of the database, as one of the long reads. PostgreSQL
// could otherwise read the whole table of a month without statistics.
func (s *Store) snapshot(ctx context.Context, read func(context.Context, bun.Tx) error) error {
	options := &sql.TxOptions{ReadOnly: true}
	if s.db.IsPostgres() {
		options.Isolation = sql.LevelRepeatableRead
	}

	return s.db.LongRead(ctx, func() error {
		return s.db.Read.RunInTx(ctx, options, func(ctx context.Context, tx bun.Tx) error {
			if s.db.IsPostgres() {
				if _, err := tx.ExecContext(ctx, "SET LOCAL enable_seqscan = off; SET LOCAL jit = off"); err != nil {
					return err
				}
			}
			return read(ctx, tx)
		})
	})
}

// dayReader reads the rows of a day.
type dayReader struct {
	tx      bun.Tx
	site    int64
	rows    *dayRows
	numbers map[segment.VisitKey]int16 // from the stored number of a visit to its number by start
	texts   map[string]string          // each text once
}

// each runs a query and calls take for each row after it was stored in targets.
func (r *dayReader) each(ctx context.Context, query string, args, targets []any, take func()) error {
	rows, err := r.tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()

	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		take()
	}
	return rows.Err()
}

// text returns a text of the current row, which is shared with equal ones.
func (r *dayReader) text(raw sql.RawBytes) string {
	if text, ok := r.texts[string(raw)]; ok {
		return text
	}
	return r.shared(string(raw))
}

// shared returns a text that is shared with equal ones.
func (r *dayReader) shared(text string) string {
	if shared, ok := r.texts[text]; ok {
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

func (r *dayReader) readVisits(ctx context.Context) error {
	var (
		key               segment.VisitKey
		startedAt         int64
		channel           int16
		user, attribution sql.RawBytes
	)
	args := []any{r.site, r.rows.Day}
	targets := []any{&key.Visitor, &key.N, &startedAt, &channel, &user, &attribution}

	err := r.each(ctx, dayVisits, args, targets, func() {
		v := segment.Visit{
			VisitKey: key, StartedAt: model.Instant(startedAt), UserID: r.text(user),
			Channel: string(model.ChannelOf(channel)),
		}
		referrer, c := model.UnpackAttribution(string(attribution))
		v.Referrer = r.shared(referrer)
		v.Campaign = model.Campaign{
			Source: r.shared(c.Source), Medium: r.shared(c.Medium), Name: r.shared(c.Name),
			Content: r.shared(c.Content), Term: r.shared(c.Term),
			Gclid: mark(c.Gclid, c.Gbraid, c.Wbraid), Fbclid: mark(c.Fbclid), Msclkid: mark(c.Msclkid),
		}
		r.rows.Visits = append(r.rows.Visits, v)
	})
	if err != nil {
		return err
	}

	r.number()
	return nil
}

// number gives each visit its number among its visitor's visits by start. The stored numbers follow
// the order in which visits were committed.
func (r *dayReader) number() {
	visits := r.rows.Visits
	slices.SortFunc(visits, func(a, b segment.Visit) int {
		return cmp.Or(bytes.Compare(a.Visitor[:], b.Visitor[:]), cmp.Compare(a.StartedAt, b.StartedAt), cmp.Compare(a.N, b.N))
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
func (r *dayReader) between() []any {
	return []any{r.site, r.rows.Day.Start(), (r.rows.Day + 1).Start()}
}

func (r *dayReader) readViews(ctx context.Context) error {
	var (
		visit          segment.VisitKey
		at, id         int64
		path, language sql.RawBytes
		width          int16
	)
	targets := []any{&visit.Visitor, &visit.N, &at, &id, &path, &language, &width}

	return r.each(ctx, dayViews, r.between(), targets, func() {
		if key, ok := r.visit(visit); ok {
			r.rows.Views = append(r.rows.Views, segment.View{
				VisitKey: key, At: model.Instant(at), ID: id, Path: r.text(path), Language: r.text(language), Width: width,
			})
		}
	})
}

// engaged is what was reported on a page view id on all days.
type engaged struct {
	ms         int64
	scroll     int16
	repeatedAt int64 // time of the newest page view that repeats the id; 0: none does
}

// readEngagement sets the engagement of the page views, which have been read. A page view whose id a
// later one repeats has none.
func (r *dayReader) readEngagement(ctx context.Context) error {
	if len(r.rows.Views) == 0 {
		return nil
	}
	reported := make(map[int64]*engaged, len(r.rows.Views))
	for i := range r.rows.Views {
		reported[r.rows.Views[i].ID] = nil
	}

	var one engaged
	var id int64
	args := []any{r.site, r.rows.Day, int(r.rows.Day) + tables.EngagementDays - 1}
	err := r.each(ctx, dayEngagement, args, []any{&id, &one.ms, &one.scroll, &one.repeatedAt}, func() {
		sum, ok := reported[id]
		switch {
		case !ok:
			// Of a page view on another day.
		case sum == nil:
			first := one
			reported[id] = &first
		default:
			sum.ms += one.ms
			sum.scroll = max(sum.scroll, one.scroll)
			sum.repeatedAt = max(sum.repeatedAt, one.repeatedAt)
		}
	})
	if err != nil {
		return err
	}

	for i := range r.rows.Views {
		v := &r.rows.Views[i]
		if sum := reported[v.ID]; sum != nil && sum.repeatedAt <= int64(v.At) {
			v.EngagedMS = int32(min(sum.ms, model.MaxEngagement.Milliseconds()))
			v.Scroll = sum.scroll
		}
	}
	return nil
}

func (r *dayReader) readEvents(ctx context.Context) error {
	var (
		visit                            segment.VisitKey
		at, id, value                    int64
		name, path, currency, properties sql.RawBytes
	)
	targets := []any{&visit.Visitor, &visit.N, &at, &id, &name, &path, &value, &currency, &properties}

	return r.each(ctx, dayEvents, r.between(), targets, func() {
		if key, ok := r.visit(visit); ok {
			r.rows.Events = append(r.rows.Events, segment.Event{
				VisitKey: key, At: model.Instant(at), ID: id, Name: r.text(name), Path: r.text(path),
				Value: model.Money(value), Currency: r.text(currency), Properties: string(properties),
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
	err := s.snapshot(ctx, func(ctx context.Context, tx bun.Tx) error {
		return tx.NewRaw(strings.Replace(query, "{{visit}}", visit, 1), siteID, since, now, limit).Scan(ctx, &rows)
	})
	return rows, err
}
