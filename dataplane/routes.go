// Package dataplane serves browsers and customers' servers over plain HTTP: the endpoints of the
// analytics contract and of the captcha contract. It joins the two services under their routes and
// turns their errors into answers. The program mounts it on the data listener; it never serves the
// control plane.
package dataplane

import (
	"log/slog"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/dataplane/captcha"
	"github.com/tallygate/tallygate/db/model"
	assets "github.com/tallygate/tallygate/frontend-assets"
	"github.com/tallygate/tallygate/web"
)

// Options are the services behind the routes.
type Options struct {
	Analytics *analytics.Service
	Captcha   *captcha.Service // nil: its endpoints do not exist
	Assets    http.Handler     // the browser scripts
	Log       *slog.Logger

	Prober *Prober // nil: requests of `tallygate doctor --site` are not described
}

// ScriptsRoute is the Pattern of requests for browser scripts, and for all paths that are no endpoint's.
const ScriptsRoute = "scripts"

// endpoints returns the handlers by path. openapi.json describes each path; a test compares the two.
func endpoints(o Options) map[string]http.HandlerFunc {
	routes := map[string]http.HandlerFunc{
		"/collect.php":  serve(o.Log, "POST, OPTIONS", code, o.Analytics.Collect),
		"/server.php":   serve(o.Log, "POST", code, o.Analytics.Server),
		"/openapi.json": assets.Document("application/json", OpenAPI).ServeHTTP,
	}

	if c := o.Captcha; c != nil {
		routes["/api/v1/pow/config"] = serve(o.Log, "POST, OPTIONS", sentence, c.Config)
		routes["/api/v1/pow/verify"] = serve(o.Log, "POST, OPTIONS", sentence, c.Verify)
		routes["/api/v1/pow/siteverify"] = serve(o.Log, "POST", sentence, c.Siteverify)
		routes["/siteverify"] = serveOK(o.Log, c.Compat, captcha.CompatUnavailable)
	}

	return routes
}

// Endpoints returns the paths of all endpoints.
func Endpoints() []string {
	return slices.Collect(maps.Keys(endpoints(Options{Captcha: new(captcha.Service), Log: slog.New(slog.DiscardHandler)})))
}

// Handler returns all routes of the data plane. Paths match exactly, without a redirect: a client
// that follows one repeats its call as a GET, or not at all. Misspelt endpoints and unknown paths
// under /api/ are answered with 404 in JSON. The request's Pattern is set to the endpoint's path, to
// ScriptsRoute, or for misspelt endpoints not at all.
func Handler(o Options) http.Handler {
	routes := endpoints(o)
	unknownCode := serve(o.Log, "", code, unknownPath)
	unknownSentence := serve(o.Log, "", sentence, unknownPath)

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if route, ok := routes[r.URL.Path]; ok {
			r.Pattern = r.URL.Path
			o.Prober.describe(w, r)
			route(w, r)
			return
		}

		switch name := endpointName(r.URL.Path); {
		case name == "/collect.php", name == "/server.php":
			unknownCode(w, r)
		case name == "/siteverify", name == "/api", strings.HasPrefix(name, "/api/"):
			unknownSentence(w, r)
		default:
			r.Pattern = ScriptsRoute
			o.Assets.ServeHTTP(w, r)
		}
	})
}

// endpointName returns the endpoint that a path probably means: in lower case, without doubled or
// trailing slashes.
func endpointName(p string) string { return strings.ToLower(path.Clean("/" + p)) }

// errPath answers a misspelt endpoint.
var errPath = &model.Error{Kind: model.NotFound, Code: "not_found", Message: "Unknown path: there is no such endpoint."}

// unknownPath answers a path that is not an endpoint. The calling page may read the answer if it
// may read the endpoint's.
func unknownPath(w http.ResponseWriter, r *http.Request) error {
	w.Header()["Cache-Control"] = []string{"no-store"}

	switch endpointName(r.URL.Path) {
	case "/server.php", "/siteverify", "/api/v1/pow/siteverify":
		return errPath
	}

	web.AllowOrigin(w, r)
	return errPath
}
