package script_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
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
	assets "github.com/tallygate/tallygate/frontend-assets"
	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/openapitest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/web"
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
	t       *testing.T
	db      *db.DB
	site    *model.Site
	browser *browsertest.Browser
	reports chan string // queries that pages sent by fetch("/report?…")
	stop    func()      // stops the data plane, which stores its counts of refused calls

	pages   map[string]string // by path, the same under every host name
	headers http.Header       // of every page

	mu    sync.Mutex // guards what follows
	now   time.Time  // the data plane's clock, which only the test advances
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

	s := &shop{t: t, db: d, pages: pages, headers: http.Header{}, reports: make(chan string, 100),
		now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}

	s.register()

	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	service, err := analytics.New(analytics.Options{
		Cell:       d.DefaultCell(),
		Secret:     []byte("a secret for tests, 32 bytes or more"),
		ClientAddr: web.ClientAddr([]netip.Prefix{}),
		Now:        s.clock,
		Store:      ingest.NewHitStore(d.DefaultCell()),
		Log:        log,
	})
	if err != nil {
		t.Fatal(err)
	}

	service.Start()
	s.stop = sync.OnceFunc(func() {
		if err := service.Stop(context.Background()); err != nil {
			t.Errorf("stop the service: %v", err)
		}
	})

	t.Cleanup(s.stop)
	plane := httptest.NewServer(s.record(openapitest.Handler(t, dataplane.Handler(dataplane.Options{
		Analytics: service, Assets: assets.Handler(), Log: log,
	}))))
	t.Cleanup(plane.Close)
	site := httptest.NewServer(http.HandlerFunc(s.servePage))
	t.Cleanup(site.Close)
	s.browser = browsertest.New(t,
		browsertest.Host("data.example.test", plane.URL),
		browsertest.Host("shop.test", site.URL),
		browsertest.Host("*.shop.test", site.URL),
		browsertest.Host("shop-extra.test", site.URL),
		browsertest.Host("other.test", site.URL),
		// Browsers allow caches, service workers and prerendering on secure pages only.
		browsertest.WithFlag("unsafely-treat-insecure-origin-as-secure", "http://www.shop.test"),
	)

	return s
}

// register creates the site.
func (s *shop) register() {
	s.t.Helper()

	ctx, at := s.t.Context(), model.At(s.now)
	user, err := accounts.New(s.db).SignUp(ctx, model.SignupsOpen, model.Account{Name: "Shop", CreatedAt: at},
		model.User{Email: "owner@shop.test", PasswordHash: "-", CreatedAt: at})
	if err != nil {
		s.t.Fatal(err)
	}

	s.site, err = sites.New(s.db).Sites.CreateSite(ctx, model.Site{AccountID: user.AccountID, SiteKey: siteKey, Domain: "shop.test", Name: "Shop",
		Plan: model.PlanEnterprise, MonthlyPageviews: 10_000, CreatedAt: at})
	if err != nil {
		s.t.Fatal(err)
	}

	yes := true
	for _, err := range []error{
		sites.New(s.db).Sites.AddSiteDomain(ctx, user.AccountID, s.site.ID, "shop-extra.test"),
		sites.New(s.db).Sites.RegisterEvent(ctx, user.AccountID, s.site.ID, "signup"),
		sites.New(s.db).Sites.UpdateSite(ctx, user.AccountID, s.site.ID, sites.SiteUpdate{MeasureSiteSearch: &yes, MeasureEcommerce: &yes, AllowPseudonymousUserID: &yes}),
	} {
		if err != nil {
			s.t.Fatal(err)
		}
	}
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

		answer := send(plane, r, body)
		for began := time.Now(); answer.Code == http.StatusServiceUnavailable && time.Since(began) < browsertest.Timeout; {
			answer = send(plane, r, body)
		}

		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())

		s.mu.Lock()
		defer s.mu.Unlock()

		s.calls = append(s.calls, exchange{request.String(), message, answer.Code, answer.Body.String()})
	})
}

// send passes a request with this body to the handler.
func send(to http.Handler, r *http.Request, body []byte) *httptest.ResponseRecorder {
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	to.ServeHTTP(answer, r)
	return answer
}

// clock is the data plane's clock.
func (s *shop) clock() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// later advances the data plane's clock.
func (s *shop) later(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// open opens a page whose clock only the test advances.
func (s *shop) open(address string) *browsertest.Page {
	s.t.Helper()
	page := s.browser.NewPage()
	page.Before(clock)
	page.Goto(address)
	return page
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

// everything returns the range of all rows of the site.
func (s *shop) everything() exports.Range {
	return exports.Range{SiteID: s.site.ID, To: 1 << 51, Limit: 10_000}
}

// views returns all stored page views.
func (s *shop) views() []exports.Pageview {
	s.t.Helper()
	var rows []exports.Pageview
	err := exports.New(s.db).ExportPageviews(s.t.Context(), s.everything(), func(row *exports.Pageview) error { rows = append(rows, *row); return nil })
	if err != nil {
		s.t.Fatal(err)
	}
	return rows
}

// events returns all stored events.
func (s *shop) events() []exports.Event {
	s.t.Helper()
	var rows []exports.Event
	err := exports.New(s.db).ExportEvents(s.t.Context(), s.everything(), func(row *exports.Event) error { rows = append(rows, *row); return nil })
	if err != nil {
		s.t.Fatal(err)
	}
	return rows
}

// hasViews compares all stored page views, in any order, with lines such as "/path 1500ms 90%" and
// "/path 0ms 0% manual".
func (s *shop) hasViews(want ...string) {
	s.t.Helper()
	got := []string{}
	for _, row := range s.views() {
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
	for _, row := range s.events() {
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
	s.stop()
	counts, err := ingest.New(s.db).RejectionsOfSites(s.t.Context(), []model.SiteID{s.site.ID}, 0)
	rejections := counts[s.site.ID]

	if err != nil {
		s.t.Fatal(err)
	}

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
