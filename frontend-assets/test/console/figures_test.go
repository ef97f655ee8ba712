package console_test

import (
	"encoding/csv"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tallygate/tallygate/cmd/tallygate/demo"
	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// row is a value of a dimension with its figures.
type row struct {
	Value   string
	Metrics struct {
		Visitors, Visits, Pageviews int64
		Comparison                  *struct{ Visitors int64 }
	}
}

// report is what the tests compare with the page.
type report struct {
	Totals struct {
		Visitors, Visits, Pageviews int64
		Comparison                  *struct{ Visitors int64 }
	}
	Series []struct{ Metrics struct{ Visitors int64 } }
	Rows   struct{ Edges []struct{ Node row } }
}

// report reads figures as a script would, with the first rows of a dimension.
func (s *service) report(id, by string, first int, filters ...any) report {
	s.TB.Helper()

	if filters == nil {
		filters = []any{}
	}

	var data struct{ Site struct{ Report report } }
	s.Do(`query ($id: ID!, $by: ReportDimension!, $first: Int!, $filters: [ReportFilterInput!]!) { site(id: $id) {
  report(period: {preset: LAST_28_DAYS}, filters: $filters, compare: {kind: PREVIOUS_PERIOD}) {
    totals { visitors visits pageviews comparison { visitors } }
    series { metrics { visitors } }
    rows: breakdown(by: $by, first: $first) { edges { node { value metrics { visitors visits pageviews comparison { visitors } } } } }
  } } }`, map[string]any{"id": id, "by": by, "first": first, "filters": filters}, &data)
	return data.Site.Report
}

// bars returns the rows of a panel as "value figure" lines. A change follows after a blank.
func (p *tab) bars(panel string) []string {
	p.t.Helper()
	const script = `[...document.querySelectorAll('section[aria-label="%s"] .ranks > *')]
		.map(li => li.firstChild.textContent + ' ' + li.querySelector('.figure').textContent.trim().split(/\s/)[0].replace(',', '')).join('\n')`
	return strings.Split(p.Text(fmt.Sprintf(script, panel)), "\n")
}

// lines returns rows as bars does.
func (r report) lines() (all []string) {
	for _, edge := range r.Rows.Edges {
		value := edge.Node.Value
		if value == "" {
			value = "(none)"
		}
		all = append(all, fmt.Sprintf("%s %d", value, edge.Node.Metrics.Visitors))
	}
	return all
}

// total is the JavaScript expression for the n-th figure of the totals.
func total(n int) string {
	return fmt.Sprintf("document.querySelectorAll('.totals strong')[%d]?.title.replace(',', '')", n)
}

// TestFiguresChromium compares the figures of a site's page with those of the API, also with a
// filter and after going back, and downloads a table.
func TestFiguresChromium(t *testing.T) {
	t.Parallel()

	s := startDemo(t)
	s.SignIn(demo.Email, s.password)
	var data struct {
		Sites struct {
			Edges []struct{ Node struct{ ID, SiteKey string } }
		}
	}
	s.Do(`{ sites { edges { node { id siteKey } } } }`, nil, &data)
	id, key := data.Sites.Edges[0].Node.ID, data.Sites.Edges[0].Node.SiteKey

	path := "/sites/" + id
	want := s.report(id, "CHANNEL", 10)
	if want.Totals.Visitors == 0 || want.Totals.Comparison.Visitors == 0 {
		t.Fatalf("no figures: %+v", want.Totals)
	}

	p := s.openSignedIn("/")
	p.WaitFor(fmt.Sprintf("document.querySelector('.week strong')?.title.replace(',', '') === '%d'", s.week(id)))
	p.look("sites-figures")

	// The first view: three files and one call. What the first paint does not need follows with a
	// module: the course of revenue with a call of its own.
	watched := p.Before(watchShifts)
	before := len(p.Requests())
	p.Goto(s.Origin + path + "?compare=previous")
	p.WaitFor(fmt.Sprintf("%s === '%d'", total(0), want.Totals.Visitors))
	watched()
	p.staysInPlace()
	var files, calls int
	var followed bool
	for _, r := range p.Requests()[before:] {
		switch {
		case strings.HasSuffix(r.URL, "/drilldown.js"):
			followed = true
		case followed:
		case r.Method == "POST":
			calls++
		case !strings.HasPrefix(r.URL, "data:"):
			files++
		}
	}
	if files != 3 || calls != 1 {
		t.Errorf("the first view takes %d files and %d calls, want 3 and 1: %v", files, calls, p.Requests()[before:])
	}

	// Totals, comparison and rows equal the API's.
	for i, n := range []int64{want.Totals.Visitors, want.Totals.Visits, want.Totals.Pageviews} {
		if got := p.Text(total(i)); got != strconv.FormatInt(n, 10) {
			t.Errorf("total %d: %s, want %d", i, got, n)
		}
	}
	got := p.Text("document.querySelector('.totals .before .hint').textContent.replace(',', '')")
	if w := fmt.Sprintf("from %d", want.Totals.Comparison.Visitors); got != w {
		t.Errorf("comparison: %s, want %s", got, w)
	}
	testkit.EqualSlices(t, p.bars("Sources"), want.lines(), "channels")
	if got, want := p.bars("Pages"), s.report(id, "PAGE", 10).lines(); !slices.Equal(got, want) {
		t.Errorf("pages: %q, want %q", got, want)
	}
	p.look("figures")
	p.takePicture("demo", 1180)

	p.filtersAndGoesBack(s, id, want)
	p.chartByKeys(want)
	p.downloadsTable(s, id)
	p.savesSegment()

	// Another tab is read on demand, and stands in the URL.
	p.press("Campaigns")
	p.WaitFor("location.search.includes('sources=utm_campaign')")
	p.WaitFor(`document.querySelector('section[aria-label="Sources"] .ranks')?.children.length > 2`)
	p.press("Properties")
	p.see("item_id (")
	p.press("Funnels")
	p.see("% completed")
	p.press("Show as a table")
	p.look("figures-funnel")
	p.press("Show as a chart")
	p.Do(browsertest.Press("c"))
	p.WaitFor("document.querySelector('dialog[open] input[type=date]')")
	p.look("figures-dates")
	p.press("Close")

	p.failsInPart(s, path)

	// Live figures follow while the page is open.
	p.press("Live")
	p.WaitFor("document.querySelector('h1').textContent === 'Live'")
	testkit.Equal(t, s.hit(key, "http://"+demo.Domain, "/arrives", ""), 204, "a hit: status")
	p.see("Latest page views and events")
	p.see("/arrives")
	p.look("live")
	p.clean(s)
}

// failsInPart shows the page while only the report fails, in German, and in 320 pixels.
func (p *tab) failsInPart(s *service, path string) {
	p.t.Helper()
	remove := p.Before(`(() => { const real = window.fetch; window.fetch = async (...a) => {
		const body = await (await real(...a)).json();
		if (body.data?.site?.report) {
			body.data.site.report = null;
			body.errors = [{message: '', path: ['site', 'report'], extensions: {code: 'UNAVAILABLE'}}];
		}
		return new Response(JSON.stringify(body)) } })()`)
	p.Goto(s.Origin + path)
	p.see("The service is temporarily unavailable.")
	p.see("Demo shop")
	p.look("figures-failed")
	remove()

	p.Do(chromedp.EmulateViewport(320, 800))
	p.Eval("localStorage.setItem('tallygate.language', 'de')", nil)
	p.Goto(s.Origin + path + "?compare=year&f=channel:is:direct")
	p.see("Kanal ist direkt")
	p.WaitFor("document.documentElement.scrollWidth <= window.innerWidth")
	p.Eval("localStorage.clear()", nil)
	p.Do(emulation.ClearDeviceMetricsOverride())
	p.Goto(s.Origin + path)
	p.see("Last 28 days")
}

// week returns the visitors of 7 days, today included.
func (s *service) week(id string) int64 {
	s.TB.Helper()
	var data struct{ Site struct{ Report report } }
	s.Do(`query ($id: ID!) { site(id: $id) { report(period: {preset: TODAY_AND_6_DAYS}) { totals { visitors } } } }`,
		map[string]any{"id": id}, &data)
	return data.Site.Report.Totals.Visitors
}

// filtersAndGoesBack filters by a row of a panel, and returns to all visits by the browser's
// button.
func (p *tab) filtersAndGoesBack(s *service, id string, all report) {
	p.t.Helper()
	email := map[string]any{"dimension": "CHANNEL", "operator": "IS", "values": []string{"email"}}
	want := s.report(id, "PAGE", 10, email)
	if want.Totals.Visitors == 0 || want.Totals.Visitors == all.Totals.Visitors {
		p.t.Fatalf("the filter keeps %d of %d visitors", want.Totals.Visitors, all.Totals.Visitors)
	}

	p.press("email")
	p.WaitFor("location.search === '?period=28d&compare=previous&f=channel:is:email'")
	p.WaitFor(fmt.Sprintf("%s === '%d'", total(0), want.Totals.Visitors))
	if got := p.bars("Pages"); !slices.Equal(got, want.lines()) {
		p.t.Errorf("pages with the filter: %q, want %q", got, want.lines())
	}
	p.look("figures-filtered")

	p.Eval("history.back()", nil)
	p.WaitFor(fmt.Sprintf("%s === '%d'", total(0), all.Totals.Visitors))
	p.Eval("history.forward()", nil)
	p.WaitFor(fmt.Sprintf("%s === '%d'", total(0), want.Totals.Visitors))
	p.press("Remove the filter Channel is email")
	p.WaitFor(fmt.Sprintf("%s === '%d'", total(0), all.Totals.Visitors))
}

// chartByKeys reads the chart with the keyboard and as a table, and changes the period by its
// letter.
func (p *tab) chartByKeys(want report) {
	p.t.Helper()
	const now = "Number(document.querySelector('.plot').ariaValueNow)"
	p.Eval("document.querySelector('.plot').focus()", nil)
	p.WaitFor(now + " === 28")
	p.Do(browsertest.Press(kb.ArrowLeft))
	p.WaitFor(now + " === 27")
	p.WaitFor(fmt.Sprintf("document.querySelector('.tip strong')?.textContent.replace(',', '') === '%d'", want.Series[26].Metrics.Visitors))
	p.WaitFor(fmt.Sprintf("/: %d\\. /.test(document.querySelector('.plot').ariaValueText.replace(/(\\d),/g, '$1'))", want.Series[26].Metrics.Visitors))

	p.press("Show as a table")
	p.WaitFor("document.querySelectorAll('.chart tbody tr').length === 28")
	var cells []string
	for _, point := range want.Series {
		cells = append(cells, strconv.FormatInt(point.Metrics.Visitors, 10))
	}
	got := p.Text(`[...document.querySelectorAll('.chart tbody tr')].map(tr => tr.cells[1].textContent.replace(',', '')).join()`)
	if got != strings.Join(cells, ",") {
		p.t.Errorf("table of the chart: %s, want %s", got, strings.Join(cells, ","))
	}
	p.press("Show as a chart")

	p.Eval("document.activeElement.blur()", nil)
	p.Do(browsertest.Press("w"))
	p.WaitFor("location.search.includes('period=7d') && document.querySelector('.plot')?.ariaValueMax === '7'")
	p.Do(browsertest.Press("?"))
	p.WaitFor(`document.querySelector('dialog[open]')?.textContent.includes('Last 28 days')`)
	p.look("figures-shortcuts")
	p.Do(browsertest.Press(kb.Escape))
	p.WaitFor("!document.querySelector('dialog')")
	p.Do(browsertest.Press("f"))
	p.WaitFor("location.search.includes('period=28d')")
}

// downloadsTable opens the table of pages, orders it, and compares its download with the API.
func (p *tab) downloadsTable(s *service, id string) {
	p.t.Helper()
	want := s.report(id, "PAGE", 1000)
	p.Eval(`(() => { const make = URL.createObjectURL;
		URL.createObjectURL = (b) => { window.saved = b; return make(b) };
		HTMLAnchorElement.prototype.click = function () { window.savedName = this.download } })()`, nil)
	p.press(fmt.Sprintf("Details, Pages: all %d", len(want.Rows.Edges)))
	p.WaitFor(fmt.Sprintf("document.querySelectorAll('dialog tbody tr').length === %d", len(want.Rows.Edges)))
	p.look("figures-table")
	// Once: a second click would turn the order around.
	p.WaitFor(button("Page views"))
	p.Eval(button("Page views")+".click()", nil)
	p.WaitFor(`document.querySelector('dialog th[aria-sort=descending]')?.textContent.startsWith('Page views')`)

	// The rate limit interrupts the download, and not the request for the new order.
	p.Eval(`(() => { const real = window.fetch; window.fetch = (...a) => {
		if (!a[1]?.body?.includes('"first":1000')) return real(...a);
		window.fetch = real;
		return Promise.resolve(new Response('{"errors": [{"message": "", "extensions": {"code": "RATE_LIMITED", "retryAfter": 1}}]}')) } })()`, nil)
	p.press("Download as CSV")
	p.see("The rate limit is reached.")
	p.WaitFor("window.saved?.type === 'text/csv'")
	if mark := p.Text("window.saved.arrayBuffer().then(file => [...new Uint8Array(file, 0, 3)].join())"); mark != "239,187,191" {
		p.t.Errorf("the file begins with %s, want a byte order mark", mark)
	}
	saved, err := csv.NewReader(strings.NewReader(p.Text("window.saved.text()"))).ReadAll()
	if err != nil || len(saved) != len(want.Rows.Edges)+1 {
		p.t.Fatalf("download: %v, %v", saved, err)
	}

	got := map[string]string{}
	for _, line := range saved[1:] {
		got[line[0]] = line[1] + " " + line[2]
	}
	for _, edge := range want.Rows.Edges {
		m := edge.Node.Metrics
		if w := fmt.Sprintf("%d %d", m.Visitors, m.Pageviews); got[edge.Node.Value] != w {
			p.t.Errorf("download: %s has %q, want %q", edge.Node.Value, got[edge.Node.Value], w)
		}
	}
	if name := p.Text("window.savedName"); !regexp.MustCompile(`^demo\.localhost_page_20..-..-.._20..-..-..\.csv$`).MatchString(name) {
		p.t.Errorf("the name of the file is %s", name)
	}
	if last := saved[0][len(saved[0])-1]; last != "compared_visitors" {
		p.t.Errorf("the last column is %s", last)
	}
	if text := p.Text("window.saved.text()"); regexp.MustCompile(`\.\d{3}`).MatchString(text) {
		p.t.Errorf("a figure has more than two decimals: %s", text)
	}
	if head := strings.Join(saved[0][:3], ","); head != "page,visitors,pageviews" {
		p.t.Errorf("download: the head is %s", head)
	}

	// The search stands in the URL with the rest.
	p.enter("document.querySelector('dialog input[type=search]')", "descale")
	p.WaitFor("document.querySelectorAll('dialog tbody tr').length === 1 && location.search.includes('q=descale')")
	p.press("Close")
	p.WaitFor("!document.querySelector('dialog') && !location.search.includes('all=')")
}

// savesSegment filters by the dialog, saves the filters, and applies them from the list.
func (p *tab) savesSegment() {
	p.t.Helper()
	p.press("Filter")
	p.see("Frequent values")
	p.look("figures-filter")
	p.fill("Values, one per line: any of them may match", "/shop\n/cart")
	p.press("Add the filter")
	p.WaitFor("location.search.includes('f=page:is:/shop,/cart')")
	p.press("Segments")
	p.fill("Name", "Two pages")
	p.press("Save these filters")
	p.see("Two pages is saved")
	p.WaitFor("!document.querySelector('dialog') && !history.state?.dialog") // else going back ends the next step
	p.press("Remove the filter Page is /shop or /cart")
	p.WaitFor("!location.search.includes('f=')")
	p.press("Segments")
	p.WaitFor(button("Two pages"))
	p.look("figures-segments")
	p.press("Two pages")
	p.WaitFor("location.search.includes('f=page:is:/shop,/cart') && !document.querySelector('dialog')")
	p.press("Remove the filter Two pages")
	p.WaitFor("!location.search.includes('f=')")
}
