package reports

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

const (
	// LiveMinutes is how many minutes of page views a Live has.
	LiveMinutes = 30

	liveWindow = 5 * time.Minute // of visitors, pages and sources
	liveTop    = 10              // pages, sources and names of sources
	liveLatest = 20              // page views and events

	// minNowFor and maxNowFor bound how long a Live is kept: liveFactor times what its read took.
	// The console asks every two seconds, so it shows a hit of a small site within three.
	minNowFor = 750 * time.Millisecond
	maxNowFor = 10 * time.Second

	// maxLiveViews bounds the page views that one Live reads, 55 a second.
	maxLiveViews = 100_000

	// maxLiveTexts bounds the bytes of the pages, of the sources and of their names, that one Live
	// counts. The newest ones are counted; the first ten of a site are among them long before this.
	maxLiveTexts = 2 << 20

	// maxNowBytes bounds the memory of the Lives that are kept, for some thousand sites.
	maxNowBytes = 16 << 20
)

// Live says who is on a site now. Nothing in it identifies a visitor.
type Live struct {
	At        model.Instant // when it was read
	Visitors  int64         // with a page view in the last five minutes
	Pageviews [LiveMinutes]int64
	Pages     []LiveCount // by visitors, at most 10
	Sources   []LiveCount
	Names     []LiveCount // of the sources
	Latest    []LiveHit   // newest first, at most 20
}

// LiveCount is a value with its visitors.
type LiveCount struct {
	Value    string
	Visitors int64
}

// LiveHit is a page view or event.
type LiveHit struct {
	At      model.Instant
	Event   string // empty for a page view
	Path    string
	Channel string
}

// Live returns who is on a site now, at most maxNowFor old. Concurrent callers share one read. The
// caller must have loaded the site, which checks the right to see it.
func (s *Store) Live(ctx context.Context, siteID model.SiteID, now model.Instant) (*Live, error) {
	return s.lives.get(ctx, siteID, now, func() (cached[*Live], error) {
		in, err := s.ofSite(ctx, siteID)
		if err != nil {
			return cached[*Live]{}, err
		}

		began := time.Now()
		live, err := in.readLive(ctx, siteID, now)
		if err != nil {
			return cached[*Live]{}, err
		}
		return cached[*Live]{live, now, nowFor(time.Since(began)), live.size()}, nil
	}, nil)
}

// nowFor returns how long a Live is kept that took so long to read.
func nowFor(took time.Duration) time.Duration { return min(max(minNowFor, liveFactor*took), maxNowFor) }

// readLive counts the rows of the last minutes while it reads them.
func (s *cellStore) readLive(ctx context.Context, siteID model.SiteID, now model.Instant) (*Live, error) {
	since := now.Add(-LiveMinutes * time.Minute)
	c := newLiveCount(now)
	if err := s.eachRecent(ctx, recentViews, siteID, since+1, now, maxLiveViews, c.addView); err != nil {
		return nil, fmt.Errorf("read the last page views of site %d: %w", siteID, err)
	}

	var events []LiveHit
	err := s.eachRecent(ctx, recentEvents, siteID, since+1, now, liveLatest, func(r *recentRow) {
		events = append(events, r.hit())
	})
	if err != nil {
		return nil, fmt.Errorf("read the last events of site %d: %w", siteID, err)
	}
	return c.live(events), nil
}

// size estimates the memory of a Live that a cache keeps, in bytes.
func (l *Live) size() int64 {
	const perLive, perText = 2 << 10, 100
	n := int64(perLive)
	for _, count := range slices.Concat(l.Pages, l.Sources, l.Names) {
		n += perText + int64(len(count.Value))
	}
	for i := range l.Latest {
		n += perText + int64(len(l.Latest[i].Event)+len(l.Latest[i].Path)+len(l.Latest[i].Channel))
	}
	return n
}

// hit returns a row as it is shown.
func (r *recentRow) hit() LiveHit {
	return LiveHit{r.At, string(r.Event), string(r.Path), string(r.Channel)}
}

// liveCount counts the page views of the last minutes, newest first.
type liveCount struct {
	now      model.Instant
	minutes  [LiveMinutes]int64
	visitors map[int64]struct{}
	latest   []LiveHit

	pages, sources, names distinct
}

func newLiveCount(now model.Instant) *liveCount {
	return &liveCount{
		now: now, visitors: make(map[int64]struct{}), pages: newDistinct(), sources: newDistinct(), names: newDistinct(),
	}
}

func (c *liveCount) addView(v *recentRow) {
	age := c.now.Sub(v.At)
	c.minutes[LiveMinutes-1-min(int(age/time.Minute), LiveMinutes-1)]++
	if len(c.latest) < liveLatest {
		c.latest = append(c.latest, v.hit())
	}
	if age >= liveWindow {
		return
	}

	c.visitors[v.Visitor] = struct{}{}
	c.pages.add(string(v.Path), v.Visitor)
	referrer, campaign := model.UnpackAttribution(string(v.Attribution))
	host, _, _ := strings.Cut(referrer, "/")
	source := cmp.Or(campaign.Source, host)
	c.sources.add(source, v.Visitor)
	c.names.add(model.NameOfSource(source), v.Visitor)
}

// live returns what was counted, with the newest events.
func (c *liveCount) live(events []LiveHit) *Live {
	latest := slices.Concat(c.latest, events)
	slices.SortStableFunc(latest, func(a, b LiveHit) int { return cmp.Compare(b.At, a.At) })

	return &Live{
		At: c.now, Visitors: int64(len(c.visitors)), Pageviews: c.minutes,
		Pages: c.pages.top(), Sources: c.sources.top(), Names: c.names.top(),
		Latest: slices.Clone(latest[:min(liveLatest, len(latest))]),
	}
}

// distinct counts the distinct visitors of values. Values beyond maxLiveTexts are left out.
type distinct struct {
	visitors map[string]map[int64]struct{}
	bytes    int
}

func newDistinct() distinct { return distinct{visitors: make(map[string]map[int64]struct{})} }

func (d *distinct) add(value string, visitor int64) {
	const perValue = 64
	of := d.visitors[value]
	if of == nil {
		if d.bytes += perValue + len(value); d.bytes > maxLiveTexts {
			return
		}
		of = make(map[int64]struct{})
		d.visitors[strings.Clone(value)] = of
	}
	of[visitor] = struct{}{}
}

// top returns the values with the most visitors.
func (d *distinct) top() []LiveCount {
	list := make([]LiveCount, 0, len(d.visitors))
	for value, visitors := range d.visitors {
		list = append(list, LiveCount{value, int64(len(visitors))})
	}
	slices.SortFunc(list, func(a, b LiveCount) int {
		return cmp.Or(cmp.Compare(b.Visitors, a.Visitors), cmp.Compare(a.Value, b.Value))
	})
	return slices.Clone(list[:min(liveTop, len(list))])
}
