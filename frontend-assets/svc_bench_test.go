package assets_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

// What the script costs the page's main thread, as medians over all runs, also for a machine that is six times slower:
//
//	go test -run '^$' -bench ChromiumScript -benchtime 50x ./frontend-assets
//
// "load" compiles and runs the script up to the call of the browser's own sendBeacon, which is told apart. "scroll" is one
// scroll event; "layout" is one on a page that has changed, so that the script asks for the layout which the browser would
// otherwise make a moment later.
func BenchmarkChromiumScript(b *testing.B) {
	w := startWorld(b, map[string]string{"/": `<body style="height: 20000px">` + strings.Repeat("<p>text</p>", 500)})
	// Browsers blur their clock unless a page is isolated from others.
	w.headers.Set("Cross-Origin-Opener-Policy", "same-origin")
	w.headers.Set("Cross-Origin-Embedder-Policy", "require-corp")
	for _, machine := range []struct {
		name   string
		slower float64
	}{{"full speed", 1}, {"6 times slower", 6}} {
		b.Run(machine.name, func(b *testing.B) {
			page := w.browser.NewPage()
			page.Do(emulation.SetCPUThrottlingRate(machine.slower))
			took := map[string][]float64{}
			for b.Loop() {
				page.Goto(w.numeric + "/")
				var cost map[string]float64 // in microseconds
				page.Eval(measure, &cost)
				for name, µs := range cost {
					took[name] = append(took[name], µs)
				}
				w.nextOf("pageview")
			}
			for name, all := range took {
				slices.Sort(all)
				b.ReportMetric(all[len(all)/2], name+"-µs")
			}
			b.ReportMetric(0, "ns/op") // of the test's own machinery
			page.Close()
		})
	}
}

const measure = `(async () => {
	if (!crossOriginIsolated) throw new Error("the clock is blurred");
	const src = "` + dataOrigin + `/svc.js", code = await (await fetch(src)).text();
	Object.defineProperty(document, "currentScript", {value: {src, dataset: {site: "` + siteKey + `"}}});
	const took = (f) => { const begin = performance.now(); f(); return 1000 * (performance.now() - begin) };
	const send = navigator.sendBeacon.bind(navigator), scrolled = new Event("scroll"), cost = {};
	navigator.sendBeacon = (...args) => { cost.beacon = took(() => send(...args)); return true };
	cost.load = took(() => (0, eval)(code)) - cost.beacon;
	navigator.sendBeacon = () => true; // the page is left without a word
	cost.scroll = took(() => { for (let i = 0; i < 1000; i++) document.dispatchEvent(scrolled) }) / 1000;
	cost.layout = took(() => { for (let i = 0; i < 100; i++) {
		document.body.style.height = 20000 + i + "px";
		document.dispatchEvent(scrolled);
	} }) / 100;
	return cost;
})()`
