package script_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestChromiumPageview(t *testing.T) {
	w := newWorld(t, map[string]string{
		"/":         tag(""),
		"/a/b c":    tag(""),
		"/from":     `<meta name=referrer content=unsafe-url><a href="http://shop.example.test/">x</a>`,
		"/internal": `<a href="/">x</a>`,
	})
	for _, test := range []struct{ name, address, click, want string }{
		{"plain", "http://shop.example.test/", "", `{"t": "pageview", "p": "/", "r": null}`},
		{"path as in the address, no query, no fragment", "http://shop.example.test/a/b%20c?secret=1#part", "",
			`{"t": "pageview", "p": "/a/b%20c", "r": null}`},
		{"subdomain", "http://www.shop.example.test/", "", `{"t": "pageview", "p": "/", "r": null}`},
		{"utm values in lower case", "http://shop.example.test/?utm_source=News&utm_medium=E-Mail&utm_campaign=Spring+Sale&utm_content=A%26B&utm_term=%C3%84", "",
			`{"t": "pageview", "p": "/", "r": null, "u": {"source": "news", "medium": "e-mail", "campaign": "spring sale", "content": "a&b", "term": "ä"}}`},
		{"click ids as they are", "http://shop.example.test/?gclid=Ab-1&gbraid=B_2&wbraid=C3&fbclid=D4&msclkid=E5", "",
			`{"t": "pageview", "p": "/", "r": null, "u": {"gclid": "Ab-1", "gbraid": "B_2", "wbraid": "C3", "fbclid": "D4", "msclkid": "E5"}}`},
		{"only keys that are present", "http://shop.example.test/?utm_source=&utm_term=x&utm_id=7&source=y", "",
			`{"t": "pageview", "p": "/", "r": null, "u": {"term": "x"}}`},
		{"another site's address without its query", "http://other.example/from?private=1#x", "a",
			`{"t": "pageview", "p": "/", "r": "http://other.example/from"}`},
		{"the own site's address without its query", "http://shop.example.test/internal?private=1#x", "a",
			`{"t": "pageview", "p": "/", "r": "http://shop.example.test/internal"}`},
	} {
		page := w.browser.Open(test.address)

		if test.click != "" {
			page.Click(test.click)
			page.WaitFor("location.pathname === '/'")
		}

		h := w.next()
		w.expect(page, h, test.want)

		if t.Failed() {
			t.Fatalf("so far: %s", test.name)
		}

		w.nothingBeyond(page, 1)
		page.Goto("about:blank")
		w.nextOf("engagement")
		page.Close()
	}
}

func TestChromiumLongValuesFitIntoTheMessage(t *testing.T) {
	long := strings.Repeat("x", 5000)
	w := newWorld(t, map[string]string{"/" + long: tag("")})
	page := w.browser.Open("http://shop.example.test/" + long + "?utm_source=" + long + "&gclid=" + long)

	h := w.next()
	if got := len(h.body["p"].(string)); got != 2048 {
		t.Errorf("path of %d characters, want 2048", got)
	}
	if len(h.raw) > 8<<10 {
		t.Errorf("message of %d bytes", len(h.raw))
	}

	page.Eval("history.replaceState(null, '', location.pathname + '?x')", nil)
	w.nothingBeyond(page, 1)
}

func TestChromiumRefusal(t *testing.T) {
	w := newWorld(t, map[string]string{"/": `<script>window.svc = function () { (svc.q = svc.q || []).push(arguments) }; svc("event", "early")</script>` + tag("")})
	define := `Object.defineProperty(%s, %q, {configurable: true, get: () => %s})`
	for name, script := range map[string]string{
		"Do Not Track":            fmt.Sprintf(define, "navigator", "doNotTrack", `"1"`),
		"Do Not Track, spelt out": fmt.Sprintf(define, "navigator", "doNotTrack", `"yes"`),
		"Do Not Track, window":    fmt.Sprintf(define, "window", "doNotTrack", `"1"`),
		"Global Privacy Control":  fmt.Sprintf(define, "navigator", "globalPrivacyControl", "true"),
	} {
		page := w.browser.NewPage()
		page.Before(script)
		page.Goto("http://shop.example.test/")
		page.Eval(`svc("event", "late"), svc("pageview"), svc.q.push(["event", "x"]), history.pushState(0, "", "/other"), dispatchEvent(new Event("pagehide"))`, nil)
		w.nothingBeyond(page, 0)

		if t.Failed() {
			t.Fatalf("so far: %s", name)
		}
		if got := page.Console(); len(got) > 0 {
			t.Errorf("%s: console %v", name, got)
		}

		page.Close()
	}

	for name, script := range map[string]string{
		"tracking allowed": fmt.Sprintf(define, "navigator", "doNotTrack", `"0"`),
		"unspecified":      fmt.Sprintf(define, "navigator", "doNotTrack", `"unspecified"`),
		"no control":       fmt.Sprintf(define, "navigator", "globalPrivacyControl", "false"),
	} {
		page := w.browser.NewPage()
		page.Before(script)
		page.Goto("http://shop.example.test/")
		w.nextOf("pageview", "early")
		w.nothingBeyond(page, 2)

		if t.Failed() {
			t.Fatalf("so far: %s", name)
		}

		page.Goto("about:blank")
		w.nextOf("engagement")
	}
}

