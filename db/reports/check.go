package reports

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/db/tables"
)

// Difference is a figure of a day that its segment and its rows give differently.
type Difference struct {
	SiteID  model.SiteID
	Day     model.Day
	Figure  string // such as "page views of /pricing"
	Segment int64
	Rows    int64
}

// Checked counts what Check has compared.
type Checked struct {
	Days    int64
	Skipped int64 // open days, whose engagement still changes, and days whose rows may be deleted
}

// Check counts each built day of a site by SQL from its rows and reports the figures that its
// segment gives differently. It reads all rows of the site.
func (s *Store) Check(ctx context.Context, siteID model.SiteID, report func(Difference)) (Checked, error) {
	var checked Checked
	in, err := s.ofSite(ctx, siteID)
	if err != nil {
		return checked, err
	}

	all, err := days(ctx, in.cell, siteID, firstDay, 1<<30)
	if err != nil {
		return checked, err
	}

	for len(all) > 0 {
		first, last := monthOf(all[0].Day)
		n := 1
		for n < len(all) && all[n].Day <= last {
			n++
		}

		segments, err := in.readSegments(ctx, siteID, first, span{first, last})
		if err != nil {
			return checked, err
		}
		for _, day := range all[:n] {
			if day.State != final && day.State != merged {
				checked.Skipped++
				continue
			}
			differences, err := in.checkDay(ctx, day, segments)
			if err != nil {
				return checked, err
			}
			for _, d := range differences {
				report(d)
			}
			checked.Days++
		}
		all = all[n:]
	}
	return checked, nil
}

// SitesToCheck returns the ids of all sites that have reports, in the order of cells and ids.
func (s *Store) SitesToCheck(ctx context.Context) (ids []model.SiteID, err error) {
	err = s.db.EachCell(ctx, func(in *db.Cell) error {
		own, err := sitesWithReports(ctx, in)
		ids = append(ids, own...)
		return err
	})
	return ids, err
}

// sitesWithReports returns the ids of the sites of a cell that have reports. It looks for one after
// the other in the table's index, which has many days of each site.
func sitesWithReports(ctx context.Context, in *db.Cell) (ids []model.SiteID, err error) {
	for after := model.SiteID(0); ; after = ids[len(ids)-1] {
		var next []model.SiteID
		err := in.Read.NewSelect().Table("report_days").Column("site_id").Where("site_id > ?", after).
			Where("site_id NOT IN (SELECT id FROM sites WHERE cell <> ?)", in.ID).
			Order("site_id").Limit(1).Scan(ctx, &next)
		if err != nil || len(next) == 0 {
			return ids, err
		}
		ids = append(ids, next[0])
	}
}

// checkDay compares the figures of one day, as a report in UTC of this day alone has them.
func (s *cellStore) checkDay(ctx context.Context, day dayRow, segments []*segment.Segment) (found []Difference, err error) {
	got, folded, err := scanDay(day.Day, segments)
	if err != nil {
		return nil, err
	}

	var want figures
	err = s.snapshot(ctx, func(ctx context.Context, tx bun.Tx, _ bun.Conn) error {
		want, err = countBySQL(ctx, tx, s.cell.Common.IsPostgres(), day.SiteID, day.Day)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count site %d on %v by SQL: %w", day.SiteID, day.Day, err)
	}

	want.fold(got, folded)

	names := maps.Clone(got)
	maps.Copy(names, want)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if got[name] != want[name] {
			found = append(found, Difference{day.SiteID, day.Day, name, got[name], want[name]})
		}
	}
	return found, nil
}

// figures are counts by their names. A count of 0 is left out.
type figures map[string]int64

func (f figures) add(name string, n int64) {
	if n != 0 {
		f[name] += n
	}
}

// fold adds up the figures that the segment counts together as scan.OtherValue. Their texts have no
// row in got, and their names begin with one of folded, for example "page views of ".
func (f figures) fold(got figures, folded []string) {
	for _, name := range slices.Collect(maps.Keys(f)) {
		for _, of := range folded {
			if _, hasRow := got[name]; strings.HasPrefix(name, of) && !hasRow {
				f.add(of+scan.OtherValue, f[name])
				delete(f, name)
			}
		}
	}
}

