package console_test

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestFirstSiteChromium follows an owner from the first sign-up to a delivered webhook and a
// download.
func TestFirstSiteChromium(t *testing.T) {
	t.Parallel()

	hook := newReceiver(t)
	s := start(t, map[string]string{"WEBHOOK_CA_FILE": hook.caFile})

	p := s.open("/")
	p.see("Create the first account")
	p.WaitFor("location.pathname === '/sign-up' && document.activeElement.name === 'accountName'")
	p.WaitFor("!" + button("Sign in"))

	// The form keeps its values when the server refuses one.
	p.see("At least 10 characters.")
	p.look("sign-up")
	p.fill("Account name", "www.example.test")
	p.fill("E-mail address", ownerEmail)
	p.fill("Password", ownerPassword)
	p.press("Create the account")
	p.WaitFor("document.activeElement.name === 'accountName' && document.activeElement.ariaInvalid === 'true'")
	p.fill("Account name", "Kettle & Co")
	p.press("Create the account")
	p.see("No sites yet")
	p.look("sites-empty")

	// The tag appears, and the check reports what arrives while the page is open.
	p.press("New site")
	p.see("Its subdomains are included, also www.")
	p.look("site-new")
	p.fill("Domain", "https://shop.localhost/start?x")
	p.fill("Name", "Kettle shop")
	p.press("Create the site")
	p.see("Waiting for a hit")
	p.look("install")
	id := strings.Split(p.Text("location.pathname"), "/")[2]
	key := p.Text(`document.querySelector('code').textContent.match(/data-site="([0-9a-f]{32})"/)[1]`)

	testkit.Equal(t, s.hit(key, "https://www.other.example", "/", ""), http.StatusForbidden, "a hit from another domain: status")

	p.see("domain_not_allowed")
	p.see("add it as an extra domain")
	testkit.Equal(t, s.hit(key, "http://shop.localhost", "/kettle", ""), http.StatusNoContent, "a hit: status")

	p.see("It works.")
	p.look("install-done")
	p.press("Open the report")
	p.see("1 call was refused in the last 7 days")
	p.look("site")
	p.press("1 call was refused in the last 7 days")
	p.see("Refused by day")
	p.look("rejections")

	// Settings: an error at its field, then a change that a new visit shows.
	p.press("General")
	p.list("extraDomains", "not a domain")
	p.press("Save")
	p.WaitFor("document.activeElement === " + rowOf("extraDomains", 0) + " && document.activeElement.ariaInvalid === 'true'")
	p.look("settings-domains")
	p.list("extraDomains", "www.other.example")
	p.press("Save")
	p.see("Saved")
	p.press("Measurement")
	p.check("E-commerce")
	p.takePicture("settings", 760)
	p.press("Save")
	p.WaitFor(labelled("E-commerce") + ".defaultChecked")
	p.look("settings-measurement")
	p.press("Advanced")
	p.see("There is no secret")
	p.press("Create a secret")
	p.see("it is shown only this once")
	p.WaitFor(`[...document.querySelectorAll('code')].some(e => e.textContent.startsWith('svcs_'))`)
	p.look("settings")
	p.press("I have copied it")
	p.see("The current secret ends in")
	p.WaitFor("document.activeElement.textContent === 'Replace the secret'")

	// After a dialog, the focus returns to the button that opened it.
	p.press("Replace the secret")
	p.fill("To confirm, type shop.localhost", "shop.localhost")
	p.press("Replace the secret")
	p.see("it is shown only this once")
	p.press("I have copied it")
	p.WaitFor("document.activeElement.textContent === 'Replace the secret'")

	// The replaced secret stays valid for a day, unless it is revoked before.
	p.see("The replaced secret, which ends in")
	p.press("Revoke it now")
	p.WaitFor(`!document.body.innerText.includes('The replaced secret')`)

	testkit.Equal(t, s.hit(key, "https://www.other.example", "/", ""), http.StatusNoContent, "a hit from the added domain: status")

	// Events.
	p.press("Events")
	p.fill("Event", "sign-up")
	p.press("Register")
	p.press("Mark sign-up as a key event")
	p.WaitFor(button("sign-up is a key event. Remove the mark"))
	p.see("purchase")
	p.look("events")

	// A webhook that fails, explained, and then sent again.
	p.press("Webhooks")
	p.see("Nothing was sent in the last 30 days.")
	p.press("Change the address: Key events")
	p.enter("document.querySelector('input[name=url]')", hook.URL+"/hook")
	p.press("Generate a secret")
	p.WaitFor(`document.querySelector('input[name=secret]').value.startsWith('whsec_')`)
	p.enter("document.querySelector('input[name=url]')", hook.URL+"/hook")
	p.press("Save")
	p.see("Calls are signed.")
	p.press("Send a test")
	p.see("The server failed (5xx)")
	p.click(`document.querySelector('.deliveries summary')`)
	p.WaitFor(`document.querySelector('.deliveries table').textContent.includes('500')`)
	p.look("webhooks")
	hook.works.Store(true)
	p.press("Send again")
	p.WaitFor(`document.querySelector('.deliveries .state').textContent === 'Delivered'`)

	// Another failed delivery, sent again together with all failed ones.
	hook.works.Store(false)
	p.press("Send a test")
	p.WaitFor(`document.querySelector('.deliveries .state').textContent === 'Failed'`)
	hook.works.Store(true)
	p.press("Send all failed ones again")
	p.WaitFor(`[...document.querySelectorAll('.deliveries .state')].map(e => e.textContent).join() === 'Delivered,Delivered'`)

	// The list by state and kind, with the message's id, address and body.
	p.fill("State", "FAILED")
	p.see("No delivery of the last 30 days matches.")
	p.fill("State", "")
	p.fill("Kind", "TEST")
	p.see("2 deliveries")
	p.Eval(`document.querySelector('.deliveries summary').click()`, nil)
	p.see("Message id")
	p.see(hook.URL + "/hook")
	p.see(`"type":"test"`)

	// By the name of an event.
	event := p.Text(`document.querySelector('.deliveries summary code').textContent`)
	p.fill("Event or day", "no-such-event")
	p.see("No delivery of the last 30 days matches.")
	p.fill("Event or day", event)
	p.see("2 deliveries")
	p.fill("Event or day", "")
	p.fill("Kind", "")

	// A day, here with one event, is sent again to the webhook for daily exports.
	day := model.At(time.Now()).Day() - 3
	if err := dbtest.Exec(dbtest.Open(t, db.EmbeddedURL(s.dir)), `INSERT INTO events (site_id, at, id, visitor, n, name, path)
		VALUES (1, ?, 1, 1, 1, 'signup', '/')`, day.Start()); err != nil {
		t.Fatal(err)
	}
	p.press("Change the address: Daily export")
	p.enter("document.querySelector('input[name=url]')", hook.URL+"/day")
	p.Do(browsertest.Press(kb.Enter))
	p.press("Send this day again")
	p.fill("Day (UTC)", day.String())
	p.press("Send this day again")
	p.see("The day is sent again in 1 part.")
	p.WaitFor(`(s => s?.textContent.includes('` + day.String() + `') && s.querySelector('.state').textContent === 'Delivered')` +
		`(document.querySelector('.deliveries summary'))`)

	// The download equals what a script gets.
	p.Eval(`(() => { const make = URL.createObjectURL;
		URL.createObjectURL = (b) => { window.saved = b; return make(b) } })()`, nil)
	p.press("Export")
	p.see("Every stored row")
	p.see("&limit=50000") // of the line for a script; without it, 10,000 rows look like all
	p.look("export")
	p.Eval(`(() => { const real = window.fetch; window.fetch = (...a) => { window.fetch = real;
		return Promise.resolve(new Response('{}', {status: 429, headers: {'Retry-After': '1'}})) } })()`, nil)
	for _, format := range []string{"csv", "json"} {
		p.fill("Format", format)
		p.press("Download")
		if format == "csv" {
			p.see("The rate limit is reached.") // of the first request
		}
		p.see("2 rows are saved.")
		p.WaitFor(`window.saved?.type.includes('` + format + `')`)
		saved := p.Text("window.saved.text()")
		want := s.export(id, format)
		if strings.TrimSpace(saved) != strings.TrimSpace(want) {
			t.Errorf("%s: the console saved\n%s\nthe endpoint returns\n%s", format, saved, want)
		}
	}

	// The list of sites, and the deletion, which asks for the domain.
	p.press("Sites")
	p.see("2 page views and events")
	p.look("sites")
	p.press("Kettle shop")
	p.press("Settings")
	p.press("Advanced")

	// A paused site refuses hits.
	p.press("Pause the site")
	p.see("This site is paused")
	p.look("settings-paused")
	testkit.Equal(t, s.hit(key, "https://www.other.example", "/", ""), http.StatusNotFound, "a hit of the paused site: status")
	p.press("Resume the site")
	p.WaitFor(button("Pause the site"))

	p.press("Delete the site")
	p.WaitFor("document.querySelector('dialog[open]')")
	p.look("site-delete")
	p.WaitFor(`document.querySelector('dialog button.danger').disabled`)
	p.fill("To confirm, type shop.localhost", "shop.localhost")
	p.press("Delete the site")
	p.see("Recently deleted sites")
	p.look("deleted")
	p.press("Restore Kettle shop")
	p.see("Kettle shop is restored")

	// Deleted again, and then for good.
	p.press("Settings")
	p.press("Advanced")
	p.press("Delete the site")
	p.fill("To confirm, type shop.localhost", "shop.localhost")
	p.press("Delete the site")
	p.press("Delete for good")
	p.fill("To confirm, type shop.localhost", "shop.localhost")
	p.WaitFor("!document.querySelector('dialog button.danger').disabled")
	p.Eval("document.querySelector('dialog button.danger').click()", nil)
	p.see("No site was deleted in the last 7 days.")
	p.press("Sites")
	p.see("No sites yet")
	p.clean(s)
}

