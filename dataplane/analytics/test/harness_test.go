package analytics_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane"
	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/openapitest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/web"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Run(m)) }

// chrome is the user agent of an ordinary browser.
const chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// plane is a data plane on a test database: the real handler and the real writer.
type plane struct {
	tb    testing.TB
	db    *db.DB
	clock *testkit.Clock
	url   string
	http  *http.Client

	handler http.Handler // what url leads to
	stop    func()       // stops the service, which stores all hits and counters
}

// newPlane returns a plane for a busy machine: hits wait for the database for up to a minute.
func newPlane(tb testing.TB, d *db.DB) *plane {
	tb.Helper()
	return newPlaneWith(tb, d, func(o *analytics.Options) { o.Timeout = time.Minute })
}

// newPlaneOn returns a plane with a store, nil for the usual one, and the timeouts of production.
func newPlaneOn(tb testing.TB, d *db.DB, store analytics.HitStore) *plane {
	tb.Helper()
	return newPlaneWith(tb, d, func(o *analytics.Options) { o.Store = store })
}

// newPlaneWith is newPlane with other options.
func newPlaneWith(tb testing.TB, d *db.DB, change func(*analytics.Options)) *plane {
	tb.Helper()

	p := &plane{tb: tb, db: d, clock: testkit.NewClock(noon)}
	options := analytics.Options{
		Cell:       dbtest.SitesCell(tb, d),
		Secret:     []byte("a secret for tests, 32 bytes or more"),
		ClientAddr: web.ClientAddr([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}),
		Now:        p.clock.Now,
		Log:        slog.New(slog.NewTextHandler(tb.Output(), nil)),
	}

	change(&options)

	if options.Store == nil {
		options.Store = ingest.NewHitStore(dbtest.SitesCell(tb, d))
	}

	service, err := analytics.New(options)
	if err != nil {
		tb.Fatal(err)
	}
	service.Start()
	p.stop = sync.OnceFunc(func() {
		if err := service.Stop(context.Background()); err != nil {
			tb.Errorf("stop the service: %v", err)
		}
	})

	tb.Cleanup(p.stop)
	p.handler = openapitest.Handler(tb, dataplane.Handler(dataplane.Options{
		Analytics: service,
		Assets:    http.NotFoundHandler(),
		Log:       slog.New(slog.NewTextHandler(tb.Output(), nil)),
	}))

	server := httptest.NewServer(p.handler)
	tb.Cleanup(server.Close)
	p.url = server.URL
	p.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}

	return p
}

// site creates an account with a site on the domain and a quota.
func (p *plane) site(domain string, quota int64) *model.Site {
	p.tb.Helper()

	at := model.At(p.clock.Now())
	user, err := accounts.New(p.db).SignUp(p.tb.Context(), model.SignupsOpen, model.Account{Name: domain, CreatedAt: at},
		model.User{Email: "owner@" + domain, PasswordHash: "-", CreatedAt: at})
	if err != nil {
		p.tb.Fatal(err)
	}

	site, err := sites.New(p.db).Sites.CreateSite(p.tb.Context(), model.Site{AccountID: user.AccountID, SiteKey: model.NewSiteKey(), Domain: domain,
		Name: domain, Plan: model.PlanEnterprise, MonthlyPageviews: quota, CreatedAt: at})
	if err != nil {
		p.tb.Fatal(err)
	}

	return site
}

// call is one request to collect.
type call struct {
	method  string      // default POST
	body    any         // marshalled, unless it is a string
	origin  string      // header Origin, unless empty
	header  http.Header // further headers
	visitor string      // client address; default 203.0.113.1
	agent   string      // default chrome; "-" for none
}

// collect sends a call and returns status and error code.
func (p *plane) collect(c call) (status int, code string) {
	p.tb.Helper()

	response := p.send(c)
	defer response.Body.Close()

	body, err := io.ReadAll(response.Body)
	if err != nil {
		p.tb.Fatal(err)
	}
	if response.StatusCode == http.StatusNoContent {
		return response.StatusCode, ""
	}

	var answer struct{ Error string }
	if err := json.Unmarshal(body, &answer); err != nil {
		p.tb.Fatalf("status %d with body %q, want a JSON error: %v", response.StatusCode, body, err)
	}

	return response.StatusCode, answer.Error
}