// scanDay counts a day from segments. folded lists how the names of figures begin that have a row
// scan.OtherValue.
func scanDay(day model.Day, segments []*segment.Segment) (f figures, folded []string, err error) {
	date := scan.DateOf(day.Start().Time())
	scanner := scan.New(&scan.Query{Zone: time.UTC, From: date, To: date,
		Breakdowns: []scan.Breakdown{{By: scan.Page}, {By: scan.Event}, {By: scan.Channel}, {By: scan.EntryPage}, {By: scan.ExitPage}}})
	for _, g := range segments {
		if err := scanner.Add(g); err != nil {
			return nil, nil, err
		}
	}

	r := scanner.Result()
	f = make(figures)
	for i, names := range [...][]string{
		{"page views of ", "time in view of "}, {"events named "}, {"visits by "}, {"visits that began on "}, {"visits that ended on "},
	} {
		if r.Breakdowns[i].Other {
			folded = append(folded, names...)
		}
	}
	f.add("visitors", r.Totals.Visitors)
	f.add("visits", r.Totals.Visits)
	f.add("page views", r.Totals.Pageviews)
	f.add("bounces", r.Totals.Bounces)
	f.add("time in view", r.Totals.ViewMS)
	f.add("scroll depth", r.Totals.ScrollSum)
	f.add("events", r.Totals.Events)
	for currency, revenue := range r.Totals.Revenue {
		f.add("revenue in "+currency, int64(revenue.Net()))
		f.add("purchases and refunds in "+currency, revenue.Purchases+revenue.Refunds)
	}

	for value, row := range r.Breakdowns[0].All() {
		f.add("page views of "+value, row.Pageviews)
		f.add("time in view of "+value, row.ViewMS)
	}
	for value, row := range r.Breakdowns[1].All() {
		f.add("events named "+value, row.Events)
	}
	for value, row := range r.Breakdowns[2].All() {
		f.add("visits by "+value, row.Visits)
	}
	for value, row := range r.Breakdowns[3].All() {
		f.add("visits that began on "+value, row.Visits)
	}
	for value, row := range r.Breakdowns[4].All() {
		f.add("visits that ended on "+value, row.Visits)
	}
	return f, folded, nil
}

