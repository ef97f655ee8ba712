package script_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestStoredAddressesArePathsOnlyChromium(t *testing.T) {
	databaseURL := dbtest.SQLiteURL(t)
	s := newShop(t, dbtest.Open(t, databaseURL), map[string]string{
		"/from": `<meta name=referrer content=unsafe-url><a href="http://www.shop.test/visible-path?utm_source=visible-source&token=s3cr3t#s3cr3t">x</a>`,
		"/visible-path": tag("data-search") + `<a id=out href="http://visible-host.test/s3cr3t?s3cr3t#s3cr3t" onclick="return false">x</a>
			<a id=file href="/s3cr3t/visible.pdf?s3cr3t#s3cr3t" onclick="return false">x</a>
			<a id=next href="/next?s3cr3t#s3cr3t">x</a>`,
		"/next": tag(""),
	})

	page := s.browser.NewPage()
	page.Before(clock)
	page.Goto("http://other.test/from?s3cr3t#s3cr3t")
	page.Click("a")
	s.stored(1)
	page.Eval(`out.click(), file.click(), svc("event", "signup")`, nil)
	s.stored(3)
	page.Eval(`later(1000), history.pushState({s3cr3t: 1}, "", "/visible-path/2?s3cr3t#s3cr3t"), document.title = "s3cr3t"`, nil)
	s.stored(2)
	page.Eval(`later(2000)`, nil)
	page.Click("#next")
	s.stored(2)
	page.Eval(`later(3000), svc("pageview")`, nil)
	s.stored(2)
	page.Close()
	s.hasViews("/visible-path 1000ms 100%", "/visible-path/2 2000ms 100%", "/next 3000ms 100%")
	s.hasEvents(`/visible-path outbound_click {"host":"visible-host.test"}`, `/visible-path file_download {"file":"visible.pdf","ext":"pdf"}`,
		"/visible-path signup")
	s.refused(map[string]int64{"duplicate_pageview": 1})

	// Search the requests, headers included, and the database's files.
	var everything strings.Builder
	s.mu.Lock()
	for _, call := range s.calls {
		everything.WriteString(call.request)
	}

	s.mu.Unlock()

	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(strings.TrimPrefix(databaseURL, "sqlite:") + suffix)
		if err != nil && suffix == "" {
			t.Fatal(err)
		}

		everything.Write(content)
	}

	all := everything.String()
	if i := strings.Index(all, "s3cr3t"); i >= 0 {
		t.Errorf("a part of an address was sent: …%q…", all[max(0, i-200):min(len(all), i+50)])
	}

	for _, visible := range []string{"visible-path", "visible-source", "visible-host.test", "visible.pdf"} {
		if strings.Count(all, visible) < 2 {
			t.Errorf("%q is not in both the requests and the database, so the search finds nothing", visible)
		}
	}
}

