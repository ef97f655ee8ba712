package reports

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
)

// Request asks for the figures of one site.
type Request struct {
	SiteID model.SiteID
	Now    model.Instant // of the request; days after it are empty
	// Asker is the caller in the queue of scans, such as an account.
	Asker string
	// Periods are counted together, for instance a period and the one it is compared with.
	Periods []*scan.Query
	// Checks is how many of the last periods only decide whether the others may be shown. They do
	// not count in the size of the report.
	Checks int
}

// Answer has the result of each period of a Request.
type Answer struct {
	Request Request
	Results []*scan.Result
	// AsOf is the time until which everything committed is counted, except engagement with page
	// views of days that are not over for 48 hours, which may be an hour behind.
	AsOf model.Instant

	Bytes int64 // about the memory of the results
}

// counting is what observe gets before a count.
const counting = "count a report"

// Report counts a request. The caller must have loaded the site, which checks the right to see it.
// It fails with ErrTooExpensive and ErrNotBuilt before it reads any figure, and with ErrTooLarge
// when it needs too much memory. It waits for its turn until ctx ends.
func (s *Store) Report(ctx context.Context, r Request) (*Answer, error) {
	p, err := s.plan(ctx, &r)
	if err != nil {
		return nil, err
	}
	answer, _, err := p.count(ctx, func(Size) error { return nil })
	return answer, err
}

// Work is what the count of a report took.
type Work struct {
	Time  time.Duration // of processors, without PostgreSQL's server
	Bytes int64         // of texts, rows of breakdowns and user ids
}

// count counts the request of a plan, for which it pays as soon as it has its turn: all requests
// that wait with it could otherwise be admitted by the same remaining points. work is set after an
// error, too.
func (p *plan) count(ctx context.Context, pay func(Size) error) (answer *Answer, work Work, err error) {
	if err := p.addLiveDays(ctx); err != nil {
		return nil, Work{}, err
	}
	c, err := p.begin(ctx)
	if err != nil {
		return nil, Work{}, err
	}
	defer c.turn.End()
	if err := pay(p.size); err != nil {
		return nil, Work{}, err
	}

	c.observe(counting)
	answer, err = c.answer(ctx)
	work = Work{c.budget.Time(), c.budget.Used()}
	if err != nil {
		return nil, work, tooLarge(err)
	}
	answer.Bytes = work.Bytes
	return answer, work, nil
}

// answer counts, adds imports, and measures both.
func (c *count) answer(ctx context.Context) (*Answer, error) {
	defer c.budget.Begin().End()

	asOf, err := c.scan(ctx)
	if err != nil {
		return nil, err
	}

	p := c.plan
	answer := &Answer{Request: *p.request, AsOf: asOf}

	for _, scanner := range c.scanners {
		result, err := scanner.End()
		if err != nil {
			return nil, err
		}
		answer.Results = append(answer.Results, result)
	}
	return answer, c.include(ctx, p.request, p, answer.Results, c.budget)
}

// tooLarge turns the errors of budgets into ErrTooLarge.
func tooLarge(err error) error {
	if errors.Is(err, scan.ErrBudget) || errors.Is(err, segment.ErrTooLarge) {
		return ErrTooLarge
	}
	return err
}

// Size is what a request reads of finished days, which decides its price.
type Size struct {
	Pageviews int64 // a daily sum of an import counts as one
	Events    int64
}

// DayPageviews returns how many page views the report of a finished day counts; 0 if it is not
// built.
func (s *Store) DayPageviews(ctx context.Context, siteID model.SiteID, day model.Day) (int64, error) {
	in, err := s.ofSite(ctx, siteID)
	if err != nil {
		return 0, err
	}

	rows, err := days(ctx, in.cell, siteID, day, day)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	return rows[0].Pageviews, nil
}

