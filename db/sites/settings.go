package sites

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
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
			return model.InvalidField("domain", "own_domain", "This is the site's own domain; it needs no entry.")
		}
		return addToSite(ctx, tx, "site_domains", "domain", siteID, domain, model.MaxExtraDomains, &model.Error{
			Kind: model.Conflict, Code: "too_many_domains", Field: "domain",
			Message: fmt.Sprintf("A site has at most %d extra domains.", model.MaxExtraDomains),
		})
	})
}

// RemoveSiteDomain removes an extra domain.
func (s *Store) RemoveSiteDomain(ctx context.Context, accountID, siteID int64, domain string) error {
	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, _ *model.Site) error {
		return removeFromSite(ctx, tx, "site_domains", "domain", siteID, domain)
	})
}

// RegisterEvent adds a custom event name to the site, which has at most model.MaxRegisteredEvents.
func (s *Store) RegisterEvent(ctx context.Context, accountID, siteID int64, name string) error {
	switch {
	case !model.IsEventName(name):
		return model.InvalidField("name", "invalid_event_name",
			"Use a name of 1 to 48 lower-case letters, digits, underscores and hyphens.")
	case model.IsReservedEvent(name):
		return model.InvalidField("name", "reserved_event_name",
			"This name has a meaning of its own and cannot be registered.")
	}

	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, _ *model.Site) error {
		return addToSite(ctx, tx, "registered_events", "name", siteID, name, model.MaxRegisteredEvents, &model.Error{
			Kind: model.Conflict, Code: "too_many_events", Field: "name",
			Message: fmt.Sprintf("A site has at most %d registered event names.", model.MaxRegisteredEvents),
		})
	})
}

// UnregisterEvent removes a custom event name from the site, and its mark as a key event.
func (s *Store) UnregisterEvent(ctx context.Context, accountID, siteID int64, name string) error {
	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, _ *model.Site) error {
		err := removeFromSite(ctx, tx, "registered_events", "name", siteID, name)

		// A reserved name was never registered, so its mark stays.
		if err != nil || model.IsReservedEvent(name) {
			return err
		}

		return removeFromSite(ctx, tx, "key_events", "name", siteID, name)
	})
}

// MarkKeyEvent makes an event send the conversion webhook. The event must be registered, automatic
// or an e-commerce event. A purchase always is a key event.
func (s *Store) MarkKeyEvent(ctx context.Context, accountID, siteID int64, name string) error {
	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, _ *model.Site) error {
		if name == model.EventPurchase {
			return nil
		}

		if !model.IsAutomaticEvent(name) && !model.IsEcommerceEvent(name) {
			registered, err := tx.NewSelect().Table("registered_events").Where("site_id = ?", siteID).Where("name = ?", name).
				Exists(ctx)
			if err != nil {
				return err
			}
			if !registered {
				return model.InvalidField("name", "event_not_registered", "Register this event name first.")
			}
		}

		_, err := tx.ExecContext(ctx, "INSERT INTO key_events (site_id, name) VALUES (?, ?) ON CONFLICT DO NOTHING",
			siteID, name)
		return err
	})
}

// UnmarkKeyEvent removes the mark as a key event. It fails for a purchase, which always is one.
func (s *Store) UnmarkKeyEvent(ctx context.Context, accountID, siteID int64, name string) error {
	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, _ *model.Site) error {
		if name == model.EventPurchase {
			return model.InvalidField("name", "always_key_event", "A purchase always is a key event.")
		}
		return removeFromSite(ctx, tx, "key_events", "name", siteID, name)
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

	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		if u.Name != nil {
			site.Name = name
		}

		setIfGiven(&site.MeasureSiteSearch, u.MeasureSiteSearch)
		setIfGiven(&site.MeasureEcommerce, u.MeasureEcommerce)
		setIfGiven(&site.AllowPseudonymousUserID, u.AllowPseudonymousUserID)
		setIfGiven(&site.AutomaticEvents, u.AutomaticEvents)
		setIfGiven(&site.TimeZone, u.TimeZone)

		err := updateColumns(ctx, tx, site, "name", "measure_site_search", "measure_ecommerce",
			"allow_pseudonymous_user_id", "automatic_events", "time_zone")
		if err != nil || u.ExcludedAddresses == nil {
			return err
		}

		return replaceExcluded(ctx, tx, siteID, networks)
	})
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

// SetServerSecret stores the hash of a new server secret (see model.HashToken) and the hint by
// which its owner recognises it. It revokes the previous secret.
func (s *Store) SetServerSecret(ctx context.Context, accountID, siteID int64, hash []byte, hint string) error {
	_, err := s.ReplaceServerSecret(ctx, accountID, siteID, hash, hint)
	return err
}

// ReplaceServerSecret is SetServerSecret, and returns the changed site.
func (s *Store) ReplaceServerSecret(
	ctx context.Context, accountID, siteID int64, hash []byte, hint string,
) (changed *model.Site, err error) {
	err = s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		site.ServerSecretHash, site.ServerSecretHint = hash, hint
		changed = site
		return updateColumns(ctx, tx, site, "server_secret_hash", "server_secret_hint")
	})
	if err != nil {
		return nil, err
	}

	return changed, nil
}

// RevokeServerSecret deletes the server secret. No server can send events until a new one is set.
func (s *Store) RevokeServerSecret(ctx context.Context, accountID, siteID int64) error {
	return s.SetServerSecret(ctx, accountID, siteID, nil, "")
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
		site.Plan, site.MonthlyPageviews = plan, volume
		return updateColumns(ctx, tx, site, "plan", "monthly_pageviews")
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
	return s.change(ctx, siteID, func(q *bun.SelectQuery) { q.Where("account_id = ?", accountID) }, change)
}

// changeAnySite is changeSite for the operator: the site may belong to any account.
func (s *Store) changeAnySite(ctx context.Context, siteID int64, change func(tx *db.Tx, site *model.Site) error) error {
	return s.change(ctx, siteID, func(*bun.SelectQuery) {}, change)
}

// change is changeSite for a site that meets the condition whose.
func (s *Store) change(
	ctx context.Context, siteID int64, whose func(*bun.SelectQuery), change func(tx *db.Tx, site *model.Site) error,
) error {
	err := s.inTx(ctx, func(ctx context.Context, tx *db.Tx) error {
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
	if err != nil {
		return db.Wrap(err, "change site %d", siteID)
	}

	return nil
}

// addToSite adds a value to one of the site's lists. It returns full when the list has limit values
// already.
func addToSite(
	ctx context.Context, tx *db.Tx, table, column string, siteID int64, value string, limit int64, full error,
) error {
	result, err := tx.ExecContext(ctx, "INSERT INTO ? (site_id, ?) VALUES (?, ?) ON CONFLICT DO NOTHING",
		bun.Ident(table), bun.Ident(column), siteID, value)
	if err != nil {
		return err
	}
	if added, err := result.RowsAffected(); err != nil || added == 0 {
		return err
	}

	n, err := tx.NewSelect().Table(table).Where("site_id = ?", siteID).Count(ctx)
	if err == nil && n > limit {
		// The error rolls back the insert.
		err = full
	}

	return err
}

// removeFromSite removes a value from one of the site's lists, if it is there.
func removeFromSite(ctx context.Context, tx *db.Tx, table, column string, siteID int64, value string) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM ? WHERE site_id = ? AND ? = ?", bun.Ident(table), siteID,
		bun.Ident(column), value)
	return err
}
