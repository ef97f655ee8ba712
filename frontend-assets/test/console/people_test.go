package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestPeopleChromium invites a member, who joins by the mailed link, and follows the other mailed
// links.
func TestPeopleChromium(t *testing.T) {
	t.Parallel()

	// No worker sends the mails, so the test can read their links.
	s := start(t, map[string]string{"ROLES": "control,data", "SIGNUPS": "open"})
	s.signUp()
	s.createSite("shop.localhost", "Kettle shop")

	p := s.openSignedIn("/members")
	p.see("1 member")
	p.press("Invite")
	p.fill("E-mail address", "guest@example.com")
	p.fill("Role", "VIEWER")
	p.press("Invite")
	p.see("Open invitations")
	p.look("members")

	// The guest joins as a viewer, and sees the pages without the forms.
	invitation := strings.TrimPrefix(s.mailedLink(), s.Origin)
	guest := s.open(invitation)
	guest.see(ownerEmail + " invites guest@example.com to the account Kettle & Co.")
	guest.see("Role: Viewer. Reads and downloads everything.")
	guest.look("accept-invitation")
	guest.fill("Password", "the guest's password")
	guest.press("Join")
	guest.see("Kettle shop")
	guest.WaitFor("location.pathname === '/' && location.hash === ''")

	// A used link reports it before a password is typed.
	used := s.open(invitation)
	used.see("This link is wrong, was used already, or is too old.")
	used.WaitFor("!document.querySelector('input[type=password]')")
	used.look("accept-invitation-used")
	guest.press("Kettle shop")
	guest.press("Settings")
	guest.see("Your role can read these settings but not change them.")
	guest.look("settings-viewer")
	guest.WaitFor(`document.querySelector('input[name=name]').disabled && !document.body.innerText.includes('Delete the site')`)
	guest.press("Events")
	guest.see("Automatic events")
	guest.WaitFor(`!document.querySelector('input[name=name]')`)

	// The guest makes a token for one of the account's two sites. The owner finds and revokes it.
	s.createSite("blog.localhost", "Kettle blog")
	guest.Goto(s.Origin + "/tokens")
	guest.see("You have no API tokens.")
	guest.press("Create a token")
	guest.fill("Name", "guest's script")
	guest.fill("Expires after", "30")
	guest.check("blog.localhost")
	guest.press("Create a token")
	guest.press("I have copied it")
	guest.WaitFor(`document.querySelector('tbody tr').innerText.includes('blog.localhost')`)

	p.Goto(s.Origin + "/tokens")
	p.see("Tokens of other members")
	p.see("guest@example.com")
	p.look("tokens-others")
	p.press("Revoke")
	p.fill("To confirm, type guest's script", "guest's script")
	p.press("Revoke")
	p.WaitFor(`!document.body.innerText.includes('Tokens of other members')`)

	// The owner changes the role, and removes the member after typing the address.
	p.Goto(s.Origin + "/members")
	p.see("2 members")
	p.choose(`document.querySelector('select[aria-label="Role of guest@example.com"]')`, "MEMBER")
	p.press("Save")
	p.see("Saved")
	p.press("Remove")
	p.fill("To confirm, type guest@example.com", "guest@example.com")
	p.press("Remove")
	p.see("1 member")

	// The removed member's session has ended: the next page asks for a sign-in and returns to
	// itself.
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
	guest.Goto(s.Origin + "/sign-up")
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

// TestSeveralAccountsChromium joins an account with a user of another one, chooses between both,
// changes the address, and leaves.
func TestSeveralAccountsChromium(t *testing.T) {
	t.Parallel()

	s := start(t, map[string]string{"ROLES": "control,data", "SIGNUPS": "open"})
	s.signUp()
	site, _ := s.createSite("shop.localhost", "Kettle shop")

	// The agency has an account of its own.
	p := s.open("/sign-up")
	p.fill("Account name", "Agency")
	p.fill("E-mail address", "agency@example.com")
	p.fill("Password", "the agency's password")
	p.press("Create the account")
	p.see("Check your mail")
	p.Goto(s.mailedLink())
	p.fill("Password", "the agency's password")
	p.press("Create the account")
	p.see("No sites yet")
	p.WaitFor(`!document.querySelector('header select')`)

	// Signed in, it joins without a password.
	s.InviteMember("agency@example.com", "MEMBER")
	p.Goto("about:blank")
	p.Goto(s.mailedLink())
	p.see("You are signed in as agency@example.com.")
	p.look("accept-invitation-signed-in")
	p.press("Join")
	p.see("Kettle shop")
	p.WaitFor(chosenAccount + ` === 'Kettle & Co' && location.search.startsWith('?account=account_')`)
	p.look("sites-chosen")

	// The pages of the menus show the chosen account, and its role.
	p.press("Kettle shop")
	p.press("Settings")
	p.see("Site key")
	p.WaitFor(`!document.querySelector('input[name=name]').disabled && !document.body.innerText.includes('Delete the site')`)
	p.press("Account menu of agency@example.com")
	p.press("Account")
	p.press("Members")
	p.see("2 members")
	p.WaitFor(chosenAccount + ` === 'Kettle & Co'`)

	p.chooseAccount("Agency")
	p.see("1 member")
	p.press("Sites")
	p.see("No sites yet")

	// A direct link chooses the account of its site.
	p.Goto(s.Origin + "/sites/" + site)
	p.WaitFor(chosenAccount + ` === 'Kettle & Co'`)
	p.chooseAccount("Agency")
	p.see("No sites yet")
	p.WaitFor("location.pathname === '/'")

	// The account's page.
	p.press("Account menu of agency@example.com")
	p.press("Account")
	p.see("New account")
	p.look("account-several")
	p.press("Rename")
	p.fill("Account name", "Agency & Co")
	p.press("Rename")
	p.WaitFor(chosenAccount + ` === 'Agency & Co'`)
	p.press("Change the e-mail address")
	p.fill("New e-mail address", "office@example.com")
	p.fill("Current password", "the agency's password")
	p.look("account-email")
	p.press("Change")
	p.see("A link was sent to office@example.com.")
	p.Goto(s.mailTo("office@example.com"))
	p.see("Other sessions end.")
	p.look("confirm-email")
	p.press("Confirm the new address")
	p.see("Your e-mail address is office@example.com now.")
	p.press("Sites")
	p.WaitFor(chosenAccount + ` === 'Agency & Co'`)

	// The list of sites opens with the account that was chosen last, also after signing in again.
	p.chooseAccount("Kettle & Co")
	p.see("Kettle shop")
	d := dbtest.Open(t, db.EmbeddedURL(s.dir))
	testkit.Await(t, "the stored choice", func() bool {
		rows, err := dbtest.Rows[struct{ Name string }](d,
			"SELECT a.name FROM users AS u JOIN accounts AS a ON a.id = u.last_account WHERE u.email = 'office@example.com'")
		return err == nil && len(rows) == 1 && rows[0].Name == "Kettle & Co"
	})
	p.Goto(s.Origin + "/")
	p.see("Kettle shop")
	p.WaitFor(chosenAccount + ` === 'Kettle & Co' && location.search.startsWith('?account=account_')`)
	p.press("Account menu of office@example.com")
	p.press("Sign out")
	p.fill("E-mail address", "office@example.com")
	p.fill("Password", "the agency's password")
	p.press("Sign in")
	p.see("Kettle shop")
	p.WaitFor(chosenAccount + ` === 'Kettle & Co'`)
	p.WaitFor(`Object.keys(localStorage).length === 0`)

	// Leaving keeps the other account.
	p.press("Account menu of office@example.com")
	p.press("Account")
	p.press("Leave")
	p.fill("To confirm, type Kettle & Co", "Kettle & Co")
	p.press("Leave")
	p.see("No sites yet")
	p.WaitFor(`!document.querySelector('header select') && !location.search`)
	p.clean(s)
}

// chosenAccount is a JavaScript expression for the name of the account that the menu shows.
const chosenAccount = `document.querySelector('header select')?.selectedOptions[0]?.text`

// chooseAccount chooses an account in the menu.
func (p *tab) chooseAccount(name string) {
	p.t.Helper()
	p.WaitFor(`document.querySelector('header select')`)
	p.Eval(fmt.Sprintf(`(e => { e.value = [...e.options].find(o => o.text === %q).value;
		e.dispatchEvent(new Event('change', {bubbles: true})) })(document.querySelector('header select'))`, name), nil)
	p.WaitFor(fmt.Sprintf("%s === %q", chosenAccount, name))
}

// TestAccountChromium uses the pages of the user: tokens, sessions, password, and the deletion of
// the account.
func TestAccountChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	p := s.openSignedIn("/tokens")
	p.see("You have no API tokens.")

	// The language of mails follows that of the console.
	mails := func() string {
		var data struct{ Viewer struct{ Language string } }
		s.Do(`{ viewer { language } }`, nil, &data)
		return data.Viewer.Language
	}
	testkit.Equal(t, mails(), "EN", "the language of mails")
	p.fill("Language", "de")
	p.WaitFor("document.documentElement.lang === 'de' && document.querySelector('footer select')")
	if language := mails(); language != "DE" {
		t.Errorf("the language of mails is %s after a change of the console's", language)
	}
	p.see("Einen Assistenten verbinden")
	p.WaitFor(`document.querySelector('pre[aria-label="Adresse der Werkzeuge"]')`)
	p.look("tokens-german")
	p.fill("Sprache", "en")
	p.WaitFor("document.documentElement.lang === 'en'")
	p.see("You have no API tokens.")

	// The tools answer at the address for assistants.
	p.see("Connect an assistant")
	address := p.Text(`document.querySelector('pre[aria-label="Address of the tools"]').textContent`)
	testkit.Equal(t, address, s.Origin+"/mcp", "the address for assistants")
	answer, err := http.Post(address, "application/json", strings.NewReader("{}"))
	testkit.NoError(t, err)
	answer.Body.Close()
	testkit.Equal(t, answer.StatusCode, http.StatusUnauthorized, "%s without a token answers %s", address, answer.Status)

	p.press("Create a token")
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
	p.WaitFor("document.activeElement.textContent === 'Create a token'")
	p.press("Revoke")
	p.fill("To confirm, type nightly export", "nightly export")
	p.press("Revoke")
	p.see("You have no API tokens.")

	// The sign-up of the test started another session, which the page can end.
	p.Goto(s.Origin + "/sessions")
	p.see("This browser")
	p.look("sessions")
	p.press("End")
	p.see("The session has ended")
	p.WaitFor("!" + button("End"))

	// All of this is in the audit log, whose filters stand in the address.
	p.Goto(s.Origin + "/audit")
	p.see(ownerEmail + " revoked the API token nightly export")
	p.press("Details: " + ownerEmail + " created the API token nightly export")
	p.see("Download, Read")
	p.see("createApiToken · token_")
	p.look("audit")
	entries := func(n int) string { return fmt.Sprintf("document.querySelectorAll('.day li').length === %d", n) }
	p.choose(`document.querySelector('select[aria-label=Changes]')`, "keys")
	p.WaitFor("location.search === '?kind=keys' && " + entries(2))
	p.choose(`document.querySelector('select[aria-label=Changes]')`, "")
	p.WaitFor("document.querySelectorAll('.day li').length > 2")
	p.press("nightly export")
	p.WaitFor("location.search.startsWith('?object=') && " + entries(2))
	p.press("All objects")
	p.WaitFor("document.querySelectorAll('.day li').length > 2")
	p.choose(`document.querySelector('select[aria-label=Period]')`, "1")
	p.WaitFor("location.search === '?period=1' && document.querySelectorAll('.day').length === 1")

	p.Goto(s.Origin + "/account")
	p.see("Kettle & Co")
	p.look("account")
	p.press("Change the password")
	p.fill("Current password", "wrong password")
	p.fill("New password", "correct horse battery 2")
	p.press("Change")
	p.WaitFor(`document.querySelector('form .error')?.textContent.includes('wrong')`)
	p.fill("Current password", ownerPassword)
	p.press("Change")
	p.see("The password is changed")

	// The menu at the top leads out.
	p.press("Account menu of " + ownerEmail)
	p.look("menu")
	p.press("Sign out")
	p.WaitFor("location.pathname === '/sign-in'")
	p.see("This installation accepts no new accounts.")
	p.look("sign-in")
	p.clean(s)
}