// patience is the longest wait for something that a quiet machine does at once.
const patience = 30 * time.Second

// collectStored is collect for calls that many clients send at the same time. On a busy machine a
// hit's turn may come too late for its deadline. It is then answered with 503 and not stored, and
// collectStored sends it again, as a server does.
func (p *plane) collectStored(c call) (status int, code string) {
	p.tb.Helper()
	for deadline := time.Now().Add(patience); ; {
		status, code = p.collect(c)
		if status != http.StatusServiceUnavailable || time.Now().After(deadline) {
			return status, code
		}
	}
}

func (p *plane) send(c call) *http.Response {
	p.tb.Helper()

	body, ok := c.body.(string)
	if !ok {
		text, err := json.Marshal(c.body)
		if err != nil {
			p.tb.Fatal(err)
		}

		body = string(text)
	}

	if c.method == "" {
		c.method = http.MethodPost
	}

	request, err := http.NewRequest(c.method, p.url+"/collect.php", bytes.NewReader([]byte(body)))
	if err != nil {
		p.tb.Fatal(err)
	}

	request.Header.Set("Content-Type", "text/plain;charset=UTF-8")
	request.Header.Set("User-Agent", chrome)

	switch c.agent {
	case "":
	case "-":
		request.Header["User-Agent"] = nil
	default:
		request.Header.Set("User-Agent", c.agent)
	}

	if c.origin != "" {
		request.Header.Set("Origin", c.origin)
	}
	if c.visitor == "" {
		c.visitor = "203.0.113.1"
	}

	request.Header.Set("X-Forwarded-For", c.visitor)

	for name, values := range c.header {
		request.Header[name] = values
	}

	response, err := p.http.Do(request)
	if err != nil {
		p.tb.Fatal(err)
	}

	return response
}

// view stores a page view of the site with further payload fields, which must be accepted.
func (p *plane) view(site *model.Site, visitor string, fields map[string]any) {
	p.tb.Helper()
	if status, code := p.collectStored(viewCall(site, visitor, fields)); status != http.StatusNoContent {
		p.tb.Fatalf("page view %v: %d %s, want 204", fields, status, code)
	}
}

func viewCall(site *model.Site, visitor string, fields map[string]any) call {
	body := map[string]any{"k": site.SiteKey, "t": "pageview", "p": "/"}
	for k, v := range fields {
		body[k] = v
	}
	return call{body: body, origin: "https://" + site.Domain, visitor: visitor}
}

// rows returns all stored page views of the site, with their visits.
func (p *plane) rows(site *model.Site) []exports.Pageview {
	p.tb.Helper()
	var rows []exports.Pageview
	err := exports.New(p.db).ExportPageviews(p.tb.Context(), exports.Range{SiteID: site.ID, To: 1 << 51, Limit: 1_000_000},
		func(row *exports.Pageview) error { rows = append(rows, *row); return nil })
	if err != nil {
		p.tb.Fatal(err)
	}

	return rows
}

// used returns the site's usage in the month of the clock.
func (p *plane) used(site *model.Site) int64 {
	p.tb.Helper()
	used, err := sites.New(p.db).Usage.MonthlyUsage(p.tb.Context(), model.At(p.clock.Now()).Month(), []model.SiteID{site.ID})
	if err != nil {
		p.tb.Fatal(err)
	}
	return used[site.ID]
}

// shop creates a site with every setting enabled: it measures search, e-commerce and user ids,
// "signup" is registered and a key event, it has a conversion webhook, and it excludes 192.0.2.7
// and 2001:db8::/32.
func (p *plane) shop(domain string) *model.Site {
	p.tb.Helper()

	site := p.site(domain, quota)
	ctx, account, yes := p.tb.Context(), site.AccountID, true

	excluded := []string{"192.0.2.7/32", "2001:db8::/32"}
	for _, err := range []error{
		sites.New(p.db).Sites.UpdateSite(ctx, account, site.ID, sites.SiteUpdate{MeasureSiteSearch: &yes, MeasureEcommerce: &yes, AllowPseudonymousUserID: &yes, ExcludedAddresses: &excluded}),
		sites.New(p.db).Sites.RegisterEvent(ctx, account, site.ID, "signup"),
		sites.New(p.db).Sites.MarkKeyEvent(ctx, account, site.ID, "signup"),
		sites.New(p.db).Sites.SetConversionWebhook(ctx, account, site.ID, "https://hooks.example/conversions", nil, model.ChangedBy{}),
	} {
		if err != nil {
			p.tb.Fatal(err)
		}
	}

	return site
}

