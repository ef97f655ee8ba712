package reports

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
)

// Dimensions maps the dimensions of reports to those of the scan.
var Dimensions = map[model.ReportDimension]scan.Dimension{
	model.DimensionPage: scan.Page, model.DimensionEntryPage: scan.EntryPage, model.DimensionExitPage: scan.ExitPage,
	model.DimensionChannel: scan.Channel, model.DimensionSource: scan.Source, model.DimensionReferrer: scan.Referrer,
	model.DimensionUTMSource: scan.UTMSource, model.DimensionUTMMedium: scan.UTMMedium,
	model.DimensionUTMCampaign: scan.UTMCampaign, model.DimensionUTMContent: scan.UTMContent,
	model.DimensionUTMTerm: scan.UTMTerm, model.DimensionAdPlatform: scan.ClickID, model.DimensionLanguage: scan.Language,
	model.DimensionScreenWidth: scan.Width, model.DimensionCountry: scan.Country, model.DimensionBrowser: scan.Browser,
	model.DimensionSystem: scan.System, model.DimensionDevice: scan.Device, model.DimensionHostname: scan.Host,
	model.DimensionSourceGroup: scan.SourceGroup, model.DimensionSourceName: scan.SourceName,
	model.DimensionEvent: scan.Event, model.DimensionProperty: scan.Property, model.DimensionDayOfWeek: scan.DayOfWeek, model.DimensionHourOfDay: scan.HourOfDay,
}

// dimensionOf is the inverse of Dimensions.
func dimensionOf(by scan.Dimension) model.ReportDimension {
	for dimension, other := range Dimensions {
		if other == by {
			return dimension
		}
	}
	return ""
}

// importsOf returns the complete imports of a site with days of a period. Days of daily sums and of
// UTC differ by at most one.
func importsOf(ctx context.Context, idb bun.IDB, siteID model.SiteID, spans []span) ([]model.ReportImport, error) {
	var list []model.ReportImport
	all, err := listImports(ctx, idb, siteID)
	for _, m := range all {
		overlaps := func(sp span) bool { return m.FirstDay <= sp.last+1 && m.LastDay >= sp.first-1 }
		if m.State == model.ImportComplete && slices.ContainsFunc(spans, overlaps) {
			list = append(list, m)
		}
	}
	return list, err
}

// importCost returns how many rows of an import a report of some days reads, as if all days had as
// many.
func importCost(m *model.ReportImport, sp span) int64 {
	first, last := max(m.FirstDay, sp.first), min(m.LastDay, sp.last)
	if first > last {
		return 0
	}
	return m.Size * int64(last-first+1) / int64(m.LastDay-m.FirstDay+1)
}

// include adds the imports of the periods to their results. It reads one state of the database.
func (s *cellStore) include(
	ctx context.Context, r *Request, p *plan, results []*scan.Result, budget *scan.Budget,
) error {
	if len(p.imports) == 0 {
		return nil
	}

	return s.snapshot(ctx, func(ctx context.Context, tx bun.Tx, conn bun.Conn) error {
		imports, err := importsOf(ctx, tx, r.SiteID, p.spans)
		if err != nil {
			return err
		}
		for i, all := range r.Periods {
			// Journeys, cohorts and numbers are of the site's own visits.
			own := *all
			own.Journeys, own.Cohorts, own.Numbers = nil, nil, nil
			q := &own
			period := &importedPeriod{
				store: s, tx: tx, conn: conn, query: q, budget: budget, site: r.SiteID, span: p.spans[i],
				from: q.From.Number(), to: q.To.Number(), found: scan.NewImported(q),
			}
			if err := period.read(ctx, imports); err != nil {
				return fmt.Errorf("read the imports of site %d: %w", r.SiteID, err)
			}
			if period.found.State != scan.ImportNone {
				results[i].Include(period.found)
			}
		}
		return nil
	})
}

// importedPeriod reads what imports have of a period.
type importedPeriod struct {
	store    *cellStore
	tx       bun.Tx
	conn     bun.Conn // of tx
	query    *scan.Query
	budget   *scan.Budget
	site     model.SiteID
	span     span
	from, to model.Day // of the calendar
	found    *scan.Imported
}

