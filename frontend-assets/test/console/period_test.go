package console_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/reports"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// The buttons of the menus that choose the period and the comparison. Each has its choice as its
// value.
const (
	periodMenu  = "document.getElementById('period')"
	compareMenu = "document.getElementById('comparison')"
)

// entry returns a JavaScript expression for the entry of the open menu with a text.
func entry(text string) string {
	return fmt.Sprintf("[...document.querySelectorAll('[role=menu] button')].find(b => b.firstChild.textContent === %q)", text)
}

// pick chooses an entry of a menu with the mouse.
func (p *tab) pick(menu, text string) {
	p.t.Helper()
	p.click(menu)
	p.click(entry(text))
	p.WaitFor("!document.querySelector('[role=menu]')")
}

// watchShifts adds up the layout shifts of a page from now on, which have no input before them.
const watchShifts = `window.shifts = 0; new PerformanceObserver((list) => {
	for (const shift of list.getEntries()) if (!shift.hadRecentInput) window.shifts += shift.value;
}).observe({type: 'layout-shift'})`

// staysInPlace checks that the page has hardly moved since watchShifts.
func (p *tab) staysInPlace() {
	p.t.Helper()
	p.Eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))", nil)
	var shifts float64
	if p.Eval("window.shifts", &shifts); shifts > 0.01 {
		p.t.Errorf("a layout shift of %.3f, want at most 0.01", shifts)
	}
	p.t.Logf("layout shift: %.4f", shifts)
}

// siteWithHit starts the service with a site that has one page view of now.
func siteWithHit(t *testing.T) (s *service, id string) {
	t.Helper()
	s = start(t, nil)
	s.signUp()
	id, key := s.createSite("shop.localhost", "Kettle shop")
	testkit.Require(t, s.hit(key, "http://shop.localhost", "/kettle", ""), 204, "a hit: status")
	return s, id
}

// TestFirstDayChromium looks at a site on the day of its first hit: the report opens on today with
// the whole day as its axis, and the card of the site counts today.
func TestFirstDayChromium(t *testing.T) {
	t.Parallel()

	s, id := siteWithHit(t)
	p := s.openSignedIn("/")
	p.WaitFor(`document.querySelector('.week strong')?.title === '1'`)
	p.see("Visitors, last 7 days")

	p.press("Kettle shop")
	p.WaitFor(total(0) + " === '1'")
	p.WaitFor(periodMenu + ".value === 'today' && location.search === ''")
	p.WaitFor("document.querySelector('.plot .dot')")

	var place struct{ At, Want float64 }
	p.Eval(`(() => {
		const svg = document.querySelector('.plot svg');
		return {At: Number(svg.querySelector('.dot').getAttribute('cx')),
			Want: 48 + (svg.clientWidth - 58) * (Number(document.querySelector('.plot').ariaValueNow) - 1) / 23};
	})()`, &place)
	if place.At < place.Want-1 || place.At > place.Want+1 {
		t.Errorf("the hour stands at %.0f of the axis, want %.0f of 24 hours", place.At, place.Want)
	}
	p.look("figures-first-day")

	// Readers of a link have the same first view.
	reader := s.open("/share#" + s.createLink(id, "For the bank", ""))
	reader.WaitFor(total(0) + " === '1'")
	reader.WaitFor(periodMenu + ".value === 'today'")

	// The period of the address has precedence.
	p.Goto(s.Origin + "/sites/" + id + "?period=28d")
	p.WaitFor(total(0) + " === '0'")
	p.press("Show today")
	p.WaitFor(total(0) + " === '1'")
	p.clean(s)
}

