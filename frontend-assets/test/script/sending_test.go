package script_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

const userID = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

func TestChromiumQueueIsReplayedInOrder(t *testing.T) {
	w := newWorld(t, map[string]string{"/": `<script>
		window.svc = window.svc || function () { (svc.q = svc.q || []).push(arguments) };
		window.stub = svc;
		svc("event", "first", {n: 1}); svc("nonsense"); svc("event"); svc("identify", "` + strings.ToUpper(userID) + `"); svc("event", "second");
		const order = []; const send = navigator.sendBeacon;
		navigator.sendBeacon = (url, body) => { order.push(JSON.parse(body).e || JSON.parse(body).t); return send.call(navigator, url, body) }
		</script>` + tag("")})

	page := w.browser.Open("http://shop.example.test/")
	sent := w.nextOf("pageview", "first", "second")

	// The first page view already carries the user id.
	w.expect(page, sent[0], `{"t": "pageview", "p": "/", "r": null, "d": "`+userID+`"}`)
	w.expect(page, sent[1], `{"t": "event", "e": "first", "m": {"n": 1}, "p": "/", "r": null, "d": "`+userID+`"}`)
	w.expect(page, sent[2], `{"t": "event", "e": "second", "p": "/", "r": null, "d": "`+userID+`"}`)

	// Calls through the stub still work.
	page.Eval(`stub("event", "third")`, nil)
	w.nextOf("third")
	var order string
	page.Eval("order.join()", &order)

	testkit.Equal(t, order, "pageview,first,second,third", "sent in the order")

	w.nothingBeyond(page, 4)

	for _, h := range sent {
		testkit.Equal(t, h.body["i"], sent[0].body["i"], "%s has another page view id", h)
	}
}

func TestChromiumEvents(t *testing.T) {
	w := newWorld(t, map[string]string{"/": tag("")})
	page := w.browser.Open("http://shop.example.test/?utm_source=a#x")
	w.next()
	common := `"t": "event", "e": "signup", "p": "/", "r": null, "u": {"source": "a"}`

	// With the rest of the message this is slightly less than 8 KB.
	wide := strings.Repeat("ä", 3900)
	for call, want := range map[string]string{
		`svc("event", "signup")`:                                   `{` + common + `}`,
		`svc("event", "signup", {plan: "pro", n: 2, x: [1]})`:      `{` + common + `, "m": {"plan": "pro", "n": 2, "x": [1]}}`,
		`svc("event", "signup", null)`:                             `{` + common + `}`,
		`svc("event", "signup", "text")`:                           `{` + common + `}`,
		`svc("event", "signup", {a: "` + wide + `"})`:              `{` + common + `, "m": {"a": "` + wide + `"}}`,
		`svc("event", "signup", {a: "` + wide + wide[:400] + `"})`: `{` + common + `}`,
		`svc("event", "signup", {a: "x".repeat(100000)}), 1`:       `{` + common + `}`,
		// The fields that a sale needs are kept.
		`svc("event", "signup", {id: 1, items: Array(4000).fill({})})`: `{` + common + `, "m": {"id": 1}}`,
		`window.svc.apply(null, ["event", "signup", {n: NaN}])`:        `{` + common + `, "m": {"n": null}}`,
		// If the properties cannot be encoded, the event is sent without them.
		`svc("event", "signup", (() => { const a = {}; a.a = a; return a })())`:                        `{` + common + `}`,
		`svc("event", "signup", {id: 1, n: 10n})`:                                                      `{` + common + `}`,
		`svc("event", "signup", {toJSON() { throw new Error("no") }})`:                                 `{` + common + `}`,
		`svc("event", "signup", (() => { const a = {id: 1, items: []}; a.items[0] = a; return a })())`: `{` + common + `, "m": {"id": 1}}`,
	} {
		page.Eval(call, nil)
		w.expect(page, w.next(), want)
	}

	sent := len(page.Requests())
	page.Eval(`svc(), svc("event"), svc("event", 7), svc("event", {}), svc(null)`, nil)

	if got := len(page.Requests()); got != sent {
		t.Errorf("%d requests for invalid calls", got-sent)
	}
	if got := page.Console(); len(got) > 0 {
		t.Errorf("console %v", got)
	}
}