// export downloads page views of the last days as a script would, with the browser's session
// replaced by a new one.
func (s *service) export(siteID, format string) string {
	s.TB.Helper()

	s.SignIn(ownerEmail, ownerPassword)
	day := func(ago int) string { return time.Now().UTC().AddDate(0, 0, -ago).Format(time.DateOnly) }
	response, err := s.HTTP.Get(s.Origin + "/products/analytics/api/export.php?type=pageviews&site_id=" + siteID +
		"&format=" + format + "&from=" + day(30) + "&to=" + day(0))
	testkit.NoError(s.TB, err)
	defer response.Body.Close()

	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		s.TB.Fatalf("export: %s, %v", response.Status, err)
	}

	return string(body)
}

// receiver is an owner's server that answers webhooks.
type receiver struct {
	*httptest.Server
	caFile string
	works  atomic.Bool // answer 200 instead of 500

	mu    sync.Mutex
	calls []call
}

// call is a call that a receiver got.
type call struct {
	header http.Header
	body   []byte
}

// received returns the calls until now.
func (r *receiver) received() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()

	r := &receiver{}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.calls = append(r.calls, call{request.Header, body})
		r.mu.Unlock()

		if !r.works.Load() {
			http.Error(w, "no kettle", http.StatusInternalServerError)
		}
	}))
	t.Cleanup(r.Close)

	r.caFile = filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})
	testkit.NoError(t, os.WriteFile(r.caFile, block, 0o600))

	return r
}
