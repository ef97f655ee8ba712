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

// compatPaths are the paths of /siteverify: the contract's, which is also hCaptcha's newer one, and
// those of reCAPTCHA, hCaptcha and Turnstile. A program that joins a path to a base address needs
// no other setting then.
var compatPaths = []string{"/siteverify", "/recaptcha/api/siteverify", "/1/siteverify", "/turnstile/v0/siteverify"}

// siteconfigPath is where hCaptcha's plug-ins check their sitekey.
const siteconfigPath = "/checksiteconfig"

// framePaths are the paths of mCaptcha's page for a frame, as people and as its glue package write
// it.
var framePaths = []string{captcha.FrameFolder, captcha.FrameFolder + "/"}

// foreignPaths returns the collection paths of Plausible, Umami, GoatCounter and Matomo, which exist
// below a site key, too. The paths of the first two take the bodies of the product's own code.
func foreignPaths(s *analytics.Service) map[string]handler {
	return map[string]handler{
		"/api/event":  s.Plausible,
		"/api/send":   s.Umami,
		"/api/batch":  s.UmamiBatch,
		"/count":      s.Collect,
		"/matomo.php": s.Collect,
		"/piwik.php":  s.Collect,
	}
}

// keyFolder is the folder of a site key in the pattern of a route, for example /{key}/api/send.
const keyFolder = "/{" + analytics.KeyParameter + "}"

// captchaFolders are the folders of the captcha's endpoints and loaders. Errors of unknown paths in
// them are sentences, as the captcha's.
var captchaFolders = []string{"/api", "/recaptcha", "/1", "/turnstile", captcha.FrameFolder}

// probedPaths are the endpoints that describe requests of `tallygate doctor --site`. Browsers call
// them, so proxies of websites pass them on. No cache stores their answers.
var probedPaths = []string{
	"/collect.php", "/api/event", "/api/send", "/count", "/matomo.php", "/api/v1/pow/config", "/api/v1/pow/verify",
}

// ScriptsRoute is the Pattern of requests for browser scripts, and for all paths that are no
// endpoint's.
const ScriptsRoute = "scripts"

// endpoints returns the handlers by path, or by the pattern of paths below a site key. openapi.json
// describes each path; a test compares the two.
func endpoints(o Options) map[string]http.HandlerFunc {
	routes := map[string]http.HandlerFunc{
		"/collect.php":  serve(o.Log, "POST, OPTIONS", code, o.Analytics.Collect),
		"/server.php":   serve(o.Log, "POST", code, o.Analytics.Server),
		"/openapi.json": assets.Document("application/json", OpenAPI).ServeHTTP,
	}

	for path, h := range foreignPaths(o.Analytics) {
		routes[path] = serve(o.Log, "POST, OPTIONS", code, h)
		routes[keyFolder+path] = routes[path]
	}

	if c := o.Captcha; c != nil {
		for _, folder := range []string{"", captcha.FrameFolder} {
			routes[folder+"/api/v1/pow/config"] = serve(o.Log, "POST, OPTIONS", sentence, c.Config)
			routes[folder+"/api/v1/pow/verify"] = serve(o.Log, "POST, OPTIONS", sentence, c.Verify)
		}
		routes["/api/v1/pow/siteverify"] = serve(o.Log, "POST", sentence, c.Siteverify)
		routes[siteconfigPath] = serve(o.Log, "POST, OPTIONS", sentence, c.Siteconfig)

		for _, path := range compatPaths {
			routes[path] = serveCompat(o.Log, c.Compat)
		}
		for _, path := range framePaths {
			routes[path] = serve(o.Log, "GET, HEAD", sentence, c.Frame)
		}
	}

	return routes
}

// cutKey splits a path below a site key: /KEY/api/send into the key and /api/send. The key is empty
// for other paths.
func cutKey(path string) (key, rest string) {
	key, rest, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if !model.IsSiteKey(key) {
		return "", path
	}
	return key, "/" + rest
}

// Endpoints returns the paths of all endpoints, and the patterns of paths below a site key.
func Endpoints() []string {
	return slices.Collect(maps.Keys(endpoints(Options{Captcha: new(captcha.Service), Log: slog.New(slog.DiscardHandler)})))
}

// Handler returns all routes of the data plane. Paths match exactly, without a redirect: a client
// that follows one repeats its call as a GET, or not at all. Misspelt endpoints and unknown paths
// are answered with 404 in JSON, whatever the method. The request's Pattern is set to the
// endpoint's path or pattern, to ScriptsRoute, or for misspelt endpoints not at all.
func Handler(o Options) http.Handler {
	routes := endpoints(o)
	unknownCode := serve(o.Log, "", code, unknownPath)
	unknownSentence := serve(o.Log, "", sentence, unknownPath)

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if route, ok := routes[r.URL.Path]; ok {
			r.Pattern = r.URL.Path
			if slices.Contains(probedPaths, r.URL.Path) {
				o.Prober.describe(w, r)
			}
			route(w, r)
			return
		}

		if key, rest := cutKey(r.URL.Path); key != "" && routes[keyFolder+rest] != nil {
			r.Pattern = keyFolder + rest
			r.SetPathValue(analytics.KeyParameter, key)
			if slices.Contains(probedPaths, rest) {
				o.Prober.describe(w, r)
			}
			routes[r.Pattern](w, r)
			return
		}

		switch name := endpointName(r.URL.Path); {
		case name == "/collect.php", name == "/server.php":
			unknownCode(w, r)
		case name == "/siteverify", name == siteconfigPath, isBelow(name, captchaFolders) && !assets.IsLoader(r.URL.Path):
			unknownSentence(w, r)
		case !assets.Serves(r.URL.Path):
			r.Pattern = ScriptsRoute
			unknownCode(w, r)
		default:
			r.Pattern = ScriptsRoute
			o.Assets.ServeHTTP(w, r)
		}
	})
}

// endpointName returns the endpoint that a path probably means: in lower case, without doubled or
// trailing slashes.
func endpointName(p string) string { return strings.ToLower(path.Clean("/" + p)) }

// isBelow reports whether a path is one of the folders or in one of them.
func isBelow(name string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		return name == folder || strings.HasPrefix(name, folder+"/")
	})
}

// errPath answers a misspelt endpoint.
var errPath = &model.Error{Kind: model.NotFound, Code: "not_found", Message: "Unknown path: there is no such endpoint."}

// unknownPath answers a path that is not an endpoint. The calling page may read the answer if it
// may read the endpoint's.
func unknownPath(w http.ResponseWriter, r *http.Request) error {
	w.Header()["Cache-Control"] = []string{"no-store"}

	name := endpointName(r.URL.Path)
	if name == "/server.php" || path.Base(name) == "siteverify" {
		return errPath
	}

	web.AllowOrigin(w, r)
	return errPath
}