// TestChromiumEventsBesideAnOldLibrary checks that a toJSON of all arrays, objects and texts
// changes no message. Dates and objects of the page's own classes keep theirs.
func TestChromiumEventsBesideAnOldLibrary(t *testing.T) {
	w := newWorld(t, map[string]string{"/": `<script>
		for (const kind of [Array, Object, String, Number]) kind.prototype.toJSON = function () { return "text of a " + kind.name }
		class Price { toJSON() { return [9.5] } }</script>` + tag("")})
	page := w.browser.Open("http://shop.example.test/?utm_source=a")
	w.expect(page, w.next(), `{"t": "pageview", "p": "/", "r": null, "u": {"source": "a"}}`)

	page.Eval(`svc("event", "purchase", {value: 10, currency: "EUR", items: [{item_id: "a", tags: ["b", ["c"]], at: new Date(0), price: new Price()}, null]})`, nil)
	w.expect(page, w.next(), `{"t": "event", "e": "purchase", "p": "/", "r": null, "u": {"source": "a"}, "m": {"value": 10, "currency": "EUR",
		"items": [{"item_id": "a", "tags": ["b", ["c"]], "at": "1970-01-01T00:00:00.000Z", "price": [9.5]}, null]}}`)
}

func TestChromiumIdentify(t *testing.T) {
	w := newWorld(t, map[string]string{"/": tag("")})
	page := w.browser.Open("http://shop.example.test/")
	w.next()

	for _, test := range []struct{ value, want string }{
		{`"` + userID + `"`, userID},
		{`"` + strings.ToUpper(userID) + `"`, userID},
		{`"someone@example.org"`, ""},
		{`"` + userID + `"`, userID},
		{`""`, ""},
		{`"` + userID + `0"`, ""},
		{`undefined`, ""},
		{`{}`, ""},
	} {
		page.Eval(fmt.Sprintf(`svc("identify", %s), svc("event", "x")`, test.value), nil)
		h := w.next()
		if got, _ := h.body["d"].(string); got != test.want || strings.Contains(h.raw, "someone") {
			t.Errorf("identify %s: sent %s, want d = %q", test.value, h, test.want)
		}
	}
}

// Scripts that make Chromium pass for another browser.
const (
	asFirefox = `Object.defineProperty(Navigator.prototype, "vendor", {value: ""});`

	// Firefox before 133 has no keepalive.
	withoutKeepalive = asFirefox + `delete Request.prototype.keepalive;`

	withoutBeacon = `Object.defineProperty(navigator, "sendBeacon", {value: undefined});`
	fullBeacon    = `navigator.sendBeacon = () => { ways.push("refused"); return false };`
)

// TestChromiumWaysToSend checks by which function a message is sent.
func TestChromiumWaysToSend(t *testing.T) {
	w := newWorld(t, map[string]string{"/": tag("")})
	for _, test := range []struct{ name, script, want string }{
		{"Chromium", ``, "beacon"},
		{"Chromium without beacons", withoutBeacon, "fetch"},
		{"Firefox", asFirefox, "fetch"},
		{"Firefox without keepalive", withoutKeepalive, "beacon"},
		{"neither outlives the page", withoutKeepalive + withoutBeacon, "request"},
		{"too much in flight in Chromium", fullBeacon, "refused,request"},
		{"too much in flight in older Firefox", withoutKeepalive + fullBeacon, "refused,request"},
	} {
		name := test.name
		page := w.browser.NewPage()
		page.Before(`window.ways = [];` + browsertest.ObserveFetch(`(...all) => { ways.push("fetch"); return get(...all) }`) + `
			{ const send = navigator.sendBeacon; navigator.sendBeacon = (...all) => { ways.push("beacon"); return send.apply(navigator, all) } }
			{ const send = XMLHttpRequest.prototype.send; XMLHttpRequest.prototype.send = function (body) { ways.push("request"); send.call(this, body) } }
			document.cookie = "session=1"; ` + test.script)

		page.Goto("http://shop.example.test/")
		h := w.next()
		for h.body["t"] == "engagement" { // of the page before, by a request
			h = w.next()
		}
		w.expect(page, h, `{"t": "pageview", "p": "/", "r": null}`)

		testkit.Equal(t, page.Text("ways.join()"), test.want, "%s: sent by", name)
		testkit.Equal(t, h.header.Get("Cookie"), "", "%s: Cookie", name)

		for _, r := range page.Requests() {
			if r.Method == "OPTIONS" {
				t.Errorf("%s: preflight to %s", name, r.URL)
			}
		}

		if got := page.Console(); len(got) > 0 {
			t.Errorf("%s: console %v", name, got)
		}

		// The last message outlives its tab, except by a request, which may be lost.
		page.Close()
		if !strings.Contains(test.want, "request") {
			w.nextOf("engagement")
		}
	}
}

