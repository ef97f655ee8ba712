package captcha_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

const interaction = `document.forms.form.dispatchEvent(new Event('focusin'))`

// roundTrip waits for a response, which an earlier call of the widget would precede.
const roundTrip = `fetch('` + captchaOrigin + `/captcha.css', {mode: 'no-cors', cache: 'no-store'}).then(() => 0)`

// TestChromiumCaptchaFreshToken submits forms that stay on the page: each submit sends a valid
// token, also where the page reads the form late, and the next interaction obtains a fresh one.
func TestChromiumCaptchaFreshToken(t *testing.T) {
	handled := func(handle string) string {
		return "<script>" + movableClock + "</script>" + captchaForm("") + `<script>window.sent = []; window.seen = []
			const read = () => sent.push(new FormData(document.forms.form).get('service-captcha-response'))
			addEventListener('service-captcha:expired', () => seen.push('expired'))
			document.forms.form.addEventListener('submit', (event) => { event.preventDefault(); ` + handle + ` })</script>`
	}
	s := newCaptchaSite(t, map[string]string{
		"/at-once": handled(`read()`),
		"/later":   handled(`setTimeout(read, 200)`),
		"/slowly":  handled(`fetch('/wait').then(read)`),
		"/reset":   handled(`read(), document.forms.form.reset()`),
		"/kept":    handled(`read(), document.forms.form.addEventListener('reset', (event) => event.preventDefault()), document.forms.form.reset()`),
	})

	for path, expired := range map[string]int{"/at-once": 0, "/later": 0, "/reset": 2, "/kept": 0, "/slowly": 0} {
		page := s.browser.Open("http://www.shop.test" + path)
		page.Click("input[name=email]")
		s.is(page, "done")
		for n := 1; n <= 2; n++ {
			before := page.Text(widgetToken)
			page.Click("#send")
			if path != "/slowly" {
				page.WaitFor(fmt.Sprintf("sent.length === %d", n))
			}
			if path != "/reset" {
				s.later(page, 2001*time.Millisecond)
				page.Eval(interaction, nil)
			}
			page.WaitFor(fmt.Sprintf(`!['', %q].includes(%s)`, before, widgetToken))
			if path == "/slowly" && n == 1 {
				close(s.shown)
			}
			page.WaitFor(fmt.Sprintf("sent.length === %d", n))

			token := page.Text(fmt.Sprintf("sent[%d]", n-1))
			if path != "/slowly" && token != before {
				t.Errorf("%s: submit %d read %q, want %q", path, n, token, before)
			}
			if !s.verify(token) {
				t.Errorf("%s: the token of submit %d is not valid", path, n)
			}
			if path == "/slowly" {
				break
			}
		}

		var count int
		if page.Eval("seen.length", &count); count != expired {
			t.Errorf("%s: %d tokens expired, want %d", path, count, expired)
		}
		page.Close()
	}
}

// TestChromiumCaptchaRenewsOnce checks that a submit alone makes no call, and that an interaction
// makes one renewal, which no later submit aborts.
func TestChromiumCaptchaRenewsOnce(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": "<script>" + movableClock + "</script>" + captchaForm("") + `<script>
		document.forms.form.addEventListener('submit', (event) => event.preventDefault())</script>`})
	page := s.browser.Open("http://www.shop.test/")
	page.Click("input[name=email]")
	s.is(page, "done")
	first := page.Text(widgetToken)
	submit := func() { page.Eval(`document.forms.form.requestSubmit()`, nil) }

	// The renewal starts at the interaction, and its challenge waits until all submits are over.
	released, arrived := make(chan bool), make(chan bool, 10)
	s.answer("/config", func(http.ResponseWriter) bool {
		arrived <- true
		<-released
		return false
	})
	for range 3 {
		submit()
		s.later(page, 300*time.Millisecond)
		page.Eval(interaction, nil)
	}
	s.hasCalled("config", "verify")
	s.later(page, 2*time.Second)
	page.Eval(`tick()`, nil)
	page.Eval(roundTrip, nil)
	s.hasCalled("config", "verify")

	page.Eval(interaction, nil)
	<-arrived
	for range 3 {
		submit()
		s.later(page, 3*time.Second)
		page.Eval(interaction, nil)
	}
	close(released)
	page.WaitFor(fmt.Sprintf(`!['', %q].includes(%s)`, first, widgetToken))
	page.Eval(interaction, nil)
	s.hasCalled("config", "verify", "config", "verify")
	if !s.verify(page.Text(widgetToken)) {
		t.Error("the fresh token is not valid")
	}
}

// TestChromiumCaptchaRemovedAfterSubmit removes a submitted form: the widget makes no further call.
func TestChromiumCaptchaRemovedAfterSubmit(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": "<script>" + movableClock + "</script>" + captchaForm("") +
		`<script>window.removed = document.forms.form
		document.forms.form.addEventListener('submit', (event) => { event.preventDefault(); document.forms.form.remove() })</script>`})
	page := s.browser.Open("http://www.shop.test/")
	page.Click("input[name=email]")
	s.is(page, "done")
	before := len(s.called())
	page.Click("#send")
	s.later(page, 2001*time.Millisecond)
	page.Eval(`removed.dispatchEvent(new Event('focusin')), tick()`, nil)
	page.Eval(roundTrip, nil)
	if got := s.called()[before:]; len(got) > 0 {
		t.Errorf("the removed widget called %v", got)
	}
}