// TestKeptPeriodChromium chooses a period and a comparison. They stay on the pages of the site, and
// open the report from the list, also in another browser, which has stored nothing.
func TestKeptPeriodChromium(t *testing.T) {
	t.Parallel()

	s, id := siteWithHit(t)
	p := s.openSignedIn("/sites/" + id)
	p.WaitFor(periodMenu + "?.value === 'today'")
	p.pick(periodMenu, "Last 7 days")
	p.WaitFor("location.search === '?period=7d'")
	p.pick(compareMenu, "Year before")
	p.WaitFor("location.search === '?period=7d&compare=year'")
	p.press("Settings")
	p.press("Events")
	p.WaitFor("location.pathname.endsWith('/events') && location.search === '?period=7d&compare=year'")
	p.press("Report")
	p.WaitFor("location.search === '?period=7d&compare=year' && document.querySelector('.totals')")
	p.press("Sites")
	p.WaitFor("location.pathname === '/'")
	p.press("Kettle shop")
	p.WaitFor("location.search === '' && " + periodMenu + "?.value === '7d' && " + compareMenu + ".value === 'year'")

	// Back shows what was there before the choice.
	p.Do(browsertest.Press("d"))
	p.WaitFor("location.search === '?period=today&compare=year'")
	p.Eval("history.back()", nil)
	p.WaitFor("location.search === '?period=7d&compare=year' && " + periodMenu + ".value === '7d'")

	// Chosen dates stay in the address, and are not kept. Neither is the day to compare with.
	p.Goto(s.Origin + "/sites/" + id + "?from=2026-01-01&to=2026-01-31")
	p.WaitFor("document.querySelector('.totals')")
	p.press("Settings")
	p.WaitFor("location.search === '?from=2026-01-01&to=2026-01-31'")
	p.press("Report")
	p.WaitFor("location.search === '?from=2026-01-01&to=2026-01-31' && document.querySelector('.totals')")
	p.WaitFor("document.activeElement.tagName === 'H1'") // the page has moved the focus
	p.pick(compareMenu, "Other first day …")
	p.WaitFor("document.querySelector('dialog[open] input[type=date]')")
	p.look("figures-compare")
	p.fill("First day", "2025-06-01")
	p.press("Show")
	p.WaitFor("location.search.includes('compare=2025-06-01') && " + compareMenu + ".innerText === 'Period from Jun 1, 2025'")

	other := s.openSignedIn("/sites/" + id)
	other.WaitFor(periodMenu + "?.value === 'today' && " + compareMenu + ".value === 'year'")
	for _, p := range []*tab{p, other} {
		testkit.Equal(t, p.Text(`JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}])`), `["",{},{}]`, "stored")
		p.clean(s)
	}
}

// TestAllTimeChromium opens the report of a site with figures of many years, and asks for too many
// by their dates.
func TestAllTimeChromium(t *testing.T) {
	t.Parallel()

	s, id := siteWithHit(t)
	first := model.At(time.Date(2012, 3, 20, 0, 0, 0, 0, time.UTC)).Day()
	d := dbtest.Open(t, db.EmbeddedURL(s.dir))
	_, err := reports.New(d).Import(t.Context(), 1, &reports.Import{
		Source: model.ImportPlausible, First: first, Last: first,
		Figures: []reports.ImportFigure{{Day: first, Visitors: 41, Visits: 41, Pageviews: 41}},
	}, model.At(time.Now()), sites.RecordImport, func(float64) {})
	testkit.NoError(t, err)

	p := s.openSignedIn("/sites/" + id + "?period=all&compare=previous")
	p.WaitFor(total(0) + " === '42'")
	p.WaitFor(compareMenu + ".disabled && " + compareMenu + ".innerText === 'No earlier data'")
	p.WaitFor("document.querySelector('.chart .legend').innerText.includes('2012')")
	p.look("figures-all-time")

	p.Do(browsertest.Press("c"))
	p.fill("First day", "2012-03-20")
	p.press("Show")
	p.see("At most 5 years can be chosen. “All time” shows every year.")
	p.look("figures-too-many-dates")
	p.press("Close")
	p.WaitFor("!document.querySelector('dialog') && !history.state?.dialog") // else going back aborts the next load
	p.Goto(s.Origin + "/sites/" + id + "?from=2012-03-20&to=2026-01-01")
	p.see("A period has at most 5 years.")
	if p.Text(`document.querySelector('main').innerText.includes('Try again') ? 'shown' : ''`) != "" {
		t.Error("a period that is too long can be tried again")
	}
}