func TestStoredByAGoodGuestChromium(t *testing.T) {
	without := fmt.Sprintf(`<script defer src="%s/svc.js" data-site="0123"></script>`, dataOrigin)
	s := newShop(t, dbtest.Open(t, dbtest.SQLiteURL(t)), map[string]string{
		"/":       `<body style="height: 9000px"><a id=file href="/x.pdf" onclick="return false">x</a>` + tag("data-search"),
		"/frame":  `<iframe src="http://www.shop.test/inner?private=1"></iframe>`,
		"/inner":  tag(""),
		"/twice":  tag("") + tag("") + tag(`data-auto="off"`),
		"/key":    without,
		"/nokey":  strings.Replace(without, `data-site="0123"`, "", 1),
		"/unsure": strings.ReplaceAll(tag(""), siteKey, strings.Repeat("f", 32)),
	})

	consoleOf := func(page *browsertest.Page) string { return fmt.Sprint(page.Console()) }

	// Nothing is stored on the device. www.shop.test counts as secure, so all kinds of storage are
	// available.
	page := s.open("http://www.shop.test/?q=boots")
	s.stored(2)
	page.Eval(`svc("identify", "`+userID+
		`"), svc("event", "signup"), file.click(), later(1000), history.pushState(0, "", "/two"), scrollTo(0, 9000)`, nil)
	s.stored(5)
	var storage string
	page.Eval(`(async () => JSON.stringify([isSecureContext, document.cookie, (await cookieStore.getAll()).length, localStorage.length, sessionStorage.length,
		(await indexedDB.databases()).length, (await caches.keys()).length, (await navigator.serviceWorker.getRegistrations()).length,
		(await navigator.storage.estimate()).usage, history.state, name]))()`, &storage)

	if want := `[true,"",0,0,0,0,0,0,0,0,""]`; storage != want {
		t.Errorf("secure, cookies twice, localStorage, sessionStorage, IndexedDB, caches, service workers, usage, history state, window name:\n%s, want\n%s", storage, want)
	}

	var globals string
	page.Eval(`(() => { const frame = document.body.appendChild(document.createElement("iframe")).contentWindow;
		return Object.getOwnPropertyNames(window).filter(name => !(name in frame) && !["0", "later"].includes(name)).join() })()`, &globals)

	testkit.Equal(t, globals, "svc", "globals")

	page.Close()
	s.stored(0)

	// In a frame of another site's page, and three copies on one page.
	page = s.browser.Open("http://other.test/frame?private=1")
	s.stored(1)
	page.Eval(`document.querySelector("iframe").remove()`, nil)
	s.stored(1)
	page.Close()
	page = s.open("http://www.shop.test/twice")
	s.stored(1)
	page.Eval(`svc("event", "signup"), later(1000), history.pushState(0, "", "/twice/2")`, nil)
	s.stored(3)
	page.Close()

	// A malformed key logs one warning. The server refuses an unknown key.
	for _, path := range []string{"/key", "/nokey"} {
		page = s.open("http://www.shop.test" + path)
		page.Eval(`svc("event", "signup"), svc("pageview")`, nil)

		if console := page.Console(); len(console) != 1 || console[0].Level != "warning" || !strings.Contains(console[0].Text, "data-site") {
			t.Errorf("%s: console %v, want one warning", path, console)
		}

		page.Close()
	}

	page = s.open("http://www.shop.test/unsure")

	if call := s.answered(1)[0]; call.status != 404 {
		t.Errorf("unknown key: status %d", call.status)
	}

	page.Close()

	// Under the contract's Content-Security-Policy, with each way of sending.
	s.headers.Set("Content-Security-Policy",
		"default-src 'none'; img-src data:; script-src http://data.example.test; connect-src http://data.example.test")

	for name, script := range map[string]string{
		"beacon":               "",
		"fetch":                asFirefox,
		"beacon of an old one": withoutKeepalive,
		"no beacon":            withoutBeacon,
	} {
		page := s.browser.NewPage()
		page.Before(clock + script)
		page.Goto("http://www.shop.test/inner")
		s.stored(1)
		page.Eval("later(500)", nil)
		page.Goto("about:blank")
		s.stored(1)

		testkit.Equal(t, consoleOf(page), "[]", "%s: console", name)

		page.Close()
	}

	inner := 0
	for _, view := range s.Views(s.site) {
		if view.Path == "/inner" && view.EngagedMS >= 1 {
			inner++
		}
	}

	if views := s.Views(s.site); inner != 5 || len(views) != 9 {
		t.Errorf("%d of 5 views of /inner with their time, %d of 9 views", inner, len(views))
	}

	s.hasEvents(`/ site_search {"term":"boots"}`, "/ signup", `/ file_download {"file":"x.pdf","ext":"pdf"}`, `/two scroll {"percent":90}`,
		"/twice signup")
	s.refused(map[string]int64{})
}

