package script_test

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
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/ingest"
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

// shop is a website whose pages contain the script, with the real data plane, which serves the
// script and stores its messages in a database of the test's own.
//
// The site's domain is shop.test, and its extra domain shop-extra.test. The event "signup" is
// registered, and searches, sales and user ids are measured. The pages are served under
// www.shop.test, shop.test, shop-extra.test and the foreign domain other.test.
type shop struct {
	*planetest.Plane
	t       *testing.T
	site    *model.Site
	browser *browsertest.Browser
	reports chan string // queries that pages sent by fetch("/report?…")

	pages   map[string]string // by path, the same under every host name
	headers http.Header       // of every page

	mu    sync.Mutex // guards what follows
	calls []exchange // to /collect.php, in the order of their responses
	seen  int        // number of calls that the test has read
}

// exchange is a request to /collect.php with its response.
type exchange struct {
	request string         // as sent
	message map[string]any // its JSON
	status  int
	answer  string
}

// newShop starts servers and browser, and runs the test in parallel with others.
func newShop(t *testing.T, d *db.DB, pages map[string]string) *shop {
	t.Helper()
	t.Parallel()

	s := &shop{t: t, pages: pages, headers: http.Header{}, reports: make(chan string, 100)}
	s.Plane = planetest.New(t, d, planetest.Options{
		Hits: planetest.Default[analytics.Options], Assets: assets.Handler(), Wrap: s.record,
	})

	yes := true
	s.site = s.Site("shop.test", world.Quota(10_000), world.Key(siteKey), world.Domains("shop-extra.test"), world.Events("signup"),
		world.Settings(sites.SiteUpdate{MeasureSiteSearch: &yes, MeasureEcommerce: &yes, AllowPseudonymousUserID: &yes}))

	site := httptest.NewServer(http.HandlerFunc(s.servePage))
	t.Cleanup(site.Close)
	s.browser = browsertest.New(t,
		browsertest.Host("data.example.test", s.URL),
		browsertest.Host("shop.test", site.URL),
		browsertest.Host("*.shop.test", site.URL),
		browsertest.Host("shop-extra.test", site.URL),
		browsertest.Host("other.test", site.URL),
		// Browsers allow caches, service workers and prerendering on secure pages only.
		browsertest.WithFlag("unsafely-treat-insecure-origin-as-secure", "http://www.shop.test"),
	)

	return s
}

func (s *shop) servePage(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/report" {
		s.reports <- r.URL.RawQuery
		return
	}

	page, ok := s.pages[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}

	maps.Copy(w.Header(), s.headers)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, "<!doctype html><link rel=icon href=data:,>"+page)
}

// record stores the requests to /collect.php and their responses. It repeats a request that is
// answered with 503, for which nothing was stored: the database of a busy machine can take longer
// than five seconds.
func (s *shop) record(plane http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/collect.php" {
			plane.ServeHTTP(w, r)
			return
		}

		body, err := io.ReadAll(r.Body)
		if err != nil {
			s.t.Errorf("read a request to collect.php: %v", err)
		}

		var request strings.Builder
		fmt.Fprintf(&request, "%s %s\n", r.Method, r.URL)
		_ = r.Header.Write(&request)
		request.Write(body)

		if got := r.Header.Get("Content-Type"); r.Method != http.MethodPost || got != "text/plain;charset=UTF-8" {
			s.t.Errorf("%s to collect.php with Content-Type %q", r.Method, got)
		}

		var message map[string]any
		if err := json.Unmarshal(body, &message); err != nil {
			s.t.Errorf("a request to collect.php carries %q: %v", body, err)
		}

		answer := planetest.Repeat(plane, w, r, body, browsertest.Timeout)
		s.mu.Lock()
		defer s.mu.Unlock()

		s.calls = append(s.calls, exchange{request.String(), message, answer.Code, answer.Body.String()})
	})
}

// open opens a page whose clock only the test advances.
func (s *shop) open(address string) *browsertest.Page {
	s.t.Helper()
	page := s.browser.NewPage()
	page.Before(clock)
	page.Goto(address)
	return page
}

