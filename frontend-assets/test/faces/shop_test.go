// Package faces_test tests the scripts in the place of other products' scripts for analytics: in
// Chromium, with the real data plane, to the stored rows.
package faces_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	assets "github.com/tallygate/tallygate/frontend-assets"
	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world"
	"github.com/tallygate/tallygate/tools/world/planetest"
)

func TestMain(m *testing.M) {
	os.Exit(browsertest.Run(func() int { return dbtest.Run(m) }))
}

const (
	siteKey = "0123456789abcdef0123456789abcdef"

	// uuid is the site key as forms accept it that ask for a UUID.
	uuid = "01234567-89ab-cdef-0123-456789abcdef"

	// oldID is the site's id at the other product.
	oldID = "b59e9c65-ae32-47f1-8400-119fcf4861c4"

	dataOrigin = "http://data.example.test"
	keyFolder  = dataOrigin + "/" + siteKey
)

// ownEvents are the names that the site has registered.
var ownEvents = []string{
	"signup_button", "signup", "404", "own_scroll", "own_purchase", "form_submission", "legacy", "goal_1", "ext-example_com",
}

// shop is a website with a face on its pages, and the data plane that serves the face. The pages
// are served under www.shop.test and shop.test.
type shop struct {
	*planetest.Plane
	t       *testing.T
	site    *model.Site
	browser *browsertest.Browser

	mu      sync.Mutex // guards what follows
	html    string     // of every page
	headers http.Header
	calls   []exchange // of the data plane's collection paths
	page    *browsertest.Page
	leave   func()
	opened  int
	read    int // messages that the test has read
	viewed  int // stored page views that the test has read
	events  int // stored events that the test has read
}

// exchange is a message to a collection path, with the status of its response.
type exchange struct {
	path, body string
	message    map[string]any
	status     int
}

// isForeign reports whether a message is in the words of another product's own code.
func (e exchange) isForeign() bool { return e.message["t"] == nil }

func newShop(t *testing.T) *shop {
	t.Helper()

	s := &shop{t: t, headers: http.Header{}}
	s.Plane = planetest.New(t, dbtest.Open(t, dbtest.SQLiteURL(t)), planetest.Options{
		Hits: planetest.Default[analytics.Options], Assets: assets.Handler(), Wrap: s.record,
	})

	yes := true
	s.site = s.Site("shop.test", world.Quota(10_000), world.Key(siteKey), world.Events(ownEvents...),
		world.Settings(sites.SiteUpdate{MeasureSiteSearch: &yes, MeasureEcommerce: &yes, AllowPseudonymousUserID: &yes}))

	site := httptest.NewServer(http.HandlerFunc(s.servePage))
	t.Cleanup(site.Close)
	s.browser = browsertest.New(t,
		browsertest.Host("data.example.test", s.URL),
		browsertest.Host("shop.test", site.URL),
		browsertest.Host("*.shop.test", site.URL),
		// Browsers hash on secure pages only.
		browsertest.WithFlag("unsafely-treat-insecure-origin-as-secure", "http://www.shop.test"),
	)
	return s
}

// servePage serves the same page at all paths. As a website's own proxy, it passes calls below
// /proxy to the data plane.
func (s *shop) servePage(w http.ResponseWriter, r *http.Request) {
	if path, ok := strings.CutPrefix(r.URL.Path, "/proxy"); ok {
		r.URL.Path = path
		r.Header.Set("X-Forwarded-For", "203.0.113.9")
		s.Handler.ServeHTTP(w, r)
		return
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(w.Header(), s.headers)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, "<!doctype html><title>Secret title</title><link rel=icon href=data:,>"+s.html)
}

// record stores the messages to the collection paths. It repeats a message that is answered with
// 503, for which nothing was stored.
func (s *shop) record(plane http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			plane.ServeHTTP(w, r)
			return
		}

		body, err := io.ReadAll(r.Body)
		if err != nil {
			s.t.Errorf("read a message: %v", err)
		}
		call := exchange{path: r.URL.Path, body: string(body)}
		if err := json.Unmarshal(body, &call.message); err != nil {
			s.t.Errorf("%s receives %q: %v", r.URL, body, err)
		}
		if got := r.Header.Get("Content-Type"); got != "text/plain;charset=UTF-8" && !call.isForeign() {
			s.t.Errorf("%s with Content-Type %q, which needs a preflight", r.URL, got)
		}

		call.status = planetest.Repeat(plane, w, r, body, browsertest.Timeout).Code
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls = append(s.calls, call)
	})
}

// clock stops the page's clock, so that no time in view is sent. later(1000) advances it.
const clock = `{ let now = 5; performance.now = () => now; window.later = (ms) => { now += ms } };`

// counter counts the page's messages: the browser reports the requests of beacons with a delay.
const counter = `window.sent = 0; navigator.sendBeacon = new Proxy(navigator.sendBeacon, {
	apply(beacon, _, values) { const taken = Reflect.apply(beacon, navigator, values); sent += taken; return taken }
});`

