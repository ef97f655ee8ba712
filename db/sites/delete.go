package sites

import (
	"context"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// DeleteSite deletes a site of the account for good and returns what it was: from then on its key
// and secret are unknown. Hits and all that belongs to them are deleted by PurgeDeletedSites.
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

func deleteSite(ctx context.Context, tx *db.Tx, siteID int64, now model.Instant) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO deleted_sites (site_id, deleted_at) VALUES (?, ?)", siteID, now)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM sites WHERE id = ?", siteID)
	return err
}

// DeleteSites deletes all sites of an account, which tx has locked, and announces it.
func DeleteAll(ctx context.Context, tx *db.Tx, accountID int64, siteIDs []int64, now model.Instant) error {
	if err := tx.Notify(ctx, db.SiteChanges, siteIDs...); err != nil {
		return err
	}

	_, err := tx.ExecContext(ctx, "INSERT INTO deleted_sites (site_id, deleted_at) SELECT id, ? FROM sites WHERE account_id = ?", now, accountID)
	if err != nil {
		return err
	}

	_, err = tx.ExecContext(ctx, "DELETE FROM sites WHERE account_id = ?", accountID)
	return err
}
