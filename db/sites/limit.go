package sites

import (
	"context"
	"fmt"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// CreateOwnersSite is CreateSite for an owner who is not the operator. The account may have
// model.DefaultSiteLimit sites on the plan of the new one, or as many as the operator permits (see
// SetSiteLimit). Sites on another plan do not count. A site over the limit fails with the Conflict
// too_many_sites.
func (s *Store) CreateOwnersSite(ctx context.Context, site model.Site) (*model.Site, error) {
	return s.createSite(ctx, site, checkSiteLimit)
}

func checkSiteLimit(ctx context.Context, tx *db.Tx, site *model.Site) error {
	var row struct{ Used, Limit int64 }
	err := tx.NewRaw(`
SELECT (SELECT count(*) FROM sites WHERE account_id = ? AND plan = ?) AS used, coalesce(site_limit, ?) AS "limit"
FROM accounts WHERE id = ?`,
		site.AccountID, site.Plan, model.DefaultSiteLimit, site.AccountID).Scan(ctx, &row)
	if err == nil && row.Used > row.Limit {
		err = &model.Error{Kind: model.Conflict, Code: "too_many_sites", Message: fmt.Sprintf(
			"This account has at most %d sites on the plan %s. Delete one first, or ask the operator for more.",
			row.Limit, site.Plan)}
	}

	return err
}

// SetSiteLimit sets how many sites an account may have on the plan of new sites, 1 to
// model.MaxSites. Existing sites over the limit stay.
func (s *Store) SetSiteLimit(ctx context.Context, accountID, limit int64) error {
	if limit < 1 || limit > model.MaxSites {
		return model.InvalidField("sites", "invalid_volume", fmt.Sprintf("Use a number from 1 to %d.", model.MaxSites))
	}

	res, err := s.db.Write.ExecContext(ctx, "UPDATE accounts SET site_limit = ? WHERE id = ?", limit, accountID)
	if err != nil {
		return fmt.Errorf("set the site limit of account %d: %w", accountID, err)
	}

	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		err = model.ErrNotFound
	}

	return err
}
