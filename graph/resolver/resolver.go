// Package resolver resolves the fields of the GraphQL schema in graph/schema. A resolver checks the
// permission, converts its input, makes one call, and converts the result; every rule is in db/model,
// db or auth. Each subject of the schema has one file. Package graph runs the resolvers.
package resolver

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/limits"
)

// Options are what the resolvers need. Everything but WebhookNets and Notify is required.
type Options struct {
	DB   *db.DB
	Auth *auth.Auth
	IDs  *model.NodeIDs

	AnalyticsURL      string // for script tags
	CaptchaURL        string // for widget tags
	AllowLocalDomains bool   // accept *.localhost as a site's domain
	WebhookNets       []netip.Prefix
	SitePlan          model.Plan // of new sites
	SiteQuota         int64      // of new sites
	Configuration     Configuration
	UnknownProxy      func() bool // whether requests of a proxy that is not configured were seen lately
	HiddenClients     func() bool // whether requests whose clients are hidden were seen lately
	Notify            func([]model.Delivery)
	Now               func() time.Time
	Log               *slog.Logger
}

// Configuration is what operators see of a process's settings.
type Configuration struct {
	BaseURL         string
	Roles           []string
	Signups         model.SignupPolicy
	MailServer      bool
	Redis           bool
	RetentionMonths int // 0: without limit
}

// Resolver holds what the resolvers use.
type Resolver struct {
	accounts      *accounts.Store
	sites         *sites.Store
	outbox        *outbox.Store
	retention     *retention.Store
	reports       *reports.Store
	audit         *audit.Store
	db            *db.DB
	auth          *auth.Auth
	ids           *model.NodeIDs
	analyticsURL  string // without a trailing slash
	captchaURL    string // likewise
	allowLocal    bool
	webhookNets   []netip.Prefix
	plan          model.Plan // of new sites
	planQuota     int64
	configuration Configuration
	unknownProxy  func() bool
	hiddenClients func() bool
	notify        func([]model.Delivery) // nil: no notification
	now           func() time.Time
	purging       chan struct{} // holds one value while a request purges deleted sites
	log           *slog.Logger
}

// New returns the resolvers with stores on the database.
func New(o Options) *Resolver {
	return &Resolver{
		db:  o.DB,
		log: o.Log,

		accounts:  accounts.New(o.DB),
		sites:     sites.New(o.DB),
		outbox:    outbox.New(o.DB),
		retention: retention.New(o.DB),
		reports:   reports.New(o.DB),
		audit:     audit.New(o.DB),

		auth:         o.Auth,
		ids:          o.IDs,
		analyticsURL: strings.TrimRight(o.AnalyticsURL, "/"),
		captchaURL:   strings.TrimRight(o.CaptchaURL, "/"),
		allowLocal:   o.AllowLocalDomains,
		webhookNets:  o.WebhookNets,

		plan:      o.SitePlan,
		planQuota: o.SiteQuota,
		notify:    o.Notify,

		configuration: o.Configuration,
		unknownProxy:  o.UnknownProxy,
		hiddenClients: o.HiddenClients,
		now:           o.Now,
		purging:       make(chan struct{}, 1),
	}
}

var _ generated.ResolverRoot = (*Resolver)(nil)

// The resolvers of each type of the schema.
type (
	queryResolver                struct{ *Resolver }
	mutationResolver             struct{ *Resolver }
	accountResolver              struct{ *Resolver }
	accountOverviewResolver      struct{ *Resolver }
	installationResolver         struct{ *Resolver }
	userResolver                 struct{ *Resolver }
	invitationResolver           struct{ *Resolver }
	passkeyResolver              struct{ *Resolver }
	apiTokenResolver             struct{ *Resolver }
	siteResolver                 struct{ *Resolver }
	deletedSiteResolver          struct{ *Resolver }
	siteConnectionResolver       struct{ *Resolver }
	sitekeyResolver              struct{ *Resolver }
	sitekeyConnectionResolver    struct{ *Resolver }
	deliveryResolver             struct{ *Resolver }
	deliveryConnectionResolver   struct{ *Resolver }
	annotationConnectionResolver struct{ *Resolver }
	deliveryAttemptResolver      struct{ *Resolver }
	userDataErasureResolver      struct{ *Resolver }
	annotationResolver           struct{ *Resolver }
	segmentResolver              struct{ *Resolver }
	funnelResolver               struct{ *Resolver }
	sharedLinkResolver           struct{ *Resolver }
	sharedSiteResolver           struct{ *Resolver }
	reportResolver               struct{ *Resolver }
)

// Query implements generated.ResolverRoot.
func (r *Resolver) Query() generated.QueryResolver { return &queryResolver{r} }

