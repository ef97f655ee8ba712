package console_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/pquerna/otp/totp"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// totpCode returns the code that an app shows now.
func totpCode(t testing.TB, secret string) string {
	t.Helper()
	code, err := totp.GenerateCode(secret, time.Now())
	testkit.NoError(t, err)
	return code
}

// appSecret waits for the secret of a new authenticator app on the page.
func (p *tab) appSecret() string {
	p.t.Helper()
	p.WaitFor(`document.querySelector('svg.qr') && document.activeElement.name === 'code'`)
	return p.Text(`document.querySelector('.code code').textContent`)
}

// TestSecurityChromium sets up an authenticator app with keys alone, signs in with its code and
// with a recovery code, and requires a second factor of a member.
func TestSecurityChromium(t *testing.T) {
	t.Parallel()

	s := start(t, map[string]string{"SMTP_URL": "smtp://127.0.0.1:1?tls=none"})
	s.signUp()
	s.createSite("shop.localhost", "Kettle shop")

	k := keyboard{s.openSignedIn("/account")}
	k.see("Kettle & Co")
	k.reach("document.querySelector('summary')")
	k.keys(kb.Enter)
	k.use("Security")
	k.see("protected by a password only")
	k.see("Passkeys are not available here")
	k.see("Set up your own second factor first.")
	k.look("security-none")

	// A wrong password and a wrong code stay on the page.
	k.use("Set up an app")
	k.WaitFor("document.activeElement.name === 'password'")
	k.look("security-password")
	k.keys("wrong password" + kb.Enter)
	k.WaitFor(`document.querySelector('dialog .error')?.textContent.includes('wrong')`)
	k.Eval(`document.activeElement.select()`, nil)
	k.keys(ownerPassword + kb.Enter)
	secret := k.appSecret()
	k.look("security-app")
	k.keys("12345" + kb.Enter)
	k.WaitFor(`document.querySelector('form .error')?.textContent.includes('wrong')`)
	k.Eval(`document.activeElement.select()`, nil)
	k.keys(totpCode(t, secret) + kb.Enter)
	k.see("In use since")
	k.see("10 unused codes.")
	k.WaitFor(button("Download the codes"))
	k.look("security-recovery")
	codes := strings.Fields(k.Text(`document.querySelector('.notice code').textContent`))
	testkit.Require(t, len(codes), 10, "the recovery codes are %q", codes)
	k.use("I have copied it")
	k.WaitFor(`!document.body.innerText.includes('` + codes[0] + `')`)

	// Sign in again with a recovery code. The address returns to where it came from.
	visitor := keyboard{s.open("/sign-in?next=" + url.QueryEscape("/security"))}
	visitor.WaitFor("document.activeElement.name === 'email'")
	visitor.keys(ownerEmail + kb.Tab + ownerPassword + kb.Enter)
	visitor.see("Confirm that it is you")
	visitor.WaitFor("document.activeElement.name === 'secondFactor'")
	visitor.look("sign-in-second-factor")
	visitor.keys("000000" + kb.Enter)
	visitor.WaitFor(`document.querySelector('form .error')?.textContent.includes('wrong, expired')`)
	visitor.Eval(`document.activeElement.select()`, nil)
	visitor.keys(codes[0] + kb.Enter)
	visitor.see("9 unused codes.")
	visitor.clean(s)

	// The account requires a second factor, and a new member sets one up before anything else.
	k.Front()
	k.reach(`document.querySelector('input[name=required]')`)
	k.keys(" " + kb.Tab + ownerPassword + kb.Enter)
	k.see("Saved")
	k.Goto(s.Origin + "/members")
	k.see("1 member")
	k.use("Invite")
	k.enter("E-mail address", "guest@example.com"+kb.Enter)
	k.see("Open invitations")

	guest := keyboard{s.open(strings.TrimPrefix(s.mailedLink(), s.Origin))}
	guest.WaitFor("document.activeElement.name === 'password'")
	guest.keys("the guest's password" + kb.Enter)
	guest.see("The account Kettle & Co requires a second factor.")
	guest.WaitFor("location.pathname === '/security'")
	guest.look("security-required")
	guest.use("Set up an app")
	guest.WaitFor("document.activeElement.name === 'password'")
	guest.keys("the guest's password" + kb.Enter)
	guest.keys(totpCode(t, guest.appSecret()) + kb.Enter)
	guest.see("In use since")
	codes = strings.Fields(guest.Text(`document.querySelector('.notice code').textContent`))
	guest.use("I have copied it")
	guest.use("Sites")
	guest.see("Kettle shop")
	guest.clean(s)

	// The owner's other sessions have ended, so the page itself makes the second account.
	second := k.Text(asPage(`mutation { createAccount(input: {name: "Second"}) { account { id } } }`) +
		`.then(a => a.data.createAccount.account.id)`)
	k.inviteWithSecondFactor(s, second, codes[0])

	// The rule of the chosen account, not of the default one.
	k.Front()
	k.Goto(s.Origin + "/security?account=" + second)
	k.see("Every member has a second factor.")
	k.reach(`document.querySelector('input[name=required]')`)
	k.keys(" " + kb.Tab + ownerPassword + kb.Enter)
	k.see("Saved")

	required := k.Text(asPage(`{ account(id: "`+second+`") { requireSecondFactor } }`) +
		`.then(a => String(a.data.account.requireSecondFactor))`)
	testkit.Equal(t, required, "true", "the chosen account requires a second factor")
}

