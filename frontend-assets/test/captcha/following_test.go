package captcha_test

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestChromiumCaptchaKeepsItsWork checks that a failure of the server or the network does not
// discard a solution, which may have taken a slow phone seconds.
func TestChromiumCaptchaKeepsItsWork(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	var cuts atomic.Int32
	cut := func(http.ResponseWriter) bool {
		if cuts.Add(1) > 4 {
			return false
		}
		panic(http.ErrAbortHandler)
	}

	page := s.browser.NewPage()
	page.Before(withoutPauses)
	for _, test := range []struct {
		name   string
		answer func(http.ResponseWriter) bool // of verify
		calls  []string
	}{
		{"5xx", times(1, http.StatusBadGateway), []string{"config", "verify", "verify"}},
		{"three 5xx", times(3, http.StatusServiceUnavailable), []string{"config", "verify", "verify", "verify", "verify"}},
		{"429", times(1, http.StatusTooManyRequests), []string{"config", "verify", "verify"}},
		{"connection cut", cut, []string{"config", "verify", "verify", "verify", "verify", "verify"}}, // some by the browser itself
		{"rejected", times(1, http.StatusBadRequest), []string{"config", "verify", "config", "verify"}},
	} {
		before := len(s.called())
		s.answer("/verify", test.answer)
		page.Goto("http://www.shop.test/")
		s.is(page, "idle")
		page.Click("input[name=email]")
		s.is(page, "done")

		testkit.EqualSlices(t, s.called()[before:], test.calls, "%s: called", test.name)
		if !s.verify(page.Text(widgetToken)) {
			t.Errorf("%s: the token is not valid", test.name)
		}
	}
}

func TestChromiumCaptchaHasOneWorkerPool(t *testing.T) {
	widget := `<div class="service-captcha" data-sitekey="SITEKEY"></div>`
	s := newCaptchaSite(t, map[string]string{"/": `<html lang="en">` + strings.Repeat(widget, 6) + captchaScript})
	page := s.browser.NewPage()
	page.Before(`{ const plain = Worker
		Object.defineProperty(navigator, 'hardwareConcurrency', {value: 8})
		window.alive = window.most = window.made = 0
		window.Worker = class extends plain {
			constructor(url) { super(url); made++; most = Math.max(most, ++alive) }
			terminate() { alive--; super.terminate() }
		}
	}`)

	page.Goto("http://www.shop.test/")
	page.WaitFor(`document.querySelectorAll('.service-captcha.is-done').length === 6`)

	testkit.Equal(t, page.Text(`[made > 0, most, alive].join()`), "true,4,0", "workers were made, most at a time, left")

	var tokens []string
	page.Eval(`[...document.querySelectorAll('input[type=hidden]')].map((each) => each.value)`, &tokens)

	for _, token := range tokens {
		if !s.verify(token) {
			t.Errorf("the token %q is not valid", token)
		}
	}

	// A widget that is removed while it waits for its turn delays no other.
	page.Eval(`(serviceCaptcha.reset(), document.querySelectorAll('.service-captcha').forEach((each, i) => i % 2 || each.remove()))`, nil)
	page.WaitFor(`document.querySelectorAll('.service-captcha').length === 3 && document.querySelectorAll('.service-captcha.is-done').length === 3 && !alive`)
}

// TestChromiumCaptchaSendsNoExpiredToken submits forms with expired tokens before the widget's next
// check of the clock, as right after the computer has slept.
func TestChromiumCaptchaSendsNoExpiredToken(t *testing.T) {
	widget := `<div class="service-captcha" data-sitekey="SITEKEY"></div>`
	s := newCaptchaSite(t, map[string]string{"/": strings.Replace(captchaForm(""), "<button id", widget+"<button id", 1)})
	page := s.browser.NewPage()
	page.Before(movableClock)
	page.Goto("http://www.shop.test/")
	done := func() {
		t.Helper()
		page.WaitFor(`document.querySelectorAll('.service-captcha.is-done').length === 2`)
	}

	sent := func() []string { return (<-s.submitted)["service-captcha-response"] }
	s.is(page, "idle")
	page.Click("input[name=email]")
	done()

	// A token that is due for renewal is still valid, and is sent.
	s.later(page, 4*time.Minute)
	page.Eval(`document.querySelector('form').requestSubmit()`, nil)

	if tokens := sent(); len(tokens) != 2 || !s.verify(tokens[0]) || !s.verify(tokens[1]) {
		t.Errorf("after 4 minutes the form sent %q", tokens)
	}

	// The form's own navigation must end before the next one starts.
	const left = `!document.querySelector('form')`
	page.WaitFor(left)

	// Submitted by the visitor, by a script, and read by a script.
	for name, send := range map[string]string{
		"requestSubmit": `document.querySelector('form').requestSubmit()`,
		"submit":        `document.querySelector('form').submit()`,
		"FormData":      `fetch('/submit', {method: 'POST', body: new URLSearchParams(new FormData(document.querySelector('form')))})`,
	} {
		page.Goto("http://www.shop.test/")
		s.is(page, "idle")
		page.Click("input[name=email]")
		done()
		page.Eval(`(later(360000), `+send+`)`, nil)

		if tokens := sent(); strings.Join(tokens, "") != "" {
			t.Errorf("%s: the form sent the expired tokens %q", name, tokens)
		}
		if name != "FormData" {
			page.WaitFor(left)
		}
	}

	// The second widget's token is younger and remains.
	page.Goto("http://www.shop.test/")
	s.is(page, "idle")
	page.Click("input[name=email]")
	done()
	page.Eval(`(later(200000), serviceCaptcha.reset(document.querySelectorAll('.service-captcha')[1]))`, nil)
	done()
	var tokens []string
	page.Eval(`(later(150000), new FormData(document.querySelector('form')).getAll('service-captcha-response'))`, &tokens)

	if len(tokens) != 1 || !s.verify(tokens[0]) {
		t.Errorf("with one expired token the form has %q", tokens)
	}
}

