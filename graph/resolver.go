package graph

import (
	"context"
	"html"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/schema"
)

// Resolver holds what the resolvers in *.resolvers.go use. They convert, make one call, and convert back; every rule
// lives in db/model, db or auth.
type Resolver struct {
	db           *db.DB
	auth         *auth.Auth
	analyticsURL string // without a final slash
	allowLocal   bool
	plan         model.Plan // of new sites
	planQuota    int64
	now          func() time.Time
	usage        loadUsage
}

// errUnauthenticated is the answer of fields that need a signed-in user.
var errUnauthenticated = &model.Error{
	Kind: model.Unauthenticated, Code: "unauthenticated", Message: "Sign in first.",
}

// viewer returns the signed-in user, or errUnauthenticated.
func (r *Resolver) viewer(ctx context.Context) (*model.User, error) {
	user, err := auth.Viewer(ctx)
	if err == nil && user == nil {
		err = errUnauthenticated
	}
	return user, err
}

// scriptTag is what an owner pastes into every page (analytics contract, section 3).
func (r *Resolver) scriptTag(siteKey string) string {
	return `<script defer src="` + html.EscapeString(r.analyticsURL) + `/svc.js" data-site="` + siteKey + `"></script>`
}

// site returns a site of the account by its global id, or nil.
func (r *Resolver) site(ctx context.Context, accountID int64, id string) (*model.Site, error) {
	number, ok := model.ParseNodeID(kindSite, id)
	if !ok {
		return nil, nil
	}
	return orNull(r.db.SiteByID(ctx, accountID, number))
}

// node returns any object that the viewer may see, or nil.
func (r *Resolver) node(ctx context.Context, viewer *model.User, id string) (schema.Node, error) {
	switch id {
	case model.NodeID(kindUser, viewer.ID):
		return viewer, nil
	case model.NodeID(kindAccount, viewer.AccountID):
		return viewer.Account, nil
	}
	site, err := r.site(ctx, viewer.AccountID, id)
	if site == nil {
		return nil, err // not a nil *model.Site, which would be an object
	}
	return site, err
}

// orNull turns "not found" into null: an unknown id and another account's id get the same answer.
func orNull[T any](object *T, err error) (*T, error) {
	if model.KindOf(err) == model.NotFound {
		return nil, nil
	}
	return object, err
}
