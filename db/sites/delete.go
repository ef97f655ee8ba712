package sites

import (
	"context"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/watch"
)

// DeleteSite deletes a site of the account and returns it as it was. Its key and secret are unknown
// from then on. PurgeDeletedSites of package retention deletes its hits and everything that belongs
// to them.
func (s *Store) DeleteSite(ctx context.Context, accountID, siteID int64, now model.Instant) (*model.Site, error) {
	var deleted model.Site
	err := s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		deleted = *site
		return deleteSite(ctx, tx, siteID, now)
	})
	if err != nil {
		return nil, err
	}

	return &deleted, nil
}

// deleteSite deletes the site's own row, and lists the site for the purge of all others.
func deleteSite(ctx context.Context, tx *db.Tx, siteID int64, now model.Instant) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO deleted_sites (site_id, deleted_at) VALUES (?, ?)", siteID, now)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM sites WHERE id = ?", siteID)
	return err
}

// DeleteAll deletes all sites of an account, which tx must have locked, and notifies the watchers.
func DeleteAll(ctx context.Context, tx *db.Tx, accountID int64, siteIDs []int64, now model.Instant) error {
	if err := tx.Notify(ctx, watch.Sites, siteIDs...); err != nil {
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