func TestChromiumSiteKey(t *testing.T) {
	script := func(attribute string) string {
		return fmt.Sprintf(`<script defer src="%s/svc.js" %s></script>`, dataOrigin, attribute)
	}

	pages := map[string]string{
		"/none":    script(""),
		"/empty":   script("data-site"),
		"/short":   script(`data-site="0123456789abcdef"`),
		"/upper":   script(`data-site="` + strings.ToUpper(siteKey) + `"`),
		"/long":    script(`data-site="` + siteKey + `0"`),
		"/foreign": script(`data-site="` + strings.Repeat("g", 32) + `"`),
		"/twice":   script("") + script(""),
	}

	w := newWorld(t, pages)
	for path := range pages {
		page := w.browser.Open("http://shop.example.test" + path)
		page.Eval(`svc("pageview"), svc("event", "x")`, nil)
		w.nothingBeyond(page, 0)

		got := page.Console()
		if len(got) != 1 || got[0].Level != "warning" || !strings.Contains(got[0].Text, "data-site") {
			t.Errorf("%s: console %v, want one warning that names data-site", path, got)
		}

		page.Close()
	}
}

func TestChromiumLoadedTwice(t *testing.T) {
	w := newWorld(t, map[string]string{"/": tag("") + tag("") + `<script>addEventListener("load", () => {
		const s = document.createElement("script"); s.src = document.scripts[0].src + "?again"; s.dataset.site = document.scripts[0].dataset.site;
		s.onload = () => { svc("event", "once"); document.title = "thrice" }; document.body.append(s) })</script>`})

	page := w.browser.Open("http://shop.example.test/")
	page.WaitFor("document.title === 'thrice'")
	w.nextOf("pageview", "once")
	w.nothingBeyond(page, 2)
	page.Eval("history.pushState(0, '', '/next')", nil)
	w.nextOf("pageview", "engagement")
	w.nothingBeyond(page, 4)
	page.Goto("about:blank")
	w.nextOf("engagement")
}

func TestChromiumManualPageview(t *testing.T) {
	w := newWorld(t, map[string]string{"/": `<script>(window.svc = function () { (svc.q = svc.q || []).push(arguments) })("pageview")</script>` + tag(""),
		"/off": tag(`data-auto="off"`)})

	page := w.open("http://shop.example.test/")
	first := w.next()
	w.expect(page, first, `{"t": "pageview", "p": "/", "r": null}`)
	page.Eval("svc('pageview')", nil)
	w.nothingBeyond(page, 1)

	page.Eval("later(1001), svc('pageview')", nil)
	sent := w.nextOf("engagement", "pageview")
	w.expect(page, sent[1], `{"t": "pageview", "p": "/", "r": "http://shop.example.test/", "x": 1}`)

	if sent[0].body["i"] != first.body["i"] || sent[1].body["i"] == first.body["i"] {
		t.Errorf("page view ids: %v, engagement %v, then %v", first.body["i"], sent[0].body["i"], sent[1].body["i"])
	}

	// Only an automatic page view suppresses a following manual one, and only of the same path.
	page.Eval("later(1), svc('pageview')", nil)
	w.nextOf("engagement", "pageview")
	page.Eval("later(1), history.pushState(0, '', '/two?q=1'), svc('pageview'), later(1000), svc('pageview')", nil)
	sent = w.nextOf("engagement", "pageview")
	w.expect(page, sent[1], `{"t": "pageview", "p": "/two", "r": "http://shop.example.test/"}`)
	w.nothingBeyond(page, 7)
	page.Close()
	w.nextOf("engagement")

	// With data-auto="off" the page reports its routes itself.
	page = w.open("http://shop.example.test/off")
	w.expect(page, w.next(), `{"t": "pageview", "p": "/off", "r": null, "a": "off"}`)
	page.Eval("history.pushState(0, '', '/off/2')", nil)
	w.nothingBeyond(page, 1)
	page.Eval("later(1), svc('pageview')", nil)
	sent = w.nextOf("engagement", "pageview")
	w.expect(page, sent[1], `{"t": "pageview", "p": "/off/2", "r": "http://shop.example.test/off", "x": 1, "a": "off"}`)

	// The automatic page view was of another path, for which it still suppresses a manual one.
	page.Eval("later(1), svc('pageview')", nil)
	sent = w.nextOf("engagement", "pageview")
	w.expect(page, sent[1], `{"t": "pageview", "p": "/off/2", "r": "http://shop.example.test/off/2", "x": 1, "a": "off"}`)
	page.Eval("later(1), history.replaceState(0, '', '/off'), svc('pageview')", nil)
	w.nothingBeyond(page, 5)
}

