package console_test

import (
	"fmt"
	"html/template"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// keyboard operates a page with keys alone.
type keyboard struct{ *tab }

// keys presses keys, one after the other.
func (k keyboard) keys(text string) {
	k.t.Helper()
	k.Do(browsertest.Press(text))
}

// distance is a JavaScript function that returns how often Tab leads to an element; a negative
// number counts Shift and Tab. Elements with several stops, such as dates and frames, need another
// look.
const distance = `(wanted => {
	const active = document.activeElement;
	const root = document.querySelector('dialog[open]') ?? document;
	const stops = [...root.querySelectorAll('a[href], button, input, select, textarea, summary, iframe, [tabindex]')]
		.filter(e => e.tabIndex >= 0 && !e.disabled && e.checkVisibility({visibilityProperty: true}));
	const to = stops.indexOf(wanted);
	if (active === wanted || to < 0) return 0;
	if (stops.includes(active)) return to - stops.indexOf(active);
	// The focus is between two stops, such as on a heading, or at the beginning.
	const before = stops.filter(e => active.compareDocumentPosition(e) & Node.DOCUMENT_POSITION_PRECEDING).length;
	return to >= before ? to - before + 1 : to - before;
})`

// visibleFocus is a JavaScript expression for whether the focus is seen: on an element within the
// window, with an outline.
const visibleFocus = `(e => {
	const style = getComputedStyle(e), box = e.getBoundingClientRect();
	return e.matches(':focus-visible') && style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 &&
		box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
})(document.activeElement)`

// reach moves the focus to the element of a JavaScript expression, and waits until the focus is
// seen there.
func (k keyboard) reach(element string) {
	k.t.Helper()
	k.WaitFor(element)

	for range 20 {
		var n int
		k.Eval(fmt.Sprintf("%s(%s)", distance, element), &n)
		switch {
		case n > 0:
			k.keys(strings.Repeat(kb.Tab, n))
		case n < 0:
			k.Do(browsertest.Press(strings.Repeat(kb.Tab, -n), chromedp.KeyModifiers(input.ModifierShift)))
		default:
			k.WaitFor("document.activeElement === " + element)
			k.WaitFor(visibleFocus)
			return
		}
	}

	k.t.Fatalf("Tab does not reach %s: the focus is on %s", element, k.Text("document.activeElement.outerHTML"))
}

// use reaches a button or link, and activates it.
func (k keyboard) use(text string) {
	k.t.Helper()
	k.reach(button(text))
	k.keys(kb.Enter)
}

// enter reaches a field and types a text.
func (k keyboard) enter(label, text string) {
	k.t.Helper()
	k.reach(labelled(label))
	k.keys(text)
}

// newShop serves an owner's website, whose pages contain the tag.
func newShop(t *testing.T, tag *atomic.Pointer[string]) *httptest.Server {
	t.Helper()

	page := template.Must(template.New("").Parse(`<!doctype html><title>Kettles</title><link rel="icon" href="data:,">
<h1>Kettles</h1>{{.}}`))
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = page.Execute(w, template.HTML(*tag.Load())) // the owner's own page
	}))
	t.Cleanup(shop.Close)
	return shop
}