// FirstDay returns the first UTC day for which the site has figures, imported ones included. ok is
// false if there is none.
func (s *Store) FirstDay(ctx context.Context, siteID model.SiteID) (day model.Day, ok bool, err error) {
	day, ok, err = s.firstOwnDay(ctx, siteID)
	if err != nil {
		return 0, false, err
	}
	imports, err := listImports(ctx, s.db.Read, siteID)
	for _, m := range imports {
		if m.State == model.ImportComplete && (!ok || m.FirstDay < day) {
			day, ok = m.FirstDay, true
		}
	}
	return day, ok, err
}

// HasHitsBefore reports whether the site has own hits of a time before the given time.
func (s *Store) HasHitsBefore(ctx context.Context, siteID model.SiteID, before model.Instant) (bool, error) {
	day, ok, err := s.firstOwnDay(ctx, siteID)
	if err != nil || !ok || day != before.Day() {
		return ok && day < before.Day(), err
	}

	// Both are on one UTC day. The site's first hits decide.
	in, err := s.ofSite(ctx, siteID)
	if err != nil {
		return false, err
	}
	for _, table := range []string{"pageviews", "events"} {
		found, err := in.cell.Read.NewSelect().Table(table).
			Where("site_id = ? AND at >= ? AND at < ?", siteID, day.Start(), before).Exists(ctx)
		if found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// FirstUserDay is FirstDay for days with user ids: without imports and sealed months.
func (s *Store) FirstUserDay(ctx context.Context, siteID model.SiteID) (day model.Day, ok bool, err error) {
	return s.firstDayUpTo(ctx, siteID, merged)
}

// firstOwnDay is FirstDay without imports.
func (s *Store) firstOwnDay(ctx context.Context, siteID model.SiteID) (day model.Day, ok bool, err error) {
	return s.firstDayUpTo(ctx, siteID, sealed)
}

// firstDayUpTo is firstOwnDay for days of the ledger up to a state.
func (s *Store) firstDayUpTo(ctx context.Context, siteID model.SiteID, last state) (day model.Day, ok bool, err error) {
	in, err := s.ofSite(ctx, siteID)
	if err != nil {
		return 0, false, err
	}

	var first []model.Day
	err = in.cell.Read.NewSelect().Table("report_days").Column("day").Where("site_id = ? AND state <= ?", siteID, last).
		Order("day").Limit(1).
		Scan(ctx, &first)
	if err != nil {
		return 0, false, fmt.Errorf("read the first report day of site %d: %w", siteID, err)
	}

	day, ok, err = in.nextVisit(ctx, siteID, firstDay)
	if err != nil {
		return 0, false, fmt.Errorf("read the first visit of site %d: %w", siteID, err)
	}
	if len(first) > 0 && (!ok || first[0] < day) {
		return first[0], true, nil
	}
	return day, ok, nil
}

// StoredBytes returns how many bytes the segments of a site have.
func (s *Store) StoredBytes(ctx context.Context, siteID model.SiteID) (bytes int64, err error) {
	in, err := s.ofSite(ctx, siteID)
	if err != nil {
		return 0, err
	}

	err = in.cell.Read.NewSelect().Table("report_segments").ColumnExpr("coalesce(sum(length(data)), 0)").
		Where("site_id = ?", siteID).Scan(ctx, &bytes)
	if err != nil {
		return 0, fmt.Errorf("measure the segments of site %d: %w", siteID, err)
	}
	return bytes, nil
}

// span is a range of UTC days.
type span struct{ first, last model.Day }

// plan is what a request reads.
type plan struct {
	in      *cellStore // the reports of the site's cell
	request *Request
	spans   []span             // of the periods, without future days
	built   map[model.Day]bool // days of the ledger that have been built
	live    []model.Day        // days to build from rows, ascending
	size    Size               // of the built days and of imports
	imports []model.ReportImport

	planned  model.Day // the last day that Plan has entered into the ledger
	complete bool      // the ledger has all days up to planned
}

// plan reads the ledger for a request, and refuses what is too much.
func (s *Store) plan(ctx context.Context, r *Request) (*plan, error) {
	in, err := s.ofSite(ctx, r.SiteID)
	if err != nil {
		return nil, err
	}

	// Read before the ledger: a day that is planned between the two is then found by its visits.
	planned, complete, err := in.planned(ctx, r.SiteID)
	if err != nil {
		return nil, err
	}
	p, err := in.readLedger(ctx, r)
	if err != nil {
		return nil, err
	}
	p.planned, p.complete = planned, complete
	if p.size.Pageviews > MaxPageviews {
		return nil, ErrTooExpensive
	}
	return p, nil
}

// readLedger returns a plan with the days of the ledger and the imports. The store must be of the
// site's cell.
func (s *cellStore) readLedger(ctx context.Context, r *Request) (*plan, error) {
	p := &plan{in: s, request: r, built: make(map[model.Day]bool)}
	today := r.Now.Day()
	counted := len(r.Periods) - r.Checks
	for i, q := range r.Periods {
		first, last := q.UTCDays()
		sp := span{first, min(last, today)} // imports are of any age
		p.spans = append(p.spans, sp)

		rows, err := days(ctx, s.cell, r.SiteID, sp.first, sp.last)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			p.addDay(&row, i < counted)
		}
	}

	var err error
	p.imports, err = importsOf(ctx, s.cell.Read, r.SiteID, p.spans)
	for i := range p.imports {
		for _, sp := range p.spans[:counted] {
			p.size.Pageviews += importCost(&p.imports[i], sp)
		}
	}
	return p, err
}

// addDay adds a day of the ledger, which may count in the size.
func (p *plan) addDay(row *dayRow, counts bool) {
	if row.BuiltAt == 0 {
		p.live = append(p.live, row.Day)
		return
	}
	p.built[row.Day] = true
	if counts {
		p.size.Pageviews += row.Pageviews
		p.size.Events += row.Events
	}
}

// addLiveDays adds the days that are not in the ledger, and refuses more than a report may read.
func (p *plan) addLiveDays(ctx context.Context) error {
	for _, sp := range p.spans {
		from := max(sp.first, firstDay)
		if p.complete {
			from = max(from, p.planned+1)
		}
		if err := p.in.addUnplanned(ctx, p.request.SiteID, p, span{from, sp.last}); err != nil {
			return err
		}
	}

	slices.Sort(p.live)
	p.live = slices.Compact(p.live)
	if len(p.live) > maxLiveDays {
		return ErrNotBuilt
	}
	return nil
}

// planned returns the last day that Plan has entered. complete is false while the site's earlier
// days may be missing.
func (s *Store) planned(ctx context.Context, siteID model.SiteID) (last model.Day, complete bool, err error) {
	var settings []struct{ Name, Value string }
	err = s.db.Read.NewSelect().Table("settings").Column("name", "value").
		Where("name IN (?, ?)", plannedSetting, backfillSetting).Scan(ctx, &settings)
	if err != nil {
		return 0, false, fmt.Errorf("read which report days are planned: %w", err)
	}

	var day, backfilled int64
	for _, setting := range settings {
		to := &day
		if setting.Name == backfillSetting {
			to = &backfilled
		}
		if *to, err = strconv.ParseInt(setting.Value, 10, 64); err != nil {
			return 0, false, fmt.Errorf("read the setting %s: %w", setting.Name, err)
		}
	}
	return model.Day(day), backfilled == backfillDone || model.SiteID(backfilled) >= siteID, nil
}

// addUnplanned adds the days of a span that are not in the ledger and have visits. It stops at more
// days than a report may read. A single day, usually today, is added without a look.
func (s *cellStore) addUnplanned(ctx context.Context, siteID model.SiteID, p *plan, sp span) error {
	if sp.first == sp.last && !p.built[sp.first] {
		p.live = append(p.live, sp.first)
		return nil
	}

	for from := sp.first; len(p.live) <= maxLiveDays; {
		day, ok, err := s.nextVisit(ctx, siteID, from)
		if err != nil {
			return fmt.Errorf("look for visits of site %d: %w", siteID, err)
		}
		if !ok || day > sp.last {
			return nil
		}
		if !p.built[day] {
			p.live = append(p.live, day)
		}
		from = day + 1
	}
	return nil
}
