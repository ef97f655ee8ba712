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

	// strangerLimit is how many names that are not among the snapshots a cache looks up at once. It leaves connections for
	// everybody else: SQLite has eight to read with, PostgreSQL's pool has sixteen, and there are two caches.
	strangerLimit = 3
	strangerWait  = time.Second // so long such a look-up waits for its turn
)

var errStrangers = errors.New("too many unknown sites are asked for")

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
// requests for one name ask the database once. It is bounded, so that a flood of made-up keys cannot grow it; and names
// without a snapshot wait for a few places, so that such a flood does not keep the snapshots from being renewed.
type siteCache struct {
	load      func(ctx context.Context, name string) (*model.SiteRules, error)
	now       func() time.Time
	entries   *lru.Cache[string, *siteEntry]
	unknown   *lru.Cache[string, time.Time] // since when
	flight    singleflight.Group
	strangers chan struct{} // one token for each look-up of a name without an entry
	changes   atomic.Int64  // counts notices, so that what was loaded across one is not used again
	unsynced  atomic.Bool
}

// siteEntry stays when it is out of date: its name is then known to be a site's, or to have been one until now.
type siteEntry struct {
	site    *site
	loaded  time.Time
	changed atomic.Bool // the site may be another since
}

func newSiteCache(load func(context.Context, string) (*model.SiteRules, error), now func() time.Time) *siteCache {
	c := &siteCache{
		load:      load,
		now:       now,
		entries:   newLRU[*siteEntry](siteLimit),
		unknown:   newLRU[time.Time](unknownMax),
		strangers: make(chan struct{}, strangerLimit),
	}
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
	entry, known := c.entries.Get(name)
	if known && !entry.changed.Load() && c.isFresh(entry.loaded, siteTTL) {
		return entry.site, nil
	}
	if since, ok := c.unknown.Get(name); ok && c.isFresh(since, unknownTTL) {
		return nil, nil
	}
	found, err, _ := c.flight.Do(name, func() (any, error) {
		// Several requests share this look-up: the first one's leaving must not fail the others.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), StoreTimeout)
		defer cancel()
		if known {
			return c.fetch(ctx, name)
		}
		return c.fetchStranger(ctx, name)
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

// fetchStranger is fetch for a name that may well be made up.
func (c *siteCache) fetchStranger(ctx context.Context, name string) (*site, error) {
	turn := time.NewTimer(strangerWait)
	defer turn.Stop()
	select {
	case c.strangers <- struct{}{}:
		defer func() { <-c.strangers }()
		return c.fetch(ctx, name)
	case <-turn.C:
		return nil, errStrangers
	}
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
	entry := &siteEntry{site: newSite(rules), loaded: loaded}
	c.entries.Add(name, entry)
	if c.changes.Load() != changes { // after Add: either changed sees the entry, or this sees the change
		entry.changed.Store(true)
	}
	return entry.site, nil
}

// changed makes the next request read a site again. A request that comes after it sees the change, unless it shares a
// look-up that had begun before: that one ends within moments and is not used again.
func (c *siteCache) changed(siteID int64) {
	c.forget(func(s *site) bool { return s.id == siteID })
}

// synced says whether notices of changes arrive. Whatever was missed is read again when they do.
func (c *siteCache) synced(yes bool) {
	c.unsynced.Store(!yes)
	if yes {
		c.forget(func(*site) bool { return true })
	}
}

func (c *siteCache) forget(which func(*site) bool) {
	c.changes.Add(1)
	for _, entry := range c.entries.Values() {
		if which(entry.site) {
			entry.changed.Store(true)
		}
	}
	c.unknown.Purge() // a name may be a site's from now on
}