// reported waits for a report of a page.
func (s *shop) reported(want string) {
	s.t.Helper()
	select {
	case got := <-s.reports:
		if got != want {
			s.t.Fatalf("the page reports %q, want %q", got, want)
		}
	case <-time.After(browsertest.Timeout):
		s.t.Fatalf("the page does not report %q", want)
	}
}

// answered waits until the data plane has answered n more calls, and returns them. A further call
// fails the test, at the latest when the next calls are awaited.
func (s *shop) answered(n int) []exchange {
	s.t.Helper()
	var calls []exchange
	testkit.AwaitState(s.t, fmt.Sprint(n, " answered calls"), func() (string, bool) {
		s.mu.Lock()
		calls = slices.Clone(s.calls[s.seen:])
		s.mu.Unlock()

		var all strings.Builder
		for _, c := range calls {
			fmt.Fprintf(&all, "\n%d %s\n%s", c.status, c.answer, c.request)
		}
		if len(calls) > n {
			s.t.Fatalf("%d calls were answered, want %d:%s", len(calls), n, all.String())
		}
		return all.String(), len(calls) == n
	})

	s.seen += n
	return calls
}

// stored waits for the given number of calls, which must all be answered with 204. It returns their
// messages.
func (s *shop) stored(calls int) []map[string]any {
	s.t.Helper()
	var messages []map[string]any
	for _, c := range s.answered(calls) {
		if c.status != http.StatusNoContent {
			s.t.Fatalf("answer %d %s to\n%s", c.status, c.answer, c.request)
		}

		messages = append(messages, c.message)
	}

	return messages
}

// viewed waits for calls like stored, and compares path and referrer of the page view among them.
func (s *shop) viewed(calls int, path string, referrer any) {
	s.t.Helper()
	messages := s.stored(calls)
	i := slices.IndexFunc(messages, func(m map[string]any) bool { return m["t"] == "pageview" })
	if i < 0 || messages[i]["p"] != path || messages[i]["r"] != referrer {
		s.t.Errorf("sent %v, want a page view of %s from %v", messages, path, referrer)
	}
}

// hasViews compares all stored page views, in any order, with lines such as "/path 1500ms 90%" and
// "/path 0ms 0% manual".
func (s *shop) hasViews(want ...string) {
	s.t.Helper()
	got := []string{}
	for _, row := range s.Views(s.site) {
		line := fmt.Sprintf("%s %dms %d%%", row.Path, row.EngagedMS, row.Scroll)

		if row.Manual {
			line += " manual"
		}

		got = append(got, line)
	}

	s.same("page views", got, want)
}

// hasEvents compares all stored events, in any order, with lines such as
// `/path name {"property":"value"}`.
func (s *shop) hasEvents(want ...string) {
	s.t.Helper()
	got := []string{}
	for _, row := range s.Events(s.site) {
		got = append(got, strings.TrimSpace(row.Path+" "+row.Name+" "+row.Properties))
	}
	s.same("events", got, want)
}

func (s *shop) same(what string, got, want []string) {
	s.t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		s.t.Errorf("stored %s\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// refused stops the data plane and compares its counts of refused and ignored calls by code.
func (s *shop) refused(want map[string]int64) {
	s.t.Helper()

	s.answered(0)
	s.Stop()
	counts, err := ingest.New(s.DB).RejectionsOfSites(s.t.Context(), []model.SiteID{s.site.ID}, 0)
	rejections := counts[s.site.ID]

	testkit.NoError(s.t, err)

	got := map[string]int64{}
	for _, r := range rejections {
		got[r.Code] += r.Count
	}

	if !maps.Equal(got, want) {
		s.t.Errorf("refused and ignored calls %v, want %v", got, want)
	}
}

// visit returns what is stored of a row's visit, without its times.
func visit(v exports.Visit) string {
	line := fmt.Sprintf("%s; referrer %q", v.Channel, v.Referrer)
	for _, value := range []struct{ name, value string }{
		{"source", v.Source}, {"medium", v.Medium}, {"campaign", v.Campaign.Name}, {"content", v.Content}, {"term", v.Term},
		{"gclid", v.Gclid}, {"gbraid", v.Gbraid}, {"wbraid", v.Wbraid}, {"fbclid", v.Fbclid}, {"msclkid", v.Msclkid},
	} {
		if value.value != "" {
			line += "; " + value.name + " " + value.value
		}
	}

	return line
}
