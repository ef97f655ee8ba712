// Package loaders batches the reads of the fields of a list's objects: one statement for all sites
// or deliveries of a request instead of one for each. Package graph makes a Set for each request,
// and drops it at the next write.
package loaders

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

// Loader batches the reads of one field of a request's sites (or deliveries) into one statement. A
// list announces its keys; the first call of Of loads all announced keys, and the others wait for
// that statement.
//
// vikstrous/dataloadgen does not fit: it delays every read by some milliseconds to collect keys,
// and under load may split a batch, while a list here knows its keys beforehand.
type Loader[K comparable, V any] struct {
	load     func(ctx context.Context, keys []K) (map[K]V, error)
	expected func() []K

	mu    sync.Mutex
	found map[K]V // loaded values; the zero value for keys without one
}

// Of returns the value of a key; the zero value if there is none.
func (l *Loader[K, V]) Of(ctx context.Context, key K) (V, error) {
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

// BySite is a Loader by site id.
type BySite[V any] = Loader[model.SiteID, V]

// Set holds the loaders of one request, up to its next write. It is safe for concurrent use.
type Set struct {
	Usage    *BySite[int64]
	Rules    *BySite[*model.SiteRules]
	LastHits *BySite[model.Instant]
	Sites    *BySite[*model.Site] // of deliveries
	Attempts *Loader[outbox.DeliveryKey, []*model.DeliveryAttempt]
	Bodies   *Loader[outbox.DeliveryKey, string] // of deliveries, as stored

	reports

	refused func(from model.Day) *BySite[[]ingest.Rejection]
	sent    func(page outbox.DeliveryPage) *BySite[[]*model.Delivery]
	counted func(filter outbox.DeliveryFilter) *BySite[int]

	mu       sync.Mutex
	expected []model.SiteID
	listed   []outbox.DeliveryKey // deliveries
	byDay    map[model.Day]*BySite[[]ingest.Rejection]
	byPage   map[outbox.DeliveryPage]*BySite[[]*model.Delivery]
	byFilter map[outbox.DeliveryFilter]*BySite[int]
}

// New returns the loaders of a request. month is that of Usage.
func New(d *db.DB, month model.Month) *Set {
	l := &Set{
		byDay:    make(map[model.Day]*BySite[[]ingest.Rejection]),
		byPage:   make(map[outbox.DeliveryPage]*BySite[[]*model.Delivery]),
		byFilter: make(map[outbox.DeliveryFilter]*BySite[int]),
	}
	l.Usage = newLoader(l, func(ctx context.Context, ids []model.SiteID) (map[model.SiteID]int64, error) {
		return sites.New(d).Usage.MonthlyUsage(ctx, month, ids)
	})

	l.Rules = newLoader(l, sites.New(d).Sites.SiteRules)
	l.LastHits = newLoader(l, sites.New(d).Usage.LastHits)
	l.Sites = newLoader(l, sites.New(d).Sites.SitesByID)
	l.Attempts = &Loader[outbox.DeliveryKey, []*model.DeliveryAttempt]{
		load: outbox.New(d).LastAttempts, expected: l.deliveryKeys,
		found: make(map[outbox.DeliveryKey][]*model.DeliveryAttempt),
	}

	l.Bodies = &Loader[outbox.DeliveryKey, string]{
		load: outbox.New(d).DeliveryBodies, expected: l.deliveryKeys, found: make(map[outbox.DeliveryKey]string),
	}

	l.refused = func(from model.Day) *BySite[[]ingest.Rejection] {
		return newLoader(l, func(ctx context.Context, ids []model.SiteID) (map[model.SiteID][]ingest.Rejection, error) {
			return ingest.New(d).RejectionsOfSites(ctx, ids, from)
		})
	}

	l.counted = func(filter outbox.DeliveryFilter) *BySite[int] {
		return newLoader(l, func(ctx context.Context, ids []model.SiteID) (map[model.SiteID]int, error) {
			return outbox.New(d).DeliveryCounts(ctx, ids, filter)
		})
	}

	l.sent = func(page outbox.DeliveryPage) *BySite[[]*model.Delivery] {
		return newLoader(l, func(ctx context.Context, ids []model.SiteID) (map[model.SiteID][]*model.Delivery, error) {
			bySite, err := outbox.New(d).DeliveriesOfSites(ctx, ids, page)
			for _, deliveries := range bySite {
				l.expectDeliveries(deliveries)
			}
			return bySite, err
		})
	}

	l.reports = newReports(l, d)
	return l
}

func newLoader[V any](l *Set, load func(context.Context, []model.SiteID) (map[model.SiteID]V, error)) *BySite[V] {
	return &BySite[V]{load: load, expected: l.siteIDs, found: make(map[model.SiteID]V)}
}

// Expect announces the sites of a list.
func (l *Set) Expect(sites []*model.Site) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, site := range sites {
		l.expected = append(l.expected, site.ID)
	}
}

func (l *Set) siteIDs() []model.SiteID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.expected)
}

// expectDeliveries announces the deliveries of a list.
func (l *Set) expectDeliveries(deliveries []*model.Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, delivery := range deliveries {
		l.listed = append(l.listed, outbox.DeliveryKey{SiteID: delivery.SiteID, ID: delivery.ID})
	}
}

func (l *Set) deliveryKeys() []outbox.DeliveryKey {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.listed)
}

// Rejections returns the loader of the rejected calls since a day.
func (l *Set) Rejections(from model.Day) *BySite[[]ingest.Rejection] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byDay[from] == nil {
		l.byDay[from] = l.refused(from)
	}
	return l.byDay[from]
}

// Deliveries returns the loader of a page of deliveries.
func (l *Set) Deliveries(page outbox.DeliveryPage) *BySite[[]*model.Delivery] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byPage[page] == nil {
		l.byPage[page] = l.sent(page)
	}
	return l.byPage[page]
}

// DeliveryCounts returns the loader of the number of deliveries that a filter selects.
func (l *Set) DeliveryCounts(filter outbox.DeliveryFilter) *BySite[int] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byFilter[filter] == nil {
		l.byFilter[filter] = l.counted(filter)
	}
	return l.byFilter[filter]
}