// older makes the browser one without the Navigation API.
const older = `<script>delete window.navigation</script>`

// TestChromiumRoutes checks that each change of the path is one page view, however a page makes it,
// and whatever the name "navigation" stands for.
func TestChromiumRoutes(t *testing.T) {
	saved := `<script>window.saved = history.pushState.bind(history); window.native = history.pushState</script>`
	pages := map[string]string{
		"/":         saved + tag(""),
		"/older":    saved + older + tag(""),
		"/element":  older + `<nav id="navigation"></nav>` + tag(""),
		"/variable": `<script>var navigation = {open: 1}</script>` + tag(""),
		"/null":     `<script>var navigation = null</script>` + tag(""),
	}
	w := newWorld(t, pages)
	for path := range pages {
		page := w.open("http://shop.example.test" + path + "?utm_source=X&secret=1")
		w.expect(page, w.next(), fmt.Sprintf(`{"t": "pageview", "p": %q, "r": null, "u": {"source": "x"}}`, path))
		first := "http://shop.example.test" + path

		steps := []step{
			{"history.pushState(0, '', '/one?secret=2#x')", `{"t": "pageview", "p": "/one", "r": "` + first + `"}`},
			{"history.pushState(0, '', '/one?secret=3')", ""},
			{"history.pushState(0, '', '#y')", ""},
			{"location.hash = 'z'", ""},
			{
				script: "history.replaceState(0, '', '/two?utm_campaign=C')",
				want:   `{"t": "pageview", "p": "/two", "r": "http://shop.example.test/one", "u": {"campaign": "c"}}`,
			},
			{"history.replaceState(1, '')", ""},
			{
				script: "new Promise(done => { addEventListener('popstate', done, {once: true}); history.go(-3) })",
				want:   `{"t": "pageview", "p": "/one", "r": "http://shop.example.test/two"}`,
			},
			{"new Promise(done => { addEventListener('popstate', done, {once: true}); history.back() })",
				fmt.Sprintf(`{"t": "pageview", "p": %q, "r": "http://shop.example.test/one", "u": {"source": "x"}}`, path)},
		}
		if path == "/" {
			// A pushState that was saved before the script ran, and the Navigation API.
			steps = append(steps, []step{
				{"saved(0, '', '/saved')", `{"t": "pageview", "p": "/saved", "r": "` + first + `"}`},
				{
					script: "history.pushState = native, history.pushState(0, '', '/native')",
					want:   `{"t": "pageview", "p": "/native", "r": "http://shop.example.test/saved"}`,
				},
				{"navigation.addEventListener('navigate', e => e.intercept({handler: async () => {}}))", ""},
				{
					script: "navigation.navigate('/navigated?secret=3').finished.then(() => 0)",
					want:   `{"t": "pageview", "p": "/navigated", "r": "http://shop.example.test/native"}`,
				},
				{"navigation.navigate('/navigated?secret=4').finished.then(() => 0)", ""},
				{
					script: "navigation.back().finished.then(() => navigation.back().finished).then(() => 0)",
					want:   `{"t": "pageview", "p": "/native", "r": "http://shop.example.test/navigated"}`,
				},
				{"history.pushState(0, '', '/intercepted')", `{"t": "pageview", "p": "/intercepted", "r": "http://shop.example.test/native"}`},
			}...)
		}
		w.follow(page, steps)

		page.Eval("later(5)", nil)
		page.Goto("about:blank")
		w.nextOf("engagement")
	}
}

// step is an action of a page, and the page view that it causes, or an empty string.
type step struct{ script, want string }

// follow takes steps, each of which ends the time on the page before it. It checks that no step
// causes a second message.
func (w *website) follow(page *browsertest.Page, steps []step) {
	w.t.Helper()

	ids := map[any]bool{}
	for _, step := range steps {
		page.Eval("later(5)", nil)
		before := len(page.Requests())
		page.Eval(step.script, nil)

		if step.want == "" {
			if after := len(page.Requests()); after != before {
				w.t.Errorf("%s: %d requests", step.script, after-before)
			}

			continue
		}

		sent := w.nextOf("engagement", "pageview")
		w.expect(page, sent[1], step.want)

		if ids[sent[1].body["i"]] || sent[0].body["i"] == sent[1].body["i"] {
			w.t.Errorf("%s: ids %v and %v", step.script, sent[0].body["i"], sent[1].body["i"])
		}

		ids[sent[1].body["i"]] = true
		w.nothingBeyondRead(step.script)
	}
}

