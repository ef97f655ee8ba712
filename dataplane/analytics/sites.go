package analytics

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/tallygate/tallygate/dataplane/analytics/event"
	"github.com/tallygate/tallygate/db/model"
)

const (
	siteTTL     = 10 * time.Second       // a snapshot is at most this old, should a notice of a change get lost
	unsyncedTTL = 500 * time.Millisecond // or this, while no notices can arrive
	unknownTTL  = 2 * time.Second        // so old is the knowledge that a key is nobody's
	siteLimit   = 50_000                 // snapshots kept
	unknownMax  = 10_000                 // names kept that are nobody's, apart, so that made-up ones push no site out
)

// site is what a request needs to know of the site it names: a snapshot, never changed.
type site struct {
	id          int64
	key         string
	domains     []string // normalised; subdomains are implied
	excluded    []netip.Prefix
	allowUserID bool
	events      event.Rules
	keyEvents   map[string]bool // empty without a conversion webhook: nothing has to be sent then
}

func newSite(r *model.SiteRules) *site {
	s := &site{
		id:          r.ID,
		key:         r.SiteKey,
		domains:     r.Domains(),
		excluded:    r.Excluded,
		allowUserID: r.AllowPseudonymousUserID,
		events: event.Rules{
			Registered: setOf(r.Registered),
			Automatic:  r.AutomaticEvents,
			SiteSearch: r.MeasureSiteSearch,
			Ecommerce:  r.MeasureEcommerce,
			Domains:    r.Domains(),
		},
	}
	if r.ConversionWebhookURL != "" {
		s.keyEvents = setOf(r.KeyEvents)
		s.keyEvents[model.EventPurchase] = true // always one (analytics contract, section 2)
	}
	return s
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names)+1)
	for _, name := range names {
		set[name] = true
	}
	return set
}

// siteCache keeps snapshots of sites by what requests name them with: site keys, or hashes of server secrets. Concurrent
// requests for one name ask the database once. It is bounded, so that a flood of made-up keys cannot grow it.
type siteCache struct {
	load     func(ctx context.Context, name string) (*model.SiteRules, error)
	now      func() time.Time
	entries  *lru.Cache[string, siteEntry]
	unknown  *lru.Cache[string, time.Time] // since when
	flight   singleflight.Group
	changes  atomic.Int64 // counts notices, so that what was loaded across one is not kept
	unsynced atomic.Bool
}

type siteEntry struct {
	site   *site
	loaded time.Time
}

func newSiteCache(load func(context.Context, string) (*model.SiteRules, error), now func() time.Time) *siteCache {
	c := &siteCache{load: load, now: now, entries: newLRU[siteEntry](siteLimit), unknown: newLRU[time.Time](unknownMax)}
	c.unsynced.Store(true) // until the watch says otherwise
	return c
}

func newLRU[Value any](limit int) *lru.Cache[string, Value] {
	cache, err := lru.New[string, Value](limit)
	if err != nil {
		panic(err) // only a limit below one fails
	}
	return cache
}

// get returns the snapshot of the site with this name, or nil when there is none.
func (c *siteCache) get(ctx context.Context, name string) (*site, error) {
	if entry, ok := c.entries.Get(name); ok && c.isFresh(entry.loaded, siteTTL) {
		return entry.site, nil
	}
	if since, ok := c.unknown.Get(name); ok && c.isFresh(since, unknownTTL) {
		return nil, nil
	}
	found, err, _ := c.flight.Do(name, func() (any, error) {
		// Several requests share this look-up: the first one's leaving must not fail the others.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		return c.fetch(ctx, name)
	})
	if err != nil {
		return nil, err
	}
	return found.(*site), nil
}

func (c *siteCache) isFresh(since time.Time, ttl time.Duration) bool {
	if c.unsynced.Load() {
		ttl = unsyncedTTL
	}
	return c.now().Sub(since) < ttl
}

func (c *siteCache) fetch(ctx context.Context, name string) (*site, error) {
	changes, loaded := c.changes.Load(), c.now()
	rules, err := c.load(ctx, name)
	if errors.Is(err, model.ErrNotFound) {
		c.entries.Remove(name)
		c.unknown.Add(name, loaded)
		if c.changes.Load() != changes { // as below
			c.unknown.Remove(name)
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found := newSite(rules)
	c.entries.Add(name, siteEntry{site: found, loaded: loaded})
	if c.changes.Load() != changes { // after Add: either changed sees the entry, or this sees the change
		c.entries.Remove(name)
	}
	return found, nil
}

// changed forgets a site. A request that comes after it sees the change, unless it shares a look-up that had begun before:
// that one ends within moments and is not kept.
func (c *siteCache) changed(siteID int64) {
	c.changes.Add(1)
	for _, name := range c.entries.Keys() {
		if entry, ok := c.entries.Peek(name); ok && entry.site.id == siteID {
			c.entries.Remove(name)
		}
	}
	c.unknown.Purge() // a name may be this site's from now on
}

// synced says whether notices of changes arrive. Whatever was missed is forgotten when they do again.
func (c *siteCache) synced(yes bool) {
	c.unsynced.Store(!yes)
	if yes {
		c.changes.Add(1)
		c.entries.Purge()
		c.unknown.Purge()
	}
}
