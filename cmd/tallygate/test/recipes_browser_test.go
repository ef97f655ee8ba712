package test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// recipePages are the pages of a shop that uses recipes, and the instance that they call.
type recipePages struct {
	t       *testing.T
	p       *process
	owner   *testOwner
	site    testSite
	mux     *http.ServeMux // of server; a test may add handlers
	server  *httptest.Server
	browser *browsertest.Browser
	pages   map[string]string // by path
}

// openRecipes starts an instance and a web server for pages, which verifies the tokens of its form.
func openRecipes(t *testing.T) *recipePages {
	t.Helper()
	r := &recipePages{t: t, pages: make(map[string]string)}
	r.p = start(t, map[string]string{
		"TALLYGATE_DATA_DIR": t.TempDir(), "TALLYGATE_ALLOW_LOCAL_DOMAINS": "true", "TALLYGATE_CAPTCHA_DIFFICULTY": "1024",
		"TALLYGATE_FLOOD_BURST": "0",
	}, []string{"control", "data"})
	r.owner, r.site, _, _ = recipeSite(t, r.p, "shop.localhost")

	mux := contactPage(r.p)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, r.pages[request.URL.Path])
	})
	r.mux = mux
	r.server = httptest.NewServer(mux)
	t.Cleanup(r.server.Close)
	r.browser = browsertest.New(t, browsertest.Host("shop.localhost", r.server.URL))
	return r
}

// add adds a page with the values of the instance in place of those of the recipes.
func (r *recipePages) add(path, page string) {
	origin := "http://" + r.p.addr["data"]
	r.pages[path] = strings.NewReplacer("{analytics_url}", origin, "{captcha_url}", origin, "{site_key}", r.site.SiteKey,
		"{sitekey}", model.TestSitekey).Replace(page)
}

func (r *recipePages) open(path string) *browsertest.Page { return r.browser.Open(r.address(path)) }

// address returns the address of a page.
func (r *recipePages) address(path string) string {
	address, err := url.Parse(r.server.URL)
	testkit.NoError(r.t, err)
	return "http://shop.localhost:" + address.Port() + path
}

// solve touches the form and waits for the token.
func (r *recipePages) solve(page *browsertest.Page) {
	page.WaitFor(`document.querySelector('.service-captcha.is-idle')`)
	page.Click("textarea")
	page.WaitFor(`document.querySelector('.service-captcha.is-done')`)
}

// wantStored checks how often each page was viewed and each event happened.
func (r *recipePages) wantStored(want ...string) {
	r.t.Helper()
	var data struct {
		Site struct {
			Report struct {
				Pages, Events struct {
					Edges []struct {
						Node struct {
							Value   string
							Metrics struct{ Pageviews, Events int }
						}
					}
				}
			}
		}
	}
	r.owner.do(`{ site(id: "`+r.site.ID+`") { report(period: {preset: TODAY}) {
		pages: breakdown(by: PAGE) { edges { node { value metrics { pageviews events } } } }
		events: breakdown(by: EVENT) { edges { node { value metrics { pageviews events } } } } } } }`, &data)

	var got []string
	for _, edge := range data.Site.Report.Pages.Edges {
		got = append(got, fmt.Sprintf("%s %d", edge.Node.Value, edge.Node.Metrics.Pageviews))
	}
	for _, edge := range data.Site.Report.Events.Edges {
		got = append(got, fmt.Sprintf("%s %d", edge.Node.Value, edge.Node.Metrics.Events))
	}
	for _, one := range want {
		if !strings.Contains(strings.Join(got, "\n")+"\n", one+"\n") {
			r.t.Errorf("the report has %q, want %s", got, one)
		}
	}
}

func recipeFile(t *testing.T, name string) string {
	t.Helper()
	return readFile(t, recipes+name)
}

// contactPage returns handlers of a shop: its form is accepted if its token is valid.
func contactPage(p *process) *http.ServeMux {
	s := newSolver(p.addr["data"], model.TestSitekey, model.TestSitekeySecret)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /contact", func(w http.ResponseWriter, request *http.Request) {
		valid, err := s.redeem(request.FormValue("service-captcha-response"))
		if err != nil || !valid {
			http.Error(w, fmt.Sprintf("refused, error %v", err), http.StatusForbidden)
			return
		}
		fmt.Fprint(w, "accepted")
	})
	return mux
}

// wantQuietConsole checks that a page has logged nothing.
func wantQuietConsole(t *testing.T, page *browsertest.Page) {
	t.Helper()
	for _, message := range page.Console() {
		t.Errorf("the console shows %s: %s", message.Level, message.Text)
	}
}

// sent is the number of messages that the page's script has sent and the server has stored.
const sent = `performance.getEntriesByType('resource').filter((r) => r.name.endsWith('/collect.php') && r.responseEnd > 0).length`

// TestRecipePageChromium opens the plain page and one with the tag manager's code in a browser: the
// page view and the event are stored, and the form's token is genuine.
func TestRecipePageChromium(t *testing.T) {
	r := openRecipes(t)
	r.add("/page", recipeFile(t, "page.html"))
	r.add("/tagged", "<!doctype html><html lang=en><title>Tagged</title><link rel=icon href='data:,'>"+recipeFile(t, "tag-manager.html"))

	page := r.open("/page")
	page.WaitFor(sent + " >= 1")
	page.Click("#signup")
	page.WaitFor(sent + " >= 2")
	r.solve(page)
	wantQuietConsole(t, page)
	page.Click("form button:not([role])")
	page.WaitFor(`location.pathname === '/contact' && document.body.textContent === 'accepted'`)

	tagged := r.open("/tagged")
	tagged.WaitFor(sent + " >= 2")
	wantQuietConsole(t, tagged)
	r.wantStored("/page 1", "/tagged 1", "signup 2")
}
