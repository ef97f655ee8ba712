package demo

import (
	"context"
	"embed"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/tallygate/tallygate/graph/export"
)

// latest downloads today's page views after the page's cursor, as the owner would, and passes the
// JSON on.
func (d *Demo) latest(w http.ResponseWriter, r *http.Request) {
	cursor := r.URL.Query().Get("cursor")
	response, err := d.download(r.Context(), cursor)

	// Sign in again after the session has expired.
	if err == nil && response.StatusCode == http.StatusUnauthorized {
		response.Body.Close()

		if err = d.authenticate(r.Context()); err == nil {
			response, err = d.download(r.Context(), cursor)
		}
	}

	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}

	defer response.Body.Close()

	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(response.StatusCode)

	// The page polls again in a second.
	_, _ = io.Copy(w, response.Body)
}

func (d *Demo) download(ctx context.Context, cursor string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		d.options.Control+d.exportPath("pageviews", "json", cursor), nil)
	if err != nil {
		return nil, err
	}
	return d.client.Do(request)
}

// exportPath returns the path of the download of today's rows, of type pageviews or events.
func (d *Demo) exportPath(rows, format, cursor string) string {
	today := time.Now().UTC().Format(time.DateOnly)
	query := url.Values{"site_id": {d.site.Id}, "type": {rows}, "from": {today}, "to": {today}, "format": {format}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	return export.Path + "?" + query.Encode()
}

//go:embed icon.svg page.css page.js
var files embed.FS

// Website returns the handler of the demo shop: pages with the script, the list of stored page
// views, a product, the list of received webhooks, and a form with a captcha.
func (d *Demo) Website() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /demo/", http.StripPrefix("/demo", http.FileServerFS(files)))
	mux.HandleFunc("GET /demo/latest.json", d.latest)
	mux.HandleFunc("GET /demo/webhooks.json", d.options.Webhooks.list)

	for path, content := range map[string]pageContent{
		"/{$}":         {Title: "Home"},
		"/shop":        {Title: "Shop"},
		"/shop/kettle": {Title: "A kettle", Buy: true},
		"/about":       {Title: "About us"},
		"/webhooks":    {Title: "Webhooks", Webhooks: true},
		"/contact":     {Title: "Contact", Form: d.form},
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { d.page(w, content) })
	}

	mux.HandleFunc("POST /contact", func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
		if err := r.ParseForm(); err != nil {
			http.Error(w, "the form cannot be read", http.StatusBadRequest)
			return
		}
		result := d.form.receive(r.Context(), r.PostForm)
		d.page(w, pageContent{Title: "Contact", Form: d.form, Result: &result})
	})

	return mux
}

// pageContent holds the differences between the shop's pages.
type pageContent struct {
	Title    string
	Buy      bool           // the page sells a product
	Webhooks bool           // the page lists webhooks instead of page views
	Form     *contactForm   // the protected form
	Result   *contactResult // of the submitted form
}

// shopPage is what a page of the shop shows.
type shopPage struct {
	pageContent
	Tag                                     string // HTML of the script, as the owner pastes it
	GraphQL, Email, PageviewsCSV, EventsCSV string
}

// page writes a page of the shop.
func (d *Demo) page(w http.ResponseWriter, content pageContent) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", policy(d.options.AnalyticsURL, d.form.Captcha))
	header.Set("Cache-Control", "no-cache")

	// The client may have disconnected.
	_, _ = io.WriteString(w, shop(&shopPage{
		pageContent: content, Tag: d.scriptTag, GraphQL: d.options.BaseURL + "/graphql", Email: d.owner.Email,
		PageviewsCSV: d.options.BaseURL + d.exportPath("pageviews", "csv", ""),
		EventsCSV:    d.options.BaseURL + d.exportPath("events", "csv", ""),
	}))
}

// Greet prints the address to open, the other addresses and what to try next. port is the website's.
func (d *Demo) Greet(w io.Writer, port string) {
	shop := "http://" + Domain + ":" + port
	fmt.Fprintf(w, `
Tallygate's demo is running: open  %[1]s/
Press Ctrl+C to stop it.

  Console     %[2]s/
  Sign-in     %[3]s  %[4]s
  Purchase    %[1]s/shop/kettle
  Webhooks    %[1]s/webhooks
  Form        %[1]s/contact
  GraphQL     %[2]s/graphql
  Site key    %[5]s
  Site id     %[6]s
  Sitekey     %[8]s

Six things to try next:

  1. Open the console and sign in: the site's reports begin with 90 days of generated visits.
  2. Open the demo shop and click around: every page view appears in the list on the page once it is stored.
  3. Arrive by a campaign, and a new visit with its own channel starts:
     %[1]s/shop?utm_source=newsletter&utm_medium=email&utm_campaign=spring
  4. Buy the kettle: the purchase is stored, and a second later the shop's back end receives a signed webhook with the
     campaign that led to it. Its page lists the calls and whether their signatures are valid.
  5. Send the form: the captcha solves itself while you type, and the shop's server checks the token with its secret.
     Send it again by reloading, and the same token is refused.
  6. Sign in and download the rows:
     curl -c jar -H 'Content-Type: application/json' %[2]s/graphql --data \
       '{"query":"mutation { signIn(input: {email: \"%[3]s\", password: \"%[4]s\"}) { viewer { email } userErrors { message } } }"}'
     curl -b jar '%[2]s%[7]s'

A browser that asks not to be tracked (Do Not Track, Global Privacy Control) sends nothing, here as elsewhere.

`, shop, d.options.BaseURL, d.owner.Email, d.owner.Password, d.site.SiteKey, d.site.Id, d.exportPath("pageviews", "csv", ""), d.form.Sitekey)
}
