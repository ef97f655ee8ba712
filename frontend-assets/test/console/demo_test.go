package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/tallygate/tallygate/cmd/tallygate/demo"
	"github.com/tallygate/tallygate/tools/testkit"
)

// startDemo runs the demo with its shop's history.
func startDemo(t testing.TB) *service {
	t.Helper()

	s := startProgram(t, "", "demo", map[string]string{"DEMO_ADDR": "127.0.0.1:0"})
	owner, err := demo.ReadOrCreateOwner(s.dir)
	testkit.NoError(t, err)
	s.password = owner.Password
	return s
}

// TestDemoPagesChromium visits the demo shop's pages: a refused event is registered, reports are
// shared with a reader without a session, and notes, funnels and mails are saved.
func TestDemoPagesChromium(t *testing.T) {
	t.Parallel()

	s := startDemo(t)
	p := s.openSignedIn("/")
	p.press("Demo shop")
	p.WaitFor("location.pathname.startsWith('/sites/')")
	siteID := strings.Split(p.Text("location.pathname"), "/")[2]
	p.press("Settings")
	p.press("Events")

	// A refused name is registered.
	p.see("video_play")
	p.see("newsletter_signup")
	p.WaitFor(`/^[1-9]/.test([...document.querySelectorAll('tr')].find(r => r.textContent.startsWith('purchase')).cells[3].textContent)`)
	p.WaitFor(`/Today|Yesterday|Last/.test([...document.querySelectorAll('tr')].find(r => r.textContent.startsWith('purchase')).cells[1].textContent)`)
	p.look("events-demo")
	p.press("Register video_play")
	p.WaitFor("!(" + button("Register video_play") + ")")
	p.WaitFor(button("Mark video_play as a key event"))

	// Usage, and what was refused.
	p.press("Usage")
	p.see("Last 30 days")
	p.click("[...document.querySelectorAll('summary')].find(e => e.textContent === 'Show as a table')")
	p.WaitFor(`document.querySelectorAll('tbody tr').length >= 29 && document.querySelectorAll('.course rect').length >= 29`)
	p.look("usage")
	p.press("Refused calls")
	p.see("unknown_event")
	p.look("rejections-demo")

	// A note, and a funnel with an error and without.
	p.press("Notes, segments, funnels")
	p.see("Kettle week began")
	p.see("Paid traffic")
	p.fill("Note", "New photos")
	p.press("Add a note")
	p.WaitFor(button("Delete New photos"))
	p.press("New funnel")
	p.fill("Name", "Purchase")
	p.enter("document.querySelector('[name=value0]')", "/guide/*")
	p.enter("document.querySelector('[name=value1]')", "/shop/**")
	p.press("Save the funnel")
	p.WaitFor(`document.activeElement.name === 'name' && document.activeElement.ariaInvalid === 'true'`)
	p.fill("Name", "Reading")
	p.press("Save the funnel")
	p.see("/guide/* → /shop/**")
	p.WaitFor(`document.querySelector('.status span')?.textContent === 'Saved' && !document.querySelector('[aria-busy=true]')`)
	p.look("saved")

	// The mails.
	p.press("Alerts and mails")
	p.press("Choose mails")
	p.click(`document.querySelector('dialog [name=weekly]')`)
	p.press("Save")
	p.WaitFor(`document.querySelector('.status span')?.textContent === 'Saved' && !document.querySelector('dialog, [aria-busy=true]')`)
	p.see("Summary of the week")
	p.look("mails")

	p.press("Sharing")
	p.see("No shared links yet")
	p.look("sharing-empty")

	// A link with a password, opened in a browser without a session.
	p.press("New link")
	p.fill("Name", "For the bank")
	p.choose("document.querySelector('[name=segment]')",
		p.Text(`[...document.querySelector('[name=segment]').options].find(o => o.text === 'Paid traffic').value`))
	p.fill("Password", "a long secret")
	p.press("Create the link")
	p.WaitFor(`[...document.querySelectorAll('code')].some(e => e.textContent.includes('/share#tgl_'))`)
	p.see(`only "Paid traffic", with a password`)
	p.look("sharing")
	address := p.Text(`[...document.querySelectorAll('code')].find(e => e.textContent.includes('/share#')).textContent`)

	reader := s.open(strings.TrimPrefix(address, s.Origin))
	reader.see("protected by a password")
	reader.look("shared-password")
	reader.fill("Password", "a wrong secret")
	reader.press("Open the report")
	reader.WaitFor(`document.activeElement.name === 'password' && document.activeElement.ariaInvalid === 'true'`)
	reader.fill("Password", "a long secret")
	reader.press("Open the report")
	reader.see("Shared report of " + demo.Domain)
	reader.WaitFor(fmt.Sprintf("document.title === %q", "Demo shop · Tallygate"))
	reader.look("shared")
	reader.clean(s)

	// Revoked, the link opens nothing.
	p.press("I have copied it")
	p.WaitFor("document.activeElement.textContent === 'New link'")
	p.press("Revoke For the bank")
	p.see("Readers of this link can read nothing from then on.")
	p.press("Revoke")
	p.see("No shared links yet")
	reader.reload()
	reader.see("This link is wrong, has expired or was revoked.")

	// The operator's page, with a plan.
	p.press("Account menu of " + demo.Email)
	p.press("Operator")
	p.see("SQLite")
	p.see("1 account")
	p.press("Everything is running.")
	p.see("Worker last seen")
	p.look("operator")
	const plan = `document.querySelector('select[aria-label="Plan of demo.localhost"]')`
	p.press("Demo")
	p.choose(plan, "PRO_500K")
	p.press("Save")
	p.see("PRO 500K: 500,000 per month")
	p.see("/ 500,000")
	p.look("operator-account")
	p.press("Operator")
	p.enter("document.querySelector('[type=search]')", "unknown.example")
	p.see("No account matches.")
	p.enter("document.querySelector('[type=search]')", siteID)
	p.see("1 account")
	p.press("Demo")
	p.choose(plan, "ENTERPRISE")
	p.press("Save")
	p.see(" / ∞")
	p.enter("document.querySelector('td input')", "7000000")
	p.press("Save")
	p.see("ENTERPRISE: 7,000,000 per month")
	p.clean(s)

	// The captcha's activity. There is no preview, because the sitekey is for other domains.
	p.press("Captcha")
	p.press("Demo form")
	p.see("siteverify used_token")
	p.look("sitekey-demo")
	p.press("Integration")
	p.see("The widget cannot be shown here, because 127.0.0.1 is not among the domains of the sitekey.")
	sitekey := p.Text("location.pathname")

	// The chosen funnel stands in the URL.
	p.Goto(s.Origin + "/sites/" + siteID + "?events=funnel")
	p.see("% completed")
	p.press("Reading")
	p.WaitFor("location.search.includes('&funnel=')")
	p.see("1 /guide/*")

	p.fits(siteID, sitekey)
}

