package captcha_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestChromiumCaptchaShowsALongWait checks label, name and announcement at expected waits, which
// follow from the rates that the test reports for the only worker.
func TestChromiumCaptchaShowsALongWait(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm(""), "/de": strings.Replace(captchaForm(""), `lang="en"`, `lang="de"`, 1)})
	page := s.browser.NewPage()
	page.Before(movableClock)
	page.Before(fmt.Sprintf(`{ // searches begin when the test decides
		Object.defineProperty(navigator, 'hardwareConcurrency', {value: 1})
		const plain = Worker
		window.parts = []
		window.Worker = class extends plain { postMessage(m, ...rest) {
			window.worker = this
			const post = () => super.postMessage(m, ...rest)
			typeof m === 'number' ? parts.push(post) : post()
		} }
		window.expect = (seconds) => worker.dispatchEvent(new MessageEvent('message', {data: %d / seconds / 1000}))
		window.announced = []
		window.look = () => [document.querySelector('.svc-captcha-label').textContent, document.querySelector('.service-captcha button').getAttribute('aria-label'),
			document.querySelector('.service-captcha').className, announced.splice(0).join()].join('; ')
	}`, captchaDifficulty))

	open := func(path string) {
		t.Helper()
		page.Goto("http://www.shop.test" + path)
		s.is(page, "idle")
		page.Eval(`new MutationObserver((records) => records.forEach(({addedNodes}) => announced.push(...[...addedNodes].map((each) => each.textContent))))
			.observe(document.querySelector('[role=status]'), {childList: true, characterData: true, subtree: true})`, nil)
		page.Click("input[name=email]")
		page.WaitFor("parts.length > 0")
	}

	// expect lets the worker report a rate at which all the work would take these seconds.
	expect := func(seconds, label, name, announced string) {
		t.Helper()
		want := label + "; " + name + "; service-captcha is-verifying; " + announced
		if got := page.Text("(async () => { expect(" + seconds + "); await 0; return look() })()"); got != want {
			t.Errorf("at an expected wait of %s seconds: %s, want %s", seconds, got, want)
		}
	}

	open("/")
	const plain = "Verifying…"
	expect("3", plain, plain, "")
	expect("8", plain, plain, "")
	expect("31", "Verifying, about 30 seconds", "Verifying, about 30 seconds", "Verifying, about 30 seconds")

	for _, barrier := range page.Barriers("html") {
		t.Error(barrier)
	}
	if got := page.Text(`String(document.querySelector('[role=status]').clientWidth)`); got != "1" {
		t.Errorf("the announcement is %s pixels wide, want it visible to screen readers only", got)
	}

	// The second wait is not announced, and does not change the name of a button that has the
	// focus.
	expect("19", "Verifying, about 20 seconds", "Verifying, about 20 seconds", "")
	page.Eval(`document.querySelector('.service-captcha button').focus()`, nil)
	expect("16", "Verifying, about 15 seconds", "Verifying, about 20 seconds", "")
	page.Eval(`document.activeElement.blur()`, nil)
	expect("7.9", plain, plain, "")
	expect("9", plain, plain, "")
	expect("16", "Verifying, about 15 seconds", "Verifying, about 15 seconds", "")

	// The wait gets shorter with each search, and is kept while the ring shows the progress.
	page.Eval("parts.shift()()", nil)
	page.WaitFor("parts.length > 0")
	expect("16", "Verifying, about 15 seconds", "Verifying, about 15 seconds", "")
	for range 5 {
		page.Eval("parts.shift()()", nil)
		page.WaitFor("parts.length > 0")
	}

	page.WaitFor(`look().startsWith('Verifying, about 10 seconds;')`)
	if got := page.Text(`document.querySelector('.service-captcha button').style.getPropertyValue('--svc-captcha-progress')`); got != "0.375" {
		t.Errorf("progress %s, want 0.375", got)
	}

	// The label follows the page's language.
	page.Eval(`document.documentElement.lang = 'uk'`, nil)
	page.WaitFor(`look().startsWith('Перевірка, бл. 10 с; Перевірка, бл. 10 с;')`)
	page.Eval(`document.documentElement.lang = 'en'`, nil)
	page.WaitFor(`look().startsWith('Verifying, about 10 seconds;')`)

	for range 10 {
		page.Eval("parts.shift()()", nil)
		page.WaitFor("parts.length > 0 || " + widgetToken)
	}

	s.is(page, "done")
	page.WaitFor(`look().startsWith('Verified; Verified; service-captcha is-done;')`)

	// A renewal shows no wait.
	s.later(page, 4*time.Minute)
	page.Eval("tick()", nil)
	page.WaitFor("parts.length > 0")
	if got, want := page.Text("(expect(60), look())"), "Verified; Verified; service-captcha is-done; "; got != want {
		t.Errorf("renewal: %s, want %s", got, want)
	}

	// A reset begins again without a wait.
	open("/de")
	expect("8.1", "Wird geprüft, etwa 10 Sekunden", "Wird geprüft, etwa 10 Sekunden", "Wird geprüft, etwa 10 Sekunden")
	page.Eval("serviceCaptcha.reset()", nil)
	page.WaitFor(`look().startsWith('Wird geprüft…; Wird geprüft…;')`)
}