func TestChromiumCaptchaFollowsItsAttributes(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("") + `<p id="plain" data-sitekey="SITEKEY"></p>`})
	page := s.browser.Open("http://www.shop.test/")
	s.is(page, "idle")
	widget := `document.querySelector('.service-captcha')`
	set := func(expression string) {
		t.Helper()
		page.Eval(expression, nil)
	}

	labelled := func(language, label string) {
		t.Helper()
		page.WaitFor(fmt.Sprintf(`%s.querySelector('[lang]').lang === %q && %s === %q`, widget, language, widgetLabel, label))
	}

	labelled("en", "I am human")
	set(`document.documentElement.lang = 'sv'`)
	labelled("sv", "Jag är en människa")
	set(widget + `.dataset.lang = 'da'`)
	labelled("da", "Jeg er et menneske")
	page.Click("input[name=email]")
	s.is(page, "done")
	labelled("da", "Bekræftet")
	set(widget + `.dataset.lang = 'uk'`)
	labelled("uk", "Перевірено")
	token := page.Text(widgetToken)

	// The existing token's field gets the new name.
	set(widget + `.dataset.responseFieldName = 'other'`)
	page.WaitFor(fmt.Sprintf(`document.querySelector('form').elements.other?.value === %q`, token))

	// A framework overwrites the class with its own value.
	set(widget + `.className = 'service-captcha wide'`)
	s.is(page, "done")
	set(widget + `.className = 'service-captcha is-error'`)
	page.WaitFor(widget + `.className === 'service-captcha is-done'`)

	if got := page.Text(`document.querySelector('form').elements.other.value`); got != token {
		t.Errorf("token %q, want still %q", got, token)
	}

	// An element that gets the class becomes a widget, and stops being one when it loses the class.
	set(`document.querySelector('#plain').className = 'service-captcha'`)
	page.WaitFor(`document.querySelector('#plain.is-done')`)
	set(`document.querySelector('#plain').className = 'other'`)
	page.WaitFor(`!document.querySelector('#plain').firstChild && document.querySelector('#plain').className === 'other'`)

	var count int
	if page.Eval(`serviceCaptcha.reset()`, &count); count != 1 {
		t.Errorf("%d widgets, want 1", count)
	}

	s.is(page, "done")
	noMessages(t, page)
}

func TestChromiumCaptchaWaitsForAPrerenderedPage(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{
		"/": "",
		"/start": `<script type=speculationrules>{"prerender": [{"source": "list", "urls": ["/ahead"], "eagerness": "immediate"}]}</script>
			<script>fetch('/wait').then(() => { location.href = '/ahead' })</script>`,
		"/ahead": `<div class="service-captcha"></div><div class="service-captcha" data-sitekey="` + model.TestSitekey + `"></div>` + captchaScript +
			`<script>const report = (what) => fetch('/submit', {method: 'POST', body: new URLSearchParams(what)})
			const state = () => [...document.querySelectorAll('.service-captcha')].map((each) => each.className.slice(19)).join()
			addEventListener('load', () => report({prerendering: document.prerendering, state: state()}))
			addEventListener('service-captcha:verified', () => report({state: state()}))
			</script>`,
	})

	reported := func(want string) {
		t.Helper()
		select {
		case form := <-s.submitted:
			testkit.Require(t, form.Encode(), want, "the page reports")
		case <-time.After(browsertest.Timeout):
			t.Fatalf("the page does not report %q", want)
		}
	}

	page := s.browser.Open(s.numeric + "/")
	page.Eval(`window.open("/start", "_blank", "noopener")`, nil)
	reported("prerendering=true&state=idle%2Cidle")
	s.hasCalled()
	close(s.shown)
	reported("state=error%2Cdone")
	s.hasCalled("config", "verify")
}