// Mutation implements generated.ResolverRoot.
func (r *Resolver) Mutation() generated.MutationResolver { return &mutationResolver{r} }

// Account implements generated.ResolverRoot.
func (r *Resolver) Account() generated.AccountResolver { return &accountResolver{r} }

// AccountOverview implements generated.ResolverRoot.
func (r *Resolver) AccountOverview() generated.AccountOverviewResolver {
	return &accountOverviewResolver{r}
}

// Installation implements generated.ResolverRoot.
func (r *Resolver) Installation() generated.InstallationResolver { return &installationResolver{r} }

// User implements generated.ResolverRoot.
func (r *Resolver) User() generated.UserResolver { return &userResolver{r} }

// Invitation implements generated.ResolverRoot.
func (r *Resolver) Invitation() generated.InvitationResolver { return &invitationResolver{r} }

// Passkey implements generated.ResolverRoot.
func (r *Resolver) Passkey() generated.PasskeyResolver { return &passkeyResolver{r} }

// ApiToken implements generated.ResolverRoot.
func (r *Resolver) ApiToken() generated.ApiTokenResolver { return &apiTokenResolver{r} }

// Site implements generated.ResolverRoot.
func (r *Resolver) Site() generated.SiteResolver { return &siteResolver{r} }

// DeletedSite implements generated.ResolverRoot.
func (r *Resolver) DeletedSite() generated.DeletedSiteResolver { return &deletedSiteResolver{r} }

// SiteConnection implements generated.ResolverRoot.
func (r *Resolver) SiteConnection() generated.SiteConnectionResolver {
	return &siteConnectionResolver{r}
}

// Sitekey implements generated.ResolverRoot.
func (r *Resolver) Sitekey() generated.SitekeyResolver { return &sitekeyResolver{r} }

// SitekeyConnection implements generated.ResolverRoot.
func (r *Resolver) SitekeyConnection() generated.SitekeyConnectionResolver {
	return &sitekeyConnectionResolver{r}
}

// Delivery implements generated.ResolverRoot.
func (r *Resolver) Delivery() generated.DeliveryResolver { return &deliveryResolver{r} }

// DeliveryConnection implements generated.ResolverRoot.
func (r *Resolver) DeliveryConnection() generated.DeliveryConnectionResolver {
	return &deliveryConnectionResolver{r}
}

// AnnotationConnection implements generated.ResolverRoot.
func (r *Resolver) AnnotationConnection() generated.AnnotationConnectionResolver {
	return &annotationConnectionResolver{r}
}

// DeliveryAttempt implements generated.ResolverRoot.
func (r *Resolver) DeliveryAttempt() generated.DeliveryAttemptResolver {
	return &deliveryAttemptResolver{r}
}

// UserDataErasure implements generated.ResolverRoot.
func (r *Resolver) UserDataErasure() generated.UserDataErasureResolver {
	return &userDataErasureResolver{r}
}

// Annotation implements generated.ResolverRoot.
func (r *Resolver) Annotation() generated.AnnotationResolver { return &annotationResolver{r} }

// Segment implements generated.ResolverRoot.
func (r *Resolver) Segment() generated.SegmentResolver { return &segmentResolver{r} }

// Funnel implements generated.ResolverRoot.
func (r *Resolver) Funnel() generated.FunnelResolver { return &funnelResolver{r} }

// SharedLink implements generated.ResolverRoot.
func (r *Resolver) SharedLink() generated.SharedLinkResolver { return &sharedLinkResolver{r} }

// SharedSite implements generated.ResolverRoot.
func (r *Resolver) SharedSite() generated.SharedSiteResolver { return &sharedSiteResolver{r} }

// Report implements generated.ResolverRoot.
func (r *Resolver) Report() generated.ReportResolver { return &reportResolver{r} }

// require returns the caller's user, as a member of the default account, if it has the permission
// there, and charges the request, see charge. It fails with unauthenticated, forbidden or
// rate_limited. Every root field begins with it, except those that need no session.
func (r *Resolver) require(ctx context.Context, p model.Permission) (*model.User, error) {
	user, err := r.defaultMember(ctx, p)
	return user, charge(ctx, err)
}

// defaultMember is require without the charge.
func (r *Resolver) defaultMember(ctx context.Context, p model.Permission) (*model.User, error) {
	user, err := r.viewer(ctx)
	if err != nil {
		return nil, err
	}
	if _, err = auth.Require(ctx, p); err == nil {
		err = user.Account.CheckSuspended(p)
	}
	return user, err
}

// requireAny returns the caller's user, as a member of the default account, if it has the permission in
// one of its accounts. What is read with it must be restricted to an account that permits it, see
// accounts.Store.MemberFor.
func (r *Resolver) requireAny(ctx context.Context, p model.Permission) (*model.User, error) {
	user, err := r.viewer(ctx)
	if err != nil {
		return nil, err
	}
	if user == nil {
		_, err = auth.Require(ctx, p)
		return nil, err
	}

	caller, err := auth.CallerOf(ctx)
	if err == nil {
		err = user.CheckInAny(p, caller.Token)
	}
	return user, charge(ctx, err)
}

