package reports

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// All queries of visits, page views and events. Each reads rows of one site by a range of its
// primary key, so that its cost depends on that site alone.

// hasVisits is the condition that the site of a row u has visits with ids from the first parameter,
// below the second. LIMIT keeps PostgreSQL from a join, which would read the visits of all sites.
const hasVisits = `
(SELECT 1 FROM visits AS v WHERE v.site_id = u.site_id AND v.id >= ? AND v.id < ? LIMIT 1) IS NOT NULL`

// visitIDs returns the ids of the visits of a UTC day: from first, below end.
func visitIDs(day model.Day) (first, end int64) {
	return model.FirstTimeID(day.Start()), model.FirstTimeID((day + 1).Start())
}

// The columns that a segment is built from.
const (
	dayVisits = `SELECT id, visitor, started_at, coalesce(user_id, ''), channel, coalesce(referrer, ''),
  coalesce(utm_source, ''), coalesce(utm_medium, ''), coalesce(utm_campaign, ''), coalesce(utm_content, ''),
  coalesce(utm_term, ''), gclid IS NOT NULL OR gbraid IS NOT NULL OR wbraid IS NOT NULL, fbclid IS NOT NULL,
  msclkid IS NOT NULL
FROM visits WHERE site_id = ? AND id >= ? AND id < ?`

	dayViews = `SELECT visit_id, at, id, path, coalesce(language, ''), width_range, engaged_ms, scroll
FROM pageviews WHERE site_id = ? AND at >= ? AND at < ?`

	dayEvents = `SELECT visit_id, at, id, name, path, coalesce(value, 0), coalesce(currency, ''), coalesce(properties, '')
FROM events WHERE site_id = ? AND at >= ? AND at < ?`
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
		r := &dayReader{tx: tx, site: siteID, rows: &dayRows{Rows: segment.Rows{Day: day}}, texts: make(map[string]string)}
		rows = r.rows
		if err := r.readVisits(ctx); err != nil {
			return err
		}
		if err := r.readViews(ctx); err != nil {
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
	tx    bun.Tx
	site  int64
	rows  *dayRows
	ids   []visitID         // of the visits, ascending
	texts map[string]string // each text once
}

// visitID leads from a visit's id to its key.
type visitID struct {
	id  int64
	key segment.VisitKey
}

// each runs a query and calls take for each row after it was stored in targets.
func (r *dayReader) each(ctx context.Context, query string, from, to any, targets []any, take func()) error {
	rows, err := r.tx.QueryContext(ctx, query, r.site, from, to)
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
	text := string(raw)
	r.texts[text] = text
	return text
}

func (r *dayReader) readVisits(ctx context.Context) error {
	var (
		id, startedAt                            int64
		visitor, user, channel, referrer         sql.RawBytes
		source, medium, campaign, content, term  sql.RawBytes
		googleClick, facebookClick, microsoftAds bool
	)
	targets := []any{&id, &visitor, &startedAt, &user, &channel, &referrer, &source, &medium, &campaign, &content, &term,
		&googleClick, &facebookClick, &microsoftAds}

	var ids []visitID
	first, end := visitIDs(r.rows.Day)
	err := r.each(ctx, dayVisits, first, end, targets, func() {
		v := segment.Visit{
			StartedAt: model.Instant(startedAt), UserID: r.text(user), Channel: r.text(channel), Referrer: r.text(referrer),
			Campaign: model.Campaign{
				Source: r.text(source), Medium: r.text(medium), Name: r.text(campaign),
				Content: r.text(content), Term: r.text(term),
				Gclid: mark(googleClick), Fbclid: mark(facebookClick), Msclkid: mark(microsoftAds),
			},
		}
		copy(v.Visitor[:], visitor)
		r.rows.Visits = append(r.rows.Visits, v)
		ids = append(ids, visitID{id: id})
	})
	if err != nil {
		return err
	}

	r.number(ids)
	return nil
}

// mark stands for a click id: segments hold only whether there is one.
func mark(present bool) string {
	if present {
		return "1"
	}
	return ""
}

// number gives each visit its number among its visitor's visits, by start and id. The stored number
// is 1 in visits of early releases.
func (r *dayReader) number(ids []visitID) {
	visits := r.rows.Visits
	order := make([]int, len(visits))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(slices.Compare(visits[a].Visitor[:], visits[b].Visitor[:]),
			cmp.Compare(visits[a].StartedAt, visits[b].StartedAt), cmp.Compare(ids[a].id, ids[b].id))
	})

	for n, i := range order {
		visits[i].N = 1
		if n > 0 && visits[order[n-1]].Visitor == visits[i].Visitor {
			visits[i].N = visits[order[n-1]].N + 1
		}
		ids[i].key = visits[i].VisitKey
	}

	slices.SortFunc(ids, func(a, b visitID) int { return cmp.Compare(a.id, b.id) })
	r.ids = ids
}

