package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

const (
	attention = "document.querySelector('.attention')"
	// marks lists the texts of the links that have a dot.
	marks = `[...document.querySelectorAll('a .mark')].filter(e => e.checkVisibility()).map(e => e.parentElement.textContent).join()`
)

// TestHiddenNoticesChromium hides the line of rejected calls and of the quota. It stays hidden,
// also in another browser, until a count grows; the dot at Settings stays.
func TestHiddenNoticesChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, key := s.createSite("shop.localhost", "Kettle shop")
	reject := func() {
		t.Helper()
		testkit.Require(t, s.hit(key, "https://www.other.example", "/", ""), 403, "a hit of another domain: status")
	}
	testkit.Require(t, s.hit(key, "http://shop.localhost", "/", ""), 204, "a hit: status")
	reject()
	s.await(id, 1)

	// One quiet line before the figures, and without it the dot that leads to the same page.
	p := s.openSignedIn("/sites/" + id)
	p.see("1 call was refused in the last 7 days")
	p.WaitFor(attention + ".offsetHeight <= 36 && " + attention + ".textContent.endsWith('×')")
	p.WaitFor(marks + " === ''")
	p.look("attention")
	p.Do(chromedp.EmulateViewport(320, 800))
	p.WaitFor("[..." + attention + ".querySelectorAll('a, button')].every(e => e.getBoundingClientRect().height >= 24)")
	p.WaitFor(attention + ".querySelector('button').getBoundingClientRect().left >= " + attention + ".querySelector('a').getBoundingClientRect().right")
	p.Do(chromedp.EmulateViewport(1280, 800))
	p.press("Hide until there are more")
	p.WaitFor("!" + attention + " && document.activeElement.tagName === 'H1'")
	p.WaitFor(marks + " === 'Settings'")
	s.awaitHidden(id, 1, 0)

	// The server keeps the choice, and the device stores nothing.
	other := s.openSignedIn("/sites/" + id)
	other.WaitFor(total(2) + " === '1' && !" + attention)
	other.WaitFor(marks + " === 'Settings'")
	other.press("Settings")
	other.WaitFor(marks + " === 'Settings,Refused calls'")
	testkit.Equal(t, other.Text(`JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}])`), `["",{},{}]`, "stored")
	other.press("Refused calls")
	other.see("domain_not_allowed")
	other.clean(s)

	// It returns with the next call, here together with the quota.
	reject()
	s.await(id, 2)
	d := dbtest.Open(t, db.EmbeddedURL(s.dir))
	testkit.NoError(t, dbtest.Exec(d, "UPDATE sites SET monthly_pageviews = 1"))
	p.Goto(s.Origin + "/sites/" + id)
	p.see("2 calls were refused in the last 7 days")
	p.see("This month’s quota is used up: new page views and events are refused until")
	p.look("attention-quota")
	p.Do(chromedp.EmulateViewport(320, 800))
	p.WaitFor(sideways + " === ''")
	p.press("Hide until there are more")
	p.WaitFor("!" + attention)
	s.awaitHidden(id, 2, 100)

	// Counts that fall lower the hidden ones, so that the next growth is seen.
	testkit.NoError(t, dbtest.Exec(d, "UPDATE sites SET monthly_pageviews = 10000"))
	testkit.NoError(t, dbtest.Exec(d, "DELETE FROM rejections"))
	p.Goto(s.Origin + "/sites/" + id)
	p.WaitFor(total(2) + " === '1' && !" + attention + " && " + marks + " === ''")
	s.awaitHidden(id, 0, 0)
	reject()
	s.await(id, 1)
	p.Goto(s.Origin + "/sites/" + id)
	p.see("1 call was refused in the last 7 days")
	p.clean(s)
}

