package console_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// revenue is the revenue in one currency.
type revenue struct {
	Currency, Net, Gross, Refunded string
	Purchases, Refunds             int64
}

// goalReport is what the tests of goals and revenue compare with the page.
type goalReport struct {
	Totals struct {
		Visitors int64
		Revenue  []revenue
	}
	Series []struct{ Metrics struct{ Revenue []revenue } }
	Rows   struct {
		Edges []struct {
			Node struct {
				Value   string
				Metrics struct {
					Visitors, Pageviews, Events, Conversions int64
					Share                                    float64
					Revenue                                  []revenue
				}
			}
		}
	}
	Funnel struct{ Steps []struct{ Visitors int64 } }
}

// goals reads the figures of the last 28 days as a script would.
func (s *service) goals(id, by string, filters ...any) goalReport {
	s.TB.Helper()

	if filters == nil {
		filters = []any{}
	}
	var data struct{ Site struct{ Report goalReport } }
	s.Do(`query ($id: ID!, $by: ReportDimension!, $filters: [ReportFilterInput!]!) { site(id: $id) {
  report(period: {preset: LAST_28_DAYS}, filters: $filters) {
    totals { visitors revenue { ...R } }
    series { metrics { revenue { ...R } } }
    rows: breakdown(by: $by, first: 1000) { edges { node { value metrics { visitors pageviews events conversions share revenue { ...R } } } } }
    funnel(steps: [{event: "view_item"}, {event: "add_to_cart"}, {event: "begin_checkout"}, {event: "purchase"}]) { steps { visitors } }
  } } }
  fragment R on ReportRevenue { currency net gross refunded purchases refunds }`,
		map[string]any{"id": id, "by": by, "filters": filters}, &data)
	return data.Site.Report
}

// cells returns the rows of a table of the page as lines, with "|" between the cells.
func (p *tab) cells(table string) []string {
	p.t.Helper()
	const script = `[...document.querySelectorAll('%s [role=row]:has([role=cell])')].map(row => [...row.children]
		.map(c => c.textContent.replaceAll(',', '').trim()).join('|')).join('\n')`
	return strings.Split(p.Text(fmt.Sprintf(script, table)), "\n")
}

// ratio is a JavaScript function that returns the contrast of two computed colors. A canvas reads
// every form of a color.
const ratio = `((a, b) => {
	const context = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
	const [light, dark] = [a, b].map(color => {
		context.fillStyle = color;
		context.fillRect(0, 0, 1, 1);
		const [red, green, blue] = [...context.getImageData(0, 0, 1, 1).data].map(part => part / 255)
			.map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
		return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
	}).sort((a, b) => b - a);
	return (light + 0.05) / (dark + 0.05);
})`

// inked checks the contrast of the first bar with its card, and of the texts above the bar, in both
// themes.
func (p *tab) inked() {
	p.t.Helper()
	const row = `document.querySelector('section[aria-label="Events"] .ranks [role=row]')`
	const card = "getComputedStyle(document.querySelector('.panel')).backgroundColor"
	for _, theme := range []string{"light", "dark"} {
		p.Eval(fmt.Sprintf("document.documentElement.dataset.theme = %q", theme), nil)

		var bar, text, star float64
		p.Eval(ratio+"(getComputedStyle("+row+").backgroundImage.match(/(rgb|color)a?\\([^)]*\\)/)[0], "+card+")", &bar)
		p.Eval(ratio+"(getComputedStyle("+row+".querySelector('a')).color, "+card+")", &text)
		p.Eval(ratio+"(getComputedStyle(document.querySelector('.star')).color, "+card+")", &star)
		if bar < 1.6 || bar > 2.2 {
			p.t.Errorf("%s: a bar has the contrast %.2f with its card, want about 1.9", theme, bar)
		}
		if text < 4.5 || star < 3 {
			p.t.Errorf("%s: the text above a bar has the contrast %.2f, and the star %.2f", theme, text, star)
		}
	}
	p.Eval("delete document.documentElement.dataset.theme", nil)
}

