package graph

import (
	"context"
	"slices"
	"sync"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// loader reads one thing about all sites of a request with one statement: a list announces its sites, and the first of them
// that is asked for the thing loads it for all. The others wait for the statement, which brings their answer too.
type loader[V any] struct {
	load     func(ctx context.Context, siteIDs []int64) (map[int64]V, error)
	expected func() []int64

	mu    sync.Mutex
	found map[int64]V // also of sites that have none: their zero value
}

// of returns the thing of one site; the zero value when it has none.
func (l *loader[V]) of(ctx context.Context, siteID int64) (V, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v, ok := l.found[siteID]; ok {
		return v, nil
	}
	ids := slices.DeleteFunc(append(l.expected(), siteID), func(id int64) bool {
		_, ok := l.found[id]
		return ok
	})
	slices.Sort(ids)
	ids = slices.Compact(ids) // the site itself usually is among the expected ones
	loaded, err := l.load(ctx, ids)
	if err != nil {
		var none V
		return none, err
	}
	for _, id := range ids {
		l.found[id] = loaded[id]
	}
	return loaded[siteID], nil
}

// loaders are those of one request, until it changes something.
type loaders struct {
	usage    *loader[int64]
	rules    *loader[*model.SiteRules]
	lastHits *loader[model.Instant]

	refused func(from model.Day) *loader[[]db.Rejection]
	sent    func(page deliveryPage) *loader[[]db.DeliveryLog]

	mu       sync.Mutex
	expected []int64
	byDay    map[model.Day]*loader[[]db.Rejection]
	byPage   map[deliveryPage]*loader[[]db.DeliveryLog]
}

// deliveryPage is a page of each site's deliveries: so many below an id.
type deliveryPage struct {
	before int64
	limit  int
}

func newLoaders(d *db.DB, month model.Month) *loaders {
	l := &loaders{byDay: make(map[model.Day]*loader[[]db.Rejection]), byPage: make(map[deliveryPage]*loader[[]db.DeliveryLog])}
	l.usage = newLoader(l, func(ctx context.Context, ids []int64) (map[int64]int64, error) {
		return d.MonthlyUsage(ctx, month, ids)
	})
	l.rules = newLoader(l, d.SiteRules)
	l.lastHits = newLoader(l, d.LastHits)
	l.refused = func(from model.Day) *loader[[]db.Rejection] {
		return newLoader(l, func(ctx context.Context, ids []int64) (map[int64][]db.Rejection, error) {
			return d.RejectionsOfSites(ctx, ids, from)
		})
	}
	l.sent = func(page deliveryPage) *loader[[]db.DeliveryLog] {
		return newLoader(l, func(ctx context.Context, ids []int64) (map[int64][]db.DeliveryLog, error) {
			return d.DeliveriesOfSites(ctx, ids, page.before, page.limit)
		})
	}
	return l
}

func newLoader[V any](l *loaders, load func(context.Context, []int64) (map[int64]V, error)) *loader[V] {
	return &loader[V]{load: load, expected: l.siteIDs, found: make(map[int64]V)}
}

// expect announces sites about which something may be asked.
func (l *loaders) expect(sites []*model.Site) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, site := range sites {
		l.expected = append(l.expected, site.ID)
	}
}

func (l *loaders) siteIDs() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.expected)
}

// rejections is the loader of the calls since a day.
func (l *loaders) rejections(from model.Day) *loader[[]db.Rejection] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byDay[from] == nil {
		l.byDay[from] = l.refused(from)
	}
	return l.byDay[from]
}

// deliveries is the loader of a page of deliveries.
func (l *loaders) deliveries(page deliveryPage) *loader[[]db.DeliveryLog] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byPage[page] == nil {
		l.byPage[page] = l.sent(page)
	}
	return l.byPage[page]
}