// TestKeyboardChromium is a new owner's whole way with keys alone: from the first sign-up by the
// first hit of a shop, a refusal, figures, a shared link, a webhook and a captcha to an invited
// member and a download.
func TestKeyboardChromium(t *testing.T) {
	t.Parallel()

	// No mail server answers, so the test reads the link of the mail that waits.
	hook := newReceiver(t)
	s := start(t, map[string]string{
		"WEBHOOK_CA_FILE": hook.caFile, "CAPTCHA_DIFFICULTY": "1024", "SMTP_URL": "smtp://127.0.0.1:1?tls=none",
	})

	tag := &atomic.Pointer[string]{}
	shop := newShop(t, tag)
	browser := browsertest.New(t, browsertest.WithFlag("lang", "en-GB"),
		browsertest.Host("shop.localhost", shop.URL), browsertest.Host("copy.localhost", shop.URL))
	visitor := browser.NewPage()
	k := keyboard{&tab{browser.NewPage(), t}}

	// The first account.
	k.Goto(s.Origin + "/")
	k.WaitFor("document.activeElement.name === 'accountName'")
	k.see("Create the first account")
	k.keys("Kettle & Co" + kb.Tab + ownerEmail + kb.Tab + ownerPassword + kb.Enter)
	k.see("No sites yet")

	// The list of shortcuts, and a new site by its shortcut.
	k.keys("?")
	k.WaitFor(`document.querySelector('dialog[open]')?.textContent.includes('Keyboard shortcuts')`)
	k.look("shortcuts")
	k.keys(kb.Escape)
	k.WaitFor(`!document.querySelector('dialog')`)
	k.keys("gn")
	k.WaitFor("location.pathname === '/sites/new' && document.activeElement.name === 'domain'")
	k.keys("shop.localhost" + kb.Enter)
	k.see("Waiting for a hit")
	k.WaitFor("document.activeElement.tagName === 'H1'")

	// The tag in the shop sends the first hits; a copy of the shop on another domain is refused.
	text := k.Text("document.querySelector('code').textContent")
	tag.Store(&text)
	visitor.Front()
	visitor.Goto("http://shop.localhost/")
	k.Front()
	k.see("It works.")
	visitor.Front()
	visitor.Goto("http://copy.localhost/")
	visitor.Goto("http://shop.localhost/kettle")
	// The figures are kept for seconds, so the hit must be stored before the page of the site asks
	// for them.
	visitor.WaitFor(`performance.getEntriesByType('resource').some((e) => e.name.endsWith('/collect.php'))`)
	k.Front()
	k.see("domain_not_allowed")
	k.see("add it as an extra domain")

	// The first figures, of today, then with a filter and a comparison.
	k.use("Open the report")
	id := strings.Split(k.Text("location.pathname"), "/")[2]
	k.counted(total(2), "2")
	k.see("refused in the last 7 days")
	k.use("/kettle")
	k.WaitFor("location.search === '?period=today&f=page:is:/kettle'")
	k.keys("x")
	k.WaitFor("location.search.includes('compare=previous') && document.querySelector('.totals .before')")
	k.keys(kb.Escape)
	k.WaitFor("!location.search.includes('f=')")
	k.keys("d")

	// The chart is a slider; it and the menu need no pointer.
	k.reach("document.querySelector('.plot')")
	k.keys(kb.Home)
	k.WaitFor("document.activeElement.ariaValueNow === '1'")
	k.reach("document.querySelector('summary')")
	k.keys(kb.Enter)
	k.WaitFor("document.querySelector('.menu').open")
	k.keys(kb.Escape)
	k.WaitFor("!document.querySelector('.menu').open && document.activeElement.tagName === 'SUMMARY'")

	k.sharesReport(s)
	k.repairsWebhook(hook)
	k.solvesCaptcha()
	k.invites(s)

	// The download has as many rows as the page has page views.
	k.Goto(s.Origin + "/sites/" + id + "?period=today")
	k.counted(total(2), "2")
	views := k.Text(total(2))
	k.Eval(`(() => { const make = URL.createObjectURL;
		URL.createObjectURL = (b) => { window.saved = b; return make(b) } })()`, nil)
	k.use("Settings")
	k.use("Export")
	k.use("Download")
	k.see(views + " rows are saved.")
	if saved := k.Text("window.saved.text()"); fmt.Sprint(strings.Count(strings.TrimSpace(saved), "\n")) != views {
		t.Errorf("the page has %s page views, the download is\n%s", views, saved)
	}

	// Back, and the first Tab of a page, which skips its menus.
	k.Eval("history.back()", nil)
	k.WaitFor("location.search === '?period=today'")
	k.Goto(s.Origin + "/")
	k.see("2 page views and events")
	k.keys(kb.Tab)
	k.WaitFor("document.activeElement.className === 'skip'")
	k.keys(kb.Enter)
	k.WaitFor("document.activeElement.id === 'main'")
	k.clean(s)
}

// TestKeyboardReportChromium is an owner's daily way with keys alone: signing in, a report, its
// period, a filter of the dialog, and the page of imports.
func TestKeyboardReportChromium(t *testing.T) {
	t.Parallel()

	s := start(t, nil)
	s.signUp()
	_, key := s.createSite("shop.localhost", "Kettle shop")
	for _, path := range []string{"/", "/kettle"} {
		testkit.Require(t, s.hit(key, "http://shop.localhost", path, ""), 204, "%s: status", path)
	}

	k := keyboard{s.open("/")}
	k.WaitFor("location.pathname === '/sign-in' && document.activeElement.name === 'email'")
	k.keys(ownerEmail + kb.Tab)
	k.WaitFor("document.activeElement.name === 'password'")
	k.keys(ownerPassword + kb.Enter)
	k.WaitFor("location.pathname === '/' && document.activeElement.tagName === 'H1'")

	// The report opens on today, and its heading has the focus.
	k.use("Kettle shop")
	k.WaitFor("location.pathname.startsWith('/sites/') && document.activeElement.tagName === 'H1'")
	k.counted(total(2), "2")

	// Arrows choose the period, and the focus returns to the button of its menu.
	k.reach(periodMenu)
	k.keys(kb.ArrowDown)
	k.WaitFor("document.activeElement === " + entry("Today"))
	k.keys(kb.ArrowDown + kb.Enter)
	k.WaitFor("location.search === '?period=yesterday' && document.activeElement.value === 'yesterday'")
	k.counted(total(2), "0")
	k.reach(periodMenu)
	k.keys(kb.Enter)
	k.WaitFor("document.activeElement === " + entry("Yesterday"))
	k.keys(kb.ArrowUp + kb.Enter)
	k.WaitFor("location.search === '?period=today' && document.activeElement.value === 'today'")
	k.counted(total(2), "2")

	// Escape leaves the dialog without a filter, and the focus returns to its button.
	const onFilter = "!document.querySelector('dialog') && !history.state?.dialog && document.activeElement.textContent === 'Filter'"
	k.use("Filter")
	k.WaitFor("document.querySelector('dialog[open] select') === document.activeElement")
	k.keys(kb.Escape)
	k.WaitFor(onFilter)
	k.keys(kb.Enter)
	k.reach("document.querySelectorAll('dialog select')[1]")
	k.keys(kb.ArrowDown)
	k.WaitFor("document.activeElement.value === 'IS_NOT'")
	k.enter("Values, one per line: any of them may match", "/kettle")
	k.use("Add the filter")
	k.WaitFor("location.search === '?period=today&f=page:is_not:/kettle' && !document.querySelector('dialog')")

	// The new filter has the focus. TestReportIsHeardChromium shows where the focus goes after its
	// removal.
	k.WaitFor("document.activeElement.ariaLabel === 'Remove the filter Page is not /kettle' && " + visibleFocus)
	k.keys(kb.Enter)
	k.WaitFor("location.search === '?period=today'")

	// The import ends where the system's dialog chooses a file.
	k.use("Settings")
	k.use("Import")
	k.WaitFor("location.pathname.endsWith('/import') && document.activeElement.tagName === 'H1'")
	k.reach(labelled("Service"))
	k.keys(kb.ArrowDown)
	k.WaitFor("document.activeElement.value === 'UMAMI'")
	k.see("The table website_event as CSV.")
	k.reach(labelled("Files"))
	k.reach(button("Upload and check"))
	k.clean(s)
}

