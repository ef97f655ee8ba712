package reports

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tallygate/tallygate/db/model"
)

const (
	// LiveMinutes is how many minutes of page views a Live has.
	LiveMinutes = 30

	liveWindow = 5 * time.Minute  // of visitors, pages and sources
	liveKept   = 10 * time.Second // for which a Live is kept
	liveTop    = 10               // pages and sources
	liveLatest = 20               // page views and events

	// maxLiveViews bounds the page views that one Live reads, 55 a second.
	maxLiveViews = 100_000

	liveSites = 1_000 // for which a Live is kept at once
)

// Live says who is on a site now. Nothing in it identifies a visitor.
type Live struct {
	At        model.Instant // when it was read
	Visitors  int64         // with a page view in the last five minutes
	Pageviews [LiveMinutes]int64
	Pages     []LiveCount // by visitors, at most 10
	Sources   []LiveCount
	Latest    []LiveHit // newest first, at most 20
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

// lives keeps the last Live of each site.
type lives struct {
	mu    sync.Mutex
	sites *simplelru.LRU[int64, *Live]
}

func newLives() *lives {
	sites, err := simplelru.NewLRU[int64, *Live](liveSites, nil)
	if err != nil {
		// Only a size below 1 fails.
		panic(err)
	}
	return &lives{sites: sites}
}

func (l *lives) get(siteID int64, now model.Instant) *Live {
	l.mu.Lock()
	defer l.mu.Unlock()
	if live, ok := l.sites.Get(siteID); ok && now >= live.At && now < live.At.Add(liveKept) {
		return live
	}
	return nil
}

func (l *lives) put(siteID int64, live *Live) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sites.Add(siteID, live)
}

// Live returns who is on a site now, at most 10 seconds old. The caller must have loaded the site,
// which checks the right to see it.
func (s *Store) Live(ctx context.Context, siteID int64, now model.Instant) (*Live, error) {
	if live := s.lives.get(siteID, now); live != nil {
		return live, nil
	}

	s, err := s.ofSite(ctx, siteID)
	if err != nil {
		return nil, err
	}

	since := now.Add(-LiveMinutes * time.Minute)
	views, err := s.readRecent(ctx, recentViews, siteID, since+1, now, maxLiveViews)
	if err != nil {
		return nil, fmt.Errorf("read the last page views of site %d: %w", siteID, err)
	}
	events, err := s.readRecent(ctx, recentEvents, siteID, since+1, now, liveLatest)
	if err != nil {
		return nil, fmt.Errorf("read the last events of site %d: %w", siteID, err)
	}

	live := countLive(views, now)
	live.Latest = latest(views, events)
	s.lives.put(siteID, live)
	return live, nil
}

// countLive counts the page views of the last minutes.
func countLive(views []recentRow, now model.Instant) *Live {
	live := &Live{At: now}
	visitors := make(map[string]struct{})
	pages, sources := make(distinct), make(distinct)

	for i := range views {
		v := &views[i]
		age := now.Sub(v.At)
		live.Pageviews[LiveMinutes-1-min(int(age/time.Minute), LiveMinutes-1)]++
		if age >= liveWindow {
			continue
		}

		visitor := string(v.Visitor[:])
		visitors[visitor] = struct{}{}
		pages.add(v.Path, visitor)
		referrer, campaign := model.UnpackAttribution(v.Attribution)
		host, _, _ := strings.Cut(referrer, "/")
		sources.add(cmp.Or(campaign.Source, host), visitor)
	}

	live.Visitors = int64(len(visitors))
	live.Pages, live.Sources = pages.top(), sources.top()
	return live
}

// distinct counts the distinct visitors of values.
type distinct map[string]map[string]struct{}

func (d distinct) add(value, visitor string) {
	if d[value] == nil {
		d[value] = make(map[string]struct{})
	}
	d[value][visitor] = struct{}{}
}

// top returns the values with the most visitors.
func (d distinct) top() []LiveCount {
	list := make([]LiveCount, 0, len(d))
	for value, visitors := range d {
		list = append(list, LiveCount{value, int64(len(visitors))})
	}
	slices.SortFunc(list, func(a, b LiveCount) int {
		return cmp.Or(cmp.Compare(b.Visitors, a.Visitors), cmp.Compare(a.Value, b.Value))
	})
	return list[:min(liveTop, len(list))]
}

// latest returns the newest rows of both kinds.
func latest(views, events []recentRow) []LiveHit {
	all := slices.Concat(views[:min(liveLatest, len(views))], events)
	slices.SortStableFunc(all, func(a, b recentRow) int { return cmp.Compare(b.At, a.At) })

	hits := make([]LiveHit, min(liveLatest, len(all)))
	for i := range hits {
		hits[i] = LiveHit{all[i].At, all[i].Event, all[i].Path, string(all[i].Channel)}
	}
	return hits
}
