package assets

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// consolePrefix is the path prefix of the console's files.
const consolePrefix = "/console/"

// captchaPreview is the path of the page with one captcha widget, which the console shows in a
// frame.
const captchaPreview = "/captcha-preview"

// consoleFiles lists the console's files by name. Their addresses share one hash of all contents,
// because the scripts import each other by name.
var consoleFiles = map[string]*file{
	"main.js":      builtFile("console/main.js", javascript),
	"journeys.js":  builtFile("console/journeys.js", javascript),
	"drilldown.js": builtFile("console/drilldown.js", javascript),
	"timeline.js":  builtFile("console/timeline.js", javascript),
	"why.js":       builtFile("console/why.js", javascript),
	"site.js":      builtFile("console/site.js", javascript),
	"install.js":   builtFile("console/install.js", javascript),
	"settings.js":  builtFile("console/settings.js", javascript),
	"captcha.js":   builtFile("console/captcha.js", javascript),
	"account.js":   builtFile("console/account.js", javascript),
	"audit.js":     builtFile("console/audit.js", javascript),
	"lines.js":     builtFile("console/lines.js", javascript),
	"operator.js":  builtFile("console/operator.js", javascript),
	"provider.js":  builtFile("console/provider.js", javascript),
	"zip.js":       builtFile("console/zip.js", javascript),
	"further.js":   builtFile("console/further.js", javascript),
	"alertform.js": builtFile("console/alertform.js", javascript),
	"alerts.js":    builtFile("console/alerts.js", javascript),
	"import.js":    builtFile("console/import.js", javascript),
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

// consolePaths lists the patterns of the console's pages, as src/console/main.tsx does. The console
// itself reports unknown ids.
var consolePaths = []string{
	"/{$}", "/sign-in", "/sign-in/provider", "/provider", "/sign-up", "/forgot-password", "/reset-password", "/accept-invitation", "/confirm-sign-up",
	"/confirm-email", "/stop-mail", "/confirm-alerts", "/share",
	"/sites/new", "/sites/{id}", "/sites/{id}/live", "/sites/{id}/install", "/sites/{id}/events", "/sites/{id}/rejections",
	"/sites/{id}/webhooks", "/sites/{id}/alerts", "/alerts", "/sites/{id}/export", "/sites/{id}/import", "/sites/{id}/settings",
	"/sites/{id}/measurement", "/sites/{id}/exclusions", "/sites/{id}/advanced", "/sites/{id}/sharing", "/sites/{id}/saved", "/sites/{id}/usage",
	"/deleted", "/captcha", "/captcha/new", "/captcha/{id}", "/account", "/members", "/tokens",
	"/sessions", "/security", "/audit", "/operator",
}

// framedReport is the pattern of the page that shows a shared link's report in frames of other
// sites. The link's token stands behind #, so the id names the link to the server.
const framedReport = "/embed/{id}"

// framesTimeout bounds the lookup of a link's origins.
const framesTimeout = 5 * time.Second

// consolePolicy allows scripts, styles, requests and frames of the console's own origin only. No
// script can turn text into code: Trusted Types are required, and no policy may be created.
// ancestors are the origins whose pages may frame the page.
func consolePolicy(ancestors string) string {
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors " + ancestors + "; " +
		"require-trusted-types-for 'script'; trusted-types 'none'"
}

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
// their own origin, a page with status 404 at all other paths, its files, which browsers cache for
// a year, and the page that previews a captcha widget. captchaURL is the origin that serves the
// widget. frames returns the origins whose pages may frame the report of a shared link, by the
// link's global id. No other page can be framed by other origins.
func MountConsole(
	mux *http.ServeMux, captchaURL string, frames func(ctx context.Context, linkID string) ([]string, error),
) {
	for _, pattern := range consolePaths {
		mux.HandleFunc("GET "+pattern, serveConsolePage(http.StatusOK))
	}
	mux.HandleFunc("GET "+framedReport, serveFramedReport(frames))

	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			// A program's call, which reads JSON.
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":"not_found"}`+"\n")
			return
		}
		serveConsolePage(http.StatusNotFound)(w, r)
	})
	mux.HandleFunc("GET /favicon.ico", serveIcon)
	mux.HandleFunc("GET "+consolePrefix, serveConsoleFile)
	mux.HandleFunc("GET "+captchaPreview, previewCaptcha(captchaURL))
}

// serveIcon answers for pages that name no icon, such as answers of the API that are opened in a
// browser.
func serveIcon(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("Cache-Control", "max-age=86400")
	_, _ = io.WriteString(w, consoleIcon)
}

// serveConsolePage returns the handler that answers with the page and a status.
func serveConsolePage(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { writeConsolePage(w, status, nil) }
}

// serveFramedReport returns the handler of the page of a shared link for frames. The function
// returns the link's origins. The page of a link without origins, and of a link that does not
// exist, cannot be framed.
func serveFramedReport(frames func(ctx context.Context, linkID string) ([]string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), framesTimeout)
		defer cancel()

		origins, err := frames(ctx, r.PathValue("id"))
		if err != nil {
			writeConsolePage(w, http.StatusServiceUnavailable, nil)
			return
		}
		writeConsolePage(w, http.StatusOK, origins)
	}
}

// writeConsolePage answers with the page, which pages of the ancestors may frame.
func writeConsolePage(w http.ResponseWriter, status int, ancestors []string) {
	if len(ancestors) > 0 {
		pageHeaders(w.Header(), consolePolicy(strings.Join(ancestors, " ")))
	} else {
		pageHeaders(w.Header(), consolePolicy("'none'"))
		w.Header().Set("X-Frame-Options", "DENY")
	}

	// Addresses of shared links may be public, which their reports need not be.
	w.Header().Set("X-Robots-Tag", "noindex")
	w.WriteHeader(status)
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

// previewValues describes the parameters of the preview page: a sitekey, and optionally a language
// and a colour scheme.
var (
	previewSitekey  = regexp.MustCompile(`^svck_[A-Za-z0-9]{1,64}$`)
	previewLanguage = regexp.MustCompile(`^[a-z]{0,2}$`)
	previewTheme    = map[string]string{"": "light dark", "light": "light", "dark": "dark"}
)

// preview is the page with one widget.
type preview struct {
	Sitekey, Language, Theme string
	Script                   string // URL
}

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

		pageHeaders(w.Header(), policy)
		_, _ = io.WriteString(w, previewPage(preview{
			Sitekey: q.Get("sitekey"), Language: cmp.Or(q.Get("lang"), "en"), Theme: theme, Script: captchaURL + "/captcha.js",
		}))
	}
}
