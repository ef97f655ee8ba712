package analytics

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/tallygate/tallygate/dataplane/ratelimit"
	"github.com/tallygate/tallygate/web"
)

const (
	// floodQuota is the largest monthly quota with the configured flood limit. For larger quotas,
	// burst and rate grow in proportion, so that the readers of a large site stay below it.
	floodQuota = 5_000_000
	// floodWider is the limit of an IPv6 /48 in multiples of that of a /64. One subscriber often
	// has a whole /48, which is 65,536 networks of 64 bits, but a mobile operator has one /48 for
	// many subscribers.
	floodWider = 4
)

// flood limits the hits that one client network can store for one site, so that no client can use
// up the site's monthly quota. Networks are IPv4 /24, IPv6 /64 and IPv6 /48. It is safe for
// concurrent use.
type flood struct {
	buckets *ratelimit.Limiter
	cost    time.Duration // of one hit
}

// newFlood returns a limit of burst hits at once and rate hits per second after that. Both must be
// positive, except that a burst of 0 returns nil: no limit.
func newFlood(burst, rate int) *flood {
	if burst <= 0 {
		return nil
	}
	cost := time.Second / time.Duration(rate)
	return &flood{buckets: ratelimit.New(time.Duration(burst) * cost), cost: cost}
}

// allow counts a hit for the site, and reports whether it is within the limit. Hits without an
// address count together.
func (f *flood) allow(site *site, addr netip.Addr, now time.Time) bool {
	cost := f.cost / time.Duration(max(1, site.quota/floodQuota))
	network := web.Network(addr, 24, 64)
	if !f.take(site, network, cost, now) {
		return false
	}
	return !network.Addr().Is6() || f.take(site, web.Network(addr, 24, 48), cost/floodWider, now)
}

// take counts a hit for one network, and reports whether it is within the limit.
func (f *flood) take(site *site, network netip.Prefix, cost time.Duration, now time.Time) bool {
	return f.buckets.Take(now, ratelimit.Key{ID: site.id, Network: network}, cost) == 0
}

// isFlood counts a hit that passed all other checks, and reports whether it exceeds the limit.
func (s *Service) isFlood(r *http.Request, site *site, addr netip.Addr) bool {
	if s.flood == nil || s.isShared(r) {
		return false
	}
	return !s.flood.allow(site, addr, s.now())
}
