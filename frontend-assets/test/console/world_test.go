// Package console_test drives the console in real browsers against the whole service, which runs in
// a process of its own as in production.
package console_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tallygate/tallygate/cmd/tallygate/demo"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// programFolder holds the program once a test has needed it.
var programFolder string

// program builds the program and returns its file. It has no race detector, even if the tests have,
// because that multiplies the processor time of each process.
var program = sync.OnceValues(func() (string, error) {
	var err error
	if programFolder, err = os.MkdirTemp("", "tallygate-console-"); err != nil {
		return "", err
	}

	return build("tallygate")
})

// build builds the program in programFolder with further flags of go build, and returns its file.
func build(name string, flags ...string) (string, error) {
	file := filepath.Join(programFolder, name)
	args := append([]string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", file}, flags...)
	cmd := exec.Command("go", append(args, "github.com/tallygate/tallygate/cmd/tallygate")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // so that all tests share what is compiled
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build tallygate: %w\n%s", err, out)
	}
	return file, nil
}

func TestMain(m *testing.M) {
	code := browsertest.Run(func() int { return dbtest.Run(m) })
	if programFolder != "" {
		_ = os.RemoveAll(programFolder)
	}
	os.Exit(code)
}

// patience is the longest wait for the service.
const patience = 60 * time.Second

// The first user and the user's password.
const (
	ownerEmail    = "owner@shop.example.test"
	ownerPassword = "correct horse battery"
)

// service is a running tallygate with its own data folder.
type service struct {
	t             testing.TB
	dir           string
	control, data string // origins
	password      string // of the owner
	http          *http.Client
	stop          func() // ends the process at once, before the end of the test
}

// start runs the service until the test ends. Settings are environment variables without the prefix
// TALLYGATE_.
func start(t testing.TB, settings map[string]string) *service {
	t.Helper()
	return startCommand(t, "serve", settings)
}

// startCommand runs the command serve or demo until the test ends.
func startCommand(t testing.TB, command string, settings map[string]string) *service {
	t.Helper()

	file, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return startProgram(t, file, command, settings)
}

// startProgram is startCommand with a program of its own.
func startProgram(t testing.TB, file, command string, settings map[string]string) *service {
	t.Helper()

	dir := t.TempDir()
	cmd := exec.Command(file, command)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TALLYGATE_") {
			cmd.Env = append(cmd.Env, v)
		}
	}

	// On a busy machine a control plane of low priority, in a process of its own, would not answer
	// within its time.
	all := map[string]string{
		"PROCESSES": "one", "CONTROL_ADDR": "127.0.0.1:0", "DATA_ADDR": "127.0.0.1:0", "LOG_FORMAT": "json",
		"DATA_DIR": dir, "ALLOW_LOCAL_DOMAINS": "true", "WEBHOOK_ALLOW_NETS": "127.0.0.0/8",
	}
	for name, value := range settings {
		all[name] = value
	}
	for name, value := range all {
		cmd.Env = append(cmd.Env, "TALLYGATE_"+name+"="+value)
	}

	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	logs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}

	s := &service{t: t, dir: dir, http: &http.Client{Jar: jar, Timeout: patience}, password: ownerPassword}
	listening, ended := make(chan [2]string, 8), make(chan string, 1)
	go func() { ended <- follow(logs, listening) }()

	s.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		<-ended
		_ = cmd.Wait()
	})
	t.Cleanup(s.stop)

	var shop string // of the demo, which listens when its data is complete
	for s.control == "" || s.data == "" || command == "demo" && shop == "" {
		select {
		case l := <-listening:
			switch l[0] {
			case "control":
				s.control = "http://" + l[1]
			case "data":
				s.data = "http://" + l[1]
			case "demo":
				shop = l[1]
			}
		case log := <-ended:
			ended <- ""
			t.Fatalf("tallygate ended before it listened:\n%s", log)
		case <-time.After(patience):
			t.Fatalf("tallygate does not listen after %v", patience)
		}
	}

	return s
}

// follow reads the log until the process ends, and returns it.
func follow(logs io.Reader, listening chan<- [2]string) string {
	var all bytes.Buffer
	for lines := bufio.NewScanner(logs); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		var l struct{ Msg, Role, Addr string }
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Msg == "listening" {
			listening <- [2]string{l.Role, l.Addr}
		}
	}
	return all.String()
}

