package console_test

import (
	"slices"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/tallygate/tallygate/tools/browsertest"
)

// manyRows is a script that answers requests for the rows of a table: with a thousand rows first,
// and with the hundred of a page when they are searched or sorted.
const manyRows = `(() => { const real = window.fetch; window.fetch = async (address, init) => {
	if (!/query Rows/.test(init?.body)) return real(address, init);
	const metrics = (i) => ({visitors: 5000 - i, visits: 6000 - i, pageviews: 9000 - 2 * i, viewsPerVisit: 1.5 + i / 1000,
		bounceRate: i / 20, engagementTime: i, conversions: i, conversionRate: i / 30, timeOnPage: i / 2, scrollDepth: i / 10,
		exitRate: i / 15, events: i, comparison: {visitors: 4800}});
	const {search, orderBy} = JSON.parse(init.body).variables;
	const length = search || orderBy.metric !== 'VISITORS' ? 100 : 1000;
	const edges = Array.from({length}, (_, i) => ({node: {value: '/shop/kettle-' + i, metrics: metrics(i)}}));
	const breakdown = {totalCount: length, pageInfo: {hasNextPage: false, endCursor: ''}, edges};
	return new Response(JSON.stringify({data: {site: {report: {breakdown}}}})) } })()`

// observe collects the durations of events from the input to the next paint, and of long tasks.
// Chromium reports events from 16 ms on, in steps of 8 ms, and tasks from 50 ms on.
const observe = `(() => { window.durations = []; window.tasks = [];
	new PerformanceObserver((list) => { for (const e of list.getEntries()) if (e.interactionId) window.durations.push(e.duration) })
		.observe({type: 'event', durationThreshold: 16});
	new PerformanceObserver((list) => { for (const e of list.getEntries()) window.tasks.push(e.duration) })
		.observe({type: 'longtask', buffered: true}) })()`

// BenchmarkInteractionChromium measures the interactions with the site's page of the demo while a
// table of a thousand rows is open over it: typing into its search, and clicks and keys on the
// page, and the tasks while a report without that table opens.
func BenchmarkInteractionChromium(b *testing.B) {
	s := startDemo(b)
	p := s.openSignedIn("/")
	p.press("Demo shop")
	p.see("Pages: all")
	p.Before(manyRows)
	p.Before(observe)

	var all, tasks []float64
	measure := func(name string, act func()) {
		p.Eval("[window.durations, window.tasks] = [[], []]", nil)
		act()

		// Entries follow the next frame.
		var seen struct{ Durations, Tasks []float64 }
		p.Eval(`new Promise(done => requestAnimationFrame(() => setTimeout(() => done({durations, tasks}), 200)))`, &seen)
		all = append(all, seen.Durations...)
		tasks = append(tasks, seen.Tasks...)
		b.Logf("%s: %v ms, long tasks: %v ms", name, seen.Durations, seen.Tasks)
	}

	address := p.Text("location.origin + location.pathname")
	open := func() {
		p.Goto(address + "?compare=previous&all=page")
		p.WaitFor("document.querySelectorAll('dialog tbody tr').length === 1000")
	}

	for b.Loop() {
		measure("opening", func() {
			p.Goto(address + "?compare=previous")
			p.WaitFor("document.querySelector('.plot svg') && document.querySelectorAll('.panel [role=row]').length > 20")
		})
		open()
		p.Click("dialog input[type=search]")
		measure("typing", func() {
			for _, key := range "kettle" {
				p.Do(browsertest.Press(string(key)))
			}
		})
		open()
		measure("sorting", func() { p.press("Page views") })
		open()
		measure("closing", func() { p.Do(browsertest.Press(kb.Escape)) })
		measure("another period", func() { p.Do(browsertest.Press("w")) })
		measure("another figure", func() { p.click("document.querySelector('.totals li:nth-child(3) a')") })
	}

	if len(all) == 0 {
		b.Fatal("no interaction took 16 ms: Chromium reports none")
	}
	slices.Sort(all)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(all[len(all)/2], "ms/median-interaction")
	b.ReportMetric(all[len(all)-1], "ms/longest-interaction")
	b.ReportMetric(slices.Max(append(tasks, 0)), "ms/longest-task")
}
