package console_test

import (
	"net/url"
	"slices"
	"strconv"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// signIn signs in on the page for it.
func (p *tab) signIn(email, password string) {
	p.t.Helper()
	p.fill("E-mail address", email)
	p.fill("Password", password)
	p.press("Sign in")
}

// TestTwoTabsChromium changes different fields of the same forms in two tabs. Each save must keep
// what the other tab has saved.
func TestTwoTabsChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, _ := s.createSite("shop.localhost", "Kettle shop")
	path := "/sites/" + id + "/settings"
	browser := browsertest.New(t, browsertest.WithFlag("lang", "en-GB"))
	one, two := &tab{browser.NewPage(), t}, &tab{browser.NewPage(), t}
	one.Goto(s.Origin + "/sign-in?next=" + url.QueryEscape(path))
	one.signIn(ownerEmail, ownerPassword)
	one.WaitFor(labelled("Name"))
	two.Goto(s.Origin + path)
	two.WaitFor(labelled("Name"))

	one.Front()
	one.fill("Name", "Renamed in one tab")
	one.press("Save")
	one.WaitFor(labelled("Name") + ".defaultValue === 'Renamed in one tab'")

	// This tab still shows the former name.
	two.Front()
	two.fill("Time zone", "Europe/Berlin")
	two.list("extraDomains", "Tea.localhost")
	two.see("2 unsaved changes")
	two.press("Save")
	two.WaitFor(rowOf("extraDomains", 0) + ".value === 'tea.localhost' && !" + button("Save"))

	var data struct {
		Site struct {
			Name, TimeZone string
			ExtraDomains   []string
		}
	}
	read := func() {
		t.Helper()
		s.Do(`query ($id: ID!) { site(id: $id) { name timeZone extraDomains } }`,
			map[string]any{"id": id}, &data)
	}
	if read(); data.Site.Name != "Renamed in one tab" || data.Site.TimeZone != "Europe/Berlin" ||
		!slices.Equal(data.Site.ExtraDomains, []string{"tea.localhost"}) {
		t.Errorf("after two saves: %+v", data.Site)
	}

	// A field that was saved and is set back is a change again.
	two.press("Remove tea.localhost")
	two.press("Save")
	two.WaitFor(`!` + button("Save"))
	if read(); len(data.Site.ExtraDomains) > 0 || data.Site.Name != "Renamed in one tab" {
		t.Errorf("after a third save: %+v", data.Site)
	}

	// A site that another tab has deleted.
	s.Do(`mutation ($id: ID!) { deleteSite(input: {siteId: $id}) { userErrors { code } } }`, map[string]any{"id": id}, nil)
	one.Front()
	one.fill("Name", "Too late")
	one.press("Save")
	one.see("This no longer exists here: it was deleted or moved, perhaps in another tab or by another user.")
	one.look("settings-deleted")
	one.clean(s)
	two.clean(s)
}

// TestSessionEndsChromium saves a form after its session has ended. The typed values must be there
// after the sign-in, but only for the same user.
func TestSessionEndsChromium(t *testing.T) {
	t.Parallel()

	s := start(t, map[string]string{"ROLES": "control,data", "SIGNUPS": "open"})
	s.signUp()
	id, _ := s.createSite("shop.localhost", "Kettle shop")
	path := "/sites/" + id + "/settings"
	p := s.openSignedIn("/sites/" + id + "/measurement")

	// end ends the session of the browser.
	end := func() {
		t.Helper()
		p.Eval(`fetch('/graphql', {method: 'POST', headers: {'Content-Type': 'application/json'},
			body: JSON.stringify({query: 'mutation { signOut(input: {everywhere: false}) { userErrors { code } } }'})})
			.then(() => { window.ended = true })`, nil)
		p.WaitFor("window.ended")
		p.Eval("delete window.ended", nil)
	}

	p.check("Site search")
	p.check("Automatic events")
	end()
	p.press("Save")
	p.signIn(ownerEmail, ownerPassword)
	p.see("Your session had ended.")
	p.WaitFor(labelled("Site search") + ".checked && !" + labelled("Automatic events") + ".checked")
	p.press("Save")
	p.WaitFor("!document.body.innerText.includes('Your session had ended.')")

	p.press("General")
	p.fill("Name", "Typed before the end")
	p.list("extraDomains", "tea.localhost", "blog.localhost")
	end()
	p.press("Save")
	p.WaitFor("location.pathname === '/sign-in' && location.search === " + strconv.Quote("?next="+url.QueryEscape(path)))
	p.see("Your session had ended. What you typed is kept, but not saved yet.")
	p.look("session-ended")
	if got := p.Text(`JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}, history.state])`); got != `["",{},{},null]` {
		t.Errorf("stored: %s", got)
	}

	p.signIn(ownerEmail, ownerPassword)
	p.WaitFor("location.pathname === " + strconv.Quote(path))
	p.see("Your session had ended.")
	p.WaitFor(labelled("Name") + ".value === 'Typed before the end' && " + rowOf("extraDomains", 1) + "?.value === 'blog.localhost'")
	p.see("2 unsaved changes")
	p.look("settings-kept")
	p.press("Save")
	p.WaitFor("!document.body.innerText.includes('Your session had ended.')")
	var data struct {
		Site struct {
			Name                               string
			ExtraDomains                       []string
			MeasureSiteSearch, AutomaticEvents bool
		}
	}
	s.Do(`query ($id: ID!) { site(id: $id) { name extraDomains measureSiteSearch automaticEvents } }`, map[string]any{"id": id}, &data)
	if data.Site.Name != "Typed before the end" || len(data.Site.ExtraDomains) != 2 || !data.Site.MeasureSiteSearch || data.Site.AutomaticEvents {
		t.Errorf("after the sign-in: %+v", data.Site)
	}

	// Another user of the account gets the saved values.
	s.InviteMember("guest@example.com", "MEMBER")
	guest := s.open("/sign-in")
	guest.Goto(s.mailTo("guest@example.com"))
	guest.fill("Password", "the guest's password")
	guest.press("Join")
	guest.see("Typed before the end")

	p.fill("Name", "For the owner only")
	end()
	p.press("Save")
	p.WaitFor("location.pathname === '/sign-in'")
	p.signIn("guest@example.com", "the guest's password")
	p.WaitFor(labelled("Name") + "?.value === 'Typed before the end'")
	p.WaitFor("!document.body.innerText.includes('Your session had ended.')")

	// Nor does the owner get them later.
	end()
	p.fill("Name", "By the guest")
	p.press("Save")
	p.WaitFor("location.pathname === '/sign-in'")
	p.signIn(ownerEmail, ownerPassword)
	p.WaitFor(labelled("Name") + "?.value === 'Typed before the end'")
	p.clean(s)
}

