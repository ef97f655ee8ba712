package console_test

import "testing"

// TestAlertsChromium adds a channel of a site, tests it, reads the test's state and deletes the channel. Then it
// adds one of the account.
func TestAlertsChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, _ := s.createSite("shop.localhost", "Kettle shop")

	p := s.openSignedIn("/sites/" + id + "/alerts")
	p.see("No channels")
	p.look("alerts-empty")

	p.choose("document.querySelector('[name=kind]')", "SLACK")
	p.fill("Name", "ops")
	p.fill("Address", "https://hooks.example.com/services/0123456789abcdef")
	p.press("Add channel")
	p.see("hooks.example.com/…cdef")
	p.press("Send a test")
	p.WaitFor("document.querySelector('table code')?.textContent === 'test'")
	p.look("alerts")

	p.press("Delete")
	p.see("The channel and the list of its messages are deleted.")
	p.click("document.querySelector('dialog form button')")
	p.see("No channels")

	p.Goto(s.control + "/alerts")
	p.see("These channels get alerts about the account and each of its sites.")
	p.fill("Name", "duty")
	p.fill("Address", "duty@example.org")
	p.press("Add channel")
	p.see("Not confirmed")
	p.look("alerts-account")
	p.clean(s)
}