// await waits until the server counts n rejected calls of a site.
func (s *service) await(id string, n int) {
	s.TB.Helper()
	testkit.Await(s.TB, fmt.Sprintf("%d rejected calls", n), func() bool {
		var data struct {
			Site struct{ Rejections []struct{ Count int } }
		}
		s.Do(`query ($id: ID!) { site(id: $id) { rejections { count } } }`, map[string]any{"id": id}, &data)
		sum := 0
		for _, r := range data.Site.Rejections {
			sum += r.Count
		}
		return sum == n
	})
}

// awaitHidden waits until the server has stored the counts that the owner has hidden.
func (s *service) awaitHidden(id string, rejections, usage int) {
	s.TB.Helper()
	type counts struct{ Rejections, Usage int }
	want := counts{rejections, usage}
	testkit.Await(s.TB, fmt.Sprintf("the hidden counts %+v", want), func() bool {
		var data struct {
			Site struct{ HiddenNotices counts }
		}
		s.Do(`query ($id: ID!) { site(id: $id) { hiddenNotices { rejections usage } } }`, map[string]any{"id": id}, &data)
		return data.Site.HiddenNotices == want
	})
}

// TestSiteTabsChromium goes through the three tabs and the pages of the settings with keys alone,
// in a wide window and in 320 pixels, where the list of pages opens on demand.
func TestSiteTabsChromium(t *testing.T) {
	t.Parallel()

	s, id := siteWithHit(t)
	const (
		tabs    = `[...document.querySelectorAll('nav.tabs')][0]`
		current = `[...document.querySelectorAll('.site .tabs [aria-current]')].map(e => e.textContent + ' ' + e.ariaCurrent).join()`
		heading = `document.querySelector('h1').textContent`
		entries = `[...document.querySelectorAll('.pages a')].map(e => e.textContent).join()`
	)
	k := keyboard{s.openSignedIn("/sites/" + id)}
	k.WaitFor(total(2) + " === '1'")
	testkit.Equal(t, k.Text(`[...`+tabs+`.children].map(e => e.textContent).join()`), "Report,Live,Settings", "the tabs")
	k.WaitFor(current + " === 'Report page'")
	k.use("Live")
	k.WaitFor(current + " === 'Live page' && " + heading + " === 'Live' && document.activeElement.tagName === 'H1'")
	k.use("Settings")
	k.WaitFor(current + " === 'Settings page' && " + heading + " === 'General'")

	// Each page has its place in the list, which does not move.
	const want = "General,Measurement,Exclusions,Installation,Advanced,Events,Refused calls,Usage,Notes, segments, funnels,Sharing,Export,Import,Webhooks,Alerts and mails"
	testkit.Equal(t, k.Text(entries), want, "the pages")
	const top = "String(document.querySelector('.pages').getBoundingClientRect().top)"
	place := k.Text(top)
	for _, page := range [][2]string{
		{"install", "Installation"}, {"events", "Events"}, {"rejections", "Refused calls"}, {"usage", "Usage"},
		{"saved", "Notes, segments, funnels"}, {"sharing", "Sharing"}, {"export", "Export"}, {"import", "Import"},
		{"webhooks", "Webhooks"}, {"alerts", "Alerts and mails"},
	} {
		path, text := page[0], page[1]
		k.use(text)
		k.WaitFor(fmt.Sprintf("location.pathname.endsWith('/%s') && %s === %q && document.activeElement.tagName === 'H1'", path, heading, text))
		k.WaitFor(fmt.Sprintf("document.querySelector('.pages [aria-current=page]')?.textContent === %q", text))
		k.WaitFor("!document.querySelector('.loading')")
		k.WaitFor(current + " === 'Settings true'")
		testkit.Equal(t, k.Text(top), place, "%s: the list is at", path)
	}

	// Narrow windows have a button in place of the list.
	k.Do(chromedp.EmulateViewport(320, 640))
	const closed = "!document.querySelector('.pages ul').checkVisibility()"
	k.WaitFor(closed)
	button := "document.querySelector('.pages > button')"
	k.reach(button)
	k.WaitFor(button + ".ariaExpanded === 'false'")
	k.keys(kb.Enter)
	k.WaitFor(button + ".ariaExpanded === 'true' && !(" + closed + ")")
	k.look("settings-pages-open")
	k.Do(chromedp.EmulateViewport(320, 640)) // a picture has changed it
	k.WaitFor(sideways + " === ''")
	k.use("Usage")
	k.WaitFor("location.pathname.endsWith('/usage') && " + closed + " && document.activeElement.tagName === 'H1'")
	k.clean(s)
}

