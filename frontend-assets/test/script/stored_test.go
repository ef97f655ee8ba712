package script_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// tall is the start of a page of ten screens.
const tall = `<body style="margin: 0"><div id=content style="height: 1000vh"></div>`

// stub is the script that owners put before the tag to call svc at any time.
const stub = `window.svc = window.svc || function () { (svc.q = svc.q || []).push(arguments) };`

func TestStoredPageviewsChromium(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newShop(t, d, map[string]string{
			"/from":  `<meta name=referrer content=unsafe-url><a href="http://www.shop.test/start?utm_source=News&utm_medium=E-Mail&secret=1#x">to the shop</a>`,
			"/start": tag(""), "/": tag(""), "/away": "no script here",
		})

		page := s.browser.NewPage()
		page.Before(clock)
		page.Goto("http://other.test/from?private=1")
		page.Click("a")
		s.viewed(1, "/start", "http://other.test/from")
		s.hasViews("/start 0ms 0%")

		page.Eval("later(1000), history.pushState(0, '', '/one?secret=2')", nil)
		s.viewed(2, "/one", "http://www.shop.test/start")

		// Changes of query and fragment are no page views.
		page.Eval("later(500), history.pushState(0, '', '/one?secret=3'), location.hash = 'y', history.replaceState(0, '', '?z'), history.replaceState(1, '')", nil)
		page.Eval("later(1500), history.replaceState(0, '', '/two')", nil)
		s.viewed(2, "/two", "http://www.shop.test/one")
		page.Eval("later(3000), new Promise(done => { addEventListener('popstate', done, {once: true}); history.go(-2) })", nil)
		s.viewed(2, "/one", "http://www.shop.test/two")
		s.hasViews("/start 1000ms 100%", "/one 2000ms 100%", "/two 3000ms 100%", "/one 0ms 0%")

		// The script drops the first manual page view, within a second of the automatic one. The
		// server drops the second one, because its clock has not advanced.
		page.Eval("later(500), svc('pageview')", nil)
		page.Eval("later(600), svc('pageview')", nil)
		s.viewed(2, "/one", "http://www.shop.test/one")
		s.hasViews("/start 1000ms 100%", "/one 2000ms 100%", "/two 3000ms 100%", "/one 1100ms 100%")
		s.Clock.Add(2 * time.Second)
		page.Eval("svc('pageview')", nil)
		s.stored(1)

		// Back from the back/forward cache.
		page.Eval("window.kept = 1, later(4000), location.href = '/away'", nil)
		page.WaitFor("location.pathname === '/away'")
		s.stored(1)
		page.Eval("history.back()", nil)
		page.WaitFor("window.kept")
		s.viewed(1, "/one", "http://www.shop.test/one")
		page.Eval("later(5000)", nil)
		page.Goto("about:blank")
		s.stored(1)
		s.hasViews("/start 1000ms 100%", "/one 2000ms 100%", "/two 3000ms 100%", "/one 1100ms 100%", "/one 4000ms 100% manual", "/one 5000ms 100%")

		// All page views belong to one visit from the other site. The site's own pages do not count
		// as referrers.
		ids := map[int64]bool{}
		for _, view := range s.Views(s.site) {
			ids[view.ID] = true
			if got, want := visit(view.Visit), `email; referrer "other.test/from"; source news; medium e-mail`; got != want || view.Pageviews != 6 {
				t.Errorf("%s: visit of %d page views, %s; want 6, %s", view.Path, view.Pageviews, got, want)
			}
			if view.Language != "en" || view.WidthRange < 0 {
				t.Errorf("%s: language %q, width range %d", view.Path, view.Language, view.WidthRange)
			}
		}

		testkit.Equal(t, len(ids), 6, "page view ids")

		// Half an hour later a new visit starts. It includes the site's other names, but no other
		// domains.
		s.Clock.Add(31 * time.Minute)
		s.open("http://shop.test/?gclid=Ab-1")
		s.stored(1)
		s.open("http://shop-extra.test/")
		s.stored(1)
		s.open("http://deep.sub.shop.test/start")
		s.stored(1)
		s.open("http://other.test/")

		if c := s.answered(1)[0]; c.status != 403 {
			t.Errorf("from a foreign domain: status %d", c.status)
		}

		views := s.Views(s.site)
		testkit.Require(t, len(views), 9, "page views")

		for _, view := range views[6:] {
			if got, want := visit(view.Visit), `paid search; referrer ""; source google; medium cpc; gclid Ab-1`; got != want || view.Pageviews != 3 {
				t.Errorf("%s: visit of %d page views, %s; want 3, %s", view.Path, view.Pageviews, got, want)
			}
		}

		s.refused(map[string]int64{"duplicate_pageview": 1, "domain_not_allowed": 1})
	})
}

