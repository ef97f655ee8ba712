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

	segments     *siteLoader[[]*model.Segment]
	funnels      *siteLoader[[]*model.Funnel]
	sharedLinks  *siteLoader[[]*model.SharedLink]
	linkSegments *loader[int64, *model.Segment] // by the segment's number
	sinceMonth   map[model.Month]*siteLoader[map[model.Month]int64]
	verified     map[model.Month]*siteLoader[map[model.Month]int64] // by sitekey
	sinceDay     map[model.Day]*siteLoader[map[model.Day]int64]
	unknown      map[model.Day]*siteLoader[[]ingest.UnknownEvent]
	active       map[model.Day]*siteLoader[[]*model.CaptchaActivity] // by sitekey
	mailed       map[int64]*siteLoader[model.ReportMails]            // by user
	noted        func(page sites.AnnotationPage) *siteLoader[[]*model.Annotation]

	refused func(from model.Day) *siteLoader[[]ingest.Rejection]
	sent    func(page deliveryPage) *siteLoader[[]*model.Delivery]

	mu       sync.Mutex
	expected []int64
	listed   []outbox.DeliveryKey // deliveries
	linked   []int64              // segments of shared links
	sitekeys []int64
	db       *db.DB
	byDay    map[model.Day]*siteLoader[[]ingest.Rejection]
	byPage   map[deliveryPage]*siteLoader[[]*model.Delivery]
	byNote   map[sites.AnnotationPage]*siteLoader[[]*model.Annotation]
}

// deliveryPage is a page of each site's deliveries: up to limit of them with ids below before.
type deliveryPage struct {
	before int64
	limit  int
}

func newLoaders(d *db.DB, month model.Month) *loaders {
	l := &loaders{
		byDay:  make(map[model.Day]*siteLoader[[]ingest.Rejection]),
		byPage: make(map[deliveryPage]*siteLoader[[]*model.Delivery]),
		byNote: make(map[sites.AnnotationPage]*siteLoader[[]*model.Annotation]),
	}

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

	l.db = d
	l.loadReportSettings(d)
	return l
}

// loadReportSettings sets the loaders of what is stored for a site's reports.
func (l *loaders) loadReportSettings(d *db.DB) {
	store := sites.New(d)
	l.segments = newLoader(l, store.SegmentsOfSites)
	l.funnels = newLoader(l, store.FunnelsOfSites)
	l.sharedLinks = newLoader(l, func(ctx context.Context, ids []int64) (map[int64][]*model.SharedLink, error) {
		bySite, err := store.SharedLinksOfSites(ctx, ids)
		for _, links := range bySite {
			l.expectSegments(links)
		}
		return bySite, err
	})
	l.linkSegments = &loader[int64, *model.Segment]{
		load: store.SegmentsByID, expected: l.segmentIDs, found: make(map[int64]*model.Segment),
	}
	l.noted = func(page sites.AnnotationPage) *siteLoader[[]*model.Annotation] {
		return newLoader(l, func(ctx context.Context, ids []int64) (map[int64][]*model.Annotation, error) {
			return store.AnnotationsOfSites(ctx, ids, page)
		})
	}
}

// usageSince returns the loader of the usage of sites by month.
func (l *loaders) usageSince(from model.Month) *siteLoader[map[model.Month]int64] {
	return cached(l, &l.sinceMonth, from, l.siteIDs,
		func(ctx context.Context, ids []int64) (map[int64]map[model.Month]int64, error) {
			return sites.New(l.db).UsageHistory(ctx, ids, from)
		})
}

// verifiedSince returns the loader of the verifications of sitekeys by month.
func (l *loaders) verifiedSince(from model.Month) *siteLoader[map[model.Month]int64] {
	return cached(l, &l.verified, from, l.sitekeyIDs,
		func(ctx context.Context, ids []int64) (map[int64]map[model.Month]int64, error) {
			return ingest.New(l.db).CaptchaVerifications(ctx, ids, from)
		})
}

// usageOfDays returns the loader of the usage of sites by day.
func (l *loaders) usageOfDays(from model.Day) *siteLoader[map[model.Day]int64] {
	return cached(l, &l.sinceDay, from, l.siteIDs,
		func(ctx context.Context, ids []int64) (map[int64]map[model.Day]int64, error) {
			return sites.New(l.db).UsageByDay(ctx, ids, from)
		})
}

// unknownSince returns the loader of the unknown events of sites.
func (l *loaders) unknownSince(from model.Day) *siteLoader[[]ingest.UnknownEvent] {
	return cached(l, &l.unknown, from, l.siteIDs,
		func(ctx context.Context, ids []int64) (map[int64][]ingest.UnknownEvent, error) {
			return ingest.New(l.db).UnknownEventsOfSites(ctx, ids, from)
		})
}

// activitySince returns the loader of what happened with sitekeys.
func (l *loaders) activitySince(from model.Day) *siteLoader[[]*model.CaptchaActivity] {
	return cached(l, &l.active, from, l.sitekeyIDs,
		func(ctx context.Context, ids []int64) (map[int64][]*model.CaptchaActivity, error) {
			return ingest.New(l.db).CaptchaActivity(ctx, ids, from)
		})
}

// reportMails returns the loader of the mails about sites that a user gets.
func (l *loaders) reportMails(userID int64) *siteLoader[model.ReportMails] {
	return cached(l, &l.mailed, userID, l.siteIDs,
		func(ctx context.Context, ids []int64) (map[int64]model.ReportMails, error) {
			return sites.New(l.db).ReportMailsOfSites(ctx, userID, ids)
		})
}

// cached returns the loader for an argument of a field, which it makes once.
func cached[Arg comparable, V any](
	l *loaders, made *map[Arg]*siteLoader[V], arg Arg, expected func() []int64,
	load func(context.Context, []int64) (map[int64]V, error),
) *siteLoader[V] {
	l.mu.Lock()
	defer l.mu.Unlock()

	if (*made)[arg] == nil {
		if *made == nil {
			*made = make(map[Arg]*siteLoader[V])
		}
		(*made)[arg] = &siteLoader[V]{load: load, expected: expected, found: make(map[int64]V)}
	}

	return (*made)[arg]
}

// expectSitekeys announces the sitekeys of a list.
func (l *loaders) expectSitekeys(keys []*model.Sitekey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		l.sitekeys = append(l.sitekeys, key.ID)
	}
}

func (l *loaders) sitekeyIDs() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.sitekeys)
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

// expectSegments announces the segments of shared links.
func (l *loaders) expectSegments(links []*model.SharedLink) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, link := range links {
		if link.SegmentID != 0 {
			l.linked = append(l.linked, link.SegmentID)
		}
	}
}

func (l *loaders) segmentIDs() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.linked)
}

// annotations returns the loader of a page of annotations.
func (l *loaders) annotations(page sites.AnnotationPage) *siteLoader[[]*model.Annotation] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byNote[page] == nil {
		l.byNote[page] = l.noted(page)
	}
	return l.byNote[page]
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
