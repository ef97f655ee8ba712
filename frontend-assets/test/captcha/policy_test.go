package captcha_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// captchaLink is the link to the stylesheet that pages with a strict style-src add.
const captchaLink = `<link id="svc-captcha-css" rel="stylesheet" href="` + captchaOrigin + `/captcha.css">`

// styled evaluates to "true" if the widget has its style, which alone sets this height.
const styled = `String(getComputedStyle(document.querySelector('.service-captcha button')).minHeight === '44px')`

func TestChromiumCaptchaUnderAPolicy(t *testing.T) {
	nonced := strings.ReplaceAll(captchaForm(""), "<script ", `<script nonce="n0nce" `)
	s := newCaptchaSite(t, map[string]string{"/": captchaForm(""), "/link": captchaLink + captchaForm(""), "/nonce": nonced})

	// The policy that the contract requires of sites (section 5).
	const contract = "default-src 'self'; script-src 'self' " + captchaOrigin + "; connect-src 'self' " + captchaOrigin + "; worker-src blob:"
	const strictStyle = "; style-src 'self' " + captchaOrigin

	page, logged := s.browser.NewPage(), 0
	for _, test := range []struct {
		name, path, policy string
	}{
		{"none", "/", ""},
		{"the contract's", "/", contract},
		{"the contract's with WebAssembly", "/", strings.Replace(contract, "connect-src", "'wasm-unsafe-eval'; connect-src", 1)},
		{"strict style, with the link", "/link", contract + strictStyle},
		{"strict style, without the link", "/", contract + strictStyle},
		{"no style at all", "/", contract + "; style-src 'none'"},
		{"nonce and strict-dynamic", "/nonce", "script-src 'nonce-n0nce' 'strict-dynamic'; worker-src blob:"},
		{"no workers", "/", "default-src 'self'; script-src 'self' " + captchaOrigin + "; connect-src " + captchaOrigin},
		{
			name: "no workers, but WebAssembly", path: "/",
			policy: "default-src 'self'; script-src 'self' 'wasm-unsafe-eval' " + captchaOrigin + "; connect-src " + captchaOrigin,
		},
		{"trusted types", "/", contract + "; require-trusted-types-for 'script'"},
		{"trusted types of one name", "/", contract + "; require-trusted-types-for 'script'; trusted-types service-captcha"},
		{"no trusted types", "/", contract + "; require-trusted-types-for 'script'; trusted-types 'none'"},
		{
			name: "trusted types and no workers", path: "/",
			policy: "script-src " + captchaOrigin + "; worker-src 'none'; require-trusted-types-for 'script'; trusted-types other",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.headers = http.Header{}

			if test.policy != "" {
				s.headers.Set("Content-Security-Policy", test.policy)
			}

			page.Goto("http://www.shop.test" + test.path)
			s.is(page, "idle")

			testkit.Equal(t, page.Text(styled), "true", "the widget has no style")

			page.Click("input[name=email]")
			s.is(page, "done")

			if !s.verify(page.Text(widgetToken)) {
				t.Error("the token is not valid")
			}

			lines := page.Console()
			for _, m := range lines[logged:] {
				if m.Level == "exception" {
					t.Errorf("the page's console has %s", m.Text)
				}
			}

			logged = len(lines)
		})
	}
}

func TestChromiumCaptchaWherePolicyForbidsIt(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	s.headers.Set("Content-Security-Policy", "script-src "+captchaOrigin+"; connect-src 'self'; worker-src blob:")
	page := s.browser.Open("http://www.shop.test/")
	s.is(page, "idle")
	page.Click("input[name=email]")
	s.shows(page, failed, unreachable)
	s.hasCalled()
}

func TestChromiumCaptchaStyle(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{
		"/": captchaForm(""), "/link": captchaLink + captchaForm(""),
		"/own": `<style id="svc-captcha-css"></style>` + captchaForm(""),
	})

	page := s.browser.NewPage()
	for path, want := range map[string]string{"/": "true 1", "/link": "true 0", "/own": "false 0"} {
		page.Goto("http://www.shop.test" + path)
		s.is(page, "idle")

		if got := page.Text(styled + ` + ' ' + (document.adoptedStyleSheets.length + document.querySelectorAll('head style:not([id])').length)`); got != want {
			t.Errorf("%s: styled, and number of the widget's sheets: %s, want %s", path, got, want)
		}
	}

	// Browsers without adopted sheets get a style element.
	page.Before(`delete window.CSSStyleSheet`)
	page.Goto("http://www.shop.test/")
	s.is(page, "idle")

	if got := page.Text(styled + ` + document.adoptedStyleSheets.length + document.querySelectorAll('head > style').length`); got != "true01" {
		t.Errorf("without adopted sheets: %s", got)
	}
}

