package reports

import (
	"context"
	"encoding/binary"
	"fmt"
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
	dayVisits = `SELECT visitor, n, started_at, channel, user_id, attribution, pageviews, client
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

// buildRows makes the segment of a day from its rows, in one snapshot. lost counts the page views
// and events without a visit, which the export leaves out too. For the budget, see
// segment.BuildDay. pause is called now and then with the memory of the rows, and ends the build by
// its error.
func (s *cellStore) buildRows(
	ctx context.Context, siteID model.SiteID, day model.Day, budget int, pause func(held int) error,
) (g *segment.Segment, lost int, err error) {
	err = s.snapshotRows(ctx, func(ctx context.Context, each eachRow) error {
		g, err = segment.BuildDay(ctx, day, budget, func(to *segment.DayBuilder) error {
			r := &dayReader{site: siteID, day: day, to: to, origins: make(map[string]segment.Origin), clients: make(map[string]segment.Client)}
			r.each = pausing(each, func() error { return pause(to.Bytes()) })
			err := r.read(ctx)
			lost = r.lost
			return err
		})
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("build site %d on %v: %w", siteID, day, err)
	}
	return g, lost, nil
}

// snapshotRows is snapshot for queries below database/sql.
func (s *cellStore) snapshotRows(ctx context.Context, read func(context.Context, eachRow) error) error {
	return s.snapshot(ctx, func(ctx context.Context, _ bun.Tx, conn bun.Conn) error {
		return conn.Raw(func(driverConn any) error { return read(ctx, s.rowsOf(driverConn)) })
	})
}

// snapshot runs reads that see one state of the database, as one of the long reads. conn is the
// connection of tx. PostgreSQL could otherwise read the whole table of a month without statistics.
func (s *cellStore) snapshot(ctx context.Context, read func(context.Context, bun.Tx, bun.Conn) error) error {
	return s.cell.Snapshot(ctx, []string{"SET LOCAL enable_seqscan = off", "SET LOCAL jit = off"}, read)
}

// eachRow runs a query below database/sql and calls take for each row.
type eachRow func(ctx context.Context, query string, args []int64, take func(rawrows.Row) error) error

// rowsOf returns the function that queries through a driver's connection. The function may be used
// only while the connection is held.
func (s *cellStore) rowsOf(driverConn any) eachRow {
	return func(ctx context.Context, query string, args []int64, take func(rawrows.Row) error) error {
		s.observe(query)
		return rawrows.Each(ctx, driverConn, query, args, take)
	}
}

// pauseEvery is how many rows are read between two pauses.
const pauseEvery = 512

// pausing returns a function that reads rows with pauses.
func pausing(each eachRow, pause func() error) eachRow {
	n := 0
	return func(ctx context.Context, query string, args []int64, take func(rawrows.Row) error) error {
		return each(ctx, query, args, func(r rawrows.Row) error {
			if n++; n%pauseEvery == 0 {
				if err := pause(); err != nil {
					return err
				}
			}
			return take(r)
		})
	}
}

// dayReader reads the rows of a day into a builder. It ends with the builder's error.
type dayReader struct {
	each eachRow
	site model.SiteID
	day  model.Day
	to   *segment.DayBuilder
	lost int

	origins map[string]segment.Origin // by packed attribution
	clients map[string]segment.Client // by packed client
	packed  int                       // bytes of the keys of both
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

// visitKey returns the key of a visit from its first two columns.
func visitKey(row rawrows.Row) (key segment.VisitKey) {
	binary.BigEndian.PutUint64(key.Visitor[:], uint64(row.Int64(0)))
	key.N = int16(row.Int64(1))
	return key
}

func (r *dayReader) readVisits(ctx context.Context) error {
	pageviews := int64(0)
	err := r.each(ctx, dayVisits, []int64{int64(r.site), int64(r.day)}, func(row rawrows.Row) error {
		channel := string(model.ChannelOf(int16(row.Int64(3))))
		r.to.AddVisit(visitKey(row), model.Instant(row.Int64(2)), row.Bytes(4), channel, r.origin(row.Bytes(5)), r.client(row.Bytes(7)))
		pageviews += row.Int64(6)
		return r.to.Err()
	})
	if err != nil {
		return err
	}

	// Growing the rows one by one would take a tenth of the time.
	r.to.Grow(int(min(pageviews, maxRoom)))
	return nil
}

// maxPacked bounds the attributions and clients that are looked up as a whole, in bytes. Many
// visits have the same ones.
const maxPacked = 1 << 20

// origin returns the origin that a packed attribution says.
func (r *dayReader) origin(packed []byte) segment.Origin {
	if from, known := r.origins[string(packed)]; known && !r.to.Counts() {
		return from
	}

	referrer, c := model.UnpackAttribution(string(packed))
	from := r.to.Origin(referrer, &c)
	if r.packed += len(packed); r.packed <= maxPacked {
		r.origins[string(packed)] = from
	}
	return from
}

// client returns what a packed client says.
func (r *dayReader) client(packed []byte) segment.Client {
	if of, known := r.clients[string(packed)]; known && !r.to.Counts() {
		return of
	}

	c := model.UnpackClient(string(packed))
	of := r.to.Client(&c)
	if r.packed += len(packed); r.packed <= maxPacked {
		r.clients[string(packed)] = of
	}
	return of
}

// between returns the arguments of a query of the day's page views or events.
func (r *dayReader) between() []int64 {
	return []int64{int64(r.site), int64(r.day.Start()), int64((r.day + 1).Start())}
}

func (r *dayReader) readViews(ctx context.Context) error {
	return r.each(ctx, dayViews, r.between(), func(row rawrows.Row) error {
		if !r.to.HasVisit(visitKey(row)) {
			r.lost++
			return nil
		}
		r.to.AddView(visitKey(row), model.Instant(row.Int64(2)), row.Int64(3), row.Bytes(4), row.Bytes(5), int16(row.Int64(6)))
		return r.to.Err()
	})
}

// readEngagement sets the engagement of the page views, which have been read. A page view whose id
// a later one repeats has none.
func (r *dayReader) readEngagement(ctx context.Context) error {
	n := r.to.Views()
	if n == 0 {
		return nil
	}

	// Most reports are on page views of other days, so the lookup must be cheap.
	sums := make([]model.Engaged, n)
	first := make(map[int64]int32, n) // from an id to its place in sums
	for i := range n {
		_, id := r.to.View(i)
		first[id] = int32(i)
	}

	last := int64(r.day) + int64(tables.EngagementDays) - 1
	err := r.each(ctx, dayEngagement, []int64{int64(r.site), int64(r.day), last}, func(row rawrows.Row) error {
		if i, ok := first[row.Int64(0)]; ok {
			sums[i].Add(row.Int64(1), row.Int64(2), row.Int64(3))
		}
		return nil
	})
	if err != nil {
		return err
	}

	for i := range n {
		at, id := r.to.View(i)
		ms, scroll := sums[first[id]].Of(at)
		r.to.SetEngagement(i, ms, scroll)
	}
	return nil
}

func (r *dayReader) readEvents(ctx context.Context) error {
	return r.each(ctx, dayEvents, r.between(), func(row rawrows.Row) error {
		ok := r.to.AddEvent(visitKey(row), model.Instant(row.Int64(2)), row.Int64(3), row.Bytes(4), row.Bytes(5), row.Bytes(7),
			model.Money(row.Int64(6)), row.Bytes(8))
		if !ok {
			r.lost++
		}
		return r.to.Err()
	})
}

// nextVisit returns the day of the site's first visit from a day on. ok is false if there is none.
func (s *cellStore) nextVisit(ctx context.Context, siteID model.SiteID, from model.Day) (day model.Day, ok bool, err error) {
	var days []model.Day
	err = s.cell.Read.NewSelect().Table("visits").Column("day").Where("site_id = ? AND day >= ?", siteID, from).
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

// recentRow is a page view or event of the last minutes. Its texts change with the next row.
type recentRow struct {
	At          model.Instant
	Path, Event []byte // no event for a page view
	Visitor     int64
	Channel     model.Channel
	Attribution []byte // see model.PackAttribution
}

// eachRecent calls take for up to limit rows of a query from a time until another one.
func (s *cellStore) eachRecent(
	ctx context.Context, query string, siteID model.SiteID, since, now model.Instant, limit int, take func(*recentRow),
) error {
	visit := sqliteRecentVisit
	if s.cell.Common.IsPostgres() {
		visit = pgRecentVisit
	}

	args := []int64{int64(siteID), int64(since), int64(now), int64(limit)}
	return s.snapshotRows(ctx, func(ctx context.Context, each eachRow) error {
		var row recentRow
		return each(ctx, strings.Replace(query, "{{visit}}", visit, 1), args, func(r rawrows.Row) error {
			row = recentRow{
				At: model.Instant(r.Int64(0)), Path: r.Bytes(1), Event: r.Bytes(2), Visitor: r.Int64(3),
				Channel: model.ChannelOf(int16(r.Int64(4))), Attribution: r.Bytes(5),
			}
			take(&row)
			return nil
		})
	})
}
