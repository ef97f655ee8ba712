package accounts

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// objectTables are the tables with an account_id, and siteObjectTables the tables with a site_id.
var (
	objectTables = map[model.NodeKind]string{
		model.NodeSite: "sites", model.NodeSitekey: "sitekeys", model.NodeInvitation: "invitations",
	}
	siteObjectTables = map[model.NodeKind]string{
		model.NodeAnnotation: "annotations", model.NodeSegment: "segments", model.NodeFunnel: "funnels",
		model.NodeSharedLink: "shared_links", model.NodeErasure: "user_erasures",
		model.NodeImport: "report_imports", model.NodeImportJob: "import_jobs",
	}
)

// MemberFor returns the user as a member of the account that an object belongs to. The caller must
// use that account in the condition of the query that reads or changes the object. It returns
// model.ErrNotFound for an object of an account that the user does not belong to, and
// model.ErrSecondFactorRequired if that account requires a second factor that the user does not have.
// Through an API token that is restricted to sites, only these sites and their objects are found.
// For a user of one account without such a token it makes no query.
func (s *Store) MemberFor(ctx context.Context, user *model.User, kind model.NodeKind, id int64) (*model.User, error) {
	if user.IsRestricted() {
		if err := s.checkSite(ctx, user, kind, id); err != nil {
			return nil, err
		}
	}
	if len(user.Memberships) < 2 {
		return unlessBarred(user)
	}

	q := s.db.Read.NewSelect().Table("sites").Column("account_id")
	if table, ok := objectTables[kind]; ok {
		q = s.db.Read.NewSelect().Table(table).Column("account_id").Where("id = ?", id)
	} else if table, ok := siteObjectTables[kind]; ok {
		q = q.Where("id = (SELECT site_id FROM ? WHERE id = ?)", bun.Ident(table), id)
	} else {
		return nil, fmt.Errorf("objects of kind %v have no account", kind)
	}

	var accountID int64
	if err := q.Scan(ctx, &accountID); err != nil {
		return nil, db.OrNotFound(err)
	}
	if member := user.In(accountID); member != nil {
		return unlessBarred(member)
	}

	return nil, model.ErrNotFound
}

func unlessBarred(member *model.User) (*model.User, error) {
	if member.Account.Bars(member) {
		return nil, model.ErrSecondFactorRequired
	}
	return member, nil
}

// checkSite returns model.ErrNotFound unless the user's restriction to sites includes the object,
// or the site that the object belongs to.
func (s *Store) checkSite(ctx context.Context, user *model.User, kind model.NodeKind, id int64) error {
	siteID := id
	if table, ok := siteObjectTables[kind]; ok {
		err := s.db.Read.NewSelect().Table(table).Column("site_id").Where("id = ?", id).Scan(ctx, &siteID)
		if err != nil {
			return db.OrNotFound(err)
		}
	} else if kind != model.NodeSite {
		return model.ErrNotFound
	}

	if !slices.Contains(user.OnlySites, siteID) {
		return model.ErrNotFound
	}
	return nil
}