// open opens a page with this content, at an address with secrets. All pages of a shop use one tab,
// because opening a tab takes more of the browser's time than loading a page.
func (s *shop) open(html, before string) *browsertest.Page {
	s.t.Helper()
	if s.page == nil {
		s.page, s.leave = s.browser.NewPage(), func() {}
	}
	s.leave()

	s.mu.Lock()
	s.html = html
	s.mu.Unlock()

	// The server ignores a manual page view within a second of an automatic one.
	s.Clock.Add(2 * time.Second)
	s.leave = s.page.Before(clock + counter + before)
	// A fragment alone does not load the same address again.
	s.opened++
	s.page.Goto(fmt.Sprintf("http://www.shop.test/page?secret=%d#secret", s.opened))
	return s.page
}

// pause waits until the page's first message is answered, and advances the clocks of page and server.
func (s *shop) pause(d time.Duration) {
	s.t.Helper()
	s.Await("the first message", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.calls) > s.read
	})
	s.Clock.Add(d)
	s.page.Eval(fmt.Sprintf("later(%d)", d.Milliseconds()), nil)
}

// messages waits until the messages of the pages so far are answered, and returns those that the
// test has not read.
func (s *shop) messages() []exchange {
	s.t.Helper()

	// After this event the page has nothing to send when it is left.
	var sent int
	s.page.Eval(`new Promise((done) => setTimeout(() => {
		dispatchEvent(new Event("pagehide"));
		done(Array.from(frames).reduce((all, frame) => all + frame.sent, sent));
	}))`, &sent)

	var calls []exchange
	testkit.AwaitState(s.t, fmt.Sprint(s.read, " and ", sent, " answered messages"), func() (string, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		calls = slices.Clone(s.calls)
		return fmt.Sprint(calls), len(calls) >= s.read+sent
	})

	calls, s.read = calls[s.read:], len(calls)
	return calls
}

// stored returns the messages that the test has not read, and the rows that they stored: "view
// /path", "view /path manual", "event /path name {…}", and "status 400 name" for a message that was
// refused.
func (s *shop) stored() (rows []string, messages []exchange) {
	s.t.Helper()

	messages = s.messages()
	for _, call := range messages {
		if call.isForeign() && call.status < http.StatusMultipleChoices {
			continue
		}
		if strings.Contains(strings.ToLower(call.body), "secret") {
			s.t.Errorf("a message has a query, fragment or title: %s", call.body)
		}
		if call.status != http.StatusNoContent {
			rows = append(rows, fmt.Sprintf("status %d %v", call.status, call.message["e"]))
		}
	}

	views, events := s.Views(s.site), s.Events(s.site)
	for _, row := range views[s.viewed:] {
		line := "view " + row.Path
		if row.Manual {
			line += " manual"
		}
		rows = append(rows, line)
	}
	for _, row := range events[s.events:] {
		rows = append(rows, strings.TrimSpace("event "+row.Path+" "+row.Name+" "+row.Properties))
	}
	s.viewed, s.events = len(views), len(events)
	return rows, messages
}

// userIDs opens a page, evaluates an expression in it, and returns the user ids of the messages by
// the name of their event. A page view has an empty name.
func (s *shop) userIDs(html, expression string) map[string]any {
	s.t.Helper()
	s.open(html, "").Eval(expression, nil)
	_, messages := s.stored()

	ids := make(map[string]any)
	for _, call := range messages {
		name, _ := call.message["e"].(string)
		ids[name] = call.message["d"]
	}
	return ids
}

// row is one attribute, call or option of a face: a page, an action on it, and the rows that both
// store.
type row struct {
	name   string
	page   string        // its content
	before string        // script that runs before the page's own
	pause  time.Duration // after the first message, before do
	do     string        // expression that is evaluated in the page
	click  string        // selector of an element that is clicked afterwards
	want   []string
	path   string // of the messages; default the face's own
}

// run tests rows, each in a tab of its own.
func (s *shop) run(t *testing.T, path string, rows []row) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s.t = t
			page := s.open(row.page, row.before)
			if row.pause > 0 {
				s.pause(row.pause)
			}
			if row.do != "" {
				page.Eval(row.do, nil)
			}
			if row.click != "" {
				page.Click(row.click)
			}

			got, messages := s.stored()
			slices.Sort(got)
			slices.Sort(row.want)
			if !slices.Equal(got, row.want) {
				t.Errorf(
					"stored\n  %s\nwant\n  %s\nafter %v\nconsole %v", strings.Join(got, "\n  "),
					strings.Join(row.want, "\n  "), messages, page.Console(),
				)
			}

			want := path
			if row.path != "" {
				want = row.path
			}
			for _, call := range messages {
				if call.path != want {
					t.Errorf("a message to %s, want %s", call.path, want)
				}
			}

			var kept int
			page.Eval("localStorage.length + sessionStorage.length + document.cookie.length", &kept)
			if kept > 0 {
				t.Error("the face stores something on the device")
			}
		})
	}
}
