package reports

import (
	"context"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports/segment"
)

const (
	// liveFor is the least time for which a live day is kept.
	liveFor = 10 * time.Second

	// liveFactor keeps a live day for so many times what its build took, so that the builds of one
	// site occupy at most a twentieth of a processor.
	liveFactor = 20

	// maxLiveFor bounds how old a live day can be.
	maxLiveFor = 2 * time.Minute

	// maxLiveBuild bounds the memory of the build of a live day, in bytes: some 2.5 million page
	// views of ordinary visits, and at least 700,000 hits.
	maxLiveBuild = 384 << 20

	// maxLiveBytes bounds the memory of all live days, about 5 million page views.
	maxLiveBytes = 128 << 20
)

// liveKey identifies a day of a site that is built from its rows for a report.
type liveKey struct {
	site model.SiteID
	day  model.Day
}

// liveDay is a day as it was stored at a time.
type liveDay struct {
	*segment.Segment
	at model.Instant // everything committed until then is in it
}

// liveDay returns a day built from its rows, at most some seconds old. Concurrent callers share one
// build, which gives way to other callers as a scan does.
func (c *count) liveDay(ctx context.Context, day model.Day) (*liveDay, error) {
	now := c.plan.request.Now
	return c.live.get(ctx, liveKey{c.plan.request.SiteID, day}, now, func() (cached[*liveDay], error) {
		before := c.took()
		g, _, err := c.buildRows(ctx, c.plan.request.SiteID, day, maxLiveBuild, func(held int) error { return c.yield(ctx, held) })
		if err != nil {
			return cached[*liveDay]{}, err
		}

		keep := min(max(liveFor, liveFactor*(c.took()-before)), maxLiveFor)
		return cached[*liveDay]{&liveDay{g, now}, now, keep, sizeInMemory(g)}, nil
	}, func(wait func()) error { return c.without(ctx, wait) })
}

// sizeInMemory estimates the memory of a segment that a cache keeps, in bytes. A day without rows
// has a size too: otherwise a cache would keep any number of them.
func sizeInMemory(g *segment.Segment) int64 {
	const perSegment, perVisit, perView, perEvent, perProp, perText = 4 << 10, 60, 13, 24, 8, 48
	total := g.Total()
	n := perSegment + perVisit*int64(total.Visits) + perView*int64(total.Views) + perEvent*int64(total.Events) +
		perProp*int64(g.Columns[segment.PropName].Len())
	for _, texts := range g.Texts {
		for _, text := range texts {
			n += int64(len(text)) + perText
		}
	}
	return n
}
