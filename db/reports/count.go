package reports

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/scan"
	"github.com/tallygate/tallygate/db/reports/segment"
	"github.com/tallygate/tallygate/db/turns"
)

// count is the count of one report, which has a turn.
type count struct {
	*cellStore
	plan     *plan
	scanners []*scan.Scanner // of the periods
	budget   *scan.Budget

	turn   *turns.Turn
	began  time.Time // of the turn
	worked time.Duration
}

// begin waits for the turn of a report.
func (p *plan) begin(ctx context.Context) (*count, error) {
	turn, err := p.in.turns.Begin(ctx, p.request.Asker)
	if errors.Is(err, turns.ErrBusy) {
		return nil, ErrBusy
	}
	if err != nil {
		return nil, err
	}

	c := &count{cellStore: p.in, plan: p, budget: scan.NewBudget(p.in.scanBytes), turn: turn, began: time.Now()}
	for _, q := range p.request.Periods {
		c.scanners = append(c.scanners, scan.NewWithin(ctx, q, c.budget))
	}
	return c, nil
}

// took returns how long the count has worked.
func (c *count) took() time.Duration { return c.worked + time.Since(c.began) }

// yield gives way to other callers after a while, with the memory of the count and so many bytes
// more, if it may: see maxSuspended.
func (c *count) yield(ctx context.Context, more int) error {
	if time.Since(c.began) < c.quantum {
		return nil
	}

	held := c.budget.Used() + int64(more)
	if !c.suspended.enter(held) {
		return nil
	}
	defer c.suspended.leave(held)

	c.worked += time.Since(c.began)
	err := c.turn.Yield(ctx)
	c.began = time.Now()
	return err
}

// without waits for another count without the turn, which the other one may need.
func (c *count) without(ctx context.Context, wait func()) error {
	c.worked += time.Since(c.began)
	c.turn.End()
	wait()
	err := c.turn.Resume(ctx)
	c.began = time.Now()
	return err
}

// add adds a piece to the scanners, and gives way to other callers.
func (c *count) add(ctx context.Context, g piece) error {
	if err := c.plan.add(g, c.scanners); err != nil {
		return err
	}
	return c.yield(ctx, 0)
}

// scan adds the segments of all days to the scanners, one after the other, and returns the time
// until which everything is counted. A segment is read while the previous one is counted.
func (c *count) scan(ctx context.Context) (model.Instant, error) {
	s, p := c.cellStore, c.plan
	shared := s.buffers.Get().(*buffers)
	defer s.buffers.Put(shared)

	group, reading := errgroup.WithContext(ctx)
	start := func(part func() error) {
		group.Go(func() error {
			defer c.budget.Begin().End()
			return part()
		})
	}

	read := make(chan piece)
	start(func() error {
		defer close(read)
		return s.readMonths(reading, p.request.SiteID, p, c.scanners, shared, read)
	})

	// A segment that was built since the plan was made replaces a live day.
	covered := make(map[model.Day]bool)
	start(func() error {
		for g := range read {
			for n := range g.Days {
				covered[g.First+model.Day(n)] = true
			}
			if err := c.add(ctx, g); err != nil {
				return err
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return 0, err
	}

	asOf := p.request.Now
	for _, day := range p.live {
		if covered[day] {
			continue
		}
		d, err := c.liveDay(ctx, day)
		if err != nil {
			return 0, err
		}
		asOf = min(asOf, d.at)
		if err := c.add(ctx, piece{Segment: d.Segment}); err != nil {
			return 0, err
		}
	}
	return asOf, nil
}

// add adds a piece to the scanners of the periods that it overlaps. Each scanner takes each day of
// a segment once: from its rollup if that has the day's figures, and otherwise from its columns.
func (p *plan) add(g piece, scanners []*scan.Scanner) error {
	for i, scanner := range scanners {
		if !p.overlaps(i, g) {
			continue
		}

		var err error
		switch {
		case g.rollup != nil:
			err = scanner.AddRollup(g.Segment, g.rollup)
		case g.spans != nil:
			err = scanner.AddRest(g.Segment, g.spans)
		default:
			err = scanner.Add(g.Segment)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// overlaps reports whether a piece has days of a period.
func (p *plan) overlaps(period int, g piece) bool {
	sp := p.spans[period]
	return g.First <= sp.last && g.First+model.Day(len(g.Days)) > sp.first
}

// needsColumns reports whether a period needs the columns of a segment that has a rollup.
func (p *plan) needsColumns(g piece, scanners []*scan.Scanner) bool {
	for i, scanner := range scanners {
		if p.overlaps(i, g) && scanner.NeedsColumns(g.Segment, g.spans) {
			return true
		}
	}
	return false
}

// readMonths sends the segments of each month that has days of the plan. Rollups are read if some
// period can use them. A segment lies in one of the buffers until the next one has been received.
func (s *cellStore) readMonths(
	ctx context.Context, siteID model.SiteID, p *plan, scanners []*scan.Scanner, buffers *buffers, to chan<- piece,
) error {
	send := func(g piece) error {
		select {
		case to <- g:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}

	for _, want := range p.months() {
		first, _ := monthOf(want.first)
		var err error
		if slices.ContainsFunc(scanners, (*scan.Scanner).AddsUp) {
			needsColumns := func(g piece) bool { return p.needsColumns(g, scanners) }
			needsNames := slices.ContainsFunc(scanners, (*scan.Scanner).NeedsNames)
			err = s.eachPiece(ctx, siteID, first, want, buffers, needsNames, needsColumns, send)
		} else {
			err = s.eachSegment(ctx, siteID, first, want, buffers, func(g *segment.Segment) error {
				return send(piece{Segment: g})
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// months returns, for each month with days that have or may get a segment, the first and the last
// of these days.
func (p *plan) months() []span {
	wanted := make(map[model.Month]span)
	want := func(day model.Day) {
		month := day.Start().Month()
		sp, ok := wanted[month]
		if !ok {
			sp = span{day, day}
		}
		wanted[month] = span{min(sp.first, day), max(sp.last, day)}
	}

	for day := range p.built {
		want(day)
	}
	for _, day := range p.live {
		want(day)
	}

	spans := make([]span, 0, len(wanted))
	for _, sp := range wanted {
		spans = append(spans, sp)
	}
	slices.SortFunc(spans, func(a, b span) int { return int(a.first - b.first) })
	return spans
}
