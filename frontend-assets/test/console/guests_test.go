package console_test

import (
	"strings"
	"testing"
)

// TestGuestsChromium invites a guest to one of two sites, follows what the guest sees, and changes
// the guest's sites and role.
func TestGuestsChromium(t *testing.T) {
	t.Parallel()

	// No worker sends the mails, so the test can read their links.
	s := start(t, map[string]string{"ROLES": "control,data", "SIGNUPS": "open"})
	s.signUp()
	shop, _ := s.createSite("shop.localhost", "Kettle shop")
	s.createSite("blog.localhost", "Kettle blog")

	// Sites are asked for only with the role of a guest, and an invitation needs one.
	p := s.openSignedIn("/members")
	p.see("1 member")
	p.press("Invite")
	p.WaitFor(`!document.querySelector('main input[type=checkbox]')`)
	p.fill("E-mail address", "guest@example.com")
	p.fill("Role", "GUEST")
	p.press("Invite")
	p.see("Choose 1 to 100 sites")
	p.look("members-guest-error")
	p.check("shop.localhost")
	p.press("Invite")
	p.see("Open invitations")
	p.WaitFor(`document.querySelectorAll('table')[1].innerText.includes('Guest shop.localhost')`)
	p.look("members-guest-invited")

	guest := s.open(strings.TrimPrefix(s.mailedLink(), s.Origin))
	guest.see("Role: Guest. Reads and downloads one site.")
	guest.look("accept-invitation-guest")
	guest.fill("Password", "the guest's password")
	guest.press("Join")
	guest.see("Kettle shop")
	guest.WaitFor(`location.pathname === '/' && !document.body.innerText.includes('Kettle blog')`)

	// The menus have no captcha and no members, and the account page no usage.
	guest.WaitFor(`!document.querySelector('header a[href="/captcha"]') && !document.querySelector('header a[href="/members"]')`)
	guest.look("sites-guest")
	guest.Goto(s.Origin + "/account")
	guest.see("Guest")
	guest.see("Leave the account")
	guest.WaitFor(`!document.body.innerText.includes('Verifications this month')`)
	guest.look("account-guest")
	guest.Goto(s.Origin + "/tokens")
	guest.see("You have no API tokens.")
	guest.Goto(s.Origin + "/")
	guest.press("Kettle shop")
	guest.press("Settings")
	guest.see("Download rows")
	guest.WaitFor(`[...document.querySelectorAll('nav.pages a')].map((a) => a.textContent).join() === 'Export,Alerts and mails'`)
	for _, page := range []string{"settings", "install", "sharing", "webhooks"} {
		guest.Goto(s.Origin + "/sites/" + shop + "/" + page)
		guest.WaitFor(`document.body.innerText.includes('Your role does not permit this.') && !document.querySelector('main form, main .code')`)
	}
	guest.Goto(s.Origin + "/captcha/new")
	guest.WaitFor(`document.body.innerText.includes('Your role does not permit this.') && !document.querySelector('main form')`)

	// The owner lets the guest read the other site instead.
	p.Goto(s.Origin + "/members")
	p.see("2 members")
	p.WaitFor(`document.querySelector('table').innerText.includes('shop.localhost')`)
	p.press("Sites of guest@example.com")
	p.WaitFor(`document.querySelector('td input[type=checkbox]')`)
	p.look("members-guest-sites")
	p.check("shop.localhost")
	p.check("blog.localhost")
	p.press("Save")
	p.see("Saved")
	p.WaitFor(`!document.querySelector('td input[type=checkbox]') && document.querySelector('table').innerText.includes('blog.localhost')`)
	guest.Goto(s.Origin + "/")
	guest.see("Kettle blog")
	guest.WaitFor(`!document.body.innerText.includes('Kettle shop')`)

	// A member of the whole account reads both.
	p.choose(`document.querySelector('select[aria-label="Role of guest@example.com"]')`, "VIEWER")
	p.press("Save")
	p.WaitFor(`!document.querySelector('table').innerText.includes('blog.localhost')`)
	guest.Goto(s.Origin + "/members")
	guest.see("2 members")
	guest.Goto(s.Origin + "/")
	guest.see("Kettle shop")
	guest.see("Kettle blog")
	guest.clean(s)
	p.clean(s)
}
