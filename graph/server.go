// Package graph is the control plane: the GraphQL schema in *.graphqls, its resolvers, and the
// limits that keep a hostile query cheap. It calls db and auth; the program mounts it at /graphql.
// It never serves a hit.
package graph

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/extension"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/retention"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/generated"
)

// Options is what a Server needs. Everything up to Log is required.
type Options struct {
	DB              *db.DB
	Auth            *auth.Auth
	BaseURL         string     // {base_url}: pages from there may send requests
	AnalyticsURL    string     // {analytics_url}, for script tags
	CaptchaURL      string     // {captcha_url}, for widget tags
	DefaultSitePlan model.Plan // of new sites; one with a fixed volume
	Now             func() time.Time
	Log             *slog.Logger

	AllowLocalDomains bool           // lets *.localhost be a site's domain
	Introspection     bool           // lets callers read the schema
	WebhookNets       []netip.Prefix // what webhooks may call beside the internet, as the worker has it
	GraphiQL          http.Handler   // the page that a browser gets at GET /graphql; nil for none

	// ClientAddr returns the client's address behind the configured proxies. Nil: all clients are
	// one.
	ClientAddr func(*http.Request) netip.Addr
	// IsShared reports whether many clients have the request's address, as behind a proxy that is
	// not configured: no limit of a single network applies then. Nil: never.
	IsShared func(*http.Request) bool

	Ring func([]model.Delivery) // wakes the workers for what was asked for by hand; nil: they find it by themselves
}

// New checks the options, reads the key of ids from the database, which must be migrated, and
// returns the GraphQL endpoint, to be mounted at /graphql. It starts nothing.
func New(o Options) (http.Handler, error) {
	return newWithin(o, bounds{timeout: requestTimeout, points: pointsPerMinute})
}

// bounds are what tests change.
type bounds struct {
	timeout time.Duration // of a request
	points  int           // of an account in a minute
}

// newWithin is New with other bounds.
func newWithin(o Options, b bounds) (http.Handler, error) {
	if o.DB == nil || o.Auth == nil || o.Now == nil || o.Log == nil {
		return nil, errors.New("graph: DB, Auth, Now and Log are required")
	}

	quota, ok := o.DefaultSitePlan.MonthlyPageviews()
	if !ok {
		return nil, fmt.Errorf("graph: the default plan %q has no fixed volume", o.DefaultSitePlan)
	}

	for _, address := range []string{o.AnalyticsURL, o.CaptchaURL} {
		if u, err := url.Parse(address); err != nil || u.Host == "" {
			return nil, fmt.Errorf("graph: the analytics or captcha URL %q is not an address", address)
		}
	}

	origins := http.NewCrossOriginProtection()
	if err := origins.AddTrustedOrigin(origin(o.BaseURL)); err != nil {
		return nil, fmt.Errorf("graph: base URL: %w", err)
	}

	origins.SetDenyHandler(http.HandlerFunc(refuseOrigin))

	if o.IsShared == nil {
		o.IsShared = func(*http.Request) bool { return false }
	}
	if o.ClientAddr == nil {
		o.ClientAddr = func(*http.Request) netip.Addr { return netip.Addr{} }
	}

	ids, err := nodeIDs(o.DB)
	if err != nil {
		return nil, err
	}

	resolver := &Resolver{
		db:           o.DB,
		accounts:     accounts.New(o.DB),
		sites:        sites.New(o.DB),
		outbox:       outbox.New(o.DB),
		retention:    retention.New(o.DB),
		auth:         o.Auth,
		ids:          ids,
		analyticsURL: strings.TrimRight(o.AnalyticsURL, "/"),
		captchaURL:   strings.TrimRight(o.CaptchaURL, "/"),
		allowLocal:   o.AllowLocalDomains,
		webhookNets:  o.WebhookNets,
		plan:         o.DefaultSitePlan,
		planQuota:    quota,
		bell:         o.Ring,
		now:          o.Now,
		clientAddr:   o.ClientAddr,
		isShared:     o.IsShared,
		timeout:      b.timeout,
		points:       newPoints(b.points),
		schemaReads:  newPoints(introspectionsPerMinute),
		writes:       newWrites(),
		openWrites:   newOpenWrites(),
		refusals:     newRefusals(),
		purging:      make(chan struct{}, 1),
		log:          o.Log,
	}

	post := o.Auth.Middleware(newExecutor(resolver, o))
	return byMethod(origins.Handler(resolver.withRequest(post)), o.GraphiQL), nil
}

func nodeIDs(d *db.DB) (*model.NodeIDs, error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	return keys.New(d).NodeIDs(ctx)
}

// newExecutor is gqlgen with our limits, our errors and our one transport.
func newExecutor(resolver *Resolver, o Options) http.Handler {
	schema := generated.NewExecutableSchema(generated.Config{Resolvers: resolver, Complexity: complexity()})
	srv := handler.New(priced{schema})
	cache := newQueryCache()
	errs := newPresenter(o.Log, o.Now)
	srv.AddTransport(newJSONPost(resolver))
	srv.SetQueryCache(cache)
	srv.SetParserTokenLimit(maxTokens)
	srv.SetValidationRulesFn(silentRules)
	srv.SetDisableSuggestion(true)
	srv.SetErrorPresenter(errs.present)
	srv.SetRecoverFunc(recovered)
	srv.Use(gate{cache: cache, introspection: o.Introspection})
	srv.Use(extension.FixedComplexityLimit(maxComplexity))
	srv.Use(writeTurns{resolver})

	if o.Introspection {
		srv.Use(extension.Introspection{})
	}

	return srv
}

// byMethod sends POST to the schema and a browser's GET to GraphiQL.
func byMethod(post, graphiQL http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		w.Header().Set("X-Content-Type-Options", "nosniff")

		switch {
		case r.Method == http.MethodPost:
			w.Header().Set("Cache-Control", "no-store")
			post.ServeHTTP(w, r)
		case (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html"):
			if graphiQL == nil {
				http.NotFound(w, r)
				return
			}

			graphiQL.ServeHTTP(w, r)
		default:
			w.Header().Set("Allow", http.MethodPost)
			refuse(w, r, http.StatusMethodNotAllowed, libraryError(generated.ErrorCodeBadRequest, "Send a POST request."))
		}
	})
}

func refuseOrigin(w http.ResponseWriter, r *http.Request) {
	refuse(w, r, http.StatusForbidden,
		libraryError(generated.ErrorCodeCrossOrigin, "A page of another site sent this request."))
}

// origin is the scheme and host of an address.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Scheme + "://" + u.Host
}
