// Package flood limits the hits of one client network for one site, and the server-side events of
// one site. Package analytics asks it for each hit that passed every other check.
package flood

import (
	"net/netip"
	"time"

	"github.com/tallygate/tallygate/dataplane/ratelimit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/web"
)

const (
	// baseQuota is the largest monthly quota with the configured limit. For larger quotas that were
	// agreed, burst and rate grow in proportion, so that the readers of a large site stay below it.
	baseQuota = 5_000_000
	// wider is the limit of an IPv6 /48 in multiples of that of a /64. One subscriber often
	// has a whole /48, which is 65,536 networks of 64 bits, but a mobile operator has one /48 for
	// many subscribers.
	wider = 4
)

// Limit bounds the hits that one sender can store for one site: a client network, so that no client
// can use up the site's monthly quota, or the site's own servers, so that none of them keeps the
// process from other sites. Networks are IPv4 /24, IPv6 /64 and IPv6 /48. It is safe for concurrent
// use.
type Limit struct {
	buckets *ratelimit.Limiter
	cost    time.Duration // of one hit
}

// New returns a limit of burst hits at once and rate hits per second after that. Both must be
// positive, except that a burst of 0 returns nil: no limit.
func New(burst, rate int) *Limit {
	if burst <= 0 {
		return nil
	}
	cost := time.Second / time.Duration(rate)
	return &Limit{buckets: ratelimit.New(time.Duration(burst) * cost), cost: cost}
}

// Allow counts a hit for a site with a monthly quota of page views, and reports whether it is
// within the limit. Hits without an address count together.
func (f *Limit) Allow(siteID model.SiteID, quota int64, addr netip.Addr, now time.Time) bool {
	cost := f.costFor(quota)
	network := web.Network(addr, 24, 64)
	if !f.take(siteID, network, cost, now) {
		return false
	}

	// An IPv6 client counts for its /48 as well.
	return !network.Addr().Is6() || f.take(siteID, web.Network(addr, 24, 48), cost/wider, now)
}

// AllowServer counts a server-side event of a site with a monthly quota, and reports whether it is
// within the limit. All secrets of a site count together: an owner who replaces the secret gets no
// new allowance.
func (f *Limit) AllowServer(siteID model.SiteID, quota int64, now time.Time) bool {
	return f.take(siteID, netip.Prefix{}, f.costFor(quota), now)
}

// costFor returns the cost of a hit for a site with a monthly quota. A site without a limit may be
// of any size: it has the configured limit.
func (f *Limit) costFor(quota int64) time.Duration {
	if quota == model.MaxMonthlyPageviews {
		return f.cost
	}
	return f.cost / time.Duration(max(1, quota/baseQuota))
}

// take counts a hit for one network, and reports whether it is within the limit.
func (f *Limit) take(siteID model.SiteID, network netip.Prefix, cost time.Duration, now time.Time) bool {
	return f.buckets.Take(now, ratelimit.Key{ID: int64(siteID), Network: network}, cost) == 0
}
