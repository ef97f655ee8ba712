package console_test

import (
	"fmt"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestTransferChromium moves a site to another account of its owner.
func TestTransferChromium(t *testing.T) {
	t.Parallel()

	s := start(t, map[string]string{"ROLES": "control,data"})
	s.signUp()
	site, _ := s.createSite("shop.localhost", "Kettle shop")
	s.createSite("blog.localhost", "Kettle blog")
	s.Do(`mutation { createAccount(input: {name: "Agency"}) { userErrors { message } } }`, nil, nil)

	p := s.openSignedIn("/sites/" + site + "/advanced")
	p.press("Move to another account")
	p.see("Members of this account lose access, and those of the new one get it.")
	p.look("site-transfer")
	p.WaitFor(`document.querySelector('dialog button.danger').disabled`)
	p.fill("To confirm, type shop.localhost", "shop.localhost")
	p.press("Move to another account")
	p.see("shop.localhost was moved")
	p.WaitFor(chosenAccount + ` === 'Agency' && location.pathname === '/'`)
	p.see("Kettle shop")

	p.chooseAccount("Kettle & Co")
	p.see("Kettle blog")
	p.WaitFor(`!document.body.innerText.includes('Kettle shop')`)
	p.clean(s)
}

// TestSuspendedChromium: the users of a suspended account read the reason on every page.
func TestSuspendedChromium(t *testing.T) {
	t.Parallel()

	s := start(t, map[string]string{"ROLES": "control,data", "SIGNUPS": "open"})
	s.signUp()

	guest := s.open("/sign-up")
	guest.fill("Account name", "Guest & Sons")
	guest.fill("E-mail address", "guest@example.com")
	guest.fill("Password", "the guest's password")
	guest.press("Create the account")
	guest.see("Check your mail")
	guest.Goto(s.mailedLink())
	guest.fill("Password", "the guest's password")
	guest.press("Create the account")
	guest.see("No sites yet")

	operator := s.openSignedIn("/operator")
	operator.press("Guest & Sons")
	operator.press("Suspend")
	operator.fill("Reason", "Spam from 3 sites")
	operator.press("Suspend")
	operator.see("End the suspension")
	operator.WaitFor(`!document.querySelector('dialog') && document.activeElement.tagName === 'H1'`)

	for _, path := range []string{"/", "/members", "/captcha"} {
		guest.Goto(s.Origin + path)
		guest.see("The operator has suspended this account: Spam from 3 sites")
	}
	guest.look("suspended")
	guest.clean(s)

	operator.see("Spam from 3 sites")
	operator.press("End the suspension")
	operator.see("Its users read the reason")
	operator.WaitFor(`document.activeElement.tagName === 'H1'`)
	operator.clean(s)
}

// TestSearchOfManySitesChromium finds a site that is not among the hundred of the first page.
func TestSearchOfManySitesChromium(t *testing.T) {
	t.Parallel()

	s := start(t, map[string]string{"ROLES": "control,data"})
	s.signUp()
	testkit.NoError(t, sites.New(dbtest.Open(t, db.EmbeddedURL(s.dir))).Sites.SetSiteLimit(t.Context(), 1, 200))
	for i := range 102 {
		s.createSite(fmt.Sprintf("shop%d.localhost", i), fmt.Sprintf("Shop %d", i))
	}

	p := s.openSignedIn("/")
	p.see("Shop 7")
	p.WaitFor(`document.querySelectorAll('tbody tr').length === 100`)
	p.see("Sum of 102 sites")
	p.WaitFor(`document.querySelector('main section.card').getAttribute('aria-busy') === 'false'`)
	p.fill("Search sites", "shop101.localhost")
	p.WaitFor(`[...document.querySelectorAll('tbody tr')].map(e => e.innerText).join().includes('Shop 101')`)
	p.WaitFor(`document.querySelectorAll('tbody tr').length === 1`)
	p.clean(s)
}