// do runs a GraphQL operation with the session of earlier calls, and decodes its data.
func (s *service) do(query string, variables map[string]any, data any) {
	s.t.Helper()

	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		s.t.Fatal(err)
	}

	response, err := s.http.Post(s.control+"/graphql", "application/json", bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()

	answer := struct {
		Data   any
		Errors []struct{ Message string }
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || len(answer.Errors) > 0 {
		s.t.Fatalf("%s: %v, %v", query, answer.Errors, err)
	}
}

// signUp creates the owner's account.
func (s *service) signUp() {
	s.t.Helper()
	s.do(`mutation ($input: SignUpInput!) { signUp(input: $input) { viewer { id } userErrors { message } } }`,
		map[string]any{"input": map[string]any{
			"email": ownerEmail, "password": ownerPassword, "accountName": "Kettle & Co",
		}}, &struct{}{})
}

// createSite creates a site and returns its id and key.
func (s *service) createSite(domain, name string) (id, key string) {
	s.t.Helper()
	var data struct {
		CreateSite struct{ Site struct{ ID, SiteKey string } }
	}
	s.do(`mutation ($input: CreateSiteInput!) { createSite(input: $input) { site { id siteKey } userErrors { message } } }`,
		map[string]any{"input": map[string]any{"domain": domain, "name": name}}, &data)
	return data.CreateSite.Site.ID, data.CreateSite.Site.SiteKey
}

// hit sends a page view or an event as the script would from a page, and returns the status.
func (s *service) hit(key, origin, path, event string) int {
	s.t.Helper()
	return s.hitFrom(browsertest.UserAgent, key, origin, path, event)
}

// hitFrom is hit with a user agent. Each agent is another visitor.
func (s *service) hitFrom(agent, key, origin, path, event string) int {
	s.t.Helper()

	message := map[string]any{"k": key, "p": path, "r": nil, "i": "0123456789abcdef", "u": map[string]any{}, "w": 1440,
		"l": "en", "t": "pageview"}
	if event != "" {
		message["t"], message["e"] = "event", event
	}

	body, err := json.Marshal(message)
	if err != nil {
		s.t.Fatal(err)
	}

	request, err := http.NewRequest(http.MethodPost, s.data+"/collect.php", bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}

	request.Header.Set("Origin", origin)
	request.Header.Set("User-Agent", agent)
	request.Header.Set("Accept-Language", "en")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}

	response.Body.Close()
	return response.StatusCode
}

// mailedLink returns the link of the newest mail, which no worker has sent.
func (s *service) mailedLink() string {
	s.t.Helper()
	return s.mailTo("%")
}

// mailTo is mailedLink for the mails to an address, a pattern of LIKE.
func (s *service) mailTo(recipient string) string {
	s.t.Helper()

	d := dbtest.Open(s.t, db.EmbeddedURL(s.dir))
	rows, err := dbtest.Rows[struct{ Data string }](
		d, "SELECT data FROM mails WHERE recipient LIKE ? ORDER BY id DESC LIMIT 1", recipient)
	if err != nil || len(rows) != 1 {
		s.t.Fatalf("mails: %v, %v", rows, err)
	}

	var mail outbox.LinkMail
	if err := json.Unmarshal([]byte(rows[0].Data), &mail); err != nil {
		s.t.Fatal(err)
	}

	return mail.URL
}

// tab is a page of the console with the operations of its tests.
type tab struct {
	*browsertest.Page
	t testing.TB
}

// open opens a page of the console in a new browser, in English.
func (s *service) open(path string) *tab {
	s.t.Helper()
	browser := browsertest.New(s.t, browsertest.WithFlag("lang", "en-GB"))
	p := &tab{browser.NewPage(), s.t}
	p.Goto(s.control + path)
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
	s.t.Helper()
	p := s.open("/sign-in?next=" + url.QueryEscape(path))
	p.fill("E-mail address", s.email())
	p.fill("Password", s.password)
	p.press("Sign in")
	p.WaitFor(fmt.Sprintf("location.pathname + location.search === %q", path))
	return p
}

// openInGerman opens a page in German with the session of the owner.
func (s *service) openInGerman(path string) *tab {
	s.t.Helper()
	page := browsertest.New(s.t).NewPage()
	page.Before("localStorage.setItem('tallygate.language', 'de')")
	p := &tab{page, s.t}
	p.Goto(s.control + "/sign-in?next=" + url.QueryEscape(path))
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
		if !strings.HasPrefix(r.URL, s.control+"/") && !strings.HasPrefix(r.URL, s.data+"/") &&
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