// TestChromiumReplacedFetch checks that pages with a replaced fetch send each message once,
// without a preflight, also the last one.
func TestChromiumReplacedFetch(t *testing.T) {
	w := newWorld(t, map[string]string{"/": tag("")})
	for name, script := range browsertest.ReplacedFetch {
		for browser, as := range map[string]string{"Chromium": "", "Firefox": asFirefox} {
			page := w.browser.NewPage()
			page.Before(as + script)
			page.Goto("http://shop.example.test/")
			w.expect(page, w.next(), `{"t": "pageview", "p": "/", "r": null}`)
			page.Eval(`svc("event", "x")`, nil)
			w.nextOf("x")
			w.nothingBeyond(page, 2)

			if got := page.Console(); len(got) > 0 {
				t.Errorf("fetch %s, in %s: console %v", name, browser, got)
			}

			page.Close()
			w.nextOf("engagement")
		}
	}
}

// TestChromiumManyAtOnce checks that messages beyond the 64 KiB that browsers let outlive a page
// are sent, too.
func TestChromiumManyAtOnce(t *testing.T) {
	w := newWorld(t, map[string]string{"/": tag("")})
	for browser, as := range map[string]string{"Chromium": "", "Firefox": asFirefox} {
		page := w.browser.NewPage()
		page.Before(as)
		page.Goto("http://shop.example.test/")
		w.nextOf("pageview")

		const events = 40
		page.Eval(fmt.Sprintf(`Array.from(Array(%d), (_, n) => svc("event", "x" + n, {text: "y".repeat(4000)})) && undefined`, events), nil)
		names := make([]string, events)
		for n := range names {
			names[n] = fmt.Sprint("x", n)
		}
		w.nextOf(names...)

		if got := page.Console(); len(got) > 0 {
			t.Errorf("%s: console %v", browser, got)
		}

		page.Close()
		w.nextOf("engagement")
	}
}

func TestChromiumStoresNothing(t *testing.T) {
	w := newWorld(t, map[string]string{"/": `<body style="height: 5000px"><a href="/x.pdf">x</a>` + tag("data-search")})
	page := w.browser.Open("http://shop.example.test/?q=boots")
	page.Eval(`svc("identify", "`+userID+
		`"), svc("event", "x"), scrollTo(0, 5000), history.pushState(0, "", "/two"), document.links[0].onclick = () => false, document.links[0].click()`, nil)

	for range 6 {
		w.next()
	}

	var stored string
	page.Eval(`(async () => JSON.stringify([document.cookie, localStorage.length, sessionStorage.length,
		(await indexedDB.databases()).length, history.state, name].concat(
		(await (window.caches ? caches.keys() : [])).length, (await (navigator.serviceWorker ? navigator.serviceWorker.getRegistrations() : [])).length)))()`, &stored)

	if want := `["",0,0,0,0,"",0,0]`; stored != want {
		t.Errorf("cookie, localStorage, sessionStorage, IndexedDB, history state, window name, caches, service workers: %s, want %s", stored, want)
	}

	var added string
	page.Eval(`(() => { const frame = document.body.appendChild(document.createElement("iframe")).contentWindow;
		return Object.getOwnPropertyNames(window).filter(n => !(n in frame) && n !== "0").join() })()`, &added)

	testkit.Equal(t, added, "svc", "globals added to the page")

	// Cookies of the data plane's own host are visible only on that host.
	page.Goto("http://data.example.test/svc.js")
	var cookie string
	page.Eval("document.cookie", &cookie)

	testkit.Equal(t, cookie, "", "cookie of the data plane")
}

func TestChromiumContentSecurityPolicy(t *testing.T) {
	w := newWorld(t, map[string]string{"/": tag("")})
	w.headers.Set("Content-Security-Policy", "default-src 'none'; img-src data:; script-src data.example.test; connect-src data.example.test")
	w.headers.Set("Cross-Origin-Embedder-Policy", "require-corp")

	for name, script := range map[string]string{"beacon": "", "fetch": asFirefox} {
		page := w.browser.NewPage()
		page.Before(script)
		page.Goto("http://shop.example.test/")
		w.expect(page, w.next(), `{"t": "pageview", "p": "/", "r": null}`)

		if got := page.Console(); len(got) > 0 {
			t.Errorf("%s: console %v", name, got)
		}

		page.Goto("about:blank")
		w.nextOf("engagement")
	}
}

// TestChromiumScriptIsNotMovedByNames checks that an image, whose name becomes a property of the
// document, changes neither the site key nor the endpoint.
func TestChromiumScriptIsNotMovedByNames(t *testing.T) {
	image := `<img name="currentScript" src="http://other.example/x.png" data-site="` + strings.Repeat("a", 32) + `">`
	w := newWorld(t, map[string]string{
		"/": image + tag(""), "/twice": image + image + tag(`data-auto="off"`), "/module": image + tag(`type="module"`),
	})
	for path, more := range map[string]string{"/": "", "/twice": `, "a": "off"`, "/module": ""} {
		page := w.browser.Open("http://shop.example.test" + path)
		w.expect(page, w.next(), fmt.Sprintf(`{"t": "pageview", "p": %q, "r": null%s}`, path, more))
		w.nothingBeyond(page, 1)
		page.Goto("about:blank")
		w.nextOf("engagement")
	}
}

