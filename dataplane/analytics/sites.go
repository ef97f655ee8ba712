package analytics

import (
	"context"
	"net/netip"

	"github.com/tallygate/tallygate/dataplane/analytics/event"
	"github.com/tallygate/tallygate/dataplane/snapshot"
	"github.com/tallygate/tallygate/db/model"
)

// site is what a request needs to know of the site it names: a snapshot, never changed.
type site struct {
	id          int64
	key         string
	domains     []string // normalised; subdomains are implied
	excluded    []netip.Prefix
	quota       int64 // page views and events a month
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
		s.keyEvents = setOf(r.KeyEvents)

		// always one (analytics contract, section 2)
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

// loadSite makes snapshots of what is read.
func loadSite(read func(context.Context, string) (*model.SiteRules, error)) snapshot.Load[site] {
	return func(ctx context.Context, name string) (int64, *site, error) {
		rules, err := read(ctx, name)
		if err != nil {
			return 0, nil, err
		}
		return rules.ID, newSite(rules), nil
	}
}
