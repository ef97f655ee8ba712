package sites

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/watch"
)

// Settings that an owner can change on a site. Every change locks the site's row first, so that the
// limits are exact under concurrent changes, and notifies the watchers (see WatchSites). A site of
// another account is model.ErrNotFound. The changes are idempotent: adding an existing value and
// removing a missing one succeed.

// AddSiteDomain adds an extra domain, normalised (see model.ParseDomain). A site has at most
// model.MaxExtraDomains. The site's own domain is refused: it is always allowed and would use up
// one of them.
func (s *Store) AddSiteDomain(ctx context.Context, accountID, siteID int64, domain string) error {
	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		if domain == site.Domain {
			return errOwnDomain
		}
		added, err := addToSite(ctx, tx, "site_domains", "domain", siteID, domain, model.MaxExtraDomains,
			errTooManyDomains("domain"))
		if err != nil {
			return err
		}

		return auditItem(ctx, tx, site, "domain", domain, !added, true)
	})
}

// RemoveSiteDomain removes an extra domain.
func (s *Store) RemoveSiteDomain(ctx context.Context, accountID, siteID int64, domain string) error {
	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		removed, err := removeFromSite(ctx, tx, "site_domains", "domain", siteID, domain)
		if err != nil {
			return err
		}
		return auditItem(ctx, tx, site, "domain", domain, removed, false)
	})
}

// RegisterEvent adds a custom event name to the site, which has at most model.MaxRegisteredEvents.
func (s *Store) RegisterEvent(ctx context.Context, accountID, siteID int64, name string) error {
	if err := checkEventName(name); err != nil {
		return err
	}

	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		added, err := addToSite(ctx, tx, "registered_events", "name", siteID, name, model.MaxRegisteredEvents,
			errTooManyEvents("name"))
		if err != nil {
			return err
		}

		return auditItem(ctx, tx, site, "event", name, !added, true)
	})
}

// UnregisterEvent removes a custom event name from the site, and its mark as a key event.
func (s *Store) UnregisterEvent(ctx context.Context, accountID, siteID int64, name string) error {
	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		removed, err := removeFromSite(ctx, tx, "registered_events", "name", siteID, name)
		if err != nil {
			return err
		}

		// A reserved name was never registered, so its mark stays.
		if !model.IsReservedEvent(name) {
			if _, err := removeFromSite(ctx, tx, "key_events", "name", siteID, name); err != nil {
				return err
			}
		}

		return auditItem(ctx, tx, site, "event", name, removed, false)
	})
}

// MarkKeyEvent makes an event send the conversion webhook. The event must be registered, automatic
// or an e-commerce event. A purchase always is a key event.
func (s *Store) MarkKeyEvent(ctx context.Context, accountID, siteID int64, name string) error {
	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		if name == model.EventPurchase {
			return auditItem(ctx, tx, site, "keyEvent", name, true, true)
		}

		if !model.IsAutomaticEvent(name) && !model.IsEcommerceEvent(name) {
			registered, err := tx.NewSelect().Table("registered_events").Where("site_id = ?", siteID).Where("name = ?", name).
				Exists(ctx)
			if err != nil {
				return err
			}
			if !registered {
				return errNotRegistered
			}
		}

		added, err := db.Changed(tx.ExecContext(ctx,
			"INSERT INTO key_events (site_id, name) VALUES (?, ?) ON CONFLICT DO NOTHING", siteID, name))
		if err != nil {
			return err
		}

		return auditItem(ctx, tx, site, "keyEvent", name, !added, true)
	})
}

// UnmarkKeyEvent removes the mark as a key event. It fails for a purchase, which always is one.
func (s *Store) UnmarkKeyEvent(ctx context.Context, accountID, siteID int64, name string) error {
	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		if name == model.EventPurchase {
			return model.InvalidField("name", "always_key_event", "A purchase always is a key event.")
		}

		removed, err := removeFromSite(ctx, tx, "key_events", "name", siteID, name)
		if err != nil {
			return err
		}

		return auditItem(ctx, tx, site, "keyEvent", name, removed, false)
	})
}

// SiteUpdate holds the settings to change. A nil field leaves its setting unchanged.
type SiteUpdate struct {
	Name                    *string
	MeasureSiteSearch       *bool
	MeasureEcommerce        *bool
	AllowPseudonymousUserID *bool
	AutomaticEvents         *bool
	TimeZone                *string         // IANA name
	ExcludedAddresses       *[]netip.Prefix // the whole list; at most model.MaxExcludedNetworks
}