func TestChromiumHistoryFunctionsKeepTheirBehaviour(t *testing.T) {
	before := `<script>window.before = ["pushState", "replaceState"].map(n => [history[n].name, history[n].length])</script>` + tag("")
	for name, body := range map[string]string{"current": before, "older": older + before} {
		t.Run(name, func(t *testing.T) { keepsHistoryFunctions(t, body) })
	}
}

// keepsHistoryFunctions checks the functions that a page sees.
func keepsHistoryFunctions(t *testing.T, body string) {
	w := newWorld(t, map[string]string{"/": body})
	page := w.browser.Open("http://shop.example.test/")
	w.next()
	var got bool
	page.Eval(`(() => {
		const refuses = (f) => { try { f() } catch (e) { return e.name } };
		return JSON.stringify(before) === JSON.stringify(["pushState", "replaceState"].map(n => [history[n].name, history[n].length]))
			&& history.pushState({a: 1}, "", "/x") === undefined && history.state.a === 1
			&& refuses(() => history.pushState(0, "", "http://other.example/")) === "SecurityError"
			&& refuses(() => history.replaceState(() => 0, "")) === "DataCloneError"
			&& refuses(() => history.pushState()) === "TypeError"
			&& refuses(() => (0, history.pushState)(0, "")) === "TypeError"
			&& location.pathname === "/x" })()`, &got)

	if !got {
		t.Error("pushState or replaceState behaves differently from the browser's own")
	}
	if got := page.Console(); len(got) > 0 {
		t.Errorf("console %v", got)
	}
}

func TestChromiumBackForwardCache(t *testing.T) {
	w := newWorld(t, map[string]string{
		"/":     tag("") + `<script>window.kept = 1; addEventListener("pageshow", e => window.restored = e.persisted)</script>`,
		"/next": "next",
	})
	page := w.browser.Open("http://shop.example.test/")
	first := w.next()
	page.Eval("location.href = '/next'", nil)
	page.WaitFor("location.pathname === '/next'")
	w.nextOf("engagement")
	page.Eval("history.back()", nil)
	page.WaitFor("window.kept && document.readyState === 'complete'")
	var restored bool
	page.Eval("restored", &restored)

	if !restored {
		t.Fatal("Chromium did not keep the page in its back/forward cache")
	}

	second := w.next()
	w.expect(page, second, `{"t": "pageview", "p": "/", "r": null}`)

	if first.body["i"] == second.body["i"] {
		t.Error("the restored page has the page view id of the first view")
	}

	page.Goto("about:blank")

	if last := w.nextOf("engagement")[0]; last.body["i"] != second.body["i"] {
		t.Errorf("engagement belongs to %v, want %v", last.body["i"], second.body["i"])
	}
}

func TestChromiumPrerenderedPage(t *testing.T) {
	w := newWorld(t, map[string]string{
		"/": "",
		"/start": `<script type=speculationrules>{"prerender": [{"source": "list", "urls": ["/ahead"], "eagerness": "immediate"}]}</script>
			<script>fetch("/wait").then(() => { location.href = "/ahead" })</script>`,
		"/ahead": `<script>(window.svc = function () { (svc.q = svc.q || []).push(arguments) })("event", "early")</script>` + tag("") +
			`<script>addEventListener("load", () => { svc("event", "late"); fetch("/report?prerendering=" + document.prerendering) });
			document.addEventListener("prerenderingchange", () => fetch("/report?activated"))</script>`,
	})

	reported := func(want string) {
		t.Helper()
		select {
		case got := <-w.reports:
			testkit.Require(t, got, want, "the page reports")
		case <-time.After(browsertest.Timeout):
			t.Fatalf("the page does not report %q", want)
		}
	}

	// Browsers prerender secure pages only, and Chromium prerenders none for a tab with a test
	// driver. So the page is opened in another tab without an opener.
	page := w.browser.Open(w.numeric + "/")
	page.Eval(`window.open("/start", "_blank", "noopener")`, nil)
	reported("prerendering=true")

	select {
	case h := <-w.arrived:
		t.Fatalf("sent before the page was shown: %s", h)
	default:
	}

	w.release <- struct{}{}
	reported("activated")
	sent := w.nextOf("pageview", "early", "late")
	w.expect(page, sent[0], `{"t": "pageview", "p": "/ahead", "r": "`+w.numeric+`/start"}`)
}
