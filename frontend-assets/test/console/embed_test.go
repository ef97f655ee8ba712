package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestEmbeddedReportChromium shows the report of a link in a page of a named origin with a strict
// policy of its own, and refuses the same page of another origin, and every other page of the
// console.
func TestEmbeddedReportChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	site, key := s.createSite("shop.localhost", "Shop")
	for agent, path := range map[string]string{browsertest.UserAgent: "/", browsertest.UserAgent + " Other/1.0": "/kettle"} {
		testkit.Require(t, s.hitFrom(agent, key, "http://shop.localhost", path, ""), 204, "a hit: status")
	}

	// The owner takes the HTML from the console.
	owner := s.openSignedIn("/sites/" + site + "/sharing")
	owner.press("New link")
	owner.fill("Name", "For the client")
	owner.check("Hide revenue")
	owner.list("origins", "http://client.localhost", "http://example.org")
	owner.press("Create the link")
	owner.WaitFor("document.activeElement === " + rowOf("origins", 1) + " && document.activeElement.ariaInvalid === 'true'")
	owner.press("Remove http://example.org")
	owner.press("Create the link")
	owner.see("The list below shows it again.")
	address := owner.Text("document.querySelector('.notice pre').textContent")
	owner.reload()
	owner.see("All visits, without revenue")
	owner.press("Address of For the client")
	if again := owner.Text("document.querySelector('dialog pre').textContent"); again != address || !strings.HasPrefix(address, s.Origin+"/share#tgl_") {
		t.Errorf("the address is %q, and later %q", address, again)
	}
	snippet := owner.Text("document.querySelectorAll('dialog pre')[1].textContent")
	owner.clean(s)

	frame := strings.Split(strings.Split(snippet, `src="`)[1], `"`)[0]
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := snippet
		if page := r.URL.Query().Get("page"); page != "" {
			body = fmt.Sprintf(`<iframe src="%s%s"></iframe>`, s.Origin, page)
		}
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-src "+s.Origin)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<!doctype html><html lang=en><title>Client</title><h1>Our figures</h1>%s", body)
	}))
	t.Cleanup(pages.Close)

	browser := browsertest.New(t, browsertest.WithFlag("lang", "en-GB"),
		browsertest.Host("client.localhost", pages.URL), browsertest.Host("other.localhost", pages.URL))
	browser.Open("http://client.localhost/")
	p := &tab{browser.Frame(frame), t}
	p.see("Shop")
	p.WaitFor(fmt.Sprintf("%s === '2'", total(2)))
	if found := p.Text("String(document.querySelectorAll('header, footer').length)"); found != "0" {
		t.Error("the report in the frame has a header or a footer")
	}

	// The report works in the frame: a filter, and what is loaded on demand.
	p.press("/kettle")
	p.WaitFor(fmt.Sprintf("%s === '1'", total(2)))
	p.press("Filter")
	p.WaitFor("document.querySelector('dialog[open] select')")
	if strings.Contains(p.Text("document.querySelector('dialog[open]').textContent"), "Property") {
		t.Error("a report without revenue offers properties as filters")
	}
	p.press("Close")

	// It needs no cookie and stores nothing.
	testkit.Equal(t, p.Text(`JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}])`), `["",{},{}]`, "stored")
	for _, m := range p.Console() {
		t.Errorf("the frame's console: %s: %s", m.Level, m.Text)
	}

	// A page of another origin gets nothing, and other pages cannot be framed.
	for _, address := range []string{
		"http://other.localhost/", "http://client.localhost/?page=/sign-in", "http://client.localhost/?page=/share",
		"http://client.localhost/?page=/embed/sharedlink_AAAAAAAAAAAAAAAAAAAAAA",
	} {
		refused := &tab{browser.Open(address), t}
		refused.refuses("frame-ancestors")
	}
}

// refuses waits until the browser reports that it does not show a frame of the page.
func (p *tab) refuses(reason string) {
	p.t.Helper()
	reported := func(m browsertest.Message) bool { return strings.Contains(m.Text, reason) }
	testkit.Await(p.t, "the refusal of the frame: "+reason, func() bool { return slices.ContainsFunc(p.Console(), reported) })
}
