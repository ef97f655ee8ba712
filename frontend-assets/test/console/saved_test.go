package console_test

import (
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestFunnelFormChromium types steps of a funnel. Their kind follows the text, and steps that no
// visit has are questioned.
func TestFunnelFormChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, key := s.createSite("shop.localhost", "Kettle shop")
	s.RegisterEvent(id, "add_to_basket")
	for _, event := range []string{"", "add_to_basket"} {
		testkit.Require(t, s.hit(key, "http://shop.localhost", "/kettle", event), 204, "a hit: status")
	}

	p := s.openSignedIn("/sites/" + id + "/saved")
	p.press("New funnel")
	field := func(name string) string { return "document.querySelector('[name=" + name + "]')" }
	p.enter(`document.querySelector('details [name=name]')`, "Basket")

	p.enter(field("value1"), "add_to_basket")
	p.WaitFor(field("kind1") + ".value === 'event'")
	p.enter(field("value0"), "/nowhere")
	p.see("No visit of the last 91 days has the page /nowhere.")
	p.WaitFor(field("kind0") + ".value === 'page'")
	p.look("funnel-questioned")
	p.enter(field("value0"), "/ket**")
	p.WaitFor("!document.querySelector('fieldset .notice')")
	p.WaitFor(`[...` + field("value0") + `.list.options].map(o => o.value).join() === '/kettle,add_to_basket'`)

	// The name of an event is no page, also if the user says so.
	p.choose(field("kind1"), "page")
	p.press("Save the funnel")
	p.see(`A page begins with "/".`)
	p.WaitFor("document.activeElement.name === 'value1' && document.activeElement.ariaInvalid === 'true'")
	p.look("funnel-refused")
	p.choose(field("kind1"), "event")
	p.press("Save the funnel")
	p.see("/ket** → add_to_basket")
	p.clean(s)
}

// TestOpenSegmentChromium opens a segment in a report that has a filter already.
func TestOpenSegmentChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, key := s.createSite("shop.localhost", "Kettle shop")
	testkit.Require(t, s.hit(key, "http://shop.localhost", "/kettle", ""), 204, "a hit: status")
	s.Do(`mutation ($id: ID!) { createSegment(input: {siteId: $id, name: "Readers", filters: [
		{dimension: PAGE, operator: IS, values: ["/kettle"]}, {dimension: CHANNEL, operator: IS_NOT, values: ["paid search"]}]})
		{ userErrors { code } } }`, map[string]any{"id": id}, nil)

	p := s.openSignedIn("/sites/" + id + "?period=today&f=language:is:en")
	p.press("Segments")
	p.see("Added to your filters")
	p.press("Readers")
	const chips = "[...document.querySelectorAll('.chips strong')].filter(e => e.checkVisibility()).map(e => e.textContent).join()"
	p.WaitFor(chips + " === 'Readers,English'")
	p.reload()
	p.WaitFor(chips + " === 'Readers,English'")
	p.press("Readers")
	p.WaitFor(chips + " === 'Readers,/kettle,paid search,English'")
	p.look("segment-open")

	// Without another filter the segment stays in use, and its own button removes all its filters.
	p.press("Remove the filter Language is English")
	p.WaitFor(chips + " === 'Readers,/kettle,paid search'")
	p.press("Remove the filter Readers")
	p.WaitFor("!document.querySelector('.chips') && !location.search.includes('f=')")
	p.Eval("history.back()", nil)
	p.WaitFor(chips + ".includes('Readers')")
	p.Eval("history.back()", nil)
	p.WaitFor(chips + ".includes('English')")
	p.Eval("document.querySelector('.chips details').open = true", nil)

	// Without one of its filters, the segment is not in use.
	p.press("Remove the filter Page is /kettle")
	p.WaitFor(chips + " === 'paid search,English'")
	if address := p.Text("location.search"); strings.Contains(address, "Readers") {
		t.Errorf("the address is %s", address)
	}
	p.clean(s)

	// In German, channels and the filters of segments have their names. Filters keep the values.
	page := browsertest.New(t).NewPage()
	page.Before("localStorage.setItem('tallygate.language', 'de')")
	german := &tab{page, t}
	german.Goto(s.Origin + "/sign-in?next=/sites/" + id + "/saved")
	german.fill("E-Mail-Adresse", ownerEmail)
	german.fill("Passwort", ownerPassword)
	german.press("Anmelden")
	german.see("Kanal ist nicht bezahlte Suche")
	german.look("saved-german")
	german.Goto(s.Origin + "/sites/" + id + "?period=today")
	german.press("direkt")
	german.WaitFor("decodeURIComponent(location.search).includes('f=channel:is:direct')")
	german.clean(s)
}
