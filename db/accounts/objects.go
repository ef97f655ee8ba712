package accounts

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
)

// objectTables are the tables with an account_id and no site, and siteObjectTables those with a
// site_id.
var (
	objectTables = map[nodeid.Kind]string{
		nodeid.Sitekey: "sitekeys", nodeid.Invitation: "invitations",
	}
	siteObjectTables = map[nodeid.Kind]string{
		nodeid.Annotation: "annotations", nodeid.Segment: "segments", nodeid.Funnel: "funnels",
		nodeid.SharedLink: "shared_links", nodeid.Erasure: "user_erasures",
		nodeid.Import: "report_imports", nodeid.ImportJob: "import_jobs",
	}
)

// MemberFor returns the user as a member of the account that an object belongs to. The caller must
// use that account in the condition of the query that reads or changes the object. It returns
// model.ErrNotFound for an object of an account that the user does not belong to, and
// model.ErrSecondFactorRequired if that account requires a second factor that the user does not
// have. A guest of the account, and an API token that is restricted to sites, find only their sites
// and the objects of these. For a user of one account without a restriction it makes no query.
func (s *Store) MemberFor(ctx context.Context, user *model.User, kind nodeid.Kind, id int64) (*model.User, error) {
	if len(user.Memberships) < 2 && !user.IsRestricted() {
		return unlessBarred(user)
	}

	accountID, siteID, err := s.ownerOf(ctx, kind, id)
	if err != nil {
		return nil, err
	}

	// The account decides about the restriction: the user can be a guest in one, and an owner in
	// another.
	member := user.In(accountID)
	if member == nil || !member.Reaches(siteID) {
		return nil, model.ErrNotFound
	}
	return unlessBarred(member)
}

// ownerOf returns the account that an object belongs to, and the site, which is 0 for an object of
// no site.
func (s *Store) ownerOf(ctx context.Context, kind nodeid.Kind, id int64) (accountID model.AccountID, siteID model.SiteID, err error) {
	q := s.db.Read.NewSelect()
	switch table, tableOfSites := objectTables[kind], siteObjectTables[kind]; {
	case kind == nodeid.Site:
		q = q.Table("sites").Column("account_id", "id").Where("id = ?", id)
	case table != "":
		q = q.Table(table).Column("account_id").ColumnExpr("0").Where("id = ?", id)
	case kind == nodeid.AlertChannel:
		q = q.Table("alert_channels").Column("account_id").ColumnExpr("coalesce(site_id, 0)").Where("id = ?", id)
	case kind == nodeid.AlertMessage:
		q = q.Table("alert_channels").Column("account_id").ColumnExpr("coalesce(site_id, 0)").
			Where("id = (SELECT channel_id FROM alert_messages WHERE id = ?)", id)
	case tableOfSites != "":
		q = q.Table("sites").Column("account_id", "id").
			Where("id = (SELECT site_id FROM ? WHERE id = ?)", bun.Ident(tableOfSites), id)
	default:
		return 0, 0, fmt.Errorf("objects of kind %v have no account", kind)
	}

	err = q.Scan(ctx, &accountID, &siteID)
	return accountID, siteID, db.OrNotFound(err)
}

func unlessBarred(member *model.User) (*model.User, error) {
	if member.Account.Bars(member) {
		return nil, model.ErrSecondFactorRequired
	}
	return member, nil
}