func (p *importedPeriod) read(ctx context.Context, imports []model.ReportImport) error {
	scanner, visits := scan.NewWithin(ctx, p.query, p.budget), false
	for i := range imports {
		m := &imports[i]
		var err error
		switch {
		case m.VisitRows && m.FirstDay <= p.span.last && m.LastDay >= p.span.first:
			visits = true
			err = p.scanVisits(ctx, m.ID, scanner)
		case !m.VisitRows && m.FirstDay <= p.to && m.LastDay >= p.from:
			err = p.addFigures(ctx, m)
		default:
			continue
		}
		if err != nil {
			return err
		}
		p.found.Services = append(p.found.Services, scan.ImportedDays{Source: m.Source, First: m.FirstDay, Last: m.LastDay})
	}

	if visits {
		result := scanner.Result()
		for _, rows := range result.Breakdowns {
			p.budget.Take(importedBytes * rows.Len())
		}
		if err := p.budget.Err(); err != nil {
			return err
		}
		p.found.AddVisits(result)
	}
	return nil
}

// scanVisits adds the visits of an import to a scanner.
func (p *importedPeriod) scanVisits(ctx context.Context, id model.ImportID, scanner *scan.Scanner) error {
	wanted := chunks{site: p.site, imported: int64(id), span: p.span, columns: true}
	return p.conn.Raw(func(driverConn any) error {
		return eachStored(ctx, p.store.rowsOf(driverConn), wanted, nil, func(found *stored) error {
			g, err := unpack(found.packed)
			if err != nil {
				return err
			}
			return scanner.Add(g)
		})
	})
}

