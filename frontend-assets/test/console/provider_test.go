package console_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// dexPassword is the password of Dex's person, whose bcrypt hash dexConfig has.
const dexPassword = "password"

// dexConfig is the configuration of a Dex with one person in memory: its address, the redirect
// address, and its listener.
const dexConfig = `issuer: %[1]s
storage: {type: memory}
web: %[3]s
oauth2: {skipApprovalScreen: true}
enablePasswordDB: true
staticClients:
- {id: tallygate, secret: a client secret, name: Tallygate, redirectURIs: [%[2]q]}
staticPasswords:
- email: anna@corp.example.test
  hash: "$2a$10$2b2cU8CPhOTaGrs1HRQuAueS7JTT5ZHsHSzYiFPm1leZck7Mc8T4W"
  username: anna
  userID: "08a8684b-db88-4b73-90a9-3cd1661f5466"
`

// freeAddress returns a free address.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// startDex runs Dex with a redirect address, and returns its issuer and how to end it. certificate
// is the file of a certificate and its key; empty: Dex listens without TLS.
func startDex(t *testing.T, redirect, certificate string) (issuer string, stop func()) {
	t.Helper()
	testkit.SkipLong(t, "Dex")

	program, err := filepath.Abs("../../../bin/dex")
	if err == nil {
		_, err = os.Stat(program)
	}
	if err != nil {
		testkit.Missing(t, "there is no Dex: run .ci/setup dex")
	}

	address := freeAddress(t)
	issuer, listener := "http://"+address+"/dex", fmt.Sprintf("{http: %q}", address)
	if certificate != "" {
		issuer, listener = "https://"+address+"/dex", fmt.Sprintf("{https: %q, tlsCert: %q, tlsKey: %[2]q}", address, certificate)
	}
	file := filepath.Join(t.TempDir(), "dex.yaml")
	testkit.NoError(t, os.WriteFile(file, []byte(fmt.Sprintf(dexConfig, issuer, redirect, listener)), 0o600))
	cmd := exec.Command(program, "serve", file)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	testkit.NoError(t, cmd.Start())
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(stop)

	testkit.Await(t, "Dex", func() bool {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			connection.Close()
		}
		return err == nil
	})
	return issuer, stop
}

// certificateFile returns a file with a certificate of 127.0.0.1 and its key.
func certificateFile(t *testing.T) string {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	testkit.NoError(t, err)

	file := filepath.Join(t.TempDir(), "pair.pem")
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	testkit.NoError(t, os.WriteFile(file, text, 0o600))
	return file
}