func TestStoredPrerenderedPageChromium(t *testing.T) {
	s := newShop(t, dbtest.Open(t, dbtest.SQLiteURL(t)), map[string]string{
		"/": "",
		"/start": `<script type=speculationrules>{"prerender": [{"source": "list", "urls": ["/ahead", "/never"], "eagerness": "immediate"}]}</script>
			<script>new BroadcastChannel("go").onmessage = () => { location.href = "/ahead" }</script>`,
		"/ahead": tag("") + `<script>addEventListener("load", () => fetch("/report?prerendering=" + document.prerendering));
			document.addEventListener("prerenderingchange", () => fetch("/report?activated"))</script>`,
		"/never": tag("") + `<script>addEventListener("load", () => fetch("/report?prerendering=" + document.prerendering))</script>`,
	})

	// Chromium prerenders nothing for a tab with a test driver.
	page := s.browser.Open("http://www.shop.test/")
	page.Eval(`window.open("/start", "_blank", "noopener")`, nil)
	s.reported("prerendering=true")
	s.reported("prerendering=true")
	s.answered(0)
	page.Eval(`new BroadcastChannel("go").postMessage(1)`, nil)
	s.reported("activated")
	s.stored(1)
	s.hasViews("/ahead 0ms 0%")
}

func TestStoredEngagementChromium(t *testing.T) {
	s := newShop(t, dbtest.Open(t, dbtest.SQLiteURL(t)), map[string]string{
		"/":        tag("") + tall + `<a href="/short" style="position: fixed; top: 0">next</a>`,
		"/short":   tag("") + `short`,
		"/growing": tag("") + `<body style="margin: 0"><div id=content style="height: 200vh"></div>`,
		"/behind":  tag("") + tall,
		"/focus":   tag("") + `<iframe srcdoc="<input>"></iframe>`,
	})

	scroll := func(screens string) string {
		return `new Promise(done => { addEventListener("scroll", () => requestAnimationFrame(() => done()), {once: true}); scrollTo(0, innerHeight * ` + screens + `) })`
	}

	// Hidden, shown, hidden, and left by a click: the times add up, and the deepest position
	// counts.
	page := s.open("http://www.shop.test/")
	s.stored(1)
	page.Eval(scroll("4"), nil)
	page.Eval("later(5000)", nil)
	elsewhere := s.browser.NewPage()
	s.stored(1)
	s.hasViews("/ 5000ms 50%")

	// Time while the page is hidden does not count.
	page.Eval("later(3600000), dispatchEvent(new Event('pagehide'))", nil)
	page.Front()
	page.WaitFor("!document.hidden")
	page.Eval(scroll("1"), nil)
	page.Eval("later(2000)", nil)
	elsewhere.Front()
	s.stored(1)
	page.Front()
	page.WaitFor("!document.hidden")
	page.Eval(`later(300), addEventListener("click", () => later(200))`, nil)
	page.Click("a")
	page.WaitFor("location.pathname === '/short'")

	// The click sends engagement, the unload shortly after it sends none, and the next page is
	// viewed.
	s.stored(2)
	s.hasViews("/ 7300ms 50%", "/short 0ms 0%")

	// A page shorter than its window counts as seen completely. Leaving fires two events, which
	// cause one message.
	page.Eval("later(400)", nil)
	page.Close()
	elsewhere.Close()
	s.stored(1)
	s.hasViews("/ 7300ms 50%", "/short 400ms 100%")

	// The percentage of a page that grows goes down. A change of route ends its engagement and
	// starts the next one's.
	page = s.open("http://shop.test/growing")
	s.stored(1)
	page.Eval(scroll("0.5"), nil)
	page.Eval(`content.style.height = "600vh", later(600), history.pushState(0, "", "/route")`, nil)
	s.stored(2)
	page.Eval("scrollTo(0, 0), later(700)", nil)
	page.Goto("about:blank")
	s.stored(1)
	s.hasViews("/ 7300ms 50%", "/short 400ms 100%", "/growing 600ms 25%", "/route 700ms 17%")

	// In a tab that is hidden at first, the time counts from when it becomes visible.
	front := s.browser.NewPage()
	page = s.browser.NewPage()
	page.Before(clock)
	front.Front()
	page.WaitFor("document.hidden")
	page.Goto("http://shop.test/behind")
	s.stored(1)
	page.Eval("later(60000)", nil)
	page.Front()
	page.WaitFor("!document.hidden")
	page.Eval("later(800)", nil)
	page.Goto("about:blank")
	s.stored(1)

	// A page counts as in view without keyboard focus. Opening and closing another tab causes one
	// message.
	page = s.browser.NewPage()
	page.Before(clock + "document.hasFocus = () => false")
	page.Goto("http://shop.test/focus")
	s.stored(1)
	page.Eval(`new Promise(done => { addEventListener("blur", done, {once: true}); focus(); frames[0].document.querySelector("input").focus() })`, nil)
	page.Eval("later(900)", nil)
	elsewhere = s.browser.NewPage()
	s.stored(1)
	elsewhere.Close()
	page.Close()

	// The next page takes long to load.
	page = s.open("http://www.shop.test/")
	s.stored(1)
	page.Eval(`later(1000), addEventListener("click", () => later(1500))`, nil)
	page.Click("a")
	page.WaitFor("location.pathname === '/short'")
	s.stored(3)
	page.Close()
	s.hasViews("/ 7300ms 50%", "/short 400ms 100%", "/growing 600ms 25%", "/route 700ms 17%", "/behind 800ms 10%", "/focus 900ms 100%",
		"/ 2500ms 10%", "/short 0ms 0%")

	s.refused(map[string]int64{})
}

