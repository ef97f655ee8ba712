package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// answering returns a script that answers the next GraphQL requests of a page with a body, until
// window.through is set.
func answering(body string) string {
	return fmt.Sprintf(`(() => { const real = window.fetch; window.fetch = (...a) => window.through ? real(...a)
		: Promise.resolve(new Response(%q, {headers: {'Content-Type': 'application/json'}})) })()`, body)
}

// TestStatesChromium shows each state of a page that is not its content.
func TestStatesChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, _ := s.createSite("shop.localhost", "Kettle shop")
	p := s.openSignedIn("/account")

	failing := func(code, more string) string {
		return answering(`{"errors": [{"message": "", "extensions": {"code": "` + code + `"` + more + `}}]}`)
	}
	noSite := answering(`{"data": {"viewer": {"id": "u", "email": "a@b.test", "role": "OWNER", "account": {}, "accounts": []}, "site": null}}`)

	for _, test := range []struct{ name, script, want string }{
		{"throttled", failing("RATE_LIMITED", `, "retryAfter": 90`), "Try again in 90 seconds"},
		{"forbidden", failing("FORBIDDEN", ""), "Your role does not permit this."},
		{"internal", failing("INTERNAL", `, "requestId": "r-1"`), "went wrong on the server. (r-1)"},
		{"proxy", answering(`<html>`), "temporarily unavailable"},
		{"offline", `window.fetch = () => Promise.reject(new TypeError())`, "could not be reached"},
		{"loading", `window.fetch = () => new Promise(() => {})`, "Loading"},
		{"missing site", noSite, "Not found"},
	} {
		remove := p.Before(test.script)
		p.Goto(s.Origin + "/sites/" + id)
		p.WaitFor(fmt.Sprintf("document.body.textContent.includes(%q)", test.want))
		p.look("state-" + strings.ReplaceAll(test.name, " ", "-"))
		if test.name == "loading" {
			p.Do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}}))
			p.WaitFor("getComputedStyle(document.querySelector('.loading')).animationName === 'none'")
			p.Do(emulation.SetEmulatedMedia())
		}
		remove()
	}

	// A failure ends with the next attempt, without a reload.
	remove := p.Before(failing("UNAVAILABLE", ""))
	p.Goto(s.Origin + "/sites/" + id)
	p.see("temporarily unavailable")
	p.Eval("window.through = true", nil)
	p.see("Waiting for the first hit")
	remove()

	p.Goto(s.Origin + "/sites/site_unknown")
	p.see("Not found")

	// Reported by the console itself, so only the rejected promise of the stub may stand in it.
	p.clean(s)
}

// TestGermanChromium reads the console in German, and keeps the choice of theme and language.
func TestGermanChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, key := s.createSite("shop.localhost", "Kettle shop")
	if status := s.hit(key, "https://www.other.example", "/", ""); status != 403 {
		t.Errorf("status %d", status)
	}
	s.await(id, 1)

	page := browsertest.New(t).NewPage()
	page.Before("localStorage.setItem('tallygate.language', 'de')")
	p := &tab{page, t}
	p.Goto(s.Origin + "/sites/" + id + "/rejections")
	p.see("Anmelden")
	p.WaitFor("document.documentElement.lang === 'de'")
	p.fill("E-Mail-Adresse", ownerEmail)
	p.fill("Passwort", "wrong password")
	p.press("Anmelden")
	p.see("E-Mail-Adresse oder Passwort ist falsch.")
	p.fill("Passwort", ownerPassword)
	p.press("Anmelden")
	p.see("Die Seite liegt auf einer fremden Domain")
	p.look("german")

	p.fill("Darstellung", "dark")
	p.WaitFor("document.documentElement.dataset.theme === 'dark' && localStorage.getItem('tallygate.theme') === 'dark'")
	p.clean(s)
}

