package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/cmd/tallygate/demo"
)

// startDemo runs the demo with its shop's history.
func startDemo(t *testing.T) *service {
	t.Helper()

	s := startCommand(t, "demo", map[string]string{"DEMO_ADDR": "127.0.0.1:0"})
	owner, err := demo.ReadOrCreateOwner(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	s.password = owner.Password
	return s
}

// TestDemoPagesChromium visits the demo shop's pages: a refused event is registered, reports are shared
// with a reader without a session, and notes, funnels and mails are saved.
func TestDemoPagesChromium(t *testing.T) {
	t.Parallel()

	s := startDemo(t)
	p := s.openSignedIn("/")
	p.press("Demo shop")
	p.WaitFor("location.pathname.startsWith('/sites/')")
	siteID := strings.Split(p.Text("location.pathname"), "/")[2]
	p.press("Events")

	// A refused name is registered.
	p.see("video_play")
	p.see("newsletter_signup")
	p.WaitFor(`/^[1-9]/.test([...document.querySelectorAll('tr')].find(r => r.textContent.startsWith('purchase')).cells[2].textContent)`)
	p.look("events-demo")
	p.press("Register video_play")
	p.WaitFor("!(" + button("Register video_play") + ")")
	p.WaitFor(button("Mark video_play as a key event"))

	// Usage, and what was refused.
	p.press("Usage")
	p.see("Last 30 days")
	p.WaitFor(`document.querySelectorAll('.columns section:last-child tbody tr').length >= 29`)
	p.look("usage")
	p.press("Rejected calls")
	p.see("unknown_event")
	p.look("rejections-demo")

	// A note, a funnel with an error and without, and the mails.
	p.press("Saved")
	p.see("Kettle week began")
	p.see("Paid traffic")
	p.fill("Note", "New photos")
	p.press("Add a note")
	p.WaitFor(button("Delete New photos"))
	p.press("New funnel")
	p.fill("Name", "Purchase")
	p.Eval(`document.querySelector('[name=value0]').value = '/guide/*'`, nil)
	p.Eval(`document.querySelector('[name=value1]').value = '/shop/**'`, nil)
	p.press("Save the funnel")
	p.WaitFor(`document.activeElement.name === 'name' && document.activeElement.ariaInvalid === 'true'`)
	p.fill("Name", "Reading")
	p.press("Save the funnel")
	p.see("/guide/* → /shop/**")
	p.check("A summary of each week, on Monday")
	p.Eval(`[...document.querySelectorAll('form')].at(-1).requestSubmit()`, nil)
	p.WaitFor(`document.querySelector('.status span')?.textContent === 'Saved' && !document.querySelector('[aria-busy=true]')`)
	p.look("saved")
	p.Goto(p.Text("location.href"))
	p.WaitFor(`document.querySelector('[name=weekly]')?.checked`)

	// A link with a password, opened in a browser without a session.
	p.press("Sharing")
	p.see("No shared links yet")
	p.look("sharing-empty")
	p.fill("Name", "For the bank")
	p.Eval(`(e => { e.value = [...e.options].find(o => o.text === 'Paid traffic').value })(document.querySelector('[name=segment]'))`, nil)
	p.fill("Password", "a long secret")
	p.press("Create the link")
	p.WaitFor(`[...document.querySelectorAll('code')].some(e => e.textContent.includes('/share/tgl_'))`)
	p.see(`only "Paid traffic", with a password`)
	p.look("sharing")
	address := p.Text(`[...document.querySelectorAll('code')].find(e => e.textContent.includes('/share/')).textContent`)

	reader := s.open(strings.TrimPrefix(address, s.control))
	reader.see("protected by a password")
	reader.look("shared-password")
	reader.fill("Password", "a wrong secret")
	reader.press("Open the report")
	reader.WaitFor(`document.activeElement.name === 'password' && document.activeElement.ariaInvalid === 'true'`)
	reader.fill("Password", "a long secret")
	reader.press("Open the report")
	reader.see("You are reading a shared report of " + demo.Domain)
	reader.WaitFor(fmt.Sprintf("document.title === %q", "Demo shop · Tallygate"))
	reader.look("shared")
	reader.clean(s)

	// Revoked, the link opens nothing.
	p.press("I have copied it")
	p.press("Revoke")
	p.fill("To confirm, type For the bank", "For the bank")
	p.press("Revoke")
	p.see("No shared links yet")
	reader.Goto(address)
	reader.see("This link is wrong, has expired or was revoked.")

	// The operator's page, with a plan.
	p.press("Account menu of " + demo.Email)
	p.press("Operator")
	p.see("Worker last seen")
	p.see("SQLite")
	p.look("operator")
	p.fill("Id of the site", siteID)
	p.fill("Plan", "PRO_1M")
	p.press("Set the plan")
	p.see("PRO 1M: 1,000,000 per month")
	p.clean(s)

	// The captcha's activity. The preview reports an error, because the sitekey is for other domains.
	p.press("Captcha")
	p.press("Demo form")
	p.see("siteverify used_token")
	p.look("sitekey-demo")
}