// key returns the key of a visit of the day.
func (r *dayReader) key(id int64) (key segment.VisitKey, ok bool) {
	i, ok := slices.BinarySearchFunc(r.ids, id, func(v visitID, id int64) int { return cmp.Compare(v.id, id) })
	if !ok {
		r.rows.lost++
		return key, false
	}
	return r.ids[i].key, true
}

func (r *dayReader) readViews(ctx context.Context) error {
	var (
		visit, at, id         int64
		path, language        sql.RawBytes
		width, engaged, depth int32
	)
	targets := []any{&visit, &at, &id, &path, &language, &width, &engaged, &depth}

	return r.each(ctx, dayViews, r.rows.Day.Start(), (r.rows.Day + 1).Start(), targets, func() {
		if key, ok := r.key(visit); ok {
			r.rows.Views = append(r.rows.Views, segment.View{
				VisitKey: key, At: model.Instant(at), ID: id, Path: r.text(path), Language: r.text(language),
				Width: int16(width), EngagedMS: engaged, Scroll: int16(depth),
			})
		}
	})
}

func (r *dayReader) readEvents(ctx context.Context) error {
	var (
		visit, at, id, value             int64
		name, path, currency, properties sql.RawBytes
	)
	targets := []any{&visit, &at, &id, &name, &path, &value, &currency, &properties}

	return r.each(ctx, dayEvents, r.rows.Day.Start(), (r.rows.Day + 1).Start(), targets, func() {
		if key, ok := r.key(visit); ok {
			r.rows.Events = append(r.rows.Events, segment.Event{
				VisitKey: key, At: model.Instant(at), ID: id, Name: r.text(name), Path: r.text(path),
				Value: model.Money(value), Currency: r.text(currency), Properties: string(properties),
			})
		}
	})
}

// nextVisit returns the day of the site's first visit from a day on. ok is false if there is none.
func (s *Store) nextVisit(ctx context.Context, siteID int64, from model.Day) (day model.Day, ok bool, err error) {
	first, _ := visitIDs(from)
	var id []int64
	err = s.db.Read.NewSelect().Table("visits").Column("id").Where("site_id = ? AND id >= ?", siteID, first).
		Order("id").Limit(1).Scan(ctx, &id)
	if err != nil || len(id) == 0 {
		return 0, false, err
	}
	return model.TimeOfID(id[0]).Day(), true, nil
}

// The rows of the last minutes, newest first, with what their visits say about them. LATERAL and
// CROSS JOIN look each visit up by its key, as in package exports.
const (
	recentViews = `SELECT r.at, r.path, '' AS event, v.visitor, v.channel, coalesce(v.utm_source, '') AS source,
  coalesce(v.referrer, '') AS referrer
FROM pageviews AS r {{visit}} WHERE r.site_id = ? AND r.at >= ? AND r.at <= ? ORDER BY r.at DESC, r.id DESC LIMIT ?`

	recentEvents = `SELECT r.at, r.path, r.name AS event, v.visitor, v.channel, '' AS source, '' AS referrer
FROM events AS r {{visit}} WHERE r.site_id = ? AND r.at >= ? AND r.at <= ? ORDER BY r.at DESC, r.id DESC LIMIT ?`

	sqliteRecentVisit = `CROSS JOIN visits AS v ON v.site_id = r.site_id AND v.id = r.visit_id`

	pgRecentVisit = `CROSS JOIN LATERAL (
  SELECT * FROM visits WHERE site_id = r.site_id AND id = r.visit_id LIMIT 1) AS v`
)

// recentRow is a page view or event of the last minutes.
type recentRow struct {
	At       model.Instant
	Path     string
	Event    string // empty for a page view
	Visitor  []byte
	Channel  string
	Source   string // utm_source
	Referrer string
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