// secret gives the site a new server secret key.
func (p *plane) secret(site *model.Site) string {
	p.tb.Helper()
	secret := model.NewSecret("svcs_")
	if err := sites.New(p.db).Sites.SetServerSecret(p.tb.Context(), site.AccountID, site.ID, model.HashToken(secret), model.SecretHint(secret)); err != nil {
		p.tb.Fatal(err)
	}
	return secret
}

// event sends an event without properties, which must be accepted.
func (p *plane) event(site *model.Site, visitor, name string) {
	p.tb.Helper()
	if status, code := p.collect(eventCall(site, visitor, name, nil, nil)); status != http.StatusNoContent {
		p.tb.Fatalf("event %s: %d %s, want 204", name, status, code)
	}
}

// events returns all stored events of the site, with their visits.
func (p *plane) events(site *model.Site) []exports.Event {
	p.tb.Helper()
	var rows []exports.Event
	err := exports.New(p.db).ExportEvents(p.tb.Context(), exports.Range{SiteID: site.ID, To: 1 << 51, Limit: 1_000_000},
		func(row *exports.Event) error { rows = append(rows, *row); return nil })
	if err != nil {
		p.tb.Fatal(err)
	}

	return rows
}

// deliveries returns the site's deliveries, oldest first.
func (p *plane) deliveries(site *model.Site) []model.Delivery {
	p.tb.Helper()
	deliveries, err := dbtest.Rows[model.Delivery](p.db, "SELECT * FROM deliveries WHERE site_id = ? ORDER BY id", site.ID)
	if err != nil {
		p.tb.Fatal(err)
	}
	for _, delivery := range deliveries {
		openapitest.Webhook(p.tb, string(delivery.Kind), delivery.Event, delivery.Body)
	}
	return deliveries
}

// rejected stops the service and compares the site's counters of refused and ignored calls, by
// "endpoint code".
func (p *plane) rejected(site *model.Site, want map[string]int64) {
	p.tb.Helper()

	p.stop()
	counts, err := ingest.New(p.db).RejectionsOfSites(p.tb.Context(), []model.SiteID{site.ID}, 0)
	rejections := counts[site.ID]

	if err != nil {
		p.tb.Fatal(err)
	}

	got := make(map[string]int64)
	for _, r := range rejections {
		got[r.Endpoint+" "+r.Code] += r.Count
	}

	if !maps.Equal(got, want) {
		p.tb.Errorf("refused and ignored calls %v, want %v", got, want)
	}
}

// await waits until a change has taken effect that the database notifies the plane of. The contract
// allows a second; a busy machine gets more. The plane's clock stands, so that nothing expires.
func (p *plane) await(what string, arrived func() bool) {
	p.tb.Helper()
	testkit.Await(p.tb, what, arrived)
}

// awaitNotifications waits until the plane receives change notifications. When the plane starts to,
// it invalidates all sites, which may reveal the first change without its notification, but not the
// second.
func (p *plane) awaitNotifications(site *model.Site) {
	p.tb.Helper()

	for _, domain := range []string{"first.example", "second.example"} {
		nothing := viewCall(site, "", map[string]any{"t": "engagement"})
		nothing.origin = "https://" + domain

		// This caches the site, which does not expire while the clock stands.
		p.collect(nothing)

		if err := sites.New(p.db).Sites.AddSiteDomain(p.tb.Context(), site.AccountID, site.ID, domain); err != nil {
			p.tb.Fatal(err)
		}

		p.await("an extra domain", func() bool { status, _ := p.collect(nothing); return status == http.StatusNoContent })
	}
}
