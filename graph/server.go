// Package graph is the control plane: the HTTP server that runs the resolvers of the GraphQL schema
// in schema/*.graphqls, and presents their errors. The program mounts it at /graphql, at
// mcp.Path, the tools for assistants, and at plain.Path, the figures by a GET. It never accepts a
// hit.
package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/health"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/graph/auth"
	"github.com/tallygate/tallygate/graph/endpoint"
	"github.com/tallygate/tallygate/graph/generated"
	"github.com/tallygate/tallygate/graph/inprocess"
	"github.com/tallygate/tallygate/graph/limits"
	"github.com/tallygate/tallygate/graph/mcp"
	"github.com/tallygate/tallygate/graph/plain"
	"github.com/tallygate/tallygate/graph/resolver"
)

// Options configures a server. Everything up to Log is required.
type Options struct {
	DB           *db.DB
	Auth         *auth.Auth
	BaseURL      string // {base_url}: pages from there may send requests
	AnalyticsURL string // {analytics_url}, for script tags
	CaptchaURL   string // {captcha_url}, for widget tags

	// CaptchaDifficulty is the base difficulty of sitekeys without a policy, in expected hashes. 0
	// means 524,288.
	CaptchaDifficulty uint32

	DefaultSitePlan model.Plan // of new sites
	Now             func() time.Time
	Log             *slog.Logger

	AllowLocalDomains bool           // accept *.localhost as a site's domain
	Introspection     bool           // allow callers to read the schema
	WebhookNets       []netip.Prefix // private networks that webhooks may call, as configured for the worker
	GraphiQL          http.Handler   // the page for browsers at GET /graphql; nil: 404
	RequestTimeout    time.Duration  // of a request; 0: limits.RequestTimeout
	CostPerMinute     int            // of an account; 0: limits.CostPerMinute

	// ClientAddr returns the client's address behind the configured proxies. nil: all clients
	// count as one.
	ClientAddr func(*http.Request) netip.Addr
	// IsShared reports whether many clients share the request's address, as behind a proxy that
	// is not configured. Limits by network do not apply then. nil: never.
	IsShared func(*http.Request) bool

	// Findings returns what the checks of this process find. nil: nothing.
	Findings func() []health.Finding

	// Configuration is what operators see of the process's settings.
	Configuration resolver.Configuration

	// Metrics registers the counters of errors. nil: none.
	Metrics prometheus.Registerer

	// Notify notifies the workers of deliveries that a caller requested. nil: the workers find
	// them when they poll.
	Notify func([]model.Delivery)
}

// New checks the options, reads the key of ids from the database, which must be migrated, and
// returns the handler for /graphql, mcp.Path and plain.Path. It starts nothing.
func New(o Options) (http.Handler, error) {
	if o.DB == nil || o.Auth == nil || o.Now == nil || o.Log == nil {
		return nil, errors.New("graph: DB, Auth, Now and Log are required")
	}

	quota, ok := o.DefaultSitePlan.MonthlyPageviews()
	if !ok {
		return nil, fmt.Errorf("graph: there is no plan %q", o.DefaultSitePlan)
	}

	for _, address := range []string{o.AnalyticsURL, o.CaptchaURL} {
		if u, err := url.Parse(address); err != nil || u.Host == "" {
			return nil, fmt.Errorf("graph: the analytics or captcha URL %q has no host", address)
		}
	}

	origins := http.NewCrossOriginProtection()
	if err := origins.AddTrustedOrigin(origin(o.BaseURL)); err != nil {
		return nil, fmt.Errorf("graph: base URL: %w", err)
	}

	origins.SetDenyHandler(http.HandlerFunc(refuseOrigin))

	if o.RequestTimeout == 0 {
		o.RequestTimeout = limits.RequestTimeout
	}

	if o.IsShared == nil {
		o.IsShared = func(*http.Request) bool { return false }
	}
	if o.ClientAddr == nil {
		o.ClientAddr = func(*http.Request) netip.Addr { return netip.Addr{} }
	}

	if o.Findings == nil {
		o.Findings = func() []health.Finding { return nil }
	}

	ids, err := nodeIDs(o.DB)
	if err != nil {
		return nil, err
	}

	resolvers := resolver.New(resolver.Options{
		DB: o.DB, Auth: o.Auth, IDs: ids,
		AnalyticsURL: o.AnalyticsURL, CaptchaURL: o.CaptchaURL,
		CaptchaDifficulty: cmp.Or(o.CaptchaDifficulty, model.DefaultDifficulty),
		AllowLocalDomains: o.AllowLocalDomains, WebhookNets: o.WebhookNets,
		SitePlan: o.DefaultSitePlan, SiteQuota: quota, Configuration: o.Configuration,
		Findings: o.Findings, Notify: o.Notify, Now: o.Now, Log: o.Log,
	})

	counters := newErrorCounters()
	if o.Metrics != nil {
		if err := o.Metrics.Register(counters.vec); err != nil {
			return nil, err
		}
	}

	requests := requests{
		db:         o.DB,
		ids:        ids,
		limits:     limits.New(o.CostPerMinute),
		timeout:    o.RequestTimeout,
		now:        o.Now,
		clientAddr: o.ClientAddr,
		isShared:   o.IsShared,
	}

	presenter := &presenter{log: o.Log, now: o.Now}
	exec, err := newExecutor(resolvers, counters.counted(presenter.present), o.Introspection)
	if err != nil {
		return nil, err
	}
	post := o.Auth.Middleware(handle(endpoint.New(requests.limits, o.Now), exec))
	api := byMethod(origins.Handler(requests.handler(requests.timed(post))), o.GraphiQL)

	programs := inprocess.New(inprocess.Options{GraphQL: api, Auth: o.Auth, Now: o.Now, Log: o.Log, Present: presenter.present})
	tools := onDemand(func() (http.Handler, error) {
		return mcp.New(mcp.Options{
			API: programs, Schema: generated.NewExecutableSchema(generated.Config{}).Schema(), Limits: requests.limits,
			Origins: origins, Timeout: o.RequestTimeout, Version: o.Configuration.Version,
		})
	})
	return byPath(api, requests.handler(tools), requests.handler(requests.timed(plain.New(programs)))), nil
}

