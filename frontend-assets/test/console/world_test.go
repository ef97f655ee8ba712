// Package console_test drives the console in real browsers against the whole service, which runs in
// a process of its own as in production.
package console_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tallygate/tallygate/cmd/tallygate/demo"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world/program"
)

func TestMain(m *testing.M) {
	code := browsertest.Run(func() int { return dbtest.Run(m) })
	program.Remove()
	os.Exit(code)
}

// The first user and the user's password.
const (
	ownerEmail    = "owner@shop.example.test"
	ownerPassword = "correct horse battery"
)

// service is a running tallygate with its own data folder, and a session at it.
type service struct {
	*program.Client
	dir      string
	data     string // origin
	password string // of the owner
	stop     func() // ends the process at once, before the end of the test
}

// start runs the service until the test ends. Settings are environment variables without the prefix
// TALLYGATE_.
func start(t testing.TB, settings map[string]string) *service {
	t.Helper()
	return startProgram(t, "", "serve", settings)
}

// startProgram runs the command serve or demo of a program of its own.
func startProgram(t testing.TB, file, command string, settings map[string]string) *service {
	t.Helper()
	testkit.SkipLong(t, "a browser")

	// On a busy machine a control plane of low priority, in a process of its own, would not answer
	// within its time.
	all := map[string]string{
		"TALLYGATE_PROCESSES": "one", "TALLYGATE_DATA_DIR": t.TempDir(), "TALLYGATE_ALLOW_LOCAL_DOMAINS": "true",
		"TALLYGATE_WEBHOOK_ALLOW_NETS": "127.0.0.0/8",
	}
	for name, value := range settings {
		all["TALLYGATE_"+name] = value
	}

	roles := []string{"control", "data"}
	if command == "demo" {
		// The demo's shop listens when its data is complete.
		roles = append(roles, "demo")
	}

	p := program.Start(t, file, all, roles, command)
	return &service{Client: p.Client(), dir: all["TALLYGATE_DATA_DIR"], data: "http://" + p.Addr["data"],
		password: ownerPassword, stop: func() { p.Signal(syscall.SIGKILL) }}
}

// signUp creates the owner's account.
func (s *service) signUp() {
	s.TB.Helper()
	s.SignUp(ownerEmail, ownerPassword, "Kettle & Co")
}

// createSite creates a site and returns its id and key.
func (s *service) createSite(domain, name string) (id, key string) {
	s.TB.Helper()
	site := s.CreateSite(domain, name)
	return site.ID, site.SiteKey
}

// hit sends a page view or an event as the script would from a page, and returns the status.
func (s *service) hit(key, origin, path, event string) int {
	s.TB.Helper()
	return s.hitFrom(browsertest.UserAgent, key, origin, path, event)
}

// hitFrom is hit with a user agent. Each agent is another visitor.
func (s *service) hitFrom(agent, key, origin, path, event string) int {
	s.TB.Helper()

	message := map[string]any{"k": key, "p": path, "r": nil, "i": "0123456789abcdef", "u": map[string]any{}, "w": 1440,
		"l": "en", "t": "pageview"}
	if event != "" {
		message["t"], message["e"] = "event", event
	}

	body, err := json.Marshal(message)
	testkit.NoError(s.TB, err)

	request, err := http.NewRequest(http.MethodPost, s.data+"/collect.php", bytes.NewReader(body))
	testkit.NoError(s.TB, err)

	request.Header.Set("Origin", origin)
	request.Header.Set("User-Agent", agent)
	request.Header.Set("Accept-Language", "en")
	response, err := http.DefaultClient.Do(request)
	testkit.NoError(s.TB, err)

	response.Body.Close()
	return response.StatusCode
}

// mailedLink returns the link of the newest mail, which no worker has sent.
func (s *service) mailedLink() string {
	s.TB.Helper()
	return s.mailTo("%")
}

