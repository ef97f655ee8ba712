package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/loadgen/report"
	"github.com/tallygate/tallygate/tools/loadgen/target"
)

// Growth measures the service on an empty and on a filled database: no cost may grow with the
// number of stored rows. Rates are shares of the empty handler's rate in the same round.
type Growth struct {
	Private
	Engines     []string      `long:"engines" defaults:"sqlite,postgres" choice:"sqlite" choice:"postgres" value-name:"NAME" unquote:"false" description:"Databases: sqlite, and a private postgres. May be repeated."`
	Rows        int           `long:"rows" default:"10000000" value-name:"N" description:"Page views to insert before the second measurement."`
	Connections int           `long:"connections" default:"128" value-name:"N" description:"Concurrent browsers."`
	Rounds      int           `long:"rounds" default:"5" value-name:"N" description:"Measurements before and after, of which the median is reported."`
	Duration    time.Duration `long:"duration" default:"5s" value-name:"TIME" description:"Duration of each measurement."`
}

// Validate checks the limits of the flags.
func (c *Growth) Validate() error {
	return errors.Join(within("--rows", c.Rows, 1, 1e9), within("--rounds", c.Rounds, 1, 1000),
		within("--connections", c.Connections, 1, 4096), inAll(c.Connections, 2*c.Rounds),
		within("--duration", c.Duration, shortest, longest))
}

// exportRows is the page size of the compared exports. latePage is the number of the page that is
// compared with the first.
const (
	exportRows = 1_000
	latePage   = 1_000
)

// The units of the figures of growth.
const (
	emptyShare = "empty-of-empty-handler"
	fullShare  = "full-of-empty-handler"
	fullRatio  = "full-of-empty"
	firstPage  = "first-page-ms"
	latePageMs = "late-page-ms"
	lateNumber = "late-page"
	fillTime   = "fill-s"
)

var growthColumns = []report.Column{
	{Title: "database", Format: "%s", Names: []string{"engine"}},
	{Title: "rows filled in", Format: "%s", Names: []string{"rows"}},
	{Title: "empty", Format: "%.3f", Names: []string{emptyShare}},
	{Title: "full", Format: "%.3f", Names: []string{fullShare}},
	{Title: "full of empty", Format: "%.2f", Names: []string{fullRatio}},
	{Title: "at least 0.90", Of: func(ratio float64) string { return report.YesNo(ratio >= 0.9) }, Names: []string{fullRatio}},
	{Title: "export page 1, ms", Format: "%.1f", Names: []string{firstPage}},
	{Title: "late page, ms", Format: "%.1f", Names: []string{latePageMs}},
	{Title: "its number", Format: "%.0f", Names: []string{lateNumber}},
	{Title: "failed", Of: report.Marked, Names: []string{report.Failed}},
}

// Play implements Scenario.
func (c *Growth) Play(ctx context.Context, progress io.Writer) (*report.Outcome, error) {
	o := &report.Outcome{Scenario: "growth"}
	err := c.besideNoop(ctx, c.Engines, o, progress, func(s *stage) error {
		return (&growth{Growth: c, stage: s, measured: s.outcome.Case("engine", s.engine, "rows", c.Rows)}).play(ctx)
	})
	o.Head("%s; %d connections, medians of %d rounds of %v; page views as a share of the empty handler in the same round.\n\n%s\n",
		report.Machine(), c.Connections, c.Rounds, c.Duration, report.Table(growthColumns, o.Cases))
	return o, err
}

// growth measures one engine.
type growth struct {
	*Growth
	*stage
	measured *report.Case
}

func (g *growth) play(ctx context.Context) error {
	s := g.stage
	if err := s.in.Server.Start(ctx); err != nil {
		return err
	}
	if err := s.open(ctx, s.in.Server, standard("pageviews", 20)); err != nil {
		return err
	}
	if err := g.rounds(ctx, emptyShare); err != nil {
		return err
	}
	if err := s.in.Server.Stop(); err != nil {
		return err
	}

	began := time.Now()
	if err := s.in.WithDatabase(func(d *db.DB) error {
		return fill(ctx, d, s.session.Traffic.Sites, g.Rows, 1, s.progress)
	}); err != nil {
		return err
	}
	g.measured.Add(fillTime, time.Since(began).Seconds())
	if err := s.in.Server.Start(ctx); err != nil {
		return err
	}

	// Use new visitors: known visitors would continue their visits, which is less work.
	s.session.Traffic.FirstVisitor = s.session.Traffic.Visitors
	if err := s.begin(ctx, "journal"); err != nil {
		return err
	}
	if err := g.rounds(ctx, fullShare); err != nil {
		return err
	}
	g.measured.Add(fullRatio, g.measured.Get(fullShare)/g.measured.Get(emptyShare))
	s.outcome.Write("%s was filled in %.0f s. Of the hits before and after that %s.\n", s.engine, g.measured.Get(fillTime),
		s.outcome.Hits.Counts())
	return g.timePages(ctx)
}

// rounds measures the server as a share of the empty handler, and verifies the hits.
func (g *growth) rounds(ctx context.Context, unit string) error {
	for range g.Rounds {
		// Measure both in the same minutes, because the machine's speed changes.
		base, err := driveNoop(ctx, g.noop, g.Connections, g.Duration, 0)
		if err != nil {
			return err
		}
		r, err := g.measure(ctx, g.measured, measured(g.Connections, g.Duration), "pageviews")
		if err != nil {
			return err
		}

		share := r.Throughput() / base.Throughput()
		g.measured.Add(unit, share)
		fmt.Fprintf(g.progress, "%.0f/s, %.3f of the empty handler's %.0f/s\n", r.Throughput(), share, base.Throughput())
	}
	return g.close(ctx)
}

// timePages measures pages of the busiest site's export. The late page is number latePage, or the
// last whole one.
func (g *growth) timePages(ctx context.Context) error {
	from := time.Now().UTC().AddDate(0, 0, -filledDays-1)
	read := func(cursor string) (rows int, last string, err error) {
		return g.session.Account.ExportPage(ctx, g.session.Traffic.Sites[0].ID, "pageviews", from, cursor, exportRows,
			func(*target.Row) error { return nil })
	}

	begin := target.CursorBefore(from)
	late, next, number := begin, begin, 0
	for page := 1; page <= latePage; page++ {
		rows, last, err := read(next)
		if err != nil {
			return err
		}
		if rows < exportRows {
			// Only a whole page compares with the first.
			break
		}
		number, late, next = page, next, last
	}
	g.measured.Add(lateNumber, float64(number))

	const times = 20
	for range times {
		for cursor, unit := range map[string]string{begin: firstPage, late: latePageMs} {
			began := time.Now()
			if _, _, err := read(cursor); err != nil {
				return err
			}
			g.measured.Add(unit, report.Milliseconds(time.Since(began)))
		}
	}
	return nil
}