// waitForLine waits for a line in the page's console that has all parts.
func waitForLine(t *testing.T, page *browsertest.Page, parts ...string) {
	t.Helper()
	testkit.AwaitState(t, fmt.Sprintf("a line of the console with %q", parts), func() (string, bool) {
		console := page.Console()
		return fmt.Sprint(console), slices.ContainsFunc(console, func(line browsertest.Message) bool {
			return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line.Text, part) })
		})
	})
}

// TestRefusedOriginIsOneLineChromium checks that a page of a foreign domain gets one line in its
// console for each message, which has the status, and none about CORS.
func TestRefusedOriginIsOneLineChromium(t *testing.T) {
	s := newShop(t, dbtest.Open(t, dbtest.SQLiteURL(t)), map[string]string{"/": tag("")})
	for browser, as := range map[string]string{"Chromium": "", "Firefox": asFirefox} {
		page := s.browser.NewPage()
		page.Before(as)
		page.Goto("http://other.test/")

		if call := s.answered(1)[0]; call.status != http.StatusForbidden {
			t.Errorf("%s: status %d, want 403", browser, call.status)
		}

		waitForLine(t, page, "403")
		page.Eval(`console.log("end")`, nil)
		waitForLine(t, page, "end")
		if console := page.Console(); len(console) != 2 {
			t.Errorf("%s: console %v, want one line before the end", browser, console)
		}

		page.Close()
		s.answered(1)
	}
}

func TestStoredAsDebugSaysChromium(t *testing.T) {
	s := newShop(t, dbtest.Open(t, dbtest.SQLiteURL(t)), map[string]string{"/": tag(""),
		"/unsure": strings.ReplaceAll(tag(""), siteKey, strings.Repeat("f", 32))})
	testkit.NoError(t, sites.New(s.DB).Sites.SetSitePlan(t.Context(), s.site.ID, model.PlanEnterprise, new(int64(2))))

	page := s.open("http://www.shop.test/?svc_debug")
	s.stored(1)
	waitForLine(t, page, "svc ", `"t":"pageview"`, " 204")
	page.Eval(`svc("event", "signup")`, nil)
	s.stored(1)
	waitForLine(t, page, "svc ", `"e":"signup"`, " 204")
	page.Eval(`svc("event", "unheard-of")`, nil)
	s.answered(1)
	waitForLine(t, page, "svc ", `"e":"unheard-of"`, " 400", "unknown_event")
	page.Eval(`svc("event", "signup", {again: 1})`, nil)
	s.answered(1)
	waitForLine(t, page, "svc ", `{"again":1}`, " 429", "quota_exceeded")

	page = s.open("http://other.test/?svc_debug")

	if call := s.answered(1)[0]; call.status != 403 {
		t.Errorf("from a foreign domain: status %d", call.status)
	}

	waitForLine(t, page, "svc ", `"t":"pageview"`, " 403", "domain_not_allowed")
	page = s.open("http://www.shop.test/unsure?svc_debug")

	if call := s.answered(1)[0]; call.status != 404 {
		t.Errorf("unknown key: status %d", call.status)
	}

	waitForLine(t, page, "svc ", `"t":"pageview"`, " 404", "unknown_site_key")

	page = s.browser.NewPage()
	page.Before(`Object.defineProperty(navigator, "doNotTrack", {get: () => "1"})`)
	page.Goto("http://www.shop.test/?svc_debug")
	waitForLine(t, page, "svc ", "sends nothing", "Do Not Track")

	// Without svc_debug in the address nothing is logged.
	page = s.open("http://www.shop.test/?svc_debugging=1")
	s.answered(1)
	page.Eval("0", nil)

	if console := page.Console(); strings.Contains(fmt.Sprint(console), "svc ") {
		t.Errorf("console %v", console)
	}

	s.hasEvents("/ signup")
	s.refused(map[string]int64{"unknown_event": 1, "quota_exceeded": 2, "domain_not_allowed": 1})
}
