package assets

import (
	"bytes"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// consolePrefix is the path prefix of the console's files.
const consolePrefix = "/console/"

// captchaPreview is the path of the page with one captcha widget, which the console shows in a frame.
const captchaPreview = "/captcha-preview"

// consoleFiles lists the console's files by name. Their addresses share one hash of all contents,
// because the scripts import each other by name.
var consoleFiles = map[string]*file{
	"main.js":      builtFile("console/main.js", javascript),
	"drilldown.js": builtFile("console/drilldown.js", javascript),
	"site.js":      builtFile("console/site.js", javascript),
	"captcha.js":   builtFile("console/captcha.js", javascript),
	"account.js":   builtFile("console/account.js", javascript),
	"operator.js":  builtFile("console/operator.js", javascript),
	"de.js":        builtFile("console/de.js", javascript),
	"de-pages.js":  builtFile("console/de-pages.js", javascript),
	"console.css":  builtFile("console/console.css", "text/css; charset=utf-8"),
}

// consoleVersion is the path of the console's files in this build.
var consoleVersion = func() string {
	var all bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(consoleFiles)) {
		all.Write(consoleFiles[name].plain())
	}
	return consolePrefix + hash(all.Bytes()) + "/"
}()

// consolePaths lists the patterns of the console's pages; a pattern that ends in a slash includes all
// paths below it. The console itself reports unknown ids and pages below them. Earlier shared links have
// their token below /share/, which the console moves behind #.
var consolePaths = []string{
	"/{$}", "/sign-in", "/sign-up", "/forgot-password", "/reset-password", "/accept-invitation", "/confirm-sign-up",
	"/confirm-email", "/sites/", "/captcha", "/captcha/", "/account", "/members", "/tokens", "/sessions", "/security",
	"/share", "/share/", "/operator", "/audit", "/stop-mail",
}

// consolePolicy allows scripts, styles, requests and frames of the console's own origin only. No
// script can turn text into code: Trusted Types are required, and no policy may be created.
const consolePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// consolePage is the page, which is the same for all paths and users.
var consolePage = []byte(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Tallygate</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:image/svg+xml,` + url.PathEscape(consoleIcon) + `">
<link rel="stylesheet" href="` + consoleVersion + `console.css">
<script type="module" src="` + consoleVersion + `main.js"></script>
<div id="app"><noscript>The console needs JavaScript. Everything in it is also available at POST /graphql.</noscript></div>
</html>
`)

const consoleIcon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">` +
	`<path d="M2 2v12M5.5 2v12M9 2v12M12.5 2v12M.5 12 14.5 4" fill="none" ` +
	`stroke="#1f52cc" stroke-width="1.8" stroke-linecap="round"/></svg>`

// MountConsole adds the console to the control plane's routes: its pages, which post to /graphql of
// their own origin, its files, which browsers cache for a year, and the page that previews a captcha
// widget. captchaURL is the origin that serves the widget. No page can be framed by other origins.
func MountConsole(mux *http.ServeMux, captchaURL string) {
	for _, pattern := range consolePaths {
		mux.HandleFunc("GET "+pattern, serveConsolePage)
	}

	mux.HandleFunc("GET "+consolePrefix, serveConsoleFile)
	mux.HandleFunc("GET "+captchaPreview, previewCaptcha(captchaURL))
}

func serveConsolePage(w http.ResponseWriter, _ *http.Request) {
	pageHeaders(w.Header(), consolePolicy)
	w.Header().Set("X-Frame-Options", "DENY")

	// Addresses of shared links may be public, which their reports need not be.
	w.Header().Set("X-Robots-Tag", "noindex")
	_, _ = w.Write(consolePage)
}

// pageHeaders sets the headers that all pages of the console have.
func pageHeaders(h http.Header, policy string) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")

	// Without a referrer, the browser would send "Origin: null".
	h.Set("Referrer-Policy", "same-origin")
}

func serveConsoleFile(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Path, consoleVersion)
	f := consoleFiles[name]
	if !ok || f == nil {
		http.NotFound(w, r)
		return
	}

	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	f.serve(w, r, cacheForever)
}

// previewValues describes the parameters of the preview page: a sitekey, and optionally a language and
// a colour scheme.
var (
	previewSitekey  = regexp.MustCompile(`^svck_[A-Za-z0-9]{1,64}$`)
	previewLanguage = regexp.MustCompile(`^[a-z]{0,2}$`)
	previewTheme    = map[string]string{"": "light dark", "light": "light", "dark": "dark"}
)

var previewPage = template.Must(template.New("preview").Parse(`<!doctype html>
<html lang="{{or .Language "en"}}">
<meta charset="utf-8">
<title>Captcha preview</title>
<meta name="color-scheme" content="{{.Theme}}">
<link rel="icon" href="data:,">
<div class="service-captcha" data-sitekey="{{.Sitekey}}"></div>
<script defer src="{{.Script}}"></script>
</html>
`))

// previewCaptcha returns the handler of the page with one widget. The page is separate because the
// widget needs another policy than the console.
func previewCaptcha(captchaURL string) http.HandlerFunc {
	policy := fmt.Sprintf("default-src 'none'; script-src %[1]s 'wasm-unsafe-eval'; connect-src %[1]s; worker-src blob:; "+
		"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'", captchaURL)

	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		theme, ok := previewTheme[q.Get("theme")]
		if !ok || !previewSitekey.MatchString(q.Get("sitekey")) || !previewLanguage.MatchString(q.Get("lang")) {
			http.Error(w, "sitekey, lang or theme is not valid", http.StatusBadRequest)
			return
		}

		var page bytes.Buffer
		err := previewPage.Execute(&page, map[string]string{
			"Sitekey": q.Get("sitekey"), "Language": q.Get("lang"), "Theme": theme, "Script": captchaURL + "/captcha.js",
		})
		if err != nil {
			http.Error(w, "the page could not be written", http.StatusInternalServerError)
			return
		}

		pageHeaders(w.Header(), policy)
		_, _ = w.Write(page.Bytes())
	}
}
