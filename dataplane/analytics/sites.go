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
	id          int64
	key         string
	domains     []string // normalised, subdomains included
	excluded    []netip.Prefix
	quota       int64 // page views and events per month
	allowUserID bool
	events      event.Rules
	keyEvents   map[string]bool // empty without a conversion webhook
}

// newSite returns the site with the given rules.
func newSite(r *model.SiteRules) *site {
	s := &site{
		id:          r.ID,
		key:         r.SiteKey,
		domains:     r.Domains(),
		excluded:    r.Excluded,
		quota:       r.MonthlyPageviews,
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
		return rules.ID, newSite(rules), nil
	}
}