func TestStoredEventsChromium(t *testing.T) {
	s := newShop(t, dbtest.Open(t, dbtest.SQLiteURL(t)), map[string]string{
		"/": `<script>` + stub + `svc("event", "signup", {from: "before"})</script>
			<script>` + stub + `svc("identify", "` + userID + `"); svc("event", "signup", {from: "another script"})</script>` + tag("") +
			`<script defer src="data:text/javascript,svc('event', 'signup', {from: 'after'})"></script>
			<script type=module>svc("event", "signup", {from: "module"})</script>`,
		"/person": `<script>` + stub + `svc("identify", "someone@shop.test"); svc("event", "signup")</script>` + tag(""),
	})

	page := s.browser.NewPage()
	page.Before(`const order = [], send = navigator.sendBeacon;
		navigator.sendBeacon = (url, body) => { const {t, m} = JSON.parse(body); order.push(m ? m.from : t); return send.call(navigator, url, body) }`)

	page.Goto("http://www.shop.test/")

	for _, message := range s.stored(5) {
		testkit.Equal(t, message["d"], userID, "%v is not of the identified visitor", message)
	}

	var order string
	page.Eval("order.join()", &order)

	if want := "pageview,before,another script,after,module"; order != want {
		t.Errorf("sent in the order %s, want %s", order, want)
	}

	s.hasViews("/ 0ms 0%")
	s.hasEvents(`/ signup {"from":"before"}`, `/ signup {"from":"another script"}`, `/ signup {"from":"after"}`, `/ signup {"from":"module"}`)

	if view := s.Views(s.site)[0]; len(view.UserID) != 16 {
		t.Errorf("the visit has the user id %x, want the identified one", view.UserID)
	}

	page.Eval(`svc.q.push(["event", "signup"]), svc("event", "signup", {text: "x".repeat(5000)})`, nil)
	s.stored(2)
	page.Eval(`svc("event", "unheard-of"), svc("event", "Bad Name"), svc("event"), svc("event", 7), svc(), svc("nonsense")`, nil)
	s.answered(2)
	s.hasEvents(`/ signup {"from":"before"}`, `/ signup {"from":"another script"}`, `/ signup {"from":"after"}`, `/ signup {"from":"module"}`,
		`/ signup`, `/ signup`)

	// A value that is not a hash is never sent and sets no user id. Half an hour later a new visit
	// starts.
	page.Close()
	s.answered(1)
	s.Clock.Add(31 * time.Minute)
	s.open("http://www.shop.test/person").Close()

	for _, call := range s.answered(2) {
		if call.status != 204 || strings.Contains(call.request, "someone") || call.message["d"] != nil {
			t.Errorf("status %d, %s", call.status, call.request)
		}
	}

	if views := s.Views(s.site); len(views) != 2 || len(views[1].UserID) != 0 {
		t.Errorf("page views %+v, want a second one without a user id", views)
	}

	s.refused(map[string]int64{"unknown_event": 2})
}

func TestStoredSalesChromium(t *testing.T) {
	s := newShop(t, dbtest.Open(t, dbtest.SQLiteURL(t)), map[string]string{"/": tag("")})
	page := s.open("http://www.shop.test/")
	s.stored(1)
	sale := func(id string, items int) {
		page.Eval(fmt.Sprintf(`svc("event", "purchase", {transaction_id: %q, value: 19.9, currency: "EUR", items: Array(%d).fill({item_id: "a", item_name: "y".repeat(60)})})`, id, items), nil)
		s.stored(1)
	}

	sale("two items", 2)

	// A repeated transaction counts once.
	sale("two items", 2)
	sale("more than 4 KB", 70)
	sale("more than 8 KB", 1000)
	page.Eval(`svc("event", "view_item", {item_id: "a", price: 9.95}), svc("event", "view_item")`, nil)
	s.answered(2)
	page.Eval(`svc("event", "refund", {transaction_id: "r1", value: 5, currency: "EUR"})`, nil)
	s.stored(1)

	got := []string{}
	for _, e := range s.Events(s.site) {
		line := e.Name

		if e.Value != nil {
			line = fmt.Sprintf("%s %s %s %s", e.Name, e.TransactionID, e.Value, e.Currency)
		}

		got = append(got, strings.TrimSpace(line+" "+e.Properties))
	}

	item := `{"item_id":"a","item_name":"` + letters(60) + `"}`
	s.same("events", got, []string{`purchase two items 19.9 EUR {"items":[` + item + `,` + item + `]}`, "purchase more than 4 KB 19.9 EUR",
		"purchase more than 8 KB 19.9 EUR",
		`view_item {"item_id":"a","price":9.95}`, "refund r1 -5 EUR"})

	s.refused(map[string]int64{"duplicate_transaction": 1, "bad_event": 1})
}
