package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// createLink creates a shared link, with a password unless that is empty, and returns its token.
func (s *service) createLink(siteID, name, password string) string {
	s.TB.Helper()

	input := map[string]any{"siteId": siteID, "name": name}
	if password != "" {
		input["password"] = password
	}

	var data struct{ CreateSharedLink struct{ Token string } }
	s.Do(`mutation ($input: CreateSharedLinkInput!) { createSharedLink(input: $input) { token userErrors { message } } }`,
		map[string]any{"input": input}, &data)
	if data.CreateSharedLink.Token == "" {
		s.TB.Fatalf("the link %s has no token", name)
	}
	return data.CreateSharedLink.Token
}

// reload loads the page again, as the browser's button does.
func (p *tab) reload() {
	p.t.Helper()
	p.Eval("window.isOld = true, location.reload()", nil)
	p.WaitFor("!window.isOld && document.readyState === 'complete'")
}

// shared waits until the page shows a shared report at an address with so many page views.
func (p *tab) shared(address string, pageviews int) {
	p.t.Helper()
	p.see("Shared report of shop.localhost")
	p.WaitFor(fmt.Sprintf("location.href === %q", address))
	p.WaitFor(fmt.Sprintf("%s === '%d'", total(2), pageviews))
}

// TestSharedLinksChromium opens shared links. The token must remain behind #, also after filters,
// steps back and reloads, and no request may have it in its address.
func TestSharedLinksChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, key := s.createSite("shop.localhost", "Shop")
	for agent, path := range map[string]string{browsertest.UserAgent: "/", browsertest.UserAgent + " Other/1.0": "/kettle"} {
		testkit.Require(t, s.hitFrom(agent, key, "http://shop.localhost", path, ""), 204, "a hit: status")
	}

	token, locked := s.createLink(id, "Open", ""), s.createLink(id, "Locked", "the link's password")

	// These days include the hits also if the test runs at midnight.
	now := time.Now().UTC()
	days := "?from=" + now.AddDate(0, 0, -2).Format(time.DateOnly) + "&to=" + now.AddDate(0, 0, 2).Format(time.DateOnly)

	p := s.open("/share" + days + "#" + token)
	p.keepsToken(s.Origin+"/share"+days+"#"+token, s.Origin+"/share"+days+"&f=page:is:/kettle#"+token)
	p.changesLink(s, token, locked)

	for _, r := range p.Requests() {
		if strings.Contains(r.URL, token) || strings.Contains(r.URL, locked) {
			t.Errorf("a request has the token: %s %s", r.Method, r.URL)
		}
	}
	p.clean(s)
}

// keepsToken filters, goes back, reloads and moves the focus on the page of a link.
func (p *tab) keepsToken(all, filtered string) {
	p.t.Helper()

	p.shared(all, 2)

	// Links, which can be opened in a new tab, have the token.
	p.WaitFor("document.querySelectorAll('.figures a[href]').length > 10")
	if without := p.Text(`[...document.querySelectorAll('.figures a[href]')].filter(a => !a.href.endsWith(location.hash))
		.map(a => a.href).join('\n')`); without != "" {
		p.t.Errorf("links without the token:\n%s", without)
	}

	p.press("/kettle")
	p.shared(filtered, 1)
	p.reload()
	p.shared(filtered, 1)
	p.Eval("history.back()", nil)
	p.shared(all, 2)
	p.Eval("history.forward()", nil)
	p.shared(filtered, 1)

	p.press("Remove the filter Page is /kettle")
	p.shared(all, 2)

	p.Eval("document.querySelector('.skip').click()", nil)
	p.WaitFor("document.activeElement.id === 'main'")
	p.shared(all, 2)

	// A whole table. Its search stands in the URL, too.
	p.press("Details, Pages: all 2")
	p.enter("document.querySelector('dialog input[type=search]')", "kettle")
	p.WaitFor("document.querySelectorAll('dialog tbody tr').length === 1 && location.search.includes('q=kettle')")
	p.press("Close")
	p.shared(all, 2)
}

// changesLink replaces the token in the address of an open page, as a person who pastes another
// link does.
func (p *tab) changesLink(s *service, token, locked string) {
	p.t.Helper()

	p.Eval("location.hash = '#tgl_wrong'", nil)
	p.see("This link is wrong, has expired or was revoked.")
	p.Eval("location.hash = ''", nil)
	p.see("This link is wrong, has expired or was revoked.")

	p.Goto(s.Origin + "/share#" + locked)
	p.see("protected by a password")
	p.reload()
	p.fill("Password", "a wrong secret")
	p.press("Open the report")
	p.WaitFor("document.activeElement.name === 'password' && document.activeElement.ariaInvalid === 'true'")
	p.fill("Password", "the link's password")
	p.press("Open the report")
	p.see("Shared report of shop.localhost")

	// A reload does not ask again, but scripts can read nothing.
	p.reload()
	p.see("Shared report of shop.localhost")
	if stored := p.Text(`JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}])`); stored != `["",{},{}]` {
		p.t.Errorf("stored: %s", stored)
	}

	p.Eval(fmt.Sprintf("location.hash = %q", token), nil)
	p.see("Shared report of shop.localhost")
}
