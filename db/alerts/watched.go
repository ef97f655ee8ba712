package alerts

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/model"
)

// Account is an account with channels, and its sites.
type Account struct {
	ID     model.AccountID
	Events []model.AlertEvent // that channels of the account itself want
	Sites  []*Site            // live ones with a channel; empty for a suspended account
	Open   []*model.Alert     // of the account, its sites and its sitekeys
}

// Wants reports whether a channel of the account itself wants an event.
func (a *Account) Wants(event model.AlertEvent) bool { return slices.Contains(a.Events, event) }

// Site is a site with the events that some channel wants.
type Site struct {
	ID        model.SiteID
	AccountID model.AccountID
	TimeZone  string
	CreatedAt model.Instant

	Events []model.AlertEvent `bun:"-"`
}

// Wants reports whether a channel of the site or of its account wants an event.
func (s *Site) Wants(event model.AlertEvent) bool { return slices.Contains(s.Events, event) }

// wish is what a channel wants.
type wish struct {
	AccountID model.AccountID
	SiteID    model.SiteID       // 0: all sites of the account
	Events    []model.AlertEvent `bun:",notnull"`
}

// Watched returns at most limit accounts with a channel that wants events, with ids above after, in
// the order of their ids. Its cost depends on these accounts only.
func (s *Store) Watched(ctx context.Context, after model.AccountID, limit int) ([]*Account, error) {
	var ids []model.AccountID
	err := s.db.Read.NewSelect().Table("alert_channels").Distinct().Column("account_id").Where("account_id > ?", after).
		Where("events <> '[]'").
		Order("account_id").Limit(int64(limit)).Scan(ctx, &ids)
	if err != nil {
		return nil, fmt.Errorf("look for accounts with channels: %w", err)
	}
	if len(ids) == 0 {
		return nil, nil
	}

	accounts := make([]*Account, len(ids))
	for i, id := range ids {
		accounts[i] = &Account{ID: id}
	}
	return accounts, s.fill(ctx, accounts, ids)
}

// fill reads what accounts want, their sites and their open alerts.
func (s *Store) fill(ctx context.Context, accounts []*Account, ids []model.AccountID) error {
	var wishes []wish
	err := s.db.Read.NewSelect().Table("alert_channels").Column("account_id", "events").
		ColumnExpr("coalesce(site_id, 0) AS site_id").Where("account_id IN ?", bun.Tuple(ids)).
		Where("confirmed_at > 0").Where("stopped_at = 0").Scan(ctx, &wishes)
	if err != nil {
		return fmt.Errorf("read what channels of %d accounts want: %w", len(ids), err)
	}

	var sites []*Site
	err = s.db.Read.NewRaw(`
SELECT s.id, s.account_id, s.time_zone, s.created_at FROM sites s JOIN accounts a ON a.id = s.account_id
WHERE s.account_id IN ? AND s.deleted_at = 0 AND s.paused_at = 0 AND a.suspended_at = 0
ORDER BY s.id`, bun.Tuple(ids)).Scan(ctx, &sites)
	if err != nil {
		return fmt.Errorf("read the sites of %d accounts with channels: %w", len(ids), err)
	}

	open, err := s.OpenOfAccounts(ctx, ids)
	if err != nil {
		return err
	}

	byID := make(map[model.AccountID]*Account, len(accounts))
	for _, account := range accounts {
		byID[account.ID] = account
	}
	bySite := make(map[model.SiteID][]model.AlertEvent)
	for _, w := range wishes {
		if w.SiteID == 0 {
			byID[w.AccountID].Events = union(byID[w.AccountID].Events, w.Events)
		} else {
			bySite[w.SiteID] = union(bySite[w.SiteID], w.Events)
		}
	}
	for _, site := range sites {
		account := byID[site.AccountID]
		if site.Events = union(slices.Clone(account.Events), bySite[site.ID]); len(site.Events) > 0 {
			account.Sites = append(account.Sites, site)
		}
	}
	for _, alert := range open {
		account := byID[alert.AccountID]
		account.Open = append(account.Open, alert)
	}
	return nil
}

// union adds events to a list that has each once.
func union(events, more []model.AlertEvent) []model.AlertEvent {
	for _, event := range more {
		if !slices.Contains(events, event) {
			events = append(events, event)
		}
	}
	return events
}
