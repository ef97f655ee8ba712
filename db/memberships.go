package db

import (
	"context"
	"slices"

	"github.com/tallygate/tallygate/db/model"
)

// AllMemberships is a table expression of the memberships of members and guests. site_ids is a JSON
// array of a guest's sites, and NULL for a member of the whole account.
//
// Guests have a table of their own, so that statements on memberships alone leave guests out: so do
// notices about an account.
const AllMemberships = `(SELECT user_id, account_id, role, created_at, NULL AS site_ids FROM memberships
UNION ALL SELECT user_id, account_id, 'VIEWER', created_at, site_ids FROM guests)`

// CheckReaches returns model.ErrNotFound unless a user reaches a site of the account. The user may
// have left the account since the request was authenticated, and a guest may have lost the site.
// The transaction must hold a lock on the account or on the user.
func (tx *Tx) CheckReaches(ctx context.Context, user *model.User, siteID model.SiteID) error {
	var member model.Membership
	err := tx.NewSelect().Model(&member).ModelTableExpr(AllMemberships+" AS ?TableAlias").
		Where("user_id = ?", user.ID).Where("account_id = ?", user.AccountID).Scan(ctx)
	if err == nil && member.SiteIDs != nil && !slices.Contains(member.SiteIDs, siteID) {
		return model.ErrNotFound
	}
	return OrNotFound(err)
}
