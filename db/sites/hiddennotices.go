package sites

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// HideNotices stores the counts at which a user of the account has hidden the notices of a site's
// page.
func (s *Sites) HideNotices(ctx context.Context, user *model.User, siteID model.SiteID, hidden model.HiddenNotices) error {
	hidden.SiteID, hidden.UserID = siteID, user.ID
	err := s.inTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := lockSiteOfMember(ctx, tx, user, siteID); err != nil {
			return err
		}

		_, err := tx.NewInsert().Model(&hidden).On("CONFLICT (site_id, user_id) DO UPDATE").
			Set("rejections = excluded.rejections, usage = excluded.usage, hidden_at = excluded.hidden_at").Exec(ctx)
		return err
	})
	return db.Wrap(err, "hide the notices of site %d", siteID)
}

// HiddenNoticesOfSites returns what a user has hidden on the page of each site. Sites without
// hidden notices are left out. The caller must have loaded the sites, which checks the right to see
// them.
func (s *Sites) HiddenNoticesOfSites(
	ctx context.Context, userID model.UserID, siteIDs []model.SiteID,
) (map[model.SiteID]*model.HiddenNotices, error) {
	if len(siteIDs) == 0 {
		return nil, nil
	}

	var rows []*model.HiddenNotices
	err := s.reader().NewSelect().Model(&rows).Where("site_id IN ?", bun.Tuple(siteIDs)).Where("user_id = ?", userID).
		Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the hidden notices of %d sites: %w", len(siteIDs), err)
	}

	bySite := make(map[model.SiteID]*model.HiddenNotices, len(rows))
	for _, row := range rows {
		bySite[row.SiteID] = row
	}
	return bySite, nil
}
