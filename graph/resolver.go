package graph

import (
	"context"
	"html"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/turns"
)

// Resolver holds what the resolvers in *.resolvers.go use. They convert, make one call, and convert
// back; every rule lives in db/model, db or auth.
type Resolver struct {
	accounts     *accounts.Store
	sites        *sites.Store
	outbox       *outbox.Store
	retention    *retention.Store
	db           *db.DB
	auth         *auth.Auth
	ids          *model.NodeIDs
	analyticsURL string // without a final slash
	captchaURL   string // likewise
	allowLocal   bool
	webhookNets  []netip.Prefix
	plan         model.Plan // of new sites
	planQuota    int64
	bell         func([]model.Delivery) // nil: none
	now          func() time.Time
	clientAddr   func(*http.Request) netip.Addr
	isShared     func(*http.Request) bool
	timeout      time.Duration // of a request
	points       *points       // of accounts
	schemaReads  *points       // of client networks without an account, one for each request that reads the schema
	writes       *turns.Queue  // of mutations, by account
	openWrites   *turns.Queue  // of mutations for everybody, by client network
	refusals     *refusals
	purging      chan struct{} // holds one value while a request deletes the rows of deleted sites
	log          *slog.Logger
}

// require returns the user who may do something, charged for the request. It fails with
// unauthenticated for nobody, forbidden for one who may not, and rate_limited. Every field at the
// top begins with it, apart from those for everybody.
func (r *Resolver) require(ctx context.Context, p model.Permission) (*model.User, error) {
	user, err := r.viewer(ctx)
	if err != nil {
		return nil, err
	}
	_, err = auth.Require(ctx, p)
	return user, err
}

// viewer returns the caller's user, charged for the request, or nil for nobody.
func (r *Resolver) viewer(ctx context.Context) (*model.User, error) {
	caller, err := auth.Who(ctx)
	if err != nil || caller.User == nil {
		return nil, err
	}
	return caller.User, r.charge(ctx, caller)
}

// cspLines are what a site's own policy has to allow (analytics contract, section 5).
func (r *Resolver) cspLines() []string {
	return []string{"script-src " + r.analyticsURL, "connect-src " + r.analyticsURL}
}

// scriptTag is what an owner pastes into every page (analytics contract, section 3).
func (r *Resolver) scriptTag(siteKey string) string {
	return `<script defer src="` + html.EscapeString(r.analyticsURL) + `/svc.js" data-site="` + siteKey + `"></script>`
}

// site returns a site of the account by its global id, or nil.
func (r *Resolver) site(ctx context.Context, accountID int64, id string) (*model.Site, error) {
	number, ok := r.ids.Parse(model.NodeSite, id)
	if !ok {
		return nil, nil
	}
	return orNull(r.sites.SiteByID(ctx, accountID, number))
}

// orNull turns "not found" into null: an unknown id and another account's id get the same answer.
func orNull[T any](object *T, err error) (*T, error) {
	if model.KindOf(err) == model.NotFound {
		return nil, nil
	}
	return object, err
}
