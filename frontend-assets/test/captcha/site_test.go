// Package captcha_test tests the captcha's widget in a real browser against the real data plane.
package captcha_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/dataplane/captcha"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	assets "github.com/tallygate/tallygate/frontend-assets"
	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world/planetest"
)

func TestMain(m *testing.M) { os.Exit(browsertest.Run(m.Run)) }

// captchaOrigin is {captcha_url}, which always differs from the page's origin.
const captchaOrigin = "http://captcha.example.test"

// captchaScript is the script element that site owners paste.
const captchaScript = `<script defer src="` + captchaOrigin + `/captcha.js"></script>`

// captchaForm returns a page with one protected form, whose widget has further attributes. The site
// replaces SITEKEY.
func captchaForm(attributes string) string {
	return `<html lang="en"><title>Form</title><main><h1>Form</h1><form id="form" action="/submit" method="post">
		<label>E-mail <input name="email"></label>
		<div class="service-captcha" data-sitekey="SITEKEY" ` + attributes + `></div>
		<button id="send">Send</button></form></main>` + captchaScript
}

// Expressions about the page's first widget.
const (
	widgetIs    = `document.querySelector('.service-captcha').matches('.is-%s')`
	widgetLabel = `document.querySelector('.service-captcha button').getAttribute('aria-label')`
	widgetNote  = `document.querySelector('.service-captcha [role=status]').textContent`
	widgetToken = `(document.querySelector('input[name="service-captcha-response"]') || {value: ''}).value`
)

// captchaSite is a website with a protected form, under www.shop.test, which the sitekey is bound
// to, and other.test, which it is not, with the real data plane on an SQLite database.
type captchaSite struct {
	*planetest.Plane
	t       *testing.T
	browser *browsertest.Browser
	key     captchaKey
	pages   map[string]string // by path, the same under every host name
	headers http.Header       // of every page

	treat   func(model.CaptchaAutomation) // sets how the sitekey treats automation
	handler http.Handler                  // of the data plane

	numeric   string          // the website's origin by address; without TLS browsers prerender no other
	submitted chan url.Values // form data sent to /submit
	shown     chan struct{}   // closed by a test whose page waits for fetch('/wait')

	mu        sync.Mutex // guards what follows
	calls     []string   // paths of the widget's API calls, in order
	intercept func(http.ResponseWriter, *http.Request) bool
}

// captchaKey is a sitekey with its secret.
type captchaKey struct{ sitekey, secret string }

// captchaDifficulty is the work of a widget in expected hashes. It is real work, but short.
const captchaDifficulty = 2048

// newCaptchaSite starts servers and browser, and runs the test in parallel with others.
func newCaptchaSite(t *testing.T, pages map[string]string, options ...browsertest.Option) *captchaSite {
	t.Helper()
	return newCaptchaSiteOf(t, captchaDifficulty, pages, options...)
}

// newCaptchaSiteOf is newCaptchaSite with another difficulty.
func newCaptchaSiteOf(t *testing.T, work uint32, pages map[string]string, options ...browsertest.Option) *captchaSite {
	t.Helper()
	t.Parallel()

	s := &captchaSite{t: t, pages: pages, headers: http.Header{}, submitted: make(chan url.Values, 100), shown: make(chan struct{})}
	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	s.Plane = planetest.New(t, d, planetest.Options{
		Hits:    planetest.Default[analytics.Options],
		Captcha: func(o *captcha.Options) { o.Difficulty, o.Origins = work, []string{captchaOrigin} },
		Assets:  assets.Handler(),
		Wrap:    s.watched,
	})
	s.newKey()

	secure := httptest.NewTLSServer(s.Handler)
	t.Cleanup(secure.Close)
	site := httptest.NewServer(http.HandlerFunc(s.servePage))
	t.Cleanup(site.Close)
	s.numeric = site.URL
	s.browser = browsertest.New(t, append(options,
		browsertest.Host("captcha.example.test", s.URL),
		browsertest.Host("captcha.example.test", secure.URL),
		browsertest.Host("proxy.example.test", s.URL),
		browsertest.Host("www.shop.test", site.URL),
		browsertest.Host("other.test", site.URL),
		// Browsers provide WebCrypto and Trusted Types on secure pages only.
		browsertest.WithFlag("unsafely-treat-insecure-origin-as-secure", "http://www.shop.test"),
	)...)

	return s
}

// newKey creates the sitekey.
func (s *captchaSite) newKey() {
	s.t.Helper()

	account := s.Account("shop", model.CaptchaPlanFree)
	key := s.Sitekey(account, "shop.test")
	s.key = captchaKey{key.Sitekey.Sitekey, key.Secret}
	s.treat = func(automation model.CaptchaAutomation) {
		s.t.Helper()
		_, err := sites.New(s.DB).Sitekeys.UpdatePolicy(s.t.Context(), account, key.ID, sites.PolicyUpdate{Automation: &automation})
		testkit.NoError(s.t, err)
	}

	// The tests drive the browser, which then says that it is automated.
	s.treat(model.AutomationAllow)
}