// TestPanelsChromium compares the panels with the API: shares, names, hours, goals, funnels and
// revenue.
func TestPanelsChromium(t *testing.T) {
	t.Parallel()

	s := startDemo(t)
	id := s.demoSite()
	p := s.openSignedIn("/sites/" + id)
	p.WaitFor("document.querySelector('.star')")
	p.inked()

	// Each row has its share, and events have their names.
	for _, edge := range s.goals(id, "EVENT").Rows.Edges[:3] {
		row := fmt.Sprintf(`[...document.querySelectorAll('section[aria-label="Events"] .ranks > *')]
			.find(row => row.firstChild.textContent.endsWith(%q))?.lastChild`, edge.Node.Value)
		share := strconv.FormatFloat(edge.Node.Metrics.Share, 'f', 1, 64) + "%"
		testkit.Equal(t, p.Text(row+"?.textContent"), share, "the share of %s", edge.Node.Value)
		p.WaitFor(row + ".checkVisibility({opacityProperty: true, visibilityProperty: true})")
	}
	p.see("Added to cart add_to_cart")
	p.see("colour_picked")
	p.WaitFor(`[...document.querySelectorAll('section[aria-label="Events"] .ranks > *')].filter(row => row.querySelector('.star'))
		.map(row => row.querySelector('.stored')?.textContent ?? row.firstChild.lastChild.lastChild.textContent).join() === 'purchase,newsletter_signup'`)

	// The tabs of a panel leave the panels of the other column in their places, and are one line.
	places := "[...document.querySelectorAll('.panels > div:nth-child(2) > *')].map(e => [e.offsetTop, e.offsetHeight]).join()"
	p.Do(chromedp.EmulateViewport(1440, 900))
	before := p.Text(places)
	p.more("Sources")
	p.press("Source groups")
	p.WaitFor("document.querySelector('section[aria-label=Sources] .ranks a')?.textContent === 'search' && !document.querySelector('[aria-busy=true]')")
	testkit.Equal(t, p.Text(places), before, "a tab moves the panels of the other column from %s to", before)
	p.WaitFor("[...document.querySelectorAll('.panel .tabs')].every(nav => nav.offsetHeight < 40)")
	p.press("Sources")
	p.WaitFor(`[...document.querySelectorAll('section[aria-label=Sources] .ranks a')].filter(a => a.textContent === 'Google').length === 1`)
	p.WaitFor(`document.querySelectorAll('section[aria-label=Sources] .ranks .icon').length === 10`)

	p.Goto(s.Origin + "/sites/" + id + "?all=event")
	p.WaitFor("document.querySelectorAll('dialog[open] tbody .star').length === 2")
	p.look("panels-table")
	p.Goto(s.Origin + "/sites/" + id)
	p.hours(s, id)
	p.goalsAndFunnels(s, id)
	p.revenue(s, id)
	p.clean(s)

	// A key event without visitors is a goal, too.
	s.Do(`mutation ($input: SiteEventInput!) { registerEvent(input: $input) { userErrors { code } } markKeyEvent(input: $input) { userErrors { code } } }`,
		map[string]any{"input": map[string]any{"siteId": id, "name": "booked"}}, nil)
	p.press("Goals")
	p.WaitFor("[...document.querySelectorAll('.goals [role=row]')].some(row => [...row.children].map(c => c.textContent).join() === '★Key event: booked,0,0,0%')")
	s.germanReader(id)
}

// germanReader opens a shared link in German, which has key events, and no segments.
func (s *service) germanReader(id string) {
	s.TB.Helper()
	page := browsertest.New(s.TB).NewPage()
	page.Before("localStorage.setItem('tallygate.language', 'de')")
	reader := &tab{page, s.TB}
	reader.Do(chromedp.EmulateViewport(320, 800))
	reader.Goto(s.Origin + "/share?events=goal&revenue=source&audience=hour_of_day&f=channel:is:direct#" + s.createLink(id, "Goals", ""))
	reader.see("Freigegebener Bericht von")
	reader.WaitFor("document.querySelectorAll('.goals a').length === 2 && document.querySelector('.shares') && document.querySelectorAll('.strip a').length === 24")
	reader.see("Netto in Euro (EUR)")
	reader.press("Ereignisse")
	reader.WaitFor(`document.querySelector('section[aria-label="Ereignisse"] .ranks')?.textContent.includes('In den Warenkorb gelegt add_to_cart')`)
	reader.press("Kanäle")
	reader.WaitFor(`document.querySelector('section[aria-label="Quellen"] .ranks a')?.textContent === 'direkt'`)
	reader.staysWithin("a shared report in German")
	reader.look("panels-german")
	reader.clean(s)
}

