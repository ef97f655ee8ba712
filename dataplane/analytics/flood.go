package analytics

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/tallygate/tallygate/dataplane/ratelimit"
	"github.com/tallygate/tallygate/web"
)

const (
	// floodQuota is the largest monthly quota with the configured flood limit. For larger ones
	// burst and rate grow in proportion, so that no network of a large site's readers meets it.
	floodQuota = 5_000_000
	// floodWider is how many times the limit of an IPv6 /64 its /48 has. One subscriber often has a
	// whole /48, that is 65,536 networks of 64 bits, but a mobile operator has one /48 for many
	// subscribers.
	floodWider = 4
)

// flood limits the hits that one client network sends for one site, so that no client can use up a
// site's month. A network is an IPv4 /24 or an IPv6 /64, and for IPv6 also a /48. It is safe for
// concurrent use.
type flood struct {
	buckets *ratelimit.Limiter
	cost    time.Duration // of one hit
}

// newFlood returns a limit of burst hits at once and rate hits a second after that, both positive;
// nil, which limits nothing, for a burst of 0.
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

func (f *flood) take(site *site, network netip.Prefix, cost time.Duration, now time.Time) bool {
	return f.buckets.Take(now, ratelimit.Key{ID: site.id, Network: network}, cost) == 0
}

// isFlood counts a hit that is otherwise ready to be stored, and reports whether it is over the
// limit.
func (s *Service) isFlood(r *http.Request, site *site, addr netip.Addr) bool {
	if s.flood == nil || s.isShared(r) {
		return false
	}
	return !s.flood.allow(site, addr, s.now())
}
