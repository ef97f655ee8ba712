package sites

import (
	"context"
	"errors"
	"fmt"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
)

// A deleted site stays a row with the time of its deletion for model.RestorePeriod, and so do its
// hits and settings. All queries of sites leave it out, apart from those of this file. Its domain
// can be used by a new site of the account, and it does not count towards the limits of sites.

// RemoveSite deletes a site of the account so that it can be restored for model.RestorePeriod, and
// returns it. Its key and secret are unknown from then on. confirm is its domain; nil: not asked
// for.
func (s *Sites) RemoveSite(
	ctx context.Context, accountID model.AccountID, siteID model.SiteID, confirm *string, now model.Instant,
) (*model.Site, error) {
	var removed *model.Site
	err := s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		if err := model.ConfirmDomain(confirm, site.Domain); err != nil {
			return err
		}

		before := stateValues(site)
		site.DeletedAt = now
		removed = site
		if err := updateColumns(ctx, tx, site, "deleted_at"); err != nil {
			return err
		}

		return auditSite(ctx, tx, site, before, stateValues(site))
	})
	if err != nil {
		return nil, err
	}

	return removed, nil
}

// DeleteSite deletes a site of the account for good, also one that can be restored, and returns it
// without its lists. confirm is its domain. PurgeDeletedSites of package retention deletes its hits
// and everything that belongs to them.
func (s *Sites) DeleteSite(
	ctx context.Context, accountID model.AccountID, siteID model.SiteID, confirm string, now model.Instant,
) (*model.Site, error) {
	var deleted model.Site
	err := s.change(ctx, siteID, func(tx *db.Tx, site *model.Site) error {
		if err := model.ConfirmDomain(&confirm, site.Domain); err != nil {
			return err
		}

		deleted = *site
		if err := deleteSite(ctx, tx, siteID, now); err != nil {
			return err
		}
		return auditSite(ctx, tx, site, audit.Values{"name": site.Name, "plan": site.Plan}, nil)
	}, "account_id = ?", accountID)
	if err != nil {
		return nil, err
	}

	deleted.DeletedAt, deleted.Purged = now, true
	return &deleted, nil
}

// RestoreSite restores a deleted site of the account with everything that belonged to it, and
// returns it. A site that is not deleted stays as it is. It fails with the Conflict domain_taken if
// the account has another site with the domain by now, and with too_many_sites beyond the limits:
// unless anyNumber is set also beyond that of CreateOwnersSite.
func (s *Sites) RestoreSite(
	ctx context.Context, accountID model.AccountID, siteID model.SiteID, anyNumber bool, now model.Instant,
) (*model.Site, error) {
	var restored model.Site
	err := s.inTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockAccount(ctx, accountID); err != nil {
			return err
		}

		if err := tx.TakeTurn(ctx, "sites"); err != nil {
			return err
		}

		restored = model.Site{}
		q := tx.NewSelect().Model(&restored).Where("id = ?", siteID).Where("account_id = ?", accountID).
			Where("deleted_at = 0 OR deleted_at > ?", now.Add(-model.RestorePeriod))
		tx.Lock(q, "NO KEY UPDATE")
		if err := q.Scan(ctx); err != nil {
			return db.OrNotFound(err)
		}
		before := stateValues(&restored)
		if restored.DeletedAt == 0 {
			return auditSite(ctx, tx, &restored, before, before)
		}

		restored.DeletedAt = 0
		if err := updateColumns(ctx, tx, &restored, "deleted_at"); err != nil {
			return err
		}
		if err := maySiteJoin(ctx, tx, &restored, anyNumber); err != nil {
			return err
		}
		if err := auditSite(ctx, tx, &restored, before, stateValues(&restored)); err != nil {
			return err
		}

		return tx.NotifySites(ctx, siteID)
	})
	if err != nil {
		return nil, db.Wrap(orDomainTaken(err, "siteId"), "restore site %d", siteID)
	}

	return &restored, nil
}

// DeletedSites returns the sites of the account that can be restored, latest deleted first, at most
// limit.
func (s *Sites) DeletedSites(
	ctx context.Context, accountID model.AccountID, now model.Instant, limit int,
) ([]*model.Site, error) {
	var list []*model.Site
	err := s.reader().NewSelect().Model(&list).Where("account_id = ?", accountID).
		Where("deleted_at > ?", max(0, now.Add(-model.RestorePeriod))).
		OrderExpr("deleted_at DESC, id DESC").Limit(int64(limit)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("list deleted sites of account %d: %w", accountID, err)
	}
	return list, nil
}