// UpdateSite changes settings: all of them or, when one is refused, none. It reports every wrong
// field, as joined errors.
func (s *Store) UpdateSite(ctx context.Context, accountID, siteID int64, u SiteUpdate) error {
	var name string
	var networks []string
	var nameErr, zoneErr, networksErr error

	if u.Name != nil {
		name, nameErr = model.ParseName("name", *u.Name)
	}
	if u.TimeZone != nil {
		_, zoneErr = model.ParseTimeZone("timeZone", *u.TimeZone)
	}
	if u.ExcludedAddresses != nil {
		networks, networksErr = networkTexts(*u.ExcludedAddresses)
	}
	if err := errors.Join(nameErr, zoneErr, networksErr); err != nil {
		return err
	}

	now, err := s.db.Now(ctx)
	if err != nil {
		return err
	}

	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		before, err := u.values(ctx, tx, site)
		if err != nil {
			return err
		}
		if u.Name != nil {
			site.Name = name
		}
		if u.TimeZone != nil && *u.TimeZone != site.TimeZone {
			in, err := tx.EnterSite(ctx, siteID)
			if err != nil {
				return err
			}
			if err := reports.InvalidateZone(ctx, in, siteID, now); err != nil {
				return err
			}
		}

		setIfGiven(&site.MeasureSiteSearch, u.MeasureSiteSearch)
		setIfGiven(&site.MeasureEcommerce, u.MeasureEcommerce)
		setIfGiven(&site.AllowPseudonymousUserID, u.AllowPseudonymousUserID)
		setIfGiven(&site.AutomaticEvents, u.AutomaticEvents)
		setIfGiven(&site.TimeZone, u.TimeZone)

		err = updateColumns(ctx, tx, site, "name", "measure_site_search", "measure_ecommerce",
			"allow_pseudonymous_user_id", "automatic_events", "time_zone")
		if err != nil {
			return err
		}

		if u.ExcludedAddresses != nil {
			if err := replaceExcluded(ctx, tx, siteID, networks); err != nil {
				return err
			}
		}

		after, err := u.values(ctx, tx, site)
		if err != nil {
			return err
		}

		return auditSite(ctx, tx, site, before, after)
	})
}

// values returns the settings of a site that u changes, as they are now.
func (u SiteUpdate) values(ctx context.Context, tx *db.Tx, site *model.Site) (audit.Values, error) {
	values := audit.Values{}
	for _, setting := range []struct {
		name  string
		given bool
		value any
	}{
		{"name", u.Name != nil, site.Name},
		{"measureSiteSearch", u.MeasureSiteSearch != nil, site.MeasureSiteSearch},
		{"measureEcommerce", u.MeasureEcommerce != nil, site.MeasureEcommerce},
		{"allowPseudonymousUserId", u.AllowPseudonymousUserID != nil, site.AllowPseudonymousUserID},
		{"automaticEvents", u.AutomaticEvents != nil, site.AutomaticEvents},
		{"timeZone", u.TimeZone != nil, site.TimeZone},
	} {
		if setting.given {
			values[setting.name] = setting.value
		}
	}

	if u.ExcludedAddresses == nil {
		return values, nil
	}

	networks := []string{}
	err := tx.NewSelect().Table("excluded_addresses").Column("network").Where("site_id = ?", site.ID).
		Order("network").Scan(ctx, &networks)
	values["excludedAddresses"] = networks

	return values, err
}

// PauseSite makes the site refuse its hits from now on, or store them again. It returns the site. A site
// that is paused already keeps the time since which it is.
func (s *Store) PauseSite(
	ctx context.Context, accountID, siteID int64, paused bool, now model.Instant,
) (changed *model.Site, err error) {
	err = s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		changed = site
		before := stateValues(site)
		switch {
		case !paused:
			site.PausedAt = 0
		case site.PausedAt == 0:
			site.PausedAt = now
		}

		if err := updateColumns(ctx, tx, site, "paused_at"); err != nil {
			return err
		}

		return auditSite(ctx, tx, site, before, stateValues(site))
	})
	if err != nil {
		return nil, err
	}

	return changed, nil
}

// excludedAddress is a row of a site's excluded networks.
type excludedAddress struct {
	bun.BaseModel `bun:"table:excluded_addresses"`

	SiteID  int64
	Network string
}

// replaceExcluded stores the whole list of a site's excluded networks.
func replaceExcluded(ctx context.Context, tx *db.Tx, siteID int64, networks []string) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM excluded_addresses WHERE site_id = ?", siteID)
	if err != nil || len(networks) == 0 {
		return err
	}

	rows := make([]excludedAddress, len(networks))
	for i, network := range networks {
		rows[i] = excludedAddress{SiteID: siteID, Network: network}
	}

	_, err = tx.NewInsert().Model(&rows).Exec(ctx)
	return err
}

// setIfGiven sets a field to a value that is not nil.
func setIfGiven[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// networkTexts returns networks in their stored form: host bits cleared, IPv4 never inside IPv6,
// sorted, without duplicates.
func networkTexts(networks []netip.Prefix) ([]string, error) {
	const field = "excludedAddresses"
	texts := make([]string, 0, len(networks))

	var wrong []error
	for i, network := range networks {
		network = model.UnmapNetwork(network).Masked()
		if !network.IsValid() {
			wrong = append(wrong, model.InvalidItem(field, i, "invalid_network",
				"Enter addresses or networks such as 192.0.2.7 or 2001:db8::/32, IPv4-mapped ones with 96 bits or more."))
			if len(wrong) == model.MaxListErrors {
				break
			}
		}

		texts = append(texts, network.String())
	}

	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}

	slices.Sort(texts)
	texts = slices.Compact(texts)
	if len(texts) > model.MaxExcludedNetworks {
		return nil, &model.Error{
			Kind: model.Conflict, Code: "too_many_networks", Field: field,
			Message: fmt.Sprintf("A site has at most %d excluded addresses.", model.MaxExcludedNetworks),
		}
	}

	return texts, nil
}