// TestChromiumCaptchaKeepsItsStyleInAnyPage checks that elements around the form may have the
// classes of the widget's states.
func TestChromiumCaptchaKeepsItsStyleInAnyPage(t *testing.T) {
	around := func(form string) string {
		return strings.Replace(form, "<main>", `<main class="is-done is-error is-verifying">`, 1)
	}

	missing := strings.ReplaceAll(captchaForm(""), `data-sitekey="SITEKEY"`, "")
	s := newCaptchaSite(t, map[string]string{"/idle": captchaForm(""), "/idle/around": around(captchaForm("")),
		"/error": missing, "/error/around": around(missing)})

	const looks = `['button', '.svc-captcha-box', '[role=status]'].flatMap((each) => ['', '::after'].flatMap((pseudo) => {
		const style = getComputedStyle(document.querySelector('.service-captcha ' + each), pseudo)
		return [...style].map((name) => each + pseudo + ' ' + name + ': ' + style.getPropertyValue(name))
	}))`

	page := s.browser.NewPage()
	look := func(state, path string) (lines []string) {
		page.Goto("http://www.shop.test" + path)
		s.is(page, state)
		page.Eval(looks, &lines)
		return lines
	}
	for _, state := range []string{"idle", "error"} {
		alone, among := look(state, "/"+state), look(state, "/"+state+"/around")
		if len(alone) < 1000 || len(alone) != len(among) {
			t.Fatalf("%s: %d and %d properties", state, len(alone), len(among))
		}

		for i, line := range among {
			if line != alone[i] {
				t.Errorf("%s: among elements with names of states %s, alone %s", state, line, alone[i])
			}
		}
	}
}

func TestChromiumCaptchaOnPoorBrowsers(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	page := s.browser.NewPage()
	for _, test := range []struct {
		name, page, worker string // scripts that run first in the page and in workers
	}{
		{"no WebAssembly", "delete window.WebAssembly", "delete self.WebAssembly"},
		{
			name: "WebAssembly refuses", page: "",
			worker: "for (const f of ['compile', 'instantiate', 'compileStreaming', 'instantiateStreaming']) WebAssembly[f] = () => Promise.reject(new Error('no')); WebAssembly.Module = class { constructor() { throw new Error('no') } }",
		},
		{"no workers", "delete window.Worker", ""},
		{"workers throw", "window.Worker = class { constructor() { throw new TypeError('no') } }", ""},
		{"workers throw and no WebAssembly", "window.Worker = class { constructor() { throw new TypeError('no') } }; delete window.WebAssembly", ""},
		{"workers die", "", "throw new Error('no')"},
		{"no WebCrypto", "Object.defineProperty(window, 'crypto', {value: undefined})", "Object.defineProperty(self, 'crypto', {value: undefined})"},
		{"processors kept secret", "Object.defineProperty(navigator, 'hardwareConcurrency', {value: undefined})", ""},
		{"one processor", "Object.defineProperty(navigator, 'hardwareConcurrency', {value: 1})", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.page != "" {
				defer page.Before(test.page)()
			}

			// The worker's source passes through the page's fetch.
			if test.worker != "" {
				defer page.Before(browsertest.ObserveFetch(`async (url, ...rest) => {
					const response = await get(url, ...rest)
					if (!String(url).endsWith('/captcha-worker.js')) return response
					return new Response(` + "`" + test.worker + ";`" + ` + await response.text())
				}`))()
			}

			page.Goto("http://www.shop.test/")
			s.is(page, "idle")
			page.Click("input[name=email]")
			s.is(page, "done")

			if !s.verify(page.Text(widgetToken)) {
				t.Error("the token is not valid")
			}
		})
	}
}

