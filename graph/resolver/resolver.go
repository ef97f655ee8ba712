// Package resolver resolves the fields of the GraphQL schema in graph/schema. A resolver converts
// its input, makes one call, and converts the result; every rule is in db/model, db or auth, and
// Access has checked the permission. Each subject of the schema has one file. Package graph runs
// the resolvers.
package resolver

import (
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/alerts"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/certificates"
	"github.com/tallygate/tallygate/db/health"
	"github.com/tallygate/tallygate/db/idempotency"
	"github.com/tallygate/tallygate/db/imports"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
)

// Options are what the resolvers need. Everything but WebhookNets and Notify is required.
type Options struct {
	DB   *db.DB
	Auth *auth.Auth
	IDs  *nodeid.IDs

	AnalyticsURL      string // for script tags
	CaptchaURL        string // for widget tags
	CaptchaDifficulty uint32 // the base without a policy, in expected hashes
	AllowLocalDomains bool   // accept *.localhost as a site's domain
	WebhookNets       []netip.Prefix
	SitePlan          model.Plan // of new sites
	SiteQuota         int64      // of new sites
	Configuration     Configuration
	Findings          func() []health.Finding // of this process
	Notify            func([]model.Delivery)
	Now               func() time.Time
	Log               *slog.Logger
}

// Configuration is what operators see of a process's settings.
type Configuration struct {
	Version         string // of the program
	BaseURL         string
	Roles           []string
	Signups         model.SignupPolicy
	MailServer      bool
	Redis           bool
	RetentionMonths int // 0: without limit
	ReportMonths    int // likewise

	Countries bool           // the operator has named a file of countries
	Shields   []model.Shield // with a list
}

// Resolver holds what the resolvers use.
type Resolver struct {
	accounts      *accounts.Store
	sites         *sites.Sites
	sitekeys      *sites.Sitekeys
	objects       *sites.Objects
	usage         *sites.Usage
	outbox        *outbox.Store
	certificates  *certificates.Store
	retention     *retention.Store
	reports       *reports.Store
	audit         *audit.Store
	imports       *imports.Store
	idempotency   *idempotency.Store
	channels      *alerts.Channels
	db            *db.DB
	auth          *auth.Auth
	ids           *nodeid.IDs
	analyticsURL  string // without a trailing slash
	captchaURL    string // likewise
	captchaBase   uint32 // see Options.CaptchaDifficulty
	allowLocal    bool
	webhookNets   []netip.Prefix
	plan          model.Plan // of new sites
	planQuota     int64
	configuration Configuration
	findings      func() []health.Finding
	notify        func([]model.Delivery) // nil: no notification
	now           func() time.Time
	purging       chan struct{} // holds one value while a request purges deleted sites
	log           *slog.Logger
}

// New returns the resolvers with stores on the database.
func New(o Options) *Resolver {
	ofSites := sites.New(o.DB)
	return &Resolver{
		db:  o.DB,
		log: o.Log,

		accounts:  accounts.New(o.DB),
		sites:     ofSites.Sites,
		sitekeys:  ofSites.Sitekeys,
		objects:   ofSites.Objects,
		usage:     ofSites.Usage,
		outbox:    outbox.New(o.DB),
		retention: retention.New(o.DB),
		reports:   reports.New(o.DB),
		audit:     audit.New(o.DB),
		imports:   imports.New(o.DB),
		channels:  alerts.NewChannels(o.DB),

		idempotency:  idempotency.New(o.DB),
		certificates: certificates.New(o.DB),

		auth:         o.Auth,
		ids:          o.IDs,
		analyticsURL: strings.TrimRight(o.AnalyticsURL, "/"),
		captchaURL:   strings.TrimRight(o.CaptchaURL, "/"),
		captchaBase:  o.CaptchaDifficulty,
		allowLocal:   o.AllowLocalDomains,
		webhookNets:  o.WebhookNets,

		plan:      o.SitePlan,
		planQuota: o.SiteQuota,
		notify:    o.Notify,

		configuration: o.Configuration,
		findings:      o.Findings,
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
	installationHealthResolver   struct{ *Resolver }
	userResolver                 struct{ *Resolver }
	apiTokenResolver             struct{ *Resolver }
	siteResolver                 struct{ *Resolver }
	siteConnectionResolver       struct{ *Resolver }
	sitekeyResolver              struct{ *Resolver }
	sitekeyConnectionResolver    struct{ *Resolver }
	deliveryResolver             struct{ *Resolver }
	deliveryConnectionResolver   struct{ *Resolver }
	annotationConnectionResolver struct{ *Resolver }
	deliveryAttemptResolver      struct{ *Resolver }
	segmentResolver              struct{ *Resolver }
	funnelResolver               struct{ *Resolver }
	sharedLinkResolver           struct{ *Resolver }
	alertChannelResolver         struct{ *Resolver }
	alertMessageResolver         struct{ *Resolver }
	sharedSiteResolver           struct{ *Resolver }
	reportImportResolver         struct{ *Resolver }
	importJobResolver            struct{ *Resolver }
	reportResolver               struct{ *Resolver }
	reportNumbersResolver        struct{ *Resolver }
	reportChangesResolver        struct{ *Resolver }
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

// InstallationHealth implements generated.ResolverRoot.
func (r *Resolver) InstallationHealth() generated.InstallationHealthResolver {
	return &installationHealthResolver{r}
}

// User implements generated.ResolverRoot.
func (r *Resolver) User() generated.UserResolver { return &userResolver{r} }

// Invitation implements generated.ResolverRoot.

// ApiToken implements generated.ResolverRoot.
func (r *Resolver) ApiToken() generated.ApiTokenResolver { return &apiTokenResolver{r} }

// Site implements generated.ResolverRoot.
func (r *Resolver) Site() generated.SiteResolver { return &siteResolver{r} }

// DeletedSite implements generated.ResolverRoot.

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

// Segment implements generated.ResolverRoot.
func (r *Resolver) Segment() generated.SegmentResolver { return &segmentResolver{r} }

// Funnel implements generated.ResolverRoot.
func (r *Resolver) Funnel() generated.FunnelResolver { return &funnelResolver{r} }

// AlertChannel implements generated.ResolverRoot.
func (r *Resolver) AlertChannel() generated.AlertChannelResolver { return &alertChannelResolver{r} }

// AlertMessage implements generated.ResolverRoot.
func (r *Resolver) AlertMessage() generated.AlertMessageResolver { return &alertMessageResolver{r} }

// SharedLink implements generated.ResolverRoot.
func (r *Resolver) SharedLink() generated.SharedLinkResolver { return &sharedLinkResolver{r} }

// ReportImport implements generated.ResolverRoot.
func (r *Resolver) ReportImport() generated.ReportImportResolver { return &reportImportResolver{r} }

// ImportJob implements generated.ResolverRoot.
func (r *Resolver) ImportJob() generated.ImportJobResolver { return &importJobResolver{r} }

// SharedSite implements generated.ResolverRoot.
func (r *Resolver) SharedSite() generated.SharedSiteResolver { return &sharedSiteResolver{r} }

// Report implements generated.ResolverRoot.
func (r *Resolver) Report() generated.ReportResolver { return &reportResolver{r} }

// ReportNumbers implements generated.ResolverRoot.
func (r *Resolver) ReportNumbers() generated.ReportNumbersResolver { return &reportNumbersResolver{r} }

// ReportChanges implements generated.ResolverRoot.
func (r *Resolver) ReportChanges() generated.ReportChangesResolver { return &reportChangesResolver{r} }
