package console_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tallygate/tallygate/cmd/tallygate/demo"
	"github.com/tallygate/tallygate/tools/browsertest"
)

// point is a part of a series.
type point struct {
	Start, ComparedStart time.Time
	Metrics              struct {
		Visitors   int64
		Comparison struct{ Visitors int64 }
	}
}

// change writes the change from the period compared with as the console does.
func (p point) change() string {
	ratio := float64(p.Metrics.Visitors-p.Metrics.Comparison.Visitors) / float64(p.Metrics.Comparison.Visitors)
	text := strconv.FormatFloat(math.Round(100*ratio), 'f', 0, 64)
	if ratio != 0 && math.Abs(ratio) < 0.1 {
		text = strconv.FormatFloat(math.Round(1000*ratio)/10, 'f', 1, 64)
	}
	if ratio > 0 {
		text = "+" + text
	}
	text = strings.Replace(text, "-", "−", 1)
	return text + "%"
}

// String writes the change and both values as the expression tip does.
func (p point) String() string {
	return fmt.Sprintf("%s %d %d", p.change(), p.Metrics.Visitors, p.Metrics.Comparison.Visitors)
}

// series reads a site's visitors of the last 28 days as a script would.
func (s *service) series(id, interval string) []point {
	s.TB.Helper()
	var data struct {
		Site struct{ Report struct{ Series []point } }
	}
	s.Do(`query ($id: ID!, $interval: ReportInterval) { site(id: $id) {
  report(period: {preset: LAST_28_DAYS}, compare: {kind: PREVIOUS_PERIOD}) {
    series(interval: $interval) { start comparedStart metrics { visitors comparison { visitors } } }
  } } }`, map[string]any{"id": id, "interval": interval}, &data)
	return data.Site.Report.Series
}

// demoSite signs the test in, and returns the demo's site.
func (s *service) demoSite() string {
	s.TB.Helper()
	s.SignIn(demo.Email, s.password)
	var data struct {
		Sites struct {
			Edges []struct{ Node struct{ ID string } }
		}
	}
	s.Do(`{ sites { edges { node { id } } } }`, nil, &data)
	return data.Sites.Edges[0].Node.ID
}

// pointAt moves the mouse over the n-th of some points of the chart until the tooltip shows its
// figures.
func (p *tab) pointAt(n, of int, want string) {
	p.t.Helper()
	p.shows(n, of, want, func(x, y float64) { p.Do(chromedp.MouseEvent(input.MouseMoved, x, y)) })
}

// touch touches the n-th of some points of the chart until the tooltip shows its figures.
func (p *tab) touch(n, of int, want string) {
	p.t.Helper()
	p.shows(n, of, want, func(x, y float64) {
		p.Do(input.DispatchTouchEvent(input.TouchStart, []*input.TouchPoint{{X: x, Y: y}}),
			input.DispatchTouchEvent(input.TouchEnd, []*input.TouchPoint{}))
	})
}

// shows points at the n-th of some points of the chart until the tooltip shows its figures. It
// points again if the chart has moved away meanwhile.
func (p *tab) shows(n, of int, want string, point func(x, y float64)) {
	p.t.Helper()

	shown := fmt.Sprintf(`new Promise((done) => { let left = 60; (function look() {
		const shown = %s;
		shown === %q || left-- === 0 ? done(shown) : requestAnimationFrame(look);
	})() })`, tip, want)

	var got string
	for range 10 {
		point(p.placeOf(n, of))
		if p.Eval(shown, &got); got == want {
			return
		}
	}
	p.t.Fatalf("point %d shows %q, want %q", n, got, want)
}

// placeOf returns the place of the n-th of some points of the chart in the window.
func (p *tab) placeOf(n, of int) (x, y float64) {
	p.t.Helper()
	var at struct{ X, Y float64 }
	p.Eval(fmt.Sprintf(`(box => ({X: box.x + 48 + (box.width - 58) * %d / %d, Y: box.y + 120}))(
		(e => { e.scrollIntoView({block: 'center', behavior: 'instant'}); return e.getBoundingClientRect() })(document.querySelector('.plot')))`,
		n, of-1), &at)
	return at.X, at.Y
}