// hours compares the columns of the hours with the API, and filters by one.
func (p *tab) hours(s *service, id string) {
	p.t.Helper()
	p.press("Hours")
	p.WaitFor("document.querySelectorAll('.strip > *').length === 24")
	want := map[string]int64{}
	for _, edge := range s.goals(id, "HOUR_OF_DAY").Rows.Edges {
		want[edge.Node.Value] = edge.Node.Metrics.Visitors
	}
	for i, line := range p.cells(".hours") {
		if hour := fmt.Sprintf("%02d", i); line != fmt.Sprintf("%s:00|%d", hour, want[hour]) {
			p.t.Errorf("hour %s: %s, want %d", hour, line, want[hour])
		}
	}

	p.press("20:00")
	p.see("Hour is 20:00")
	kept := s.goals(id, "HOUR_OF_DAY", map[string]any{"dimension": "HOUR_OF_DAY", "operator": "IS", "values": []string{"20"}})
	p.WaitFor(fmt.Sprintf("%s === '%d'", total(0), kept.Totals.Visitors))
	p.look("panels-hour")
	p.press("Remove the filter Hour is 20:00")
	p.more("Audience")
	p.press("Days of the week")
	p.WaitFor("document.querySelector('section[aria-label=Audience] .ranks a')?.textContent === 'Monday'")
}

// goalsAndFunnels names a page goal, compares all goals with the API, and reads the funnel.
func (p *tab) goalsAndFunnels(s *service, id string) {
	p.t.Helper()
	all := s.goals(id, "EVENT")
	var want []string
	for _, edge := range all.Rows.Edges {
		m := edge.Node.Metrics
		if m.Conversions == 0 {
			continue
		}
		want = append(want, fmt.Sprintf("%s|%d|%d|%s", edge.Node.Value, m.Visitors, m.Events, rate(m.Visitors, all.Totals.Visitors)))
	}

	p.press("Goals")
	p.WaitFor("document.querySelector('.goals')")
	p.press("New page goal")
	p.enter("document.querySelector('[name=pattern]')", "thanks")
	p.enter("document.querySelector('details [name=name]')", "Guides")
	p.press("Add the goal")
	p.see(`A path begins with "/".`)
	p.enter("document.querySelector('[name=pattern]')", "/guide/*")
	p.press("Add the goal")

	read := s.goals(id, "PAGE", map[string]any{"dimension": "PAGE", "operator": "MATCHES", "values": []string{"/guide/*"}})
	var views int64
	for _, edge := range read.Rows.Edges {
		if strings.HasPrefix(edge.Node.Value, "/guide/") {
			views += edge.Node.Metrics.Pageviews
		}
	}
	if read.Totals.Visitors == 0 || views == 0 {
		p.t.Fatalf("no visitor reads the guides: %+v", read.Totals)
	}
	want = append(want, fmt.Sprintf("Guides /guide/*|%d|%d|%s", read.Totals.Visitors, views, rate(read.Totals.Visitors, all.Totals.Visitors)))
	p.WaitFor("[...document.querySelectorAll('.goals a')].some(a => a.textContent === 'Guides /guide/*')")

	got := p.cells(".goals")
	for i, line := range got {
		parts := strings.Split(strings.TrimPrefix(line, "★Key event: "), "|")
		name := strings.Fields(parts[0])
		kind := "Gross" // of an event, as refunds are events of their own
		if i == len(got)-1 {
			kind = "Net"
		}
		if len(parts) > 4 && !strings.HasPrefix(parts[4], kind+": €") {
			p.t.Errorf("the revenue of a goal: %s", parts[4])
		}
		if i < len(got)-1 {
			parts[0] = name[len(name)-1]
		}
		got[i] = strings.Join(parts[:4], "|")
	}
	if !slices.Equal(got, want) {
		p.t.Errorf("goals: %q, want %q", got, want)
	}
	p.look("panels-goals")
	p.press("Guides /guide/*")
	p.WaitFor(fmt.Sprintf("%s === '%d'", total(0), read.Totals.Visitors))
	p.press("Remove the filter Page matches /guide/*")

	p.press("Funnels")
	p.WaitFor("document.querySelector('.funnel')")
	var steps []string
	found := all.Funnel.Steps
	lost := func(i int) int64 { return found[i-1].Visitors - found[i].Visitors }
	for i, step := range found {
		drop, largest := "", false
		if i > 0 {
			largest = lost(i) == max(lost(1), lost(2), lost(3))
			drop = fmt.Sprintf("−%s %d left", rate(lost(i), found[i-1].Visitors), lost(i))
		}
		if largest {
			drop += ": the largest loss"
		}
		steps = append(steps, fmt.Sprintf("%d|%s|%s", step.Visitors, rate(step.Visitors, found[0].Visitors), drop))
	}
	last := found[len(found)-1].Visitors
	p.WaitFor(fmt.Sprintf("document.querySelector('.done').textContent.replaceAll(',', '').trim() === '%s completed %d of %d'",
		rate(last, found[0].Visitors), last, found[0].Visitors))
	got = p.cells(".funnel")
	for i, line := range got {
		_, got[i], _ = strings.Cut(line, "|")
	}
	if !slices.Equal(got, steps) {
		p.t.Errorf("the funnel: %q, want %q", got, steps)
	}
	p.look("panels-funnel")
}