func TestChromiumCaptchaNotifiesThePage(t *testing.T) {
	docs, err := os.ReadFile("../../../docs/owner/captcha.md")
	testkit.NoError(t, err)

	snippet := regexp.MustCompile("(?s)```html\n(<script>\nconst form = .*?</script>)").FindSubmatch(docs)
	if snippet == nil {
		t.Fatal("docs/owner/captcha.md lacks the example that enables a button")
	}

	s := newCaptchaSite(t, map[string]string{
		"/":       captchaForm(""),
		"/button": captchaForm("") + strings.Replace(string(snippet[1]), "#contact", "#form", 1),
	})

	page := s.browser.NewPage()
	page.Before(movableClock + `window.seen = []; for (const name of ['verified', 'expired', 'error'])
		addEventListener('service-captcha:' + name, (e) => seen.push([name, e.detail ? e.detail.reason : '', e.target.className.slice(16), serviceCaptcha.getResponse() ? 'token' : ''].join(' ')))`)

	seen := func(want ...string) {
		t.Helper()
		testkit.Equal(t, page.Text(`seen.splice(0).join('; ')`), strings.Join(want, "; "), "the page saw")
	}

	page.Goto("http://www.shop.test/")
	s.is(page, "idle")

	if got := page.Text(`serviceCaptcha.getResponse()`); got != "" {
		t.Errorf("a token %q before the work", got)
	}

	page.Click("input[name=email]")
	s.is(page, "done")
	seen("verified  is-done token")

	for _, target := range []string{"", "'form'", "'.service-captcha'", "document.body"} {
		if got := page.Text(`serviceCaptcha.getResponse(` + target + `)`); got == "" || got != page.Text(widgetToken) {
			t.Errorf("getResponse(%s) = %q", target, got)
		}
	}

	for _, target := range []string{"'#send'", "'not a selector!'", "null", "document.head"} {
		testkit.Equal(t, page.Text(`serviceCaptcha.getResponse(`+target+`)`), "", "getResponse(%s)", target)
	}

	// A renewal fires no events; a reset does.
	token := page.Text(widgetToken)
	s.later(page, 4*time.Minute)
	page.Eval("tick()", nil)
	page.WaitFor(fmt.Sprintf("%s && %[1]s !== %q", widgetToken, token))
	seen()
	page.Eval(`serviceCaptcha.reset()`, nil)
	s.is(page, "done")
	seen("expired  is-verifying ", "verified  is-done token")

	// getResponse returns no expired token, and fires the event.
	testkit.Equal(t, page.Text(`(later(360000), serviceCaptcha.getResponse())`), "", "an expired token")

	s.later(page, 0)
	s.is(page, "done")
	seen("expired  is-verifying ", "verified  is-done token")

	s.answer("/config", times(1<<30, http.StatusForbidden))
	page.Eval(`serviceCaptcha.reset()`, nil)
	s.is(page, "error")
	seen("expired  is-verifying ", "error setup is-error ")
	s.answer("/nothing", nil)

	// A button that is enabled only while there is a token.
	page.Goto("http://www.shop.test/button")
	s.is(page, "idle")
	page.WaitFor(`document.querySelector('#send').disabled`)
	page.Click("input[name=email]")
	page.WaitFor(`!document.querySelector('#send').disabled`)
	s.is(page, "done")
	page.Eval(`serviceCaptcha.reset()`, nil)
	page.WaitFor(`!document.querySelector('#send').disabled`)
	page.Click("#send")

	if form := <-s.submitted; !s.verify(form.Get("service-captcha-response")) {
		t.Errorf("the form sent %v", form)
	}
}

// TestChromiumCaptchaMarksEnglishDetails checks that the server's English message is marked as such on a
// page in another language.
func TestChromiumCaptchaMarksEnglishDetails(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm(`data-lang="de"`)})
	open := func(status int) (note, console string) {
		t.Helper()
		s.answer("/config", times(1<<30, status))
		page := s.browser.Open("http://www.shop.test/")
		defer page.Close()

		s.is(page, "idle")
		page.Click("input[name=email]")
		s.is(page, "error")

		for _, line := range page.Console() {
			console += line.Text + "\n"
		}

		return page.Text(`document.querySelector('.service-captcha [role=status]').innerHTML`), console
	}

	note, console := open(http.StatusNotFound)
	if want := `Das Captcha ist falsch eingerichtet: <span lang="en">the server's reason</span>`; note != want {
		t.Errorf("setup: %s, want %s", note, want)
	}
	if !strings.Contains(console, "service-captcha: setup: the server's reason\n") {
		t.Errorf("setup: the console has %s", console)
	}

	note, console = open(http.StatusBadRequest)
	if want := `Die Prüfung wurde abgelehnt`; note != want {
		t.Errorf("refused: %s, want %s", note, want)
	}
	if !strings.Contains(console, "service-captcha: refused: the server's reason\n") {
		t.Errorf("refused: the console has %s", console)
	}
}