// tip is the JavaScript expression for the figures of the tooltip, and its change.
const tip = `[...document.querySelectorAll('.tip dd, .tip .change')].map(e => e.textContent.replace(',', '')).join(' ')`

// isWhole is the JavaScript condition that the tooltip is within the window and the card of the
// chart.
const isWhole = `(() => { const tip = document.querySelector('.tip').getBoundingClientRect();
	const card = document.querySelector('.chart').getBoundingClientRect();
	return tip.left >= card.left && tip.right <= card.right && tip.top >= card.top && tip.bottom <= card.bottom &&
		document.querySelector('.tip').scrollWidth <= document.querySelector('.tip').clientWidth })()`

// TestChartChromium reads the chart with the mouse, keys and a finger, and compares its figures
// with the API. It changes the interval and smooths the lines, which the address keeps.
func TestChartChromium(t *testing.T) {
	t.Parallel()

	s := startDemo(t)
	id := s.demoSite()
	days := s.series(id, "DAY")
	p := s.openSignedIn("/sites/" + id + "?period=28d&compare=previous")
	p.WaitFor("document.querySelector('.plot svg')?.clientWidth > 300")

	// The legend has the dates of both lines.
	p.WaitFor("document.querySelectorAll('.legend > span').length === 2")
	written := func(at time.Time) string { return at.Format("Jan 2") }
	for i, first := range []time.Time{days[0].Start, days[0].ComparedStart} {
		if got := p.Text(fmt.Sprintf("document.querySelectorAll('.legend > span')[%d].textContent", i)); !strings.HasPrefix(got, written(first)) {
			t.Errorf("legend %d: %s, want it to begin with %s", i, got, written(first))
		}
	}

	// The mouse shows both values and the change, at every point within the card, and nothing
	// moves.
	p.Eval("(() => { "+watchShifts+" })()", nil)
	for _, n := range []int{0, 9, 18, 27} {
		p.pointAt(n, len(days), days[n].String())
		p.WaitFor(isWhole)
		for _, at := range []time.Time{days[n].Start, days[n].ComparedStart} {
			p.WaitFor(fmt.Sprintf("document.querySelector('.tip').textContent.includes(%q)", at.Format("Mon, Jan 2, 2006")))
		}
	}
	p.pointAt(18, len(days), days[18].String())
	p.shootAsIs("chart-tip")
	p.staysInPlace()
	p.look("chart-compared")

	// Keys show the same, and say it. Escape closes the tooltip, and keeps the filters.
	p.Do(chromedp.MouseEvent(input.MouseMoved, 1, 1))
	p.WaitFor("!document.querySelector('.tip')")
	p.Do(browsertest.Press(kb.Tab)) // the keyboard is in use
	p.Eval("document.querySelector('.plot').focus()", nil)
	p.Do(browsertest.Press(kb.Home), browsertest.Press(kb.ArrowRight))
	p.WaitFor(fmt.Sprintf("%s === %q", tip, days[1]))
	said := fmt.Sprintf("%s: %d. %s: %d. %s", days[1].Start.Format("Monday, January 2, 2006"), days[1].Metrics.Visitors,
		days[1].ComparedStart.Format("Monday, January 2, 2006"), days[1].Metrics.Comparison.Visitors, days[1].change())
	p.WaitFor(fmt.Sprintf(`document.querySelector('.plot').ariaValueText.replace(/(\d),(\d)/g, '$1$2').startsWith(%q)`, said))
	p.Do(browsertest.Press(kb.Escape))
	p.WaitFor("!document.querySelector('.tip') && location.search === '?period=28d&compare=previous'")

	p.changesInterval(s, id, days)
	p.smooths(days)
	p.touches(days)
	p.clean(s)
}