// addFigures adds the daily sums of an import.
func (p *importedPeriod) addFigures(ctx context.Context, m *model.ReportImport) error {
	p.found.WithoutHours = true
	if len(p.query.Filters) > 0 {
		p.found.Raise(scan.ImportFiltered)
		return nil
	}
	p.found.Raise(scan.ImportIncluded)

	first, last := max(p.from, m.FirstDay), min(p.to, m.LastDay)
	if !p.query.Since.IsZero() {
		first = max(first, p.query.From.Number()+1) // the sums of a day cannot be divided
	}
	if until := p.query.Until; !until.IsZero() {
		// The sums of this day cannot be divided.
		cut := scan.DateOf(until.In(p.query.Zone))
		day := cut.Number()
		if first <= day && day <= last && until.After(cut.Start(p.query.Zone)) {
			p.found.Raise(scan.ImportWholeDays)
		}
		last = min(last, day-1)
	}

	days := &importedDays{importedPeriod: p, of: m, first: first, last: last}
	if err := days.addTotals(ctx); err != nil {
		return err
	}
	for i := range p.query.Breakdowns {
		if err := days.addBreakdown(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// importedDays reads daily sums of one import.
type importedDays struct {
	*importedPeriod
	of          *model.ReportImport
	first, last model.Day
}

// figureSum is a row of a query of daily sums.
type figureSum struct {
	Day   model.Day
	Value string

	Visitors, Visits, Pageviews, Bounces, Unbounced, Exits, Events int64
}

// figures returns sums as figures, without what daily sums cannot say.
func (d *importedDays) figures(f *figureSum) *scan.Figures {
	figures := &scan.Figures{
		Visitors: f.Visitors, Visits: f.Visits, Pageviews: f.Pageviews, Bounces: f.Bounces, Exits: f.Exits, Events: f.Events,
		Unknown: &scan.Unknown{
			VisitTime: f.Visits, ViewTime: f.Pageviews, Bounce: f.Unbounced, Conversion: f.Visitors,
		},
	}
	if d.of.Source == model.ImportGoatCounterSums {
		figures.Unknown.Visit = f.Pageviews
	}
	return figures
}

// query returns a query of the sums of a dimension, added up by columns.
func (d *importedDays) sums(by model.ReportDimension, columns string) *bun.SelectQuery {
	q := d.tx.NewSelect().Table("import_figures").ColumnExpr(columns).GroupExpr(columns).
		Where("site_id = ? AND import_id = ? AND dimension = ?", d.site, d.of.ID, string(by)).
		Where("day >= ? AND day <= ?", d.first, d.last)
	for _, sum := range []string{"visitors", "visits", "pageviews", "bounces", "unbounced", "exits", "events"} {
		q.ColumnExpr("cast(sum(?0) AS bigint) AS ?0", bun.Ident(sum))
	}
	return q
}

// addTotals adds the totals of the days to those of the period, of its points and of days of the
// week.
func (d *importedDays) addTotals(ctx context.Context) error {
	var rows []figureSum
	if err := d.sums("", "day").Scan(ctx, &rows); err != nil {
		return err
	}

	if keys := slices.Sorted(maps.Keys(d.query.KeyEvents)); len(keys) > 0 && d.of.HasDimension(model.DimensionEvent) {
		var conversions []figureSum
		err := d.sums(model.DimensionEvent, "day").Where("value IN ?", bun.Tuple(keys)).Scan(ctx, &conversions)
		if err != nil {
			return err
		}
		for _, row := range conversions {
			d.addDay(row.Day, &scan.Figures{Conversions: row.Events})
		}
	}
	for i := range rows {
		d.addDay(rows[i].Day, d.figures(&rows[i]))
	}
	return nil
}

// addDay adds the figures of a day.
func (d *importedDays) addDay(day model.Day, f *scan.Figures) {
	d.found.Totals.Add(f)

	date := scan.DateOfNumber(day)
	for i, b := range d.query.Breakdowns {
		if b.By == scan.DayOfWeek {
			d.found.AddRow(i, strconv.Itoa((date.Weekday()+6)%7+1), f)
		}
	}

	points := d.query.Points
	if len(points) < 2 {
		return
	}
	start, end := date.Start(d.query.Zone), date.AddDays(1).Start(d.query.Zone)
	for i := range points[1:] {
		if !points[i].After(start) && !end.After(points[i+1]) {
			d.found.Points[i].Add(f)
			return
		}
	}
	d.found.Series = max(d.found.Series, scan.ImportWholeDays)
}

const (
	// maxImportedValues bounds the values of a breakdown that a report reads of one import.
	maxImportedValues = 100_000

	// importedBytes is the memory of the figures of an imported value.
	importedBytes = 500
)

// addBreakdown adds the rows of a breakdown.
func (d *importedDays) addBreakdown(ctx context.Context, i int) error {
	asked := &d.query.Breakdowns[i]
	by := dimensionOf(asked.By)
	switch {
	case asked.By == scan.DayOfWeek:
		return nil // see addDay
	case asked.By == scan.HourOfDay:
		d.found.Rows[i] = max(d.found.Rows[i], scan.ImportWholeDays)
		return nil
	case !d.of.HasDimension(by):
		d.found.Rows[i] = max(d.found.Rows[i], scan.ImportNoValues)
		return nil
	}

	of, valueOf := storedOf(by)

	var rows []figureSum
	if err := d.sums(of, "value").Limit(maxImportedValues+1).Scan(ctx, &rows); err != nil {
		return err
	}
	if len(rows) > maxImportedValues {
		return scan.ErrBudget
	}
	for n := range rows {
		d.budget.Take(importedBytes + len(rows[n].Value))
		d.found.AddRow(i, valueOf(rows[n].Value), d.row(by, asked, &rows[n]))
	}
	return d.budget.Err()
}

// storedOf returns the dimension that daily sums have for a dimension, and the value of a stored
// value.
func storedOf(by model.ReportDimension) (of model.ReportDimension, valueOf func(stored string) string) {
	switch by {
	case model.DimensionSourceGroup:
		return model.DimensionSource, func(source string) string { return string(model.GroupOfSource(source)) }
	case model.DimensionSourceName:
		return model.DimensionSource, model.NameOfSource
	default:
		return by, func(value string) string { return value }
	}
}

// row returns the figures of a row.
func (d *importedDays) row(by model.ReportDimension, asked *scan.Breakdown, sum *figureSum) *scan.Figures {
	f := d.figures(sum)
	if asked.VisitorsOnly {
		return &scan.Figures{Visitors: f.Visitors, Unknown: &scan.Unknown{Conversion: f.Visitors}}
	}
	if by == model.DimensionPage && !d.of.HasDimension(model.DimensionExitPage) {
		f.Unknown.Exit = f.Pageviews
	}
	if by == model.DimensionEvent && d.query.KeyEvents[sum.Value] {
		f.Conversions = f.Events
	}
	return f
}
