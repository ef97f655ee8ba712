package assets_test

import (
	"strings"
	"testing"
)

// What the script costs the page's main thread is measured and logged here. The limits only catch a blunder: they are many
// times what it takes, since the machine that runs the tests may be busy.
func TestChromiumOverhead(t *testing.T) {
	w := newWorld(t, map[string]string{"/": `<body style="height: 20000px">` + strings.Repeat("<p>text</p>", 500)})
	page := w.browser.Open("http://shop.example.test/")
	var cost struct{ Load, Beacon, Scroll, Layout float64 }
	page.Eval(`(async () => {
		const src = "`+dataOrigin+`/svc.js", code = await (await fetch(src)).text();
		Object.defineProperty(document, "currentScript", {value: {src, dataset: {site: "`+siteKey+`"}}});
		const took = (f) => { const begin = performance.now(); f(); return performance.now() - begin };
		const send = navigator.sendBeacon.bind(navigator), scrolled = new Event("scroll"), cost = {};
		navigator.sendBeacon = (...args) => { cost.Beacon = took(() => send(...args)); return true };
		cost.Load = took(() => (0, eval)(code)) - cost.Beacon; // compiles and runs it
		cost.Scroll = took(() => { for (let i = 0; i < 1000; i++) document.dispatchEvent(scrolled) }) / 1000;
		cost.Layout = took(() => { for (let i = 0; i < 1000; i++) {
			document.body.style.height = 20000 + i + "px";
			document.dispatchEvent(scrolled);
		} }) / 1000;
		return cost;
	})()`, &cost)
	w.nextOf("pageview")
	t.Logf("main thread: at load %.2f ms and %.2f ms for the browser's sendBeacon; for a scroll event %.4f ms, or %.4f ms when the page has to be laid out for it",
		cost.Load, cost.Beacon, cost.Scroll, cost.Layout)
	if cost.Load > 500 || cost.Scroll > 5 {
		t.Errorf("main thread: at load %.2f ms, for a scroll event %.4f ms", cost.Load, cost.Scroll)
	}
}