// changesInterval shows weeks and days, and reloads the page. Without hours: 28 days have more of
// them than a chart has points.
func (p *tab) changesInterval(s *service, id string, days []point) {
	p.t.Helper()
	const menu = "document.getElementById('interval')"
	weeks := s.series(id, "WEEK")

	// The 28 days before the 29th, 30th, 31st and 1st can lie within one month, and one point is no
	// chart.
	intervals := "day,week"
	if days[0].Start.Month() != days[len(days)-1].Start.Month() {
		intervals += ",month"
	}

	p.click(menu)
	p.WaitFor(fmt.Sprintf("[...document.querySelectorAll('[role=menu] [role=menuitemradio]')].map(e => e.textContent).join() === %q", intervals))
	p.look("chart-interval")
	p.click(entry("week"))
	p.WaitFor("location.search === '?period=28d&compare=previous&interval=week'")
	p.WaitFor(fmt.Sprintf("document.querySelector('.plot')?.ariaValueMax === '%d'", len(weeks)))
	p.reload()
	p.WaitFor(fmt.Sprintf("document.querySelector('.plot')?.ariaValueMax === '%d' && %s.value === 'WEEK'", len(weeks), menu))
	p.pointAt(1, len(weeks), weeks[1].String())
	p.WaitFor(fmt.Sprintf("document.querySelector('.tip').textContent.includes(%q)", weeks[1].Start.Format("Week of January 2, 2006")))

	// Another period has its own default. An interval that does not fit is dropped.
	p.Do(browsertest.Press("d"))
	p.WaitFor("location.search === '?period=today&compare=previous' && document.querySelector('.plot')?.ariaValueText.includes(':00')")
	p.Goto(s.Origin + "/sites/" + id + "?period=28d&compare=previous&interval=hour")
	p.WaitFor("location.search === '?period=28d&compare=previous' && document.querySelector('.plot')?.ariaValueMax === '28'")
	p.Goto(s.Origin + "/sites/" + id + "?period=28d&compare=previous&interval=minute")
	p.WaitFor("document.querySelector('.plot')?.ariaValueMax === '28'")
}

// smooths draws averages of seven days, also after the page is loaded again.
func (p *tab) smooths(days []point) {
	p.t.Helper()
	p.Goto(strings.Split(p.Text("location.href"), "?")[0] + "?period=28d&compare=previous")
	p.WaitFor("document.querySelector('.plot')?.ariaValueMax === '28'")
	p.pick("document.getElementById('interval')", "Smooth: average of 7 days")
	p.WaitFor("location.search === '?period=28d&compare=previous&smooth=1'")
	p.reload()
	p.WaitFor("document.querySelector('.legend')?.textContent.includes('average of 7 days')")

	average := func(value func(point) int64) string {
		var sum int64
		for _, day := range days[12:19] {
			sum += value(day)
		}
		return strconv.FormatFloat(math.Round(float64(sum)/7*10)/10, 'f', -1, 64)
	}
	want := fmt.Sprintf("%s %d %s %d %s", days[18].change(),
		days[18].Metrics.Visitors, average(func(p point) int64 { return p.Metrics.Visitors }),
		days[18].Metrics.Comparison.Visitors, average(func(p point) int64 { return p.Metrics.Comparison.Visitors }))
	p.pointAt(18, len(days), want)
	p.WaitFor("document.querySelector('.plot').ariaValueText.includes('average of 7 days: ')")
	p.look("chart-smooth")
}

// touches reads the chart with a finger on a phone. What it shows stays until the next touch.
func (p *tab) touches(days []point) {
	p.t.Helper()
	p.Do(chromedp.EmulateViewport(375, 800, chromedp.EmulateMobile, chromedp.EmulateTouch))
	p.Goto(strings.Split(p.Text("location.href"), "?")[0] + "?period=28d&compare=previous")
	p.WaitFor("document.querySelector('.plot')?.ariaValueMax === '28'")

	for _, n := range []int{1, 26} {
		p.touch(n, len(days), days[n].String())
		p.WaitFor(isWhole + " && document.documentElement.scrollWidth <= 375")
	}
	p.shootAsIs("chart-touch")
	p.click("document.querySelector('h1')")
	p.WaitFor("!document.querySelector('.tip')")
	p.Do(emulation.ClearDeviceMetricsOverride(), emulation.SetTouchEmulationEnabled(false))
}