// DeletedSiteByKey returns a deleted site of any account that can be restored, by its site key, or
// model.ErrNotFound. Only the operator's command line calls it.
func (s *Sites) DeletedSiteByKey(ctx context.Context, siteKey string) (*model.Site, error) {
	var site model.Site
	err := s.reader().NewSelect().Model(&site).Where("site_key = ?", siteKey).Where("deleted_at > 0").Scan(ctx)
	if err != nil {
		return nil, db.OrNotFound(err)
	}
	return &site, nil
}

// KeysOfDomain returns the keys of up to ten sites of any account with a domain: of the deleted
// sites, which can be restored, or of the others.
func (s *Sites) KeysOfDomain(ctx context.Context, domain string, deleted bool) (keys []string, err error) {
	err = s.reader().NewSelect().Model((*model.Site)(nil)).Column("site_key").
		Where("domain = ?", domain).Where("(deleted_at > 0) = ?", deleted).Order("id").Limit(10).Scan(ctx, &keys)
	return keys, err
}

// expirePage is how many sites one call of ExpireDeletedSites reads at once.
const expirePage = 100

// ExpireDeletedSites deletes for good the sites that can no longer be restored: those that were
// deleted model.RestorePeriod ago, and those of accounts with more than model.MaxDeletedSites. It
// returns their number. Each one is deleted in a transaction of its own.
func (s *Sites) ExpireDeletedSites(ctx context.Context, now model.Instant) (int64, error) {
	var all int64
	for _, expired := range []struct {
		condition string
		bound     any
	}{
		{"deleted_at > 0 AND deleted_at <= ?", now.Add(-model.RestorePeriod)},
		{"deleted_at > 0 AND id IN (SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY account_id " +
			"ORDER BY deleted_at DESC, id DESC) AS n FROM sites WHERE deleted_at > 0) AS numbered WHERE n > ?)",
			model.MaxDeletedSites},
	} {
		n, err := s.expire(ctx, expired.condition, expired.bound, now)
		all += n
		if err != nil {
			return all, err
		}
	}

	return all, nil
}

// expire deletes for good the deleted sites that meet a condition.
func (s *Sites) expire(ctx context.Context, condition string, bound any, now model.Instant) (int64, error) {
	for all := int64(0); ; {
		var ids []model.SiteID
		err := s.reader().NewSelect().Table("sites").Column("id").Where(condition, bound).OrderExpr("deleted_at, id").
			Limit(expirePage).Scan(ctx, &ids)
		if err != nil {
			return all, fmt.Errorf("look for expired deleted sites: %w", err)
		}

		for _, id := range ids {
			err := s.change(ctx, id, func(tx *db.Tx, site *model.Site) error {
				if err := deleteSite(ctx, tx, id, now); err != nil {
					return err
				}
				return auditSite(ctx, tx, site, stateValues(site), nil)
			}, "deleted_at > 0") // a site that was restored meanwhile stays
			if err != nil && !errors.Is(err, model.ErrNotFound) {
				return all, err
			}
			all++
		}

		if len(ids) < expirePage {
			return all, nil
		}
	}
}

// deleteSite deletes the site's own row, and lists the site for the purge of all others.
func deleteSite(ctx context.Context, tx *db.Tx, siteID model.SiteID, now model.Instant) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO deleted_sites (site_id, deleted_at) VALUES (?, ?)", siteID, now)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM sites WHERE id = ?", siteID)
	return err
}

// DeleteAll deletes all sites of an account, which tx must have locked, and notifies the watchers.
func DeleteAll(ctx context.Context, tx *db.Tx, accountID model.AccountID, siteIDs []model.SiteID, now model.Instant) error {
	if err := tx.NotifySites(ctx, siteIDs...); err != nil {
		return err
	}

	_, err := tx.ExecContext(ctx, "INSERT INTO deleted_sites (site_id, deleted_at) "+
		"SELECT id, ? FROM sites WHERE account_id = ?", now, accountID)
	if err != nil {
		return err
	}

	_, err = tx.ExecContext(ctx, "DELETE FROM sites WHERE account_id = ?", accountID)
	return err
}