// TestSettingsErrorsChromium enters wrong addresses among right ones, and looks at the list of time
// zones. Unsaved changes stay until they are saved or discarded, on each way from the page.
func TestSettingsErrorsChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, _ := s.createSite("shop.localhost", "Kettle shop")
	p := s.openSignedIn("/sites/" + id + "/settings")
	p.WaitFor(labelled("Time zone"))

	zone := func(name string) string {
		return p.Text(labelled("Time zone") + `.querySelector('option[value="` + name + `"]')?.textContent ?? ''`)
	}
	testkit.Equal(t, zone("Asia/Kolkata"), "Asia/Kolkata (UTC+05:30)", "the zone of Kolkata")
	for _, retired := range []string{"Asia/Calcutta", "Europe/Kiev"} {
		testkit.Equal(t, zone(retired), "", "the retired zone")
	}

	p.press("Exclusions")
	const addresses = "excludedAddresses"
	p.list(addresses, "192.0.2.7", "office", "2001:db8::/32", "home")
	p.press("Save")
	p.WaitFor("document.activeElement === " + rowOf(addresses, 1))
	invalid := `[...document.querySelectorAll('[aria-invalid=true]')].map(e => e.value).join()`
	p.WaitFor(invalid + ` === 'office,home'`)
	p.look("settings-addresses")

	// An error leaves with its text. Enter leads to the next row instead of sending the form.
	p.press("Remove office")
	p.WaitFor(invalid + ` === 'home' && document.activeElement === ` + rowOf(addresses, 1))
	p.enter(rowOf(addresses, 0), "")
	p.Do(browsertest.Press(kb.Enter))
	p.WaitFor("document.activeElement === " + rowOf(addresses, 1))
	p.see("1 unsaved change")

	// The page is not left without a question: not by a link, by keys, nor back.
	stays := func() {
		t.Helper()
		p.see("1 unsaved change.")
		p.WaitFor("location.pathname.endsWith('/exclusions')")
	}
	p.press("Measurement")
	stays()
	p.look("settings-leave")
	p.press("Close")
	p.WaitFor("document.activeElement.textContent === 'Measurement'")
	p.Do(browsertest.Press("g"), browsertest.Press("s"))
	stays()
	p.press("Close")
	p.Eval("history.back()", nil)
	stays()
	p.press("Close")
	p.WaitFor(rowOf(addresses, 2) + ".value === 'home'")
	p.Eval("history.back()", nil)
	stays()
	p.press("Discard and leave")
	p.WaitFor("!location.pathname.endsWith('/exclusions')")
	p.Eval("history.forward()", nil)
	p.WaitFor(rowOf(addresses, 0) + "?.value === ''")

	// After "Discard" no change remains.
	p.list(addresses, "192.0.2.7")
	p.press("Discard")
	p.WaitFor(rowOf(addresses, 0) + ".value === '' && !" + button("Save") + " && document.activeElement === " + rowOf(addresses, 0))
	p.press("General")

	p.clean(s)
}