// countSQL counts the day ?1 of the site ?0, which has the rows from ?2 before ?3. Each of its rows
// is a name and a count. A visit without a user id has the last earlier id of its visitor, or else
// the first later one.
const countSQL = `
WITH numbered AS (
  SELECT visitor, n, started_at, channel, CASE WHEN length(user_id) > 0 THEN {{hex}} END AS own
  FROM visits WHERE site_id = ?0 AND day = ?1),
known AS (
  SELECT visitor, n, channel, own, count(own) OVER (PARTITION BY visitor ORDER BY started_at, n) AS ids
  FROM numbered),
v AS MATERIALIZED (
  SELECT visitor, n, channel,
    coalesce(max(own) OVER (PARTITION BY visitor, ids),
      max(CASE ids WHEN 1 THEN own END) OVER (PARTITION BY visitor)) AS own
  FROM known),
p AS MATERIALIZED (
  SELECT r.visitor, r.n, r.path, {{ms}} AS engaged_ms, {{scroll}} AS scroll,
    row_number() OVER (PARTITION BY r.visitor, r.n ORDER BY r.at, r.id) AS forth,
    row_number() OVER (PARTITION BY r.visitor, r.n ORDER BY r.at DESC, r.id DESC) AS back
  FROM pageviews AS r {{join}}
  WHERE r.site_id = ?0 AND r.at >= ?2 AND r.at < ?3 AND (r.visitor, r.n) IN (SELECT visitor, n FROM v)),
e AS MATERIALIZED (
  SELECT visitor, n, name, value, currency FROM events
  WHERE site_id = ?0 AND at >= ?2 AND at < ?3 AND (visitor, n) IN (SELECT visitor, n FROM v)),
own AS MATERIALIZED (
  SELECT visitor, n FROM e WHERE name NOT IN ('outbound_click', 'file_download', 'scroll', 'site_search')),
sale AS MATERIALIZED (
  SELECT currency, value FROM e WHERE currency IS NOT NULL AND name IN ('purchase', 'refund')),
seen AS MATERIALIZED (SELECT visitor, n, count(*) AS views, sum(engaged_ms) AS ms FROM p GROUP BY visitor, n),
visit AS MATERIALIZED (
  SELECT v.visitor, v.n, v.channel, v.own, CASE WHEN v.own IS NULL THEN v.visitor END AS person, seen.views, seen.ms
  FROM seen JOIN v ON v.visitor = seen.visitor AND v.n = seen.n)
SELECT 'visitors' AS name, count(*) AS n FROM (SELECT DISTINCT own, person FROM visit) AS people
UNION ALL SELECT 'visits', count(*) FROM visit
UNION ALL SELECT 'page views', count(*) FROM p
UNION ALL SELECT 'bounces', count(*) FROM visit WHERE views = 1 AND ms < 10000
  AND (visitor, n) NOT IN (SELECT visitor, n FROM own)
UNION ALL SELECT 'time in view', coalesce(sum(engaged_ms), 0) FROM p
UNION ALL SELECT 'scroll depth', coalesce(sum(scroll), 0) FROM p
UNION ALL SELECT 'events', count(*) FROM own
UNION ALL SELECT 'revenue in ' || currency, sum(value) FROM sale GROUP BY currency
UNION ALL SELECT 'purchases and refunds in ' || currency, count(*) FROM sale GROUP BY currency
UNION ALL SELECT 'page views of ' || path, count(*) FROM p GROUP BY path
UNION ALL SELECT 'time in view of ' || path, sum(engaged_ms) FROM p GROUP BY path
UNION ALL SELECT 'events named ' || name, count(*) FROM e GROUP BY name
UNION ALL SELECT 'visits by number ' || channel, count(*) FROM visit GROUP BY channel
UNION ALL SELECT 'visits that began on ' || path, count(*) FROM p WHERE forth = 1 GROUP BY path
UNION ALL SELECT 'visits that ended on ' || path, count(*) FROM p WHERE back = 1 GROUP BY path`

// countBySQL counts a day from its rows.
func countBySQL(ctx context.Context, tx bun.Tx, postgres bool, siteID model.SiteID, day model.Day) (figures, error) {
	hex := "hex(user_id)"
	if postgres {
		hex = "encode(user_id, 'hex')"

		// Without statistics of the steps, PostgreSQL would compare each row with all others.
		if _, err := tx.ExecContext(ctx, "SET LOCAL enable_nestloop = off"); err != nil {
			return nil, err
		}
	}

	text := strings.NewReplacer("{{hex}}", hex,
		"{{ms}}", tables.EngagedMS(postgres), "{{scroll}}", tables.EngagedScroll(postgres),
		"{{join}}", tables.EngagementJoin(postgres, day)).Replace(countSQL)

	var rows []struct {
		Name string
		N    int64
	}
	if err := tx.NewRaw(text, siteID, day, day.Start(), (day+1).Start()).Scan(ctx, &rows); err != nil {
		return nil, err
	}

	f := make(figures)
	for _, row := range rows {
		f.add(namedChannel(row.Name), row.N)
	}
	return f, nil
}

// namedChannel replaces the number of a channel in a figure's name by the channel's name.
func namedChannel(figure string) string {
	number, ok := strings.CutPrefix(figure, "visits by number ")
	if !ok {
		return figure
	}
	n, err := strconv.ParseInt(number, 10, 16)
	if err != nil {
		return figure
	}
	return "visits by " + string(model.ChannelOf(int16(n)))
}