// mailTo is mailedLink for the mails to an address, a pattern of LIKE.
func (s *service) mailTo(recipient string) string {
	s.TB.Helper()

	d := dbtest.Open(s.TB, db.EmbeddedURL(s.dir))
	rows, err := dbtest.Rows[struct{ Data string }](
		d, "SELECT data FROM mails WHERE recipient LIKE ? ORDER BY id DESC LIMIT 1", recipient)
	if err != nil || len(rows) != 1 {
		s.TB.Fatalf("mails: %v, %v", rows, err)
	}

	var mail outbox.LinkMail
	testkit.NoError(s.TB, json.Unmarshal([]byte(rows[0].Data), &mail))

	return mail.URL
}

// tab is a page of the console with the operations of its tests.
type tab struct {
	*browsertest.Page
	t testing.TB
}

// open opens a page of the console in a new browser, in English.
func (s *service) open(path string) *tab {
	s.TB.Helper()
	browser := browsertest.New(s.TB, browsertest.WithFlag("lang", "en-GB"))
	p := &tab{browser.NewPage(), s.TB}
	p.Goto(s.Origin + path)
	return p
}

// email returns the owner's address.
func (s *service) email() string {
	if s.password == ownerPassword {
		return ownerEmail
	}
	return demo.Email
}

// openSignedIn opens a page with the session of the owner.
func (s *service) openSignedIn(path string) *tab {
	s.TB.Helper()
	p := s.open("/sign-in?next=" + url.QueryEscape(path))
	p.fill("E-mail address", s.email())
	p.fill("Password", s.password)
	p.press("Sign in")
	p.WaitFor(fmt.Sprintf("location.pathname + location.search === %q", path))
	return p
}

// openInGerman opens a page in German with the session of the owner.
func (s *service) openInGerman(path string) *tab {
	s.TB.Helper()
	page := browsertest.New(s.TB).NewPage()
	page.Before("localStorage.setItem('tallygate.language', 'de')")
	p := &tab{page, s.TB}
	p.Goto(s.Origin + "/sign-in?next=" + url.QueryEscape(path))
	p.fill("E-Mail-Adresse", s.email())
	p.fill("Passwort", s.password)
	p.press("Anmelden")
	p.WaitFor(fmt.Sprintf("location.pathname + location.search === %q", path))
	return p
}

