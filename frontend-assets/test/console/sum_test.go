package console_test

import (
	"fmt"
	"testing"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestSumOfSitesChromium checks that the list of sites adds up their figures, also beyond the first
// 20 sites, which come with their figures, and that one site has no sum.
func TestSumOfSitesChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	const sites = 22
	for i := range sites {
		domain := fmt.Sprintf("s%d.localhost", i)
		_, key := s.createSite(domain, domain)
		if i == 0 {
			p := s.openSignedIn("/")
			p.WaitFor("document.querySelectorAll('.cards li').length === 1 && !document.querySelector('[aria-busy=true]')")
			testkit.Equal(t, p.Text("document.body.textContent.includes('Sum of') ? 'sum' : ''"), "", "one site has a sum")
			continue // an equal report within 10 seconds would have no hits
		}

		// Three visitors of each other site; two of them visit all.
		for _, agent := range []string{"Visitor/1", "Visitor/2", fmt.Sprintf("Other/%d", i+10)} {
			testkit.Require(t, s.hitFrom(browsertest.UserAgent+" "+agent, key, "http://"+domain, "/", ""), 204, "a hit: status")
		}
	}

	p := s.openSignedIn("/")
	p.see(fmt.Sprintf("Sum of %d sites", sites))
	p.see("A visitor of two sites counts twice.")
	const section = "document.querySelector('main section.card[aria-busy=false]')"
	p.WaitFor(fmt.Sprintf("%s?.querySelector('strong').title === '%d'", section, 3*(sites-1)))

	// The lines have the same figures, in the natural order of names, and the sum follows the
	// search.
	p.WaitFor("[...document.querySelectorAll('tbody th')].map(e => e.textContent).slice(0, 3).join() === 's0.localhost,s1.localhost,s2.localhost'")
	p.WaitFor(fmt.Sprintf("document.querySelectorAll('td [title]').length >= %d", sites-1))
	const cards = "[...document.querySelectorAll('td:nth-child(2) span[title]')].reduce((all, e) => all + Number(e.title), 0)"
	p.WaitFor(fmt.Sprintf("%s === %d", cards, 3*(sites-1)))
	p.WaitFor(fmt.Sprintf("%s.querySelectorAll('dd')[0].textContent === '%d'", section, 3*(sites-1)))
	p.WaitFor(fmt.Sprintf("%s.querySelectorAll('dd')[1].textContent === '%d page views and events'", section, 3*(sites-1)))
	p.enter("document.querySelector('input[type=search]')", "s2")
	p.WaitFor("document.querySelectorAll('tbody tr').length === 3") // s2, s20 and s21
	p.see("Sum of 3 sites")
	p.WaitFor(fmt.Sprintf("%s?.querySelector('strong').title === '9'", section))
	if found := p.Barriers("main"); len(found) > 0 {
		t.Errorf("barriers: %v", found)
	}
	p.clean(s)

	// A page of figures that cannot be read leaves no sum, until another attempt.
	p.Before(`{
		const send = window.fetch;
		const refusal = '{"errors":[{"message":"No.","extensions":{"code":"INTERNAL"}}]}';
		window.fetch = (to, init) =>
			/SiteFigures/.test(init?.body) && !window.works ? Promise.resolve(new Response(refusal)) : send(to, init);
	}`)
	p.Goto(s.Origin + "/")
	p.see("The sum could not be read.")
	p.WaitFor(section + "?.textContent.includes('–')")
	p.Eval("window.works = true", nil)
	p.press("Try again")
	p.WaitFor(fmt.Sprintf("%s?.querySelector('strong')?.title === '%d'", section, 3*(sites-1)))
	p.WaitFor("!document.body.innerText.includes('The sum could not be read.')")
}
