package graph

import (
	"context"
	"slices"
	"sync"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/sites"
)

// loader batches the reads of one field of a request's sites (or deliveries) into one statement. A
// list announces its keys; the first call of "of" loads all announced keys, and the others wait for
// that statement.
//
// vikstrous/dataloadgen does not fit: it delays every read by some milliseconds to collect keys,
// and under load may split a batch, while a list here knows its keys beforehand.
type loader[K comparable, V any] struct {
	load     func(ctx context.Context, keys []K) (map[K]V, error)
	expected func() []K

	mu    sync.Mutex
	found map[K]V // loaded values; the zero value for keys without one
}

// of returns the value of a key; the zero value if there is none.
func (l *loader[K, V]) of(ctx context.Context, key K) (V, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if v, ok := l.found[key]; ok {
		return v, nil
	}

	var keys []K

	// The key itself usually is among the expected ones.
	asked := make(map[K]bool)
	for _, k := range append(l.expected(), key) {
		if _, ok := l.found[k]; !ok && !asked[k] {
			keys, asked[k] = append(keys, k), true
		}
	}

	loaded, err := l.load(ctx, keys)
	if err != nil {
		var none V
		return none, err
	}

	for _, k := range keys {
		l.found[k] = loaded[k]
	}

	return loaded[key], nil
}

// siteLoader is a loader by site id.
type siteLoader[V any] = loader[int64, V]

// loaders are the loaders of one request, up to its next write.
type loaders struct {
	usage    *siteLoader[int64]
	rules    *siteLoader[*model.SiteRules]
	lastHits *siteLoader[model.Instant]
	attempts *loader[outbox.DeliveryKey, []*model.DeliveryAttempt]

	refused func(from model.Day) *siteLoader[[]ingest.Rejection]
	sent    func(page deliveryPage) *siteLoader[[]*model.Delivery]

	mu       sync.Mutex
	expected []int64
	listed   []outbox.DeliveryKey // deliveries
	byDay    map[model.Day]*siteLoader[[]ingest.Rejection]
	byPage   map[deliveryPage]*siteLoader[[]*model.Delivery]
}

// deliveryPage is a page of each site's deliveries: up to limit of them with ids below before.
type deliveryPage struct {
	before int64
	limit  int
}

func newLoaders(d *db.DB, month model.Month) *loaders {
	l := &loaders{byDay: make(map[model.Day]*siteLoader[[]ingest.Rejection]), byPage: make(map[deliveryPage]*siteLoader[[]*model.Delivery])}
	l.usage = newLoader(l, func(ctx context.Context, ids []int64) (map[int64]int64, error) {
		return sites.New(d).MonthlyUsage(ctx, month, ids)
	})

	l.rules = newLoader(l, sites.New(d).SiteRules)
	l.lastHits = newLoader(l, sites.New(d).LastHits)
	l.attempts = &loader[outbox.DeliveryKey, []*model.DeliveryAttempt]{
		load: outbox.New(d).LastAttempts, expected: l.deliveryKeys, found: make(map[outbox.DeliveryKey][]*model.DeliveryAttempt),
	}

	l.refused = func(from model.Day) *siteLoader[[]ingest.Rejection] {
		return newLoader(l, func(ctx context.Context, ids []int64) (map[int64][]ingest.Rejection, error) {
			return ingest.New(d).RejectionsOfSites(ctx, ids, from)
		})
	}

	l.sent = func(page deliveryPage) *siteLoader[[]*model.Delivery] {
		return newLoader(l, func(ctx context.Context, ids []int64) (map[int64][]*model.Delivery, error) {
			bySite, err := outbox.New(d).DeliveriesOfSites(ctx, ids, page.before, page.limit)
			for _, deliveries := range bySite {
				l.expectDeliveries(deliveries)
			}
			return bySite, err
		})
	}

	return l
}

func newLoader[V any](l *loaders, load func(context.Context, []int64) (map[int64]V, error)) *siteLoader[V] {
	return &siteLoader[V]{load: load, expected: l.siteIDs, found: make(map[int64]V)}
}

// expect announces the sites of a list.
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

// expectDeliveries announces the deliveries of a list.
func (l *loaders) expectDeliveries(deliveries []*model.Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, delivery := range deliveries {
		l.listed = append(l.listed, outbox.DeliveryKey{SiteID: delivery.SiteID, ID: delivery.ID})
	}
}

func (l *loaders) deliveryKeys() []outbox.DeliveryKey {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.listed)
}

// rejections returns the loader of the rejected calls since a day.
func (l *loaders) rejections(from model.Day) *siteLoader[[]ingest.Rejection] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byDay[from] == nil {
		l.byDay[from] = l.refused(from)
	}
	return l.byDay[from]
}

// deliveries returns the loader of a page of deliveries.
func (l *loaders) deliveries(page deliveryPage) *siteLoader[[]*model.Delivery] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byPage[page] == nil {
		l.byPage[page] = l.sent(page)
	}
	return l.byPage[page]
}