// onDemand returns a handler that is built at its first request. The tools take two thirds of the
// processor time of New, and most processes serve none.
func onDemand(build func() (http.Handler, error)) http.Handler {
	built := sync.OnceValues(build)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler, err := built()
		if err != nil {
			panic(err) // the tools are part of the program
		}
		handler.ServeHTTP(w, r)
	})
}

// byPath routes mcp.Path to the tools, plain.Path to the figures, and all other paths to GraphQL.
func byPath(api, tools, figures http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.TrimSuffix(r.URL.Path, "/") == mcp.Path:
			tools.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, plain.Path):
			figures.ServeHTTP(w, r)
		default:
			api.ServeHTTP(w, r)
		}
	})
}

func nodeIDs(d *db.DB) (*nodeid.IDs, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limits.RequestTimeout)
	defer cancel()
	return keys.New(d).NodeIDs(ctx)
}

// newExecutor returns gqlgen's executor with the limits and the error presenter.
func newExecutor(resolvers *resolver.Resolver, present graphql.ErrorPresenterFunc, introspection bool) (*executor.Executor, error) {
	schema, err := limits.WithCosts(generated.NewExecutableSchema(generated.Config{Resolvers: resolvers}))
	if err != nil {
		return nil, err
	}

	exec := executor.New(schema)
	limits.Apply(exec, introspection)

	exec.Use(resolver.Mutations{})
	exec.Use(resolvers.Access())
	exec.Use(resolvers.Repeats())
	exec.SetErrorPresenter(present)
	exec.SetRecoverFunc(recovered)

	return exec, nil
}

// handle returns the handler of requests that exec runs. It answers a panic outside of a field,
// which exec does not recover.
func handle(transport endpoint.Transport, exec *executor.Executor) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if value := recover(); value != nil {
				presented, _ := errors.AsType[*gqlerror.Error](exec.PresentRecoveredError(r.Context(), value))
				endpoint.Refuse(w, r, http.StatusInternalServerError, presented)
			}
		}()

		transport.Do(w, r.WithContext(graphql.StartOperationTrace(r.Context())), exec)
	})
}

// byMethod routes POST, and a GET with a token, to the schema, and a browser's GET to GraphiQL.
func byMethod(post, graphiQL http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		w.Header().Set("X-Content-Type-Options", "nosniff")

		_, hasToken := auth.Bearer(r)
		switch {
		case r.Method == http.MethodPost, r.Method == http.MethodGet && hasToken:
			w.Header().Set("Cache-Control", "no-store")
			post.ServeHTTP(w, r)
		case (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
			strings.Contains(r.Header.Get("Accept"), "text/html"):
			if graphiQL == nil {
				http.NotFound(w, r)
				return
			}

			graphiQL.ServeHTTP(w, r)
		default:
			w.Header().Set("Allow", http.MethodPost)
			endpoint.Refuse(w, r, http.StatusMethodNotAllowed, limits.Refusal(
				generated.ErrorCodeBadRequest, "Send a POST request. A query with a token may be a GET request.",
			))
		}
	})
}

func refuseOrigin(w http.ResponseWriter, r *http.Request) {
	endpoint.Refuse(w, r, http.StatusForbidden, limits.OtherOrigin())
}

// origin returns the scheme and host of a URL.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Scheme + "://" + u.Host
}
