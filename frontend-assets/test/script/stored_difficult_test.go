package script_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestStoredOnDifficultPagesChromium opens pages that break functions the script uses. It must
// measure what it can, and never throw into the page.
func TestStoredOnDifficultPagesChromium(t *testing.T) {
	s := newShop(t, dbtest.Open(t, dbtest.SQLiteURL(t)), map[string]string{
		"/frozen":    `<script>Object.freeze(History.prototype); Object.freeze(history)</script>` + tag(""),
		"/junk":      `<script>window.svc = {q: [null, 7, "x", {}, ["event"], ["identify"], [Symbol()], ["event", "signup", {from: "junk"}]]}</script>` + tag(""),
		"/element":   `<p id=svc>` + tag(""),
		"/throwing":  `<script>navigator.sendBeacon = () => { throw new Error("no") }</script>` + tag(""),
		"/silent":    `<script>navigator.sendBeacon = window.fetch = window.XMLHttpRequest = () => { throw new Error("no") }</script>` + tag(""),
		"/rejecting": `<script>navigator.sendBeacon = undefined; window.fetch = () => Promise.reject(new Error("no"))</script>` + tag(""),
	})

	const try = `(() => { const loop = {}; loop.loop = loop;
		svc("event", "signup", {toJSON() { throw new Error("no") }}), svc("event", "signup", loop), svc("event", "signup", {n: 1n}), svc("event", Symbol()), svc(Symbol()),
		svc("identify", {toString() { throw new Error("no") }}), svc("event", "signup"), dispatchEvent(new Event("pageshow")), document.dispatchEvent(new Event("click")) })()`
	for path, calls := range map[string]int{"/frozen": 5, "/junk": 6, "/element": 5, "/throwing": 5, "/silent": 0, "/rejecting": 5} {
		page := s.open("http://www.shop.test" + path)
		page.Eval(try, nil)
		page.Eval(`history.pushState(0, "", location.pathname)`, nil)
		s.stored(calls)

		if console := page.Console(); len(console) > 0 {
			t.Errorf("%s: console %v", path, console)
		}

		page.Close()
	}

	s.hasViews("/frozen 0ms 0%", "/junk 0ms 0%", "/element 0ms 0%", "/throwing 0ms 0%", "/rejecting 0ms 0%")
	s.hasEvents("/frozen signup", "/frozen signup", "/frozen signup", "/frozen signup", `/junk signup {"from":"junk"}`, "/junk signup",
		"/junk signup", "/junk signup", "/junk signup", "/element signup", "/element signup", "/element signup", "/element signup",
		"/throwing signup", "/throwing signup", "/throwing signup", "/throwing signup",
		"/rejecting signup", "/rejecting signup", "/rejecting signup", "/rejecting signup")

	s.refused(map[string]int64{})
}

func TestStoredRoutesOfPatchedHistoryChromium(t *testing.T) {
	// One router has replaced the function before the script, and another one replaces it
	// afterwards.
	patched := `<script>
		const native = history.pushState, calls = [];
		history.pushState = function pushed(...args) { calls.push(this === history, args.length); native.apply(this, args); return "result" };
		history.pushState.mark = "mark"</script>` + tag("") + `<script defer src="data:text/javascript,
		const middle = history.pushState; history.pushState = function (...args) { return middle.apply(this, args) + ' and more' }"></script>`
	for name, test := range map[string]struct{ page, text string }{
		"current": {patched, "function replaceState() { [native code] }"},
		"older":   {older + patched, "function () { [native code] }"}, // a proxy
	} {
		t.Run(name, func(t *testing.T) { storesRoutesOf(t, test.page, test.text) })
	}
}

