package analytics_test

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/openapitest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
	"github.com/tallygate/tallygate/tools/world/planetest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.RunByTurns(m)) }

const (
	// chrome is the user agent of an ordinary browser.
	chrome = planetest.Agent
)

var noon = dbtest.Noon.Time()

type call = planetest.Call

var viewCall = planetest.ViewCall

// plane is a data plane without the captcha.
type plane struct{ *planetest.Plane }

// newPlane returns a plane for a busy machine: hits wait for the database for up to a minute.
func newPlane(tb testing.TB, d *db.DB) *plane {
	tb.Helper()
	return newPlaneWith(tb, d, func(o *analytics.Options) { o.Timeout = time.Minute })
}

// eachPlane runs test with a new plane on each database, in parallel with other tests.
func eachPlane(t *testing.T, test func(t *testing.T, p *plane)) {
	t.Helper()
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) { test(t, newPlane(t, d)) })
}

// newPlaneOn returns a plane with a store, nil for the usual one, and the timeouts of production.
func newPlaneOn(tb testing.TB, d *db.DB, store analytics.HitStore) *plane {
	tb.Helper()
	return newPlaneWith(tb, d, func(o *analytics.Options) { o.Store = store })
}

// newPlaneWith is newPlane with other options.
func newPlaneWith(tb testing.TB, d *db.DB, change func(*analytics.Options)) *plane {
	tb.Helper()
	return &plane{planetest.New(tb, d, planetest.Options{Hits: change})}
}

// site creates an account with a site on the domain and a quota.
func (p *plane) site(domain string, quota int64) *model.Site {
	p.TB.Helper()
	return p.Site(domain, world.Quota(quota))
}

// shop creates a site with every setting enabled: it measures search, e-commerce and user ids,
// "signup" is registered and a key event, it has a conversion webhook, and it excludes 192.0.2.7
// and 2001:db8::/32.
func (p *plane) shop(domain string) *model.Site {
	p.TB.Helper()

	yes, excluded := true, []string{"192.0.2.7/32", "2001:db8::/32"}
	return p.Site(domain,
		world.Quota(quota),
		world.Settings(sites.SiteUpdate{MeasureSiteSearch: &yes, MeasureEcommerce: &yes, AllowPseudonymousUserID: &yes,
			ExcludedAddresses: &excluded}),
		world.Events("signup"),
		world.KeyEvents("signup"),
		world.WebhookAt("https://hooks.example/conversions", nil),
	)
}

// secret gives the site a new server secret key.
func (p *plane) secret(site *model.Site) string {
	p.TB.Helper()
	secret := model.NewSecret("svcs_")
	_, err := sites.New(p.DB).Sites.ReplaceServerSecret(p.TB.Context(), site.AccountID, site.ID, model.HashToken(secret),
		model.SecretHint(secret), 0)
	testkit.NoError(p.TB, err)
	return secret
}

// deliveries returns the site's deliveries, oldest first.
func (p *plane) deliveries(site *model.Site) []model.Delivery {
	p.TB.Helper()
	deliveries, err := dbtest.Rows[model.Delivery](p.DB, "SELECT * FROM deliveries WHERE site_id = ? ORDER BY id", site.ID)
	testkit.NoError(p.TB, err)
	for _, delivery := range deliveries {
		openapitest.Webhook(p.TB, string(delivery.Kind), delivery.Event, delivery.Body)
	}
	return deliveries
}

// awaitNotifications waits until the plane receives change notifications. When the plane starts to,
// it invalidates all sites, which may reveal the first change without its notification, but not the
// second.
func (p *plane) awaitNotifications(site *model.Site) {
	p.TB.Helper()

	for _, domain := range []string{"first.example", "second.example"} {
		nothing := viewCall(site, "", map[string]any{"t": "engagement"})
		nothing.Origin = "https://" + domain

		// This caches the site, which does not expire while the clock stands.
		p.Collect(nothing)

		testkit.NoError(p.TB, sites.New(p.DB).Sites.AddSiteDomain(p.TB.Context(), site.AccountID, site.ID, domain))

		p.Await("an extra domain", func() bool { status, _ := p.Collect(nothing); return status == http.StatusNoContent })
	}
}