// fits checks that no page scrolls sideways in German on the narrowest screens and with twice as
// large text, that the widest screens limit the lines, and what paper shows.
func (p *tab) fits(siteID, sitekey string) {
	p.t.Helper()
	p.Eval("localStorage.setItem('tallygate.language', 'de')", nil)
	p.Goto(p.Text("location.href"))
	p.see("Trichter")

	site := "/sites/" + siteID
	for _, path := range []string{
		"/", "/sites/new", site, site + "?all=page&compare=year", site + "?table=1&compare=previous&events=property",
		site + "?journey=/", site + "?events=journey", site + "?events=cohort",
		site + "?sources=source&audience=hour_of_day&events=goal&revenue=source&compare=previous",
		site + "?events=funnel&audience=day_of_week&sources=utm_campaign&compare=previous",
		site + "/install", site + "/live", site + "/events", site + "/rejections", site + "/webhooks", site + "/export", site + "/import",
		site + "/sharing", site + "/saved", site + "/usage", site + "/settings", "/captcha", "/captcha/new", sitekey,
		"/deleted", "/account", "/members", "/tokens", "/sessions", "/audit", "/security", "/confirm-email", "/accept-invitation",
		"/operator", "/stop-mail", "/sites/site_unknown",
	} {
		p.Do(chromedp.EmulateViewport(320, 800))
		p.Eval(fmt.Sprintf("history.pushState(null, '', %q), dispatchEvent(new PopStateEvent('popstate'))", path), nil)
		p.WaitFor("document.querySelector('h1') && !document.querySelector('.loading, [aria-busy=true]')")
		for _, size := range []int{100, 200} {
			p.Do(chromedp.EmulateViewport(int64(320*size/100), 800))
			p.Eval(fmt.Sprintf("document.documentElement.style.fontSize = '%d%%'", size), nil)
			p.staysWithin(fmt.Sprintf("%s with text of %d %%", path, size))
		}
		p.shootNarrow(path)
		p.Eval("document.documentElement.style.fontSize = ''", nil)
	}

	p.Do(chromedp.EmulateViewport(3840, 2160))
	p.Eval(fmt.Sprintf("history.pushState(null, '', %q), dispatchEvent(new PopStateEvent('popstate'))", site), nil)
	p.WaitFor("document.querySelectorAll('.panels .panel').length >= 5")
	p.WaitFor("document.querySelector('.plot svg').clientWidth > 1800 && document.querySelector('main').clientWidth < 2400")
	p.shootAsIs("wide")

	// Paper: light, without navigation, and the drawing within the page.
	p.Do(chromedp.EmulateViewport(720, 1000), emulation.SetEmulatedMedia().WithMedia("print"))
	p.Eval("document.documentElement.dataset.theme = 'dark'", nil)
	p.WaitFor(`getComputedStyle(document.body).backgroundColor === 'rgb(255, 255, 255)'`)
	if seen := p.Text(`[...document.querySelectorAll('nav, button:not(.controls .pick *), footer, .menu')].filter(e => e.checkVisibility())
		.map(e => e.textContent).join('; ')`); seen != "" {
		p.t.Errorf("paper shows %s", seen)
	}
	p.shootPaper("paper")
	p.Eval("delete document.documentElement.dataset.theme, localStorage.clear()", nil)
	p.Do(emulation.SetEmulatedMedia(), emulation.ClearDeviceMetricsOverride())
}

// sideways is a JavaScript expression for the element that makes the page scroll sideways, if one
// does.
const sideways = `(() => {
	const width = document.documentElement.clientWidth;
	if (document.documentElement.scrollWidth <= width) return '';
	const wide = [...document.body.querySelectorAll('*')].filter(e => e.getBoundingClientRect().right > width + 1);
	return wide.at(-1)?.outerHTML.slice(0, 200) ?? 'something';
})()`

// staysWithin waits until the page does not scroll sideways. A chart takes its new width after the
// window has.
func (p *tab) staysWithin(what string) {
	p.t.Helper()
	testkit.AwaitState(p.t, what+" to stay within the window", func() (string, bool) {
		wide := p.Text(sideways)
		return wide, wide == ""
	})
}