// storesRoutesOf checks what a page with two patches sees of its functions, and that its routes are
// stored. text is the text of a function that the page has not replaced.
func storesRoutesOf(t *testing.T, patched, text string) {
	s := newShop(t, dbtest.Open(t, dbtest.SQLiteURL(t)), map[string]string{"/": patched})
	page := s.open("http://www.shop.test/")
	s.viewed(1, "/", nil)
	var got string
	page.Eval(`(() => {
		const refuses = (f) => { try { f() } catch (e) { return e.name } };
		return JSON.stringify([middle.name, middle.length, middle.mark, history.pushState({a: 1}, "", "/one"), history.state.a, calls,
			refuses(() => history.pushState(0, "", "http://other.test/")), refuses(() => history.replaceState(() => 0, "")),
			refuses(() => history.replaceState()), refuses(() => (0, history.replaceState)(0, "")),
			history.replaceState.name, history.replaceState.length, "" + history.replaceState, history.replaceState({b: 1}, "", "/two")]) })()`, &got)

	want := `["pushed",0,"mark","result and more",1,[true,3,true,3],"SecurityError","DataCloneError","TypeError","TypeError","replaceState",2,"` + text + `",null]`
	if got != want {
		t.Errorf("the page sees\n%s, want\n%s", got, want)
	}

	s.stored(2)
	s.hasViews("/ 0ms 0%", "/one 0ms 0%", "/two 0ms 0%")

	if console := page.Console(); len(console) > 0 {
		t.Errorf("console %v", console)
	}

	s.refused(map[string]int64{})
}

// TestStoredNothingWithoutAnAddressChromium checks that frames and files without a web address send
// nothing, and that the server refuses sandboxed frames, which have no origin.
func TestStoredNothingWithoutAnAddressChromium(t *testing.T) {
	inner := strings.ReplaceAll(tag(""), `"`, "'")
	loaded := `<script defer src='data:text/javascript,svc("event", "signup"), parent.postMessage(typeof svc, "*")'></script>`
	s := newShop(t, dbtest.Open(t, dbtest.SQLiteURL(t)), map[string]string{
		"/frames": `<script>let ready = 0; onmessage = (e) => { ready += e.data === "function" }</script><body><script>
			const html = ` + "`" + strings.ReplaceAll(inner+loaded, "</script>", `<\/script>`) + "`" + `;
			const frame = (prepare) => { const f = document.createElement("iframe"); prepare(f); document.body.append(f); return f };
			frame(f => { f.srcdoc = html });
			frame(f => { f.src = URL.createObjectURL(new Blob([html], {type: "text/html"})) });
			frame(f => { f.src = "data:text/html," + encodeURIComponent(html) });
			const blank = frame(f => {}).contentDocument; blank.open(); blank.write(html); blank.close();
			frame(f => { f.sandbox = "allow-scripts"; f.src = "/inner" })</script>`,
		"/inner": inner + loaded,
	})

	page := s.browser.Open("http://www.shop.test/frames")
	page.WaitFor("ready === 5")

	// A frame filled by document.write has the address of its parent, so it is another view of it.
	statuses := map[string]int{}
	for _, call := range s.answered(4) {
		statuses[fmt.Sprint(call.message["p"], " ", call.status)]++
	}

	testkit.Equal(t, fmt.Sprint(statuses), "map[/frames 204:2 /inner 403:2]", "answers %v", statuses)

	for _, line := range page.Console() {
		if line.Level == "exception" || strings.HasPrefix(line.Text, "svc") {
			t.Errorf("console %v", line)
		}
	}

	page.Eval(`document.querySelectorAll("iframe").forEach(f => f.remove())`, nil)

	// Engagement of the same two views.
	s.answered(2)
	page.Close()

	file := filepath.Join(t.TempDir(), "page.html")
	testkit.NoError(t, os.WriteFile(file, []byte("<!doctype html>"+tag("")+`<title>x</title>`), 0o600))

	page = s.browser.Open("file://" + file + "?svc_debug")
	page.Eval(`svc("event", "signup"), svc("pageview")`, nil)

	if console := fmt.Sprint(page.Console()); !strings.Contains(console, "svc sends nothing: file:") {
		t.Errorf("console %s", console)
	}

	page.Close()
	s.refused(map[string]int64{"domain_not_allowed": 3})
}