func (s *captchaSite) servePage(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/wait" {
		select {
		case <-s.shown:
		case <-r.Context().Done():
		}

		return
	}

	if r.URL.Path == "/submit" {
		if err := r.ParseForm(); err != nil {
			s.t.Errorf("a form sent what cannot be read: %v", err)
		}

		s.submitted <- r.PostForm
	}

	page, ok := s.pages[r.URL.Path]
	if !ok && r.URL.Path != "/submit" {
		http.NotFound(w, r)
		return
	}

	for name := range s.headers {
		w.Header().Set(name, s.headers.Get(name))
	}

	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	page = strings.ReplaceAll(page, "SITEKEY", s.key.sitekey)
	_, _ = io.WriteString(w, "<!doctype html><link rel=icon href=data:,>"+page)
}

// watched records the widget's calls, and lets the test replace the data plane's responses.
func (s *captchaSite) watched(plane http.Handler) http.Handler {
	s.handler = plane
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		name, isCall := strings.CutPrefix(r.URL.Path, "/api/v1/pow/")
		if isCall && r.Method == http.MethodPost && name != "siteverify" {
			s.calls = append(s.calls, name)
		}

		intercept := s.intercept
		s.mu.Unlock()

		if intercept == nil || !intercept(w, r) {
			plane.ServeHTTP(w, r)
		}
	})
}

// answer lets a function answer the calls whose path ends in the given one. If the function returns
// false, the data plane answers.
func (s *captchaSite) answer(path string, with func(http.ResponseWriter) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, path) || r.Method == http.MethodOptions {
			return false
		}
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Expose-Headers", "Retry-After")
		return with(w)
	}
}

// times answers the first n calls with a status, and none after them.
func times(n int, status int, headers ...string) func(http.ResponseWriter) bool {
	var mu sync.Mutex
	return func(w http.ResponseWriter) bool {
		mu.Lock()
		defer mu.Unlock()

		if n--; n < 0 {
			return false
		}

		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}

		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"error":"the server's reason"}`)
		return true
	}
}

// called returns the widget's calls so far.
func (s *captchaSite) called() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// hasCalled compares the widget's calls so far.
func (s *captchaSite) hasCalled(want ...string) {
	s.t.Helper()
	if got := s.called(); !slices.Equal(got, want) {
		s.t.Errorf("the widget has called %v, want %v", got, want)
	}
}

// movableClock gives a page a wall clock that the test can also advance, by later(milliseconds),
// and tick(), which runs the page's intervals.
const movableClock = `{
	const now = Date.now, start = window.setInterval, intervals = new Map()
	let ahead = 0
	Date.now = () => now() + ahead
	window.setInterval = (f, ms) => { const id = start(() => {}, ms); intervals.set(id, f); return id }
	window.later = (ms) => { ahead += ms }
	window.tick = () => intervals.forEach((f) => f())
}`

// later advances the clocks of the data plane and the page.
func (s *captchaSite) later(page *browsertest.Page, d time.Duration) {
	s.t.Helper()
	s.Clock.Add(d)
	page.Eval(fmt.Sprintf("later(%d)", d.Milliseconds()), nil)
}

// is waits until the page's first widget is in a state.
func (s *captchaSite) is(page *browsertest.Page, state string) {
	s.t.Helper()
	page.WaitFor(fmt.Sprintf(widgetIs, state))
}

// shows waits until the first widget has the given label and note.
func (s *captchaSite) shows(page *browsertest.Page, label, note string) {
	s.t.Helper()
	page.WaitFor(fmt.Sprintf("%s === %q && %s === %q", widgetLabel, label, widgetNote, note))
}

// verify verifies a token at the data plane, as the site's server does.
func (s *captchaSite) verify(token string) (valid bool) {
	s.t.Helper()
	return s.verifyAs("sitekey", token)
}

// verifyAs is verify with another name of the sitekey's field.
func (s *captchaSite) verifyAs(name, token string) (valid bool) {
	s.t.Helper()

	response, body := s.Send(planetest.Call{Path: planetest.SiteverifyPath,
		Body: map[string]string{name: s.key.sitekey, "secret": s.key.secret, "token": token}})

	var answer struct{ Valid bool }
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		s.t.Fatalf("siteverify answered %s: %v", response.Status, err)
	}

	return answer.Valid
}

// noMessages checks that the page's console has only lines that contain one of the expected texts.
func noMessages(t *testing.T, page *browsertest.Page, expected ...string) {
	t.Helper()
	for _, m := range page.Console() {
		if !slices.ContainsFunc(expected, func(part string) bool { return strings.Contains(m.Text, part) }) {
			t.Errorf("the page's console has %s: %s", m.Level, m.Text)
		}
	}
}
