package assets

import (
	"html"
	"io"
	"net/http"
	"strconv"
)

// frameFolder is the folder of framePage's own files and of its calls. The server knows by the
// folder that a call comes from this page, and not from a page of another domain.
const frameFolder = "/widget"

// framePage, with a sitekey and framePageEnd, has one widget, and sends its tokens to the page
// around the frame. It states no language, so that the widget takes the browser's.
const framePage = `<!doctype html>
<html>
<meta charset="utf-8">
<title>Captcha</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<link rel="stylesheet" id="svc-captcha-css" href="/captcha.css">
<script defer src="/captcha.js"></script>
<script defer src="` + frameFolder + `/frame.js"></script>
<body data-sitekey="`

// framePageEnd follows the sitekey.
const framePageEnd = `">
</html>
`

// ServeWidgetFrame serves the page that mCaptcha's clients put into a frame. Its widget has the
// sitekey, and shows an error if that is empty. ancestors are the sources of pages that may frame
// it, in the form of frame-ancestors.
func ServeWidgetFrame(w http.ResponseWriter, r *http.Request, sitekey, ancestors string) {
	page := framePage + html.EscapeString(sitekey) + framePageEnd

	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(page)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Robots-Tag", "noindex")
	// The policy follows the sitekey's domains, which may change at any time.
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; "+
		"connect-src 'self'; worker-src blob:; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors "+ancestors)

	if r.Method != http.MethodHead {
		// A write fails only if the client has disconnected.
		_, _ = io.WriteString(w, page)
	}
}