// TestProviderChromium signs in through Dex with its own page, signs out, and meets a provider that
// is away. Then it sets up an account's provider.
func TestProviderChromium(t *testing.T) {
	t.Parallel()

	console := freeAddress(t)
	dex, stopDex := startDex(t, "http://"+console+"/sign-in/callback", "")
	certificate := certificateFile(t)
	settings := map[string]string{
		"ROLES": "control,data", "CONTROL_ADDR": console, "OIDC_ISSUER": dex, "OIDC_CLIENT_ID": "tallygate",
		"OIDC_CLIENT_SECRET": "a client secret", "OIDC_NAME": "Dex", "OIDC_CA_FILE": certificate, "OIDC_ALLOW_NETS": "127.0.0.0/8",
	}
	s := start(t, settings)
	s.signUp()
	s.createSite("shop.localhost", "Kettle shop")

	// A person without an invitation.
	throughDex := func(path string) *tab {
		p := s.open(path)
		p.press("Sign in with Dex")
		p.see("Your account must have a provider for the domain of this address.")
		p.look("provider-sign-in")
		p.press("Sign in with Dex")
		p.WaitFor("document.querySelector('#login')")
		p.enter("document.querySelector('#login')", "anna@corp.example.test")
		p.enter("document.querySelector('#password')", dexPassword)
		p.click("document.querySelector('#submit-login')")
		return p
	}
	p := throughDex("/sign-in")
	p.see("Ask one of its owners for an invitation.")
	p.look("provider-no-account")

	// With an invitation, the person is a member without a password, and comes to the page that was
	// wanted.
	s.InviteMember("anna@corp.example.test", "VIEWER")
	p = throughDex("/sign-in?next=%2Fsessions")
	p.WaitFor("location.pathname === '/sessions'")
	p.see("Sessions")
	p.Goto(s.Origin + "/provider")
	p.see("Only owners of the account see and change the provider.")
	p.WaitFor("!document.querySelector('main form')")
	p.look("provider-not-owner")
	p.Goto(s.Origin + "/")
	p.see("Kettle shop")
	d := dbtest.Open(t, db.EmbeddedURL(s.dir))
	dbtest.HasRows(t, d, "identities", 1, "identities")

	// The sign-out leads to the sign-in page: Dex has no page for it.
	p.click("document.querySelector('summary')")
	p.press("Sign out")
	p.WaitFor("location.pathname === '/sign-in'")

	// The owner proves the address of an existing user once, and sets up the account's own
	// provider.
	owner := s.openSignedIn("/security")
	owner.press("Sign-in through a provider")
	owner.see("People of your domain sign in through your OpenID Connect provider")
	var own struct {
		Account struct {
			ID                  string `json:"id"`
			ProviderRedirectURL string `json:"providerRedirectUrl"`
		} `json:"account"`
	}
	s.Do(`{ account { id providerRedirectUrl } }`, nil, &own)
	if want := s.Origin + "/sign-in/callback/" + own.Account.ID; own.Account.ProviderRedirectURL != want {
		t.Errorf("the redirect address is %s, want %s", own.Account.ProviderRedirectURL, want)
	}
	owner.see(own.Account.ProviderRedirectURL)

	// What the provider refuses is shown at its field.
	accountDex, _ := startDex(t, own.Account.ProviderRedirectURL, certificate)
	owner.fill("Issuer", accountDex+"/")
	owner.fill("Client id", "tallygate")
	owner.fill("Client secret", "another secret")
	owner.fill("Domain of the addresses", "corp.example")
	owner.fill("Claim that sets roles", "groups")
	owner.fill("Roles by value of the claim", "staff = MEMBER")
	owner.look("provider-settings")
	owner.fill("Current password", ownerPassword)
	owner.press("Save")
	owner.see("The provider calls itself " + accountDex + ".")
	owner.look("provider-other-issuer")
	owner.fill("Issuer", accountDex)
	owner.fill("Current password", ownerPassword)
	owner.press("Save")
	owner.see("The provider refuses the client, its secret or the redirect address")
	owner.fill("Client secret", "a client secret")
	owner.fill("Current password", ownerPassword)
	owner.press("Save")
	owner.see("Not verified yet: no one can sign in.")
	owner.see("tallygate-domain=")
	owner.WaitFor("document.querySelector('[name=clientSecret]').value === '' && document.querySelector('[name=password]').value === ''")
	owner.look("provider-domain")

	german := s.openInGerman("/provider")
	german.see("Noch nicht bestätigt: Niemand kann sich anmelden.")
	german.fitsNarrow()
	german.look("provider-settings-german")

	// With keys alone: a line without a role is refused at its field.
	k := keyboard{owner}
	k.keys(kb.Tab)
	k.enter("Roles by value of the claim", kb.Enter+"visitors"+kb.Enter)
	k.enter("Current password", ownerPassword+kb.Enter)
	k.WaitFor("document.activeElement.name === 'roles' && document.activeElement.ariaInvalid === 'true'")
	k.see("Write one value per line, with = and OWNER, MEMBER or VIEWER.")

	// A domain whose record is gone.
	testkit.NoError(t, dbtest.Exec(d, "UPDATE account_providers SET verified_at = 1, checked_at = 1, missing_since = 1"))
	owner.Goto(s.Origin + "/provider")
	owner.see("The record has been missing since")
	owner.look("provider-missing-record")

	// Another process has not read the provider's metadata before it is away.
	s.stop()
	stopDex()
	again := start(t, settings)
	again.signUp()
	p = again.open("/sign-in/provider")
	p.press("Sign in with Dex")
	p.see("The provider cannot be reached.")
	p.press("Sign in with a password instead")
	p.fill("E-mail address", ownerEmail)
	p.fill("Password", ownerPassword)
	p.press("Sign in")
	p.WaitFor("location.pathname === '/'")

	// In German, and what the provider's answer leads to.
	page := browsertest.New(t).NewPage()
	page.Before("localStorage.setItem('tallygate.language', 'de')")
	german = &tab{page, t}
	german.Goto(again.Origin + "/sign-in/provider?problem=unavailable")
	german.see("Der Anbieter ist nicht erreichbar.")
	german.fitsNarrow()
	german.look("provider-sign-in-german")
	p = again.open("/sign-in/provider?problem=unavailable")
	p.see("The provider cannot be reached.")
	p.look("provider-problem")
	for _, path := range []string{"/sign-in/callback?state=x&code=y", "/sign-in/callback", "/sign-in/callback/account_x"} {
		p.Goto(again.Origin + path)
		p.see("This sign-in has expired or was used.")
	}
}