func TestChromiumCaptchaOnABrowserThatCannot(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	page := s.browser.NewPage()

	// Neither workers nor the page can run the engines, because both lack a constructor.
	page.Before(`delete window.Worker; delete window.MessageChannel`)
	page.Goto("http://www.shop.test/")
	s.is(page, "idle")
	page.Click("input[name=email]")
	s.shows(page, failed, "This browser cannot do the verification")

	testkit.EqualSlices(t, s.called(), []string{"config"}, "called")
}

func TestChromiumCaptchaEnginesNotReachable(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	s.answer("/captcha-worker.js", times(1<<30, 503))
	page := s.browser.Open("http://www.shop.test/")
	s.is(page, "idle")
	page.Click("input[name=email]")
	s.shows(page, failed, unreachable)
	s.answer("/nothing", nil)
	page.Click(".service-captcha button")
	s.is(page, "done")
}

// TestChromiumCaptchaAllowsSlowWork checks that each search may take longer than the 20 seconds
// within which the server must answer.
func TestChromiumCaptchaAllowsSlowWork(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	open := func() *browsertest.Page {
		t.Helper()

		page := s.browser.NewPage()
		page.Before(`{ // timeouts fire and the only worker starts a search when the test decides
			Object.defineProperty(navigator, 'hardwareConcurrency', {value: 1})
			const start = window.setTimeout, plain = Worker
			window.waits = new Map()
			window.setTimeout = (f, ms, ...rest) => { const id = start(ms === 20000 ? () => {} : f, ms, ...rest); if (ms === 20000) waits.set(id, f); return id }
			const stop = window.clearTimeout
			window.clearTimeout = (id) => { waits.delete(id); stop(id) }
			window.wait = () => { const ended = [...waits]; waits.clear(); ended.forEach(([, f]) => f()); return ended.length }
			window.parts = []
			window.Worker = class extends plain { postMessage(m, ...rest) {
				const post = () => super.postMessage(m, ...rest)
				typeof m === 'number' ? parts.push(post) : post()
			} }
		}`)

		page.Goto("http://www.shop.test/")
		s.is(page, "idle")
		page.Click("input[name=email]")
		page.WaitFor("parts.length > 0")

		return page
	}

	waited := func(page *browsertest.Page, times int) {
		t.Helper()
		for range times {
			if got := page.Text(`String(wait()) + document.querySelector('.service-captcha').className`); got != "1service-captcha is-verifying" {
				t.Fatalf("waits and state: %s", got)
			}
		}
	}

	// Each of the sixteen searches takes almost two minutes. Nothing is aborted while there is
	// progress.
	page := open()
	for range 16 {
		page.WaitFor("parts.length > 0")
		waited(page, 5)
		page.Eval("parts.shift()()", nil)
	}

	s.is(page, "done")

	if !s.verify(page.Text(widgetToken)) {
		t.Error("the token is not valid")
	}

	s.hasCalled("config", "verify")
	page.Close()

	// A slower browser shows an error and does not start again, because that would take as long.
	page = open()
	waited(page, 5)
	page.Eval("wait()", nil)
	s.shows(page, failed, "This browser cannot do the verification")

	testkit.Equal(t, page.Text("String(waits.size)"), "0", "timeouts are still set")

	s.hasCalled("config", "verify", "config")
}

func TestChromiumCaptchaTimesOut(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })

	for _, path := range []string{"/config", "/captcha-worker.js", "/verify"} {
		asked := make(chan struct{}, 10)
		s.answer(path, func(http.ResponseWriter) bool { asked <- struct{}{}; <-hang; return false })
		page := s.browser.NewPage()
		// The id 0 is no timer's: another number could make clearTimeout stop a timer of the
		// widget.
		page.Before(`{ const start = window.setTimeout; window.late = []; window.setTimeout = (f, ms, ...rest) => ms === 20000 ? (late.push(f), 0) : start(f, ms, ...rest) }`)
		page.Goto("http://www.shop.test/")
		s.is(page, "idle")
		page.Click("input[name=email]")
		s.is(page, "verifying")

		// The page sets timers for the requests that are answered too. So all of them fire, from
		// the time when one request hangs until the widget has given up its second attempt.
		<-asked
		page.WaitFor(fmt.Sprintf("(late.splice(0).forEach((f) => f()), %s === %q)", widgetLabel, failed))
		s.shows(page, failed, unreachable)
		page.Close()
	}
}