// SetSitePlan puts a site of any account on a plan. The caller must have checked that the user is
// an operator. For a plan with a fixed volume, monthlyPageviews must be that volume or 0. An
// Enterprise plan needs a volume from 1 to model.MaxMonthlyPageviews.
func (s *Store) SetSitePlan(ctx context.Context, siteID int64, plan model.Plan, monthlyPageviews int64) error {
	volume, fixed := plan.MonthlyPageviews()
	switch {
	case !fixed && plan != model.PlanEnterprise:
		return model.InvalidField("plan", "invalid_plan", "There is no such plan.")
	case !fixed && (monthlyPageviews < 1 || monthlyPageviews > model.MaxMonthlyPageviews):
		return model.InvalidField("monthlyPageviews", "invalid_volume",
			"An Enterprise plan needs the agreed number of page views a month, from 1 to 2^53.")
	case fixed && monthlyPageviews != 0 && monthlyPageviews != volume:
		return model.InvalidField("monthlyPageviews", "invalid_volume",
			fmt.Sprintf("This plan has %d page views a month.", volume))
	case !fixed:
		volume = monthlyPageviews
	}

	return s.changeAnySite(ctx, siteID, func(tx *db.Tx, site *model.Site) error {
		before := planValues(site)
		site.Plan, site.MonthlyPageviews = plan, volume
		if err := updateColumns(ctx, tx, site, "plan", "monthly_pageviews"); err != nil {
			return err
		}

		return audit.Write(ctx, tx, audit.Change{
			AccountID: site.AccountID, Object: siteObject(site), ByOperator: true, Before: before, After: planValues(site),
		})
	})
}

// updateColumns stores columns of the site's own row.
func updateColumns(ctx context.Context, tx *db.Tx, site *model.Site, columns ...string) error {
	_, err := tx.NewUpdate().Model(site).WherePK().Column(columns...).Exec(ctx)
	return err
}

// changeSite changes a site of the account in a transaction that locks the site's row, and notifies
// the watchers.
func (s *Store) changeSite(
	ctx context.Context, accountID, siteID int64, change func(tx *db.Tx, site *model.Site) error,
) error {
	return s.change(ctx, siteID, func(q *bun.SelectQuery) {
		q.Where("account_id = ?", accountID).Where("deleted_at = 0")
	}, change)
}

// changeAnySite is changeSite for the operator: the site may belong to any account.
func (s *Store) changeAnySite(ctx context.Context, siteID int64, change func(tx *db.Tx, site *model.Site) error) error {
	return s.change(ctx, siteID, func(q *bun.SelectQuery) { q.Where("deleted_at = 0") }, change)
}

// change is changeSite for a site that meets the condition whose.
func (s *Store) change(
	ctx context.Context, siteID int64, whose func(*bun.SelectQuery), change func(tx *db.Tx, site *model.Site) error,
) error {
	err := s.inTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.TakeTurn(ctx, "sites"); err != nil {
			return err
		}

		var site model.Site
		q := tx.NewSelect().Model(&site).Where("id = ?", siteID)
		whose(q)
		tx.Lock(q, "NO KEY UPDATE")

		if err := q.Scan(ctx); err != nil {
			return db.OrNotFound(err)
		}
		if err := change(tx, &site); err != nil {
			return err
		}

		return tx.Notify(ctx, watch.Sites, siteID)
	})
	return db.Wrap(err, "change site %d", siteID)
}

// addToSite adds a value to one of the site's lists, and reports whether it is new. It returns full
// when the list has limit values already.
func addToSite(
	ctx context.Context, tx *db.Tx, table, column string, siteID int64, value string, limit int64, full error,
) (bool, error) {
	added, err := db.Changed(tx.ExecContext(ctx, "INSERT INTO ? (site_id, ?) VALUES (?, ?) ON CONFLICT DO NOTHING",
		bun.Ident(table), bun.Ident(column), siteID, value))
	if err != nil || !added {
		return false, err
	}

	n, err := tx.NewSelect().Table(table).Where("site_id = ?", siteID).Count(ctx)
	if err == nil && n > limit {
		// The error rolls back the insert.
		err = full
	}

	return true, err
}

// removeFromSite removes a value from one of the site's lists, and reports whether it was there.
func removeFromSite(
	ctx context.Context, tx *db.Tx, table, column string, siteID int64, value string,
) (bool, error) {
	return db.Changed(tx.ExecContext(ctx, "DELETE FROM ? WHERE site_id = ? AND ? = ?", bun.Ident(table), siteID,
		bun.Ident(column), value))
}
