package analytics

import (
	"context"
	"net/netip"

	"github.com/tallygate/tallygate/dataplane/analytics/event"
	"github.com/tallygate/tallygate/dataplane/rulecache"
	"github.com/tallygate/tallygate/db/model"
)

// site holds the rules of a site that requests need. It is cached and never changed.
type site struct {
	id          model.SiteID
	cell        int64  // whose tables have its hits
	stopped     string // why all calls are refused, see model.SiteRules.Stopped; empty: they are not
	key         string
	domains     []string // normalised, subdomains included
	excluded    []netip.Prefix
	keeps       details
	leavesOut   leftOut
	quota       int64 // page views and events per month
	allowUserID bool
	events      event.Rules
	keyEvents   map[string]bool // empty without a conversion webhook

	oldSecret      string        // hash of the server secret that a rotation replaced; empty without one
	oldSecretUntil model.Instant // its expiry
}

// accepts reports whether the server secret with a hash, by which the site was found, is valid at a
// time. The site stays in the cache after its old secret has expired.
func (s *site) accepts(hash string, at model.Instant) bool {
	return hash != s.oldSecret || at < s.oldSecretUntil
}

// newSite returns the site with the given rules.
func newSite(r *model.SiteRules) *site {
	s := &site{
		id:          r.ID,
		cell:        r.Cell,
		stopped:     r.Stopped(),
		key:         r.SiteKey,
		domains:     r.Domains(),
		excluded:    r.Excluded,
		keeps:       newDetails(r.VisitDetails),
		leavesOut:   newLeftOut(&r.Site),
		quota:       r.MonthlyPageviews,
		allowUserID: r.AllowPseudonymousUserID,
		events: event.Rules{
			Registered: setOf(r.Registered),
			Automatic:  r.AutomaticEvents,
			SiteSearch: r.MeasureSiteSearch,
			Ecommerce:  r.MeasureEcommerce,
			Domains:    r.Domains(),
		},
		oldSecret:      string(r.OldServerSecretHash),
		oldSecretUntil: r.OldServerSecretUntil,
	}

	if r.ConversionWebhookURL != "" {
		// A purchase is always a key event (analytics contract, section 2).
		s.keyEvents = setOf(r.KeyEvents)
		s.keyEvents[model.EventPurchase] = true
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

// loadSite returns a loader for the cache that reads rules with read.
func loadSite(read func(context.Context, string) (*model.SiteRules, error)) rulecache.Load[site] {
	return func(ctx context.Context, key string) (int64, *site, error) {
		rules, err := read(ctx, key)
		if err != nil {
			return 0, nil, err
		}
		return int64(rules.ID), newSite(rules), nil
	}
}
