package console_test

import "testing"

// TestAlertsChromium adds a channel of a site, and sends it a test, which the page then lists.
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
}