// TestPhoneChromium opens a report on a phone: the first figure is in view, the totals are in two
// columns within the window, and the period stays at the upper edge.
func TestPhoneChromium(t *testing.T) {
	t.Parallel()

	s := startDemo(t)
	p := s.openDemoSite()
	path := p.Text("location.pathname")
	p.Do(chromedp.EmulateViewport(375, 667))
	watched := p.Before(watchShifts)
	p.Goto(s.Origin + path + "?period=28d&compare=previous")
	p.WaitFor(attention + "?.querySelector('button') && document.querySelectorAll('.panels .panel').length >= 4")
	watched()
	p.staysInPlace()
	p.WaitFor(sideways + " === ''")

	// The first figures are in the window, in two columns.
	const boxes = "[...document.querySelectorAll('.totals a')].map(e => e.getBoundingClientRect())"
	p.WaitFor(boxes + "[0].bottom < 350")
	p.WaitFor(boxes + ".length === 7 && new Set(" + boxes + ".map(b => b.left)).size === 2")
	p.WaitFor(boxes + ".every(b => b.left >= 0 && b.right <= 375)")

	p.WaitFor("document.querySelector('details.why')") // with it nothing above the panels changes any more
	p.Eval("scrollTo(0, 1000)", nil)
	p.WaitFor("scrollY === 1000 && document.querySelector('.controls').getBoundingClientRect().top === 0")

	// A tab of the second row in the address does not scroll the page to it.
	p.Goto(s.Origin + path + "?period=28d&sources=utm_campaign&audience=day_of_week")
	p.WaitFor("document.querySelectorAll('.subtabs a[aria-current]').length === 2 && document.querySelector('.ranks > *')")
	p.WaitFor("scrollY === 0")

	// The whole table has rows of two lines, more only for a long path, with the figure of the
	// order at their end.
	p.Goto(s.Origin + path + "?period=28d&all=page&order=exitRate")
	const rows = `[...document.querySelectorAll('dialog tbody tr')]`
	p.WaitFor(rows + ".length > 10")
	p.WaitFor(rows + ".every(tr => tr.offsetHeight - tr.cells[0].offsetHeight < 44)")
	got := p.Text(rows + "[0] && [...document.querySelectorAll('dialog tbody tr')[0].cells].filter(e => e.checkVisibility()).map(e => e.dataset.label ?? 'value').join()")
	testkit.Equal(t, got, "value,Visitors,Page views,Exit rate", "the row shows")
	p.look("figures-table-narrow")
	p.clean(s)
}

// TestFirstScreenChromium opens a report in a usual window: everything until the first rows of the
// panels is in view.
func TestFirstScreenChromium(t *testing.T) {
	t.Parallel()

	s := startDemo(t)
	p := s.openDemoSite()
	path := p.Text("location.pathname")
	p.Do(chromedp.EmulateViewport(1440, 900))
	for _, page := range []string{path + "?period=28d&compare=previous", path + "/live", path + "/events", path + "/settings"} {
		watched := p.Before(watchShifts)
		p.Goto(s.Origin + page)
		p.WaitFor("document.querySelector('.site h1, .area h1, .site + .title') && !document.querySelector('.loading, [aria-busy=true]')")
		if strings.Contains(page, "compare") {
			p.WaitFor(attention + "?.querySelector('button') && document.querySelectorAll('.panels .panel').length >= 4")
			p.WaitFor("document.querySelector('.ranks > *').getBoundingClientRect().bottom < 900")
		}
		watched()
		p.staysInPlace()
	}
	p.clean(s)
}