// requireAs is require in another account than the default one: find returns the user as a member of
// it, or model.ErrNotFound. A caller who has the permission in none of the accounts gets forbidden, so
// that the answer to an unknown id does not depend on why it is unknown.
func (r *Resolver) requireAs(
	ctx context.Context, p model.Permission, find func(viewer *model.User) (*model.User, error),
) (*model.User, error) {
	member, err := r.memberAs(ctx, p, find)
	return member, charge(ctx, err)
}

// memberAs is requireAs without the charge.
func (r *Resolver) memberAs(
	ctx context.Context, p model.Permission, find func(viewer *model.User) (*model.User, error),
) (*model.User, error) {
	viewer, err := r.viewer(ctx)
	if err != nil {
		return nil, err
	}
	if viewer == nil {
		_, err = auth.Require(ctx, p)
		return nil, err
	}

	caller, err := auth.CallerOf(ctx)
	if err == nil {
		err = viewer.CheckInAny(p, caller.Token)
	}
	if err != nil {
		return nil, err
	}

	member, err := find(viewer)
	if err == nil {
		err = member.Check(p, caller.Token)
	}
	if err == nil {
		err = member.Account.CheckSuspended(p)
	}
	if err != nil {
		return nil, err
	}

	return member, nil
}

// requireIn is require in the account of the argument accountId, by default the default account. It
// fails with not_found for an account that the caller does not belong to, and with forbidden for a
// change through an API token that is restricted to sites.
func (r *Resolver) requireIn(ctx context.Context, p model.Permission, accountID *string) (*model.User, error) {
	member, err := r.memberIn(ctx, p, accountID)
	if err == nil && member != nil && member.IsRestricted() && p != model.MayRead {
		member, err = nil, model.ErrForbidden
	}
	return member, charge(ctx, err)
}

// memberIn is requireIn for every token, without the charge.
func (r *Resolver) memberIn(ctx context.Context, p model.Permission, accountID *string) (*model.User, error) {
	if accountID == nil {
		return r.defaultMember(ctx, p)
	}
	return r.memberAs(ctx, p, func(viewer *model.User) (*model.User, error) {
		if member := r.in(viewer, *accountID); member != nil {
			return member, nil
		}
		return nil, notFound("accountId")
	})
}

// in returns a user as a member of the account with this global id, or nil.
func (r *Resolver) in(user *model.User, accountID string) *model.User {
	number, ok := r.ids.Parse(model.NodeAccount, accountID)
	if !ok {
		return nil
	}
	return user.In(number)
}

// requireFor is require in the account of an object. It returns the user as a member of that account,
// and the object's number. It fails with not_found in the input field of the id, for an object of
// another account at once or when the caller's store finds none.
func (r *Resolver) requireFor(
	ctx context.Context, p model.Permission, kind model.NodeKind, field, nodeID string,
) (*model.User, int64, error) {
	id, ok := r.ids.Parse(kind, nodeID)
	member, err := r.requireNumber(ctx, p, kind, field, id, ok)
	return member, id, err
}

// requireNumber is requireFor with the object's number. ok is false for an id that is none.
func (r *Resolver) requireNumber(
	ctx context.Context, p model.Permission, kind model.NodeKind, field string, id int64, ok bool,
) (*model.User, error) {
	return r.requireAs(ctx, p, func(viewer *model.User) (*model.User, error) {
		if !ok {
			return nil, notFound(field)
		}
		member, err := r.accounts.MemberFor(ctx, viewer, kind, id)
		return member, orNotFound(field, err)
	})
}

// viewer returns the caller's user and admits the request; nil for an unauthenticated caller. The
// resolver must charge the request before it does any work.
func (r *Resolver) viewer(ctx context.Context) (*model.User, error) {
	caller, err := auth.CallerOf(ctx)
	if err != nil || caller.User == nil {
		return nil, err
	}
	return caller.User, limits.Of(ctx).Admit(ctx, caller)
}

// charge charges an admitted request in full, unless err means that the caller lacks the permission:
// such a request costs one point, so that refused mutations do not use up the account's minute. It
// returns err, or rate_limited.
func charge(ctx context.Context, err error) error {
	if model.KindOf(err) == model.Forbidden {
		return err
	}

	caller, failed := auth.CallerOf(ctx)
	if failed != nil || caller.User == nil {
		return err
	}
	if refused := limits.Of(ctx).Charge(ctx, caller); refused != nil {
		return refused
	}

	return err
}