// TestSlowAnswerChromium holds the answers back: the first view has the shape of a report and does
// not move, and earlier figures stay at half strength under the new label.
func TestSlowAnswerChromium(t *testing.T) {
	t.Parallel()

	s, id := siteWithHit(t)
	p := s.openSignedIn("/")
	p.see("Kettle shop")
	remove := p.Before(`(() => { const real = window.fetch; let go;
		window.hold = () => { window.held = new Promise((done) => { go = done }) };
		window.release = () => go();
		window.hold();
		window.fetch = (...a) => window.held.then(() => real(...a)) })();` + watchShifts)
	defer remove()

	p.Goto(s.Origin + "/sites/" + id)
	p.WaitFor("document.querySelectorAll('.skeleton i').length === 7")
	p.look("figures-skeleton")
	p.Eval("window.release()", nil)
	p.WaitFor(total(0) + " === '1'")
	p.staysInPlace()

	p.Eval("window.hold()", nil)
	p.Do(browsertest.Press("w"))
	p.WaitFor(periodMenu + ".value === '7d' && document.querySelector('.figures').ariaBusy === 'true'")
	p.WaitFor("getComputedStyle(document.querySelector('.totals')).opacity === '0.5' && " + total(0) + " === '1'")
	p.Eval("window.release()", nil)
	p.WaitFor("getComputedStyle(document.querySelector('.totals')).opacity === '1' && " + total(0) + " === '0'")
}

// TestSlowNetworkChromium opens a report with its comparison over a network with 400 ms of latency
// and 50 kB a second, as of a slow phone, without a cache. The page has its shape before its
// figures, says nothing of a failure, and does not jump when the further modules arrive.
func TestSlowNetworkChromium(t *testing.T) {
	t.Parallel()
	s, id := siteWithHit(t)
	p := s.openSignedIn("/")
	p.see("Kettle shop")
	slow := &network.Conditions{Latency: 400, DownloadThroughput: 50_000, UploadThroughput: 50_000}
	p.Do(network.SetCacheDisabled(true), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := network.EmulateNetworkConditionsByRule([]*network.Conditions{slow}).Do(ctx)
		return err
	}))
	watched := p.Before(watchShifts + `;new MutationObserver(() => {
		window.hadSkeleton ||= !!document.querySelector('.skeleton');
		window.hadFailure ||= !!document.querySelector('main [role=alert]');
	}).observe(document, { subtree: true, childList: true })`)
	defer watched()

	p.Goto(s.Origin + "/sites/" + id + "?period=today&compare=previous")
	p.WaitFor(total(0) + " === '1'")
	p.WaitFor("document.querySelector('section[aria-label=Events]')?.textContent.includes('Funnels')")
	p.WaitFor("performance.getEntriesByType('resource').some(r => r.name.endsWith('/drilldown.js') && r.responseEnd)")
	p.staysInPlace()
	testkit.Equal(t, p.Text("window.hadSkeleton + ' ' + window.hadFailure"), "true false", "had a skeleton and a failure")
	t.Log(p.Text("performance.getEntriesByType('resource').map(r => r.name.split('/').pop() + ' ' + Math.round(r.responseEnd) + ' ms').join(', ')"))
	p.clean(s)
}

// TestServerAwayChromium stops the service under an open report. The last figures stay with their
// time, and the page recovers by itself.
func TestServerAwayChromium(t *testing.T) {
	t.Parallel()

	s, id := siteWithHit(t)
	p := s.openSignedIn("/sites/" + id)
	p.WaitFor(total(0) + " === '1'")
	p.Eval(`(() => { const real = window.fetch; window.calls = 0;
		window.fetch = (...a) => { window.calls++; return real(...a) } })()`, nil)
	s.stop()

	p.Do(browsertest.Press("e"))
	p.see("could not be reached")
	p.heard("Could not be read. Figures of ")
	p.WaitFor(`/Figures of .+, from \d+:\d\d/.test(document.body.innerText)`)
	p.WaitFor("window.calls >= 3") // ten seconds
	p.WaitFor(total(0) + " === '1' && getComputedStyle(document.querySelector('.totals')).opacity === '1'")
	p.look("figures-away")

	start := map[string]string{"CONTROL_ADDR": strings.TrimPrefix(s.Origin, "http://"), "DATA_DIR": s.dir}
	startProgram(t, "", "serve", start)
	p.WaitFor(fmt.Sprintf("%s === '0' && !document.body.innerText.includes('could not be reached')", total(0)))
	p.heard("Yesterday: 0 visitors")
}