// TestStopMailChromium follows the link of a summary in a browser without a session. The page asks
// before it stops the mails.
func TestStopMailChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	id, _ := s.createSite("shop.localhost", "Kettle shop")
	s.Do(`mutation ($id: ID!) { setOwnAlertChannel(input: {siteId: $id, weekly: true}) { userErrors { code } } }`,
		map[string]any{"id": id}, nil)
	active := func() bool {
		var data struct {
			Site struct{ OwnAlertChannel struct{ State string } }
		}
		s.Do(`query ($id: ID!) { site(id: $id) { ownAlertChannel { state } } }`, map[string]any{"id": id}, &data)
		return data.Site.OwnAlertChannel.State == "ACTIVE"
	}

	d := dbtest.Open(t, db.EmbeddedURL(s.dir))
	ids, err := keys.New(d).NodeIDs(t.Context())
	testkit.NoError(t, err)
	confirmed, err := dbtest.Rows[model.Instant](d, "SELECT confirmed_at FROM alert_channels WHERE id = 1")
	if err != nil || len(confirmed) != 1 {
		t.Fatalf("%v, %v", confirmed, err)
	}
	secret := ids.OfChannelStop(1, confirmed[0])

	p := s.open(model.StopMailPath + "?token=stop_wrong")
	p.see("This alert channel then sends no more mails.")
	p.look("stop-mail")
	p.press("Stop these mails")
	p.see("This link is wrong, was used already, or is too old.")

	p.Goto(s.Origin + model.StopMailPath + "?token=" + secret)
	p.see("Stop mails")
	if !active() {
		t.Error("the mails are stopped before the button is pressed")
	}
	p.press("Stop these mails")
	p.see("The mails are stopped.")
	p.look("stop-mail-done")
	if active() {
		t.Error("the mails are not stopped")
	}
	p.clean(s)

	// A mail program stops them with one request.
	s.Do(`mutation ($id: ID!) { setOwnAlertChannel(input: {siteId: $id, weekly: true}) { userErrors { code } } }`,
		map[string]any{"id": id}, nil)
	response, err := http.PostForm(s.Origin+model.StopMailPath+"?token="+secret,
		url.Values{"List-Unsubscribe": {"One-Click"}})
	testkit.NoError(t, err)
	response.Body.Close()
	if response.StatusCode != http.StatusNoContent || active() {
		t.Errorf("one request: status %d, the mails are still sent: %v", response.StatusCode, active())
	}
}

// TestFirstViewChromium holds the console to three requests and one GraphQL call, to its policy,
// and to what it stores.
func TestFirstViewChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	s.createSite("shop.localhost", "Kettle shop")
	p := s.openSignedIn("/")
	p.see("Kettle shop")
	before := len(p.Requests())
	p.Goto(s.Origin + "/")
	p.see("Kettle shop")

	var files, calls int
	for _, r := range p.Requests()[before:] {
		switch {
		case r.Method == "POST":
			calls++
		case !strings.HasPrefix(r.URL, "data:"):
			files++
		}
	}
	if files != 3 || calls != 1 {
		t.Errorf("the first view takes %d files and %d calls, want 3 and 1: %v", files, calls, p.Requests()[before:])
	}

	// Text cannot become code, and nothing is stored but the session, which scripts cannot read.
	got := p.Text(`(() => { try { document.body.innerHTML = '<p>'; return 'written' } catch (e) { return e.name } })()`)
	testkit.Equal(t, got, "TypeError", "innerHTML")
	testkit.Equal(t, p.Text(`JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}])`), `["",{},{}]`, "stored")

	// The page reports what it needs where JavaScript is turned off.
	plain := s.open("/sign-in")
	plain.Do(emulation.SetScriptExecutionDisabled(true), chromedp.Reload())
	var html string
	plain.Do(chromedp.InnerHTML("noscript", &html, chromedp.ByQuery, chromedp.NodeReady))
	if !strings.Contains(html, "needs JavaScript") {
		t.Errorf("without JavaScript: %s", html)
	}

	// Narrow screens and enlarged text need no sideways scrolling.
	for _, width := range []int64{320, 640} {
		p.Do(chromedp.EmulateViewport(width, 800))
		p.Eval(fmt.Sprintf("document.documentElement.style.fontSize = '%d%%'", width*100/320), nil)
		p.WaitFor("document.documentElement.scrollWidth <= window.innerWidth")
	}
}