// sharesReport makes a shared link, and opens it in a browser without a session.
func (k keyboard) sharesReport(s *service) {
	k.t.Helper()
	k.use("Settings")
	k.use("Sharing")
	k.use("New link")
	k.enter("Name", "For the bank"+kb.Enter)
	k.WaitFor(`document.activeElement.matches('pre') && document.activeElement.textContent.includes('/share#tgl_')`)
	address := k.Text(`[...document.querySelectorAll('code')].find(e => e.textContent.includes('/share#')).textContent`)

	reader := keyboard{s.open(strings.TrimPrefix(address, s.Origin))}
	reader.see("Shared report of shop.localhost")
	reader.WaitFor(total(2) + " !== undefined")
	reader.keys("d")
	reader.WaitFor("location.search.includes('period=today')")
	reader.counted(total(2), "2")
	reader.clean(s)
	k.Front()
}

// repairsWebhook sets a webhook, whose test fails, and sends it again once the receiver works.
func (k keyboard) repairsWebhook(hook *receiver) {
	k.t.Helper()
	k.use("Webhooks")
	k.use("Change the address: Key events")
	k.enter("Address", hook.URL+"/hook"+kb.Enter)
	k.see("Saved")
	k.use("Send a test")
	k.see("The server failed (5xx)")
	k.reach("document.querySelector('.deliveries summary')")
	k.keys(kb.Enter)
	hook.works.Store(true)
	k.use("Send again")
	k.WaitFor(`document.querySelector('.deliveries .state').textContent === 'Delivered'`)
}

// solvesCaptcha makes a sitekey, whose widget gets a token.
func (k keyboard) solvesCaptcha() {
	k.t.Helper()
	k.keys("gc")
	k.use("New sitekey")
	k.WaitFor("document.activeElement.name === 'name'")
	k.keys("Contact form" + kb.Enter)
	k.see("it is shown only this once")
	k.WaitFor(`document.querySelector('iframe').contentDocument?.querySelector('.service-captcha.is-done')`)
	k.use("I have copied it")
}

// invites invites a member, who joins by the mailed link.
func (k keyboard) invites(s *service) {
	k.t.Helper()
	k.keys("gm")
	k.use("Invite")
	k.enter("E-mail address", "guest@example.com"+kb.Enter)
	k.see("Open invitations")

	guest := keyboard{s.open(strings.TrimPrefix(s.mailedLink(), s.Origin))}
	guest.see("Join the account")
	guest.WaitFor("document.activeElement.name === 'password'")
	guest.keys("the guest's password" + kb.Enter)
	guest.see("shop.localhost")
	guest.WaitFor("location.pathname === '/' && location.hash === ''")
	guest.clean(s)
	k.Front()
}

// counted opens the page again until a figure has the value: an answer from just before the last
// hit is kept for ten seconds.
func (k keyboard) counted(figure, want string) {
	k.t.Helper()

	for began := time.Now(); ; {
		k.WaitFor(figure + " !== undefined")
		shown := k.Text("String(" + figure + ")")
		if shown == want {
			return
		}
		if time.Since(began) > browsertest.Timeout {
			k.t.Fatalf("the figure is %q, want %q", shown, want)
		}

		k.Goto(k.Text("location.href"))
	}
}