// TestChromiumEvaluatedByALoader checks that the script finds its tag where a loader evaluates the
// script's text while the loader's own element is the current script, and another program's script
// has a data-site, too.
func TestChromiumEvaluatedByALoader(t *testing.T) {
	loader := `const text = new XMLHttpRequest(); text.open("GET", "` + dataOrigin + `/svc.js", false); text.send(); (0, eval)(text.responseText)`
	loaders := map[string]string{
		"/inline":    "<script>" + loader + "</script>",
		"/addressed": `<script src='data:text/javascript,` + loader + `'></script>`,
	}
	pages := map[string]string{}
	for path, loader := range loaders {
		pages[path] = `<script type="text/plain" data-site="other.example"></script>` + tag(`type="text/plain" data-auto="off"`) + loader
	}
	w := newWorld(t, pages)
	for path := range loaders {
		page := w.browser.Open("http://shop.example.test" + path)
		w.expect(page, w.next(), fmt.Sprintf(`{"t": "pageview", "p": %q, "r": null, "a": "off"}`, path))
		w.nothingBeyond(page, 1)
		page.Goto("about:blank")
		w.nextOf("engagement")
	}
}

func TestChromiumFrame(t *testing.T) {
	w := newWorld(t, map[string]string{"/": `<iframe src="http://other.example/inner?private=1"></iframe>`, "/inner": tag("")})
	page := w.browser.Open("http://shop.example.test/?private=2")
	w.expect(page, w.next(), `{"t": "pageview", "p": "/inner", "r": "http://shop.example.test/"}`)
	page.Eval(`document.querySelector("iframe").remove()`, nil)
	w.nextOf("engagement")
}

func TestChromiumDebug(t *testing.T) {
	w := newWorld(t, map[string]string{"/": tag("")})
	page := w.browser.Open("http://shop.example.test/?svc_debug")
	h := w.next()
	w.expect(page, h, `{"t": "pageview", "p": "/", "r": null}`)
	page.Eval(`svc("event", "loop", (() => { const a = {}; a.a = a; return a })())`, nil)
	w.nextOf("loop")
	page.Eval(`new Promise(done => { const log = console.log; console.log = (...a) => { log(...a); done() }; svc("event", "x") })`, nil)
	w.next()

	console := fmt.Sprint(page.Console())
	for _, want := range []string{"svc " + h.raw + " 204", "circular"} {
		if !strings.Contains(console, want) {
			t.Errorf("console lacks %q:\n%s", want, console)
		}
	}

	page.Goto("about:blank")
	w.nextOf("engagement")

	page = w.browser.NewPage()
	page.Before(`Object.defineProperty(navigator, "globalPrivacyControl", {value: true})`)
	page.Goto("http://shop.example.test/?svc_debug")

	if console := fmt.Sprint(page.Console()); !strings.Contains(console, "Global Privacy Control") {
		t.Errorf("the console lacks the reason why nothing is sent:\n%s", console)
	}

	w.nothingBeyond(page, 0)
}

// TestChromiumOriginUnderEveryReferrerPolicy checks that Origin, which domain binding needs, is
// sent under every policy.
func TestChromiumOriginUnderEveryReferrerPolicy(t *testing.T) {
	w := newWorld(t, map[string]string{"/": tag("")})
	page := w.browser.NewPage()
	for _, policy := range []string{"", "no-referrer", "no-referrer-when-downgrade", "origin", "origin-when-cross-origin", "same-origin",
		"strict-origin",
		"strict-origin-when-cross-origin", "unsafe-url"} {
		w.mu.Lock()
		w.headers.Set("Referrer-Policy", policy)
		w.mu.Unlock()

		for _, script := range []string{"", asFirefox} {
			remove := page.Before(script)
			page.Goto("http://shop.example.test/?private=1")

			h := w.nextOf("pageview")[0]
			testkit.Equal(t, h.header.Get("Origin"), "http://shop.example.test", "Referrer-Policy %s, %s: Origin", policy, script)

			page.Goto("about:blank")

			if got := w.nextOf("engagement")[0].header.Get("Origin"); got != "http://shop.example.test" {
				t.Errorf("Referrer-Policy %s, %s: Origin %q of the last message", policy, script, got)
			}

			remove()
		}
	}
}
