package script_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"github.com/tallygate/tallygate/tools/browsertest"
)

// BenchmarkChromiumScript measures the processor time of the page's main thread that the script
// takes, as medians over all runs:
//
//	go test -run '^$' -bench ChromiumScript -benchtime 50x ./frontend-assets/test/script
//
// "load" compiles and runs the script, which sends the page view; "fetch" is the browser's share of
// that. "scroll" is a scroll event. "layout" is a scroll event on a page that has just changed, so
// that the script forces a layout, without the time of the layout itself, which the browser would
// otherwise compute shortly afterwards.
func BenchmarkChromiumScript(b *testing.B) {
	w := startWorld(b, map[string]string{"/": `<body style="height: 20000px">` + strings.Repeat("<p>text</p>", 500)})
	page := w.browser.NewPage()
	page.Do(performance.Enable())
	took := map[string][]float64{}

	for b.Loop() {
		page.Goto("http://shop.example.test/")
		page.Eval(`(async () => {
			const src = "`+dataOrigin+`/svc.js", code = await (await fetch(src)).text();
			// Evaluated, the code has no element of its own; this is the tag that it finds instead. It runs nothing.
			document.head.append(Object.assign(document.createElement("script"), {type: "none", src}));
			document.head.lastChild.dataset.site = "`+siteKey+`";
			const change = (i) => { document.body.style.height = 20000 + i % 2 + "px" }, scrolled = new Event("scroll");
			window.load = () => { (0, eval)(code) };
			window.sends = () => { fetch("`+dataOrigin+`/collect.php", {method: "POST", body: "{}", keepalive: true}) };
			window.scrolls = () => { for (let i = 0; i < 1000; i++) document.dispatchEvent(scrolled) };
			window.layouts = () => { for (let i = 0; i < 100; i++) { change(i); document.dispatchEvent(scrolled) } };
			window.changes = () => { for (let i = 0; i < 100; i++) { change(i); void document.body.scrollHeight } };
		})()`, nil)

		nothing := processorTime(b, page, "0")
		note := func(name string, µs, times float64) { took[name] = append(took[name], (µs-nothing)/times) }
		note("load", processorTime(b, page, "load()"), 1)
		note("fetch", processorTime(b, page, "sends()"), 1)
		note("scroll", processorTime(b, page, "scrolls()"), 1000)
		changes := processorTime(b, page, "changes()")
		note("layout", processorTime(b, page, "layouts()")-changes+nothing, 100)
		w.next()
		w.next()
	}

	for name, all := range took {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], name+"-µs")
	}

	// The default figure would include the test's own work.
	b.ReportMetric(0, "ns/op")
}

// processorTime returns the processor time of the page's main thread for an expression, in
// microseconds.
func processorTime(b *testing.B, page *browsertest.Page, expression string) float64 {
	b.Helper()

	now := func() float64 {
		var seconds float64
		page.Do(chromedp.ActionFunc(func(ctx context.Context) error {
			metrics, err := performance.GetMetrics().Do(ctx)
			for _, m := range metrics {
				if m.Name == "ThreadTime" {
					seconds = m.Value
				}
			}
			return err
		}))

		return seconds * 1e6
	}

	before := now()
	page.Eval(expression, nil)

	after := now()
	if after <= before {
		b.Fatalf("%s took from %v to %v µs of processor time", expression, before, after)
	}

	return after - before
}
