package exports

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/rawrows"
	"github.com/tallygate/tallygate/db/tables"
)

// The lookups of a page on PostgreSQL. OFFSET 0 makes each lookup a query of its own, which uses
// the whole key: a join reads all visits or reports of the days if statistics are missing. The
// bounds of the days are constants, so that the planner leaves out the partitions of other months.
const (
	// pgVisits looks up visits by their keys.
	pgVisits = `
SELECT key.i, %[1]s
FROM unnest($1, $2, $3) WITH ORDINALITY AS key (day, visitor, n, i)
CROSS JOIN LATERAL (
  SELECT * FROM visits
  WHERE site_id = %[2]d AND day = key.day AND visitor = key.visitor AND n = key.n AND day >= %[3]d AND day <= %[4]d
  OFFSET 0) AS v`

	// pgEngagement looks up, on each of some days, the reports on a slice of the page view ids $4.
	// A day without reports, for example a future day, costs one lookup.
	pgEngagement = `
SELECT days.first + key.i, e.ms, e.scroll, e.repeated_at
FROM (
  SELECT days.* FROM unnest($1, $2, $3) AS days (day, first, last)
  CROSS JOIN LATERAL (
    SELECT 1 FROM engagement WHERE site_id = %[1]d AND day = days.day AND day >= %[2]d AND day <= %[3]d LIMIT 1) AS reported
  OFFSET 0) AS days
CROSS JOIN LATERAL unnest($4[days.first:days.last]) WITH ORDINALITY AS key (id, i)
CROSS JOIN LATERAL (
  SELECT ms, scroll, repeated_at FROM engagement
  WHERE site_id = %[1]d AND day = days.day AND id = key.id AND day >= %[2]d AND day <= %[3]d
  OFFSET 0) AS e`
)

// readPostgres reads the rows of a query in a first round trip, and their visits and engagement in
// a second. settings are the statements that run first.
func (p *page[Row]) readPostgres(
	ctx context.Context, driverConn any, siteID model.SiteID, settings []string, query string,
) error {
	e := p.of
	first := rawrows.Query{Text: query, Take: func(r rawrows.Row) { p.add(r) }}
	var visits *visitLookup
	var engaged []model.Engaged

	err := rawrows.Snapshot(ctx, driverConn, settings, first, func() []rawrows.Query {
		rows := p.rows
		if len(rows) == 0 {
			return nil
		}

		visits = newVisitLookup(e, rows)
		lookups := []rawrows.Query{visits.query(siteID, func(row int32) *Visit { return e.visit(&rows[row]) })}
		if e.setEngaged != nil {
			engaged = make([]model.Engaged, len(rows))
			lookups = append(lookups, e.engagementQuery(siteID, rows, engaged))
		}
		return lookups
	})
	if err != nil || len(p.rows) == 0 {
		return err
	}

	for i, from := range visits.of {
		*e.visit(&p.rows[i]) = *e.visit(&p.rows[from])
	}
	for i := range engaged {
		ms, scroll := engaged[i].Of(e.cursor(&p.rows[i]).At)
		e.setEngaged(&p.rows[i], ms, scroll)
	}
	return nil
}

// visitLookup looks up the visits of a page, each once, for the first row that has it.
type visitLookup struct {
	days     []int32
	visitors []int64
	numbers  []int16
	rows     []int32 // the numbers of these rows

	of []int32 // for each row of the page, the number of the first row with the same visit
}

type visitKey struct {
	day     model.Day
	visitor model.VisitorID
	n       int16
}

func newVisitLookup[Row any](e *exported[Row], rows []Row) *visitLookup {
	l := &visitLookup{of: make([]int32, len(rows))}
	firsts := make(map[visitKey]int32, len(rows))

	for i := range rows {
		visit := e.visit(&rows[i])
		key := visitKey{e.cursor(&rows[i]).At.Day(), visit.Visitor, visit.N}
		first, ok := firsts[key]
		if !ok {
			first = int32(i)
			firsts[key] = first
			l.days = append(l.days, int32(key.day))
			l.visitors = append(l.visitors, int64(binary.BigEndian.Uint64(key.visitor[:])))
			l.numbers = append(l.numbers, key.n)
			l.rows = append(l.rows, first)
		}
		l.of[i] = first
	}
	return l
}

// query returns the query for the visits; visit returns a row's visit by the row's number. Days are
// in order, because rows are.
func (l *visitLookup) query(siteID model.SiteID, visit func(row int32) *Visit) rawrows.Query {
	return rawrows.Query{
		Text:   fmt.Sprintf(pgVisits, exportedVisits.list("v."), siteID, l.days[0], l.days[len(l.days)-1]),
		Arrays: []any{l.days, l.visitors, l.numbers},
		Take:   func(r rawrows.Row) { exportedVisits.scan(visit(l.rows[r.Int64(0)-1]), r, 1) },
	}
}

// engagementQuery returns the query for the engagement of a page's rows, in their order. Each row
// is looked up on the days that can have reports on it.
func (e *exported[Row]) engagementQuery(siteID model.SiteID, rows []Row, engaged []model.Engaged) rawrows.Query {
	var days, first, last []int32 // the slices of the rows begin with 1
	ids := make([]int64, len(rows))

	for i := range rows {
		row := e.cursor(&rows[i])
		ids[i] = row.ID
		day := int32(row.At.Day())

		// Rows are in the order of time, so the rows of a day are one slice of ids.
		if i == 0 || days[len(days)-tables.EngagementDays] != day {
			for n := range int32(tables.EngagementDays) {
				days, first, last = append(days, day+n), append(first, int32(i)+1), append(last, 0)
			}
		}
		for n := range tables.EngagementDays {
			last[len(last)-1-n] = int32(i) + 1
		}
	}

	return rawrows.Query{
		Text:   fmt.Sprintf(pgEngagement, siteID, days[0], days[len(days)-1]),
		Arrays: []any{days, first, last, ids},
		Take: func(r rawrows.Row) {
			engaged[r.Int64(0)-2].Add(r.Int64(1), r.Int64(2), r.Int64(3))
		},
	}
}
