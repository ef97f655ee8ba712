package sites

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// SetReportView stores what a user of the account has chosen for the report of a site. It writes
// nothing if the choice is stored already.
func (s *Sites) SetReportView(ctx context.Context, user *model.User, siteID model.SiteID, chosen model.ReportView) error {
	chosen.SiteID, chosen.UserID = siteID, user.ID
	err := s.inTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := lockSiteOfMember(ctx, tx, user, siteID); err != nil {
			return err
		}

		_, err := tx.NewInsert().Model(&chosen).On("CONFLICT (site_id, user_id) DO UPDATE").
			Set("preset = excluded.preset, compare = excluded.compare, match_day_of_week = excluded.match_day_of_week").
			Where("report_view.preset <> excluded.preset OR report_view.compare <> excluded.compare OR " +
				"report_view.match_day_of_week <> excluded.match_day_of_week").Exec(ctx)
		return err
	})
	return db.Wrap(err, "set the report view of site %d", siteID)
}

// ReportViewsOfSites returns what a user has chosen for the report of each site. Sites without a
// choice are left out. The caller must have loaded the sites, which checks the right to see them.
func (s *Sites) ReportViewsOfSites(
	ctx context.Context, userID model.UserID, siteIDs []model.SiteID,
) (map[model.SiteID]*model.ReportView, error) {
	if len(siteIDs) == 0 {
		return nil, nil
	}

	var rows []*model.ReportView
	err := s.reader().NewSelect().Model(&rows).Where("site_id IN ?", bun.Tuple(siteIDs)).Where("user_id = ?", userID).
		Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the report views of %d sites: %w", len(siteIDs), err)
	}

	bySite := make(map[model.SiteID]*model.ReportView, len(rows))
	for _, row := range rows {
		bySite[row.SiteID] = row
	}
	return bySite, nil
}