// rate writes a share as the page does.
func rate(n, of int64) string {
	if n == 0 || n == of {
		return fmt.Sprintf("%d%%", 100*n/of)
	}
	return strconv.FormatFloat(100*float64(n)/float64(of), 'f', 1, 64) + "%"
}

// revenue compares the panel of revenue with the API: its course, and its rows by channel.
func (p *tab) revenue(s *service, id string) {
	p.t.Helper()
	want := s.goals(id, "CHANNEL")
	if len(want.Totals.Revenue) != 1 || want.Totals.Revenue[0].Refunds == 0 {
		p.t.Fatalf("the demo has no refunds: %+v", want.Totals.Revenue)
	}

	euros := func(amount string) string {
		n, err := strconv.ParseFloat(amount, 64)
		testkit.NoError(p.t, err)
		return strings.Replace(fmt.Sprintf("€%.2f", n), "€-", "-€", 1)
	}
	rows := map[string]string{}
	for _, edge := range want.Rows.Edges {
		for _, r := range edge.Node.Metrics.Revenue {
			refunded := "–"
			if r.Refunds > 0 {
				refunded = euros(r.Refunded)
			}
			rows[edge.Node.Value] = fmt.Sprintf("%d|%s|%s", r.Purchases, refunded, euros(r.Net))
		}
	}
	p.WaitFor(fmt.Sprintf("document.querySelectorAll('.shares .ranks > *').length === %d", len(rows)))
	for _, line := range p.cells(".shares") {
		channel, figures, _ := strings.Cut(line, "|")
		if figures != rows[channel] {
			p.t.Errorf("the revenue of %s is %s, want %s", channel, figures, rows[channel])
		}
	}
	p.see("Net in Euro (EUR)")

	var course []string
	for _, point := range want.Series {
		net := "0"
		for _, r := range point.Metrics.Revenue {
			net = r.Net
		}
		course = append(course, euros(net))
	}
	got := p.Text("[...document.querySelectorAll('.course title')].map(e => e.textContent.split(': ')[1].replace(',', '')).join()")
	if got != strings.Join(course, ",") {
		p.t.Errorf("the course of revenue: %s, want %s", got, strings.Join(course, ","))
	}
	p.Eval("document.querySelector('.currency details').open = true", nil)
	p.look("panels-revenue")
}