// labelled returns a JavaScript expression for the visible form control with a label.
func labelled(label string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('label')]
		.filter(l => l.checkVisibility() && l.firstChild.textContent.trim() === %q)
		.map(l => l.control ?? l.querySelector('input, select, textarea'))[0]`, label)
}

// button returns a JavaScript expression for the visible button or link with a text.
func button(text string) string {
	return fmt.Sprintf(`[...(document.querySelector('dialog[open]') ?? document).querySelectorAll('button, a, summary')]
		.filter(e => e.checkVisibility() && !e.disabled)
		.filter(e => (e.getAttribute('aria-label') ?? e.textContent.trim()) === %q)[0]`, text)
}

// fill replaces the text of the control with a label, or chooses the option with that value.
func (p *tab) fill(label, text string) {
	p.t.Helper()
	p.WaitFor(labelled(label))

	switch p.Text(labelled(label) + ".type") {
	case "select-one":
		p.choose(labelled(label), text)
	case "date", "time":
		p.setDate(labelled(label), text)
	default:
		p.enter(labelled(label), text)
	}
}

// enter clicks on the field of a JavaScript expression, and replaces its text by the keyboard.
func (p *tab) enter(field, text string) {
	p.t.Helper()
	p.click(field)
	p.Do(browsertest.Press("a", chromedp.KeyModifiers(input.ModifierCtrl)), browsertest.Press(kb.Delete))
	if text != "" {
		p.Do(input.InsertText(text))
	}
	p.WaitFor(fmt.Sprintf("%s?.value === %q", field, text))
}

// choose chooses the option with a value by the keyboard. A click would open a menu of the system.
func (p *tab) choose(list, value string) {
	p.t.Helper()
	p.WaitFor(list)

	var steps int
	p.Eval(fmt.Sprintf("(e => { e.focus(); return [...e.options].findIndex(o => o.value === %q) - e.selectedIndex })(%s)",
		value, list), &steps)
	key := kb.ArrowDown
	if steps < 0 {
		key, steps = kb.ArrowUp, -steps
	}
	p.Do(browsertest.Press(strings.Repeat(key, steps)))
}

// setDate sets a date or a time, whose parts a keyboard enters in the order of the system.
func (p *tab) setDate(field, day string) {
	p.t.Helper()
	p.Eval(fmt.Sprintf(`(e => { e.focus();
		e.value = %q;
		for (const type of ['input', 'change']) e.dispatchEvent(new Event(type, {bubbles: true}));
	})(%s)`, day, field), nil)
}

// rowOf returns a JavaScript expression for the field of a text in a list, which begins with 0.
func rowOf(list string, index int) string {
	return fmt.Sprintf("document.getElementById('%s.%d')", list, index)
}

// list fills the first rows of a list.
func (p *tab) list(name string, texts ...string) {
	p.t.Helper()
	for i, text := range texts {
		p.enter(rowOf(name, i), text)
	}
}

// check changes a checkbox.
func (p *tab) check(label string) {
	p.t.Helper()
	p.click(labelled(label))
}

// press clicks on a button or link.
func (p *tab) press(text string) {
	p.t.Helper()
	p.click(button(text))
}

// click clicks with the mouse on the element of a JavaScript expression, as soon as it exists. It
// clicks again if the element has moved away meanwhile, so nothing on the page may cover it.
func (p *tab) click(element string) {
	p.t.Helper()

	script := fmt.Sprintf(`(e => {
		if (!e) return null;
		e.scrollIntoView({block: 'center', behavior: 'instant'});
		window.missed = true;
		e.addEventListener('click', () => { window.missed = false }, {once: true, capture: true});
		const box = e.getClientRects()[0];
		return {x: box.x + box.width / 2, y: box.y + box.height / 2};
	})(%s)`, element)

	for range 10 {
		p.WaitFor(element)
		var at *struct{ X, Y float64 }
		if p.Eval(script, &at); at == nil {
			continue
		}

		p.Do(chromedp.MouseClickXY(at.X, at.Y))

		// The click may have loaded another page.
		var missed bool
		if p.Eval("window.missed === true", &missed); !missed {
			return
		}
	}

	p.t.Fatalf("clicks miss %s; at its place is %s", element,
		p.Text(fmt.Sprintf(`(e => { const b = e?.getClientRects()[0];
			return b ? document.elementFromPoint(b.x + b.width / 2, b.y + b.height / 2)?.outerHTML ?? '' : '' })(%s)`, element)))
}

// see waits for a text on the page.
func (p *tab) see(text string) {
	p.t.Helper()
	p.WaitFor(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// clean fails the test if the console shows a problem or a request left the service's hosts.
func (p *tab) clean(s *service) {
	p.t.Helper()
	for _, m := range p.Console() {
		// The browser's advice about forms is not about this page's behaviour.
		if m.Level != "verbose" {
			p.t.Errorf("the console shows %s: %s", m.Level, m.Text)
		}
	}
	for _, r := range p.Requests() {
		if !strings.HasPrefix(r.URL, s.Origin+"/") && !strings.HasPrefix(r.URL, s.data+"/") &&
			!strings.HasPrefix(r.URL, "data:") && !strings.HasPrefix(r.URL, "blob:") {
			p.t.Errorf("request to another host: %s %s", r.Method, r.URL)
		}
	}
}

// look reports the accessibility faults of the page as it is now, in light and dark, and takes its
// pictures. A theme changes colors only. It waits for figures that are being counted, because the
// earlier ones are pale meanwhile.
func (p *tab) look(name string) {
	p.t.Helper()

	p.WaitFor(`!document.querySelector('.figures[aria-busy=true], .panel > [aria-busy=true]') &&
		[...document.querySelectorAll('.figures > *, .panel > [aria-busy] > *')].every(e => getComputedStyle(e).opacity === '1')`)
	p.Eval("document.documentElement.dataset.theme = 'light'", nil)
	for _, barrier := range p.Barriers("html") {
		p.t.Errorf("%s, light: %s", name, barrier)
	}

	p.Eval("document.documentElement.dataset.theme = 'dark'", nil)
	for _, barrier := range p.ColorBarriers("html") {
		p.t.Errorf("%s, dark: %s", name, barrier)
	}

	p.Eval("delete document.documentElement.dataset.theme", nil)
	p.shoot(name)
}
