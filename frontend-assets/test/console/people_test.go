package console_test

import (
	"strings"
	"testing"
)

// TestPeopleChromium invites a member, who joins by the mailed link, and follows the other mailed links.
func TestPeopleChromium(t *testing.T) {
	t.Parallel()

	// No worker sends the mails, so the test can read their links.
	s := start(t, map[string]string{"ROLES": "control,data", "SIGNUPS": "open"})
	s.signUp()
	s.createSite("shop.localhost", "Kettle shop")

	p := s.openSignedIn("/members")
	p.see("1 member")
	p.fill("E-mail address", "guest@example.com")
	p.fill("Role", "VIEWER")
	p.press("Invite")
	p.see("Open invitations")
	p.look("members")

	// The guest joins as a viewer, and sees the pages without the forms.
	guest := s.open(strings.TrimPrefix(s.mailedLink(), s.control))
	guest.see("Join the account")
	guest.look("accept-invitation")
	guest.fill("New password", "the guest's password")
	guest.press("Join")
	guest.see("Kettle shop")
	guest.WaitFor("location.pathname === '/' && location.hash === ''")
	guest.press("Kettle shop")
	guest.press("Settings")
	guest.see("Your role can read these settings but not change them.")
	guest.look("settings-viewer")
	guest.WaitFor(`document.querySelector('input[name=name]').disabled && !document.body.innerText.includes('Delete the site')`)
	guest.press("Events")
	guest.see("Automatic events")
	guest.WaitFor(`!document.querySelector('input[name=name]')`)

	// The owner changes the role, and removes the member after typing the address.
	p.Goto(s.control + "/members")
	p.see("2 members")
	p.Eval(`(() => { const s = document.querySelector('select[aria-label="Role of guest@example.com"]'); s.value = 'MEMBER';
		s.dispatchEvent(new Event('change', {bubbles: true})) })()`, nil)
	p.press("Save")
	p.see("Saved")
	p.press("Remove")
	p.fill("To confirm, type guest@example.com", "guest@example.com")
	p.press("Remove")
	p.see("1 member")

	// The removed member's session has ended: the next page asks for a sign-in and returns to itself.
	guest.press("Sites")
	guest.WaitFor("location.pathname === '/sign-in'")

	// A forgotten password. The page does not reveal whether the address has an account.
	guest.press("Forgot your password?")
	guest.fill("E-mail address", ownerEmail)
	guest.look("forgot-password")
	guest.press("Send the link")
	guest.see("If " + ownerEmail + " has an account")
	link := s.mailedLink()
	guest.Goto(link)
	guest.fill("New password", "another password")
	guest.look("reset-password")
	guest.press("Change the password")
	guest.see("Your password is changed.")
	guest.Goto("about:blank")
	guest.Goto(link)
	guest.fill("New password", "yet another password")
	guest.press("Change the password")
	guest.see("This link is wrong, was used already, or is too old.")

	// A second account is created by its mailed link.
	guest.Goto(s.control + "/sign-up")
	guest.fill("Account name", "Second")
	guest.fill("E-mail address", "second@example.com")
	guest.fill("Password", "the second password")
	guest.press("Create the account")
	guest.see("Check your mail")
	guest.look("sign-up-sent")
	guest.Goto(s.mailedLink())
	guest.see("Confirm your address")
	guest.look("confirm-sign-up")
	guest.fill("Password", "the second password")
	guest.press("Create the account")
	guest.see("No sites yet")
	guest.clean(s)
}

// TestAccountChromium uses the pages of the user: tokens, sessions, password, and the deletion of the
// account.
func TestAccountChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	p := s.openSignedIn("/tokens")
	p.see("You have no API tokens.")
	p.fill("Name", "nightly export")
	p.check("Download")
	p.press("Create a token")
	p.see("it is shown only this once")
	p.look("tokens")
	token := p.Text(`[...document.querySelectorAll('code')].map(e => e.textContent).find(text => text.startsWith('tga_'))`)
	if len(token) < 20 {
		t.Errorf("the token is %q", token)
	}

	p.press("I have copied it")
	p.WaitFor(`!document.body.innerText.includes('` + token + `') && document.body.innerText.includes('Read')`)
	p.press("Revoke")
	p.fill("To confirm, type nightly export", "nightly export")
	p.press("Revoke")
	p.see("You have no API tokens.")

	// The sign-up of the test started another session, which the page can end.
	p.Goto(s.control + "/sessions")
	p.see("this browser")
	p.look("sessions")
	p.press("End")
	p.see("The session has ended")
	p.WaitFor(`document.querySelectorAll('tbody tr').length === 1`)

	p.Goto(s.control + "/account")
	p.see("Kettle & Co")
	p.look("account")
	p.fill("Current password", "wrong password")
	p.fill("New password", "correct horse battery 2")
	p.press("Change the password")
	p.WaitFor(`document.querySelector('form .error')?.textContent.includes('wrong')`)
	p.fill("Current password", ownerPassword)
	p.press("Change the password")
	p.see("The password is changed")

	// The menu at the top leads out.
	p.press("Account menu of " + ownerEmail)
	p.look("menu")
	p.press("Sign out")
	p.WaitFor("location.pathname === '/sign-in'")
	p.clean(s)
}