// asPage returns a JavaScript expression for the response to an operation with the page's session.
func asPage(operation string) string {
	return fmt.Sprintf(`fetch('/graphql', {method: 'POST', headers: {'Content-Type': 'application/json'},
		body: JSON.stringify({query: %q})}).then(response => response.json())`, operation)
}

// inviteWithSecondFactor invites guest@example.com to an account. A browser without a session joins
// it with the guest's password and a recovery code.
func (k keyboard) inviteWithSecondFactor(s *service, account, code string) {
	k.t.Helper()

	k.Text(asPage(`mutation { inviteMember(input: {accountId: "`+account+`", email: "guest@example.com", role: MEMBER}) {
		userErrors { message } } }`) + `.then(a => JSON.stringify(a))`)
	p := keyboard{s.open(strings.TrimPrefix(s.mailedLink(), s.Origin))}
	p.WaitFor("document.activeElement.name === 'password'")
	p.keys("the guest's password" + kb.Enter)
	p.WaitFor("document.activeElement.name === 'secondFactor'")
	p.see("Code of your second factor")
	p.look("accept-invitation-second-factor")
	p.keys("wrong code" + kb.Enter)
	p.WaitFor(`document.querySelector('form .error')?.textContent.includes('wrong, expired')`)
	p.Eval(`document.activeElement.select()`, nil)
	p.keys(code + kb.Enter)
	p.WaitFor(chosenAccount + ` === 'Second'`)
	p.clean(s)
}

// TestPasskeyChromium registers a passkey of Chromium's virtual authenticator through the console,
// and signs in with it as a second factor and instead of the password.
func TestPasskeyChromium(t *testing.T) {
	t.Parallel()

	// A passkey needs a host name, and names below localhost need no TLS.
	s := start(t, map[string]string{"BASE_URL": "http://app.localhost"})
	s.signUp()
	browser := browsertest.New(t, browsertest.WithFlag("lang", "en-GB"), browsertest.Host("app.localhost", s.Origin))
	p := &tab{browser.NewPage(), t}

	var key webauthn.AuthenticatorID
	p.Do(webauthn.Enable(), chromedp.ActionFunc(func(ctx context.Context) (err error) {
		key, err = webauthn.AddVirtualAuthenticator(&webauthn.VirtualAuthenticatorOptions{
			Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal,
			HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
		}).Do(ctx)
		return err
	}))

	enter := func() {
		t.Helper()
		p.fill("E-mail address", ownerEmail)
		p.fill("Password", ownerPassword)
		p.press("Sign in")
	}
	leave := func() {
		t.Helper()
		p.press("Account menu of " + ownerEmail)
		p.press("Sign out")
		p.see("Sign in with a passkey")
	}

	p.Goto("http://app.localhost/sign-in?next=/security")
	p.see("Sign in with a passkey")
	p.look("sign-in")
	enter()
	p.press("Add a passkey")
	p.fill("Name", "Test key")
	p.fill("Current password", ownerPassword)
	p.press("Add a passkey")
	p.see("Your recovery codes.")
	p.see("Test key")
	p.look("security-passkey")
	p.press("I have copied it")

	// The same authenticator is not registered twice.
	p.press("Add a passkey")
	p.fill("Name", "Test key again")
	p.fill("Current password", ownerPassword)
	p.press("Add a passkey")
	p.see("This device has a passkey for you already.")
	p.press("Close")

	// As a second factor.
	leave()
	p.Goto("http://app.localhost/sign-in?next=/security")
	enter()
	p.see("Confirm that it is you")
	p.press("Use a passkey")
	p.see("Test key")

	// Instead of the password, unless its user is not verified.
	leave()
	p.Do(webauthn.SetUserVerified(key, false))
	p.press("Sign in with a passkey")
	p.see("The browser used no passkey")
	p.Do(webauthn.SetUserVerified(key, true))
	p.press("Sign in with a passkey")
	p.see("No sites yet")

	p.Goto("http://app.localhost/security")
	p.press("Rename Test key")
	p.fill("Name", "Laptop")
	p.press("Rename")
	p.press("Delete Laptop")
	p.fill("Current password", ownerPassword)
	p.press("Delete")
	p.see("Set up your own second factor first.")
	p.WaitFor(`!document.body.innerText.includes('Laptop')`)
}
