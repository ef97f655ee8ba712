package captcha_test

import (
	"fmt"
	"testing"
)

// TestChromiumCaptchaFreshToken submits forms that stay on the page: each submit sends a valid token, also where
// the page reads the form late, and then the widget has a fresh one.
func TestChromiumCaptchaFreshToken(t *testing.T) {
	handled := func(handle string) string {
		return captchaForm("") + `<script>window.sent = []; window.seen = []
			const read = () => sent.push(new FormData(document.forms.form).get('service-captcha-response'))
			addEventListener('service-captcha:expired', () => seen.push('expired'))
			document.forms.form.addEventListener('submit', (event) => { event.preventDefault(); ` + handle + ` })</script>`
	}
	s := newCaptchaSite(t, map[string]string{
		"/at-once": handled(`read()`),
		"/later":   handled(`setTimeout(read, 200)`),
		"/slowly":  handled(`fetch('/wait').then(read)`),
		"/reset":   handled(`read(), document.forms.form.reset()`),
	})

	for path, expired := range map[string]int{"/at-once": 0, "/later": 0, "/reset": 2, "/slowly": 0} {
		page := s.browser.Open("http://www.shop.test" + path)
		page.Click("input[name=email]")
		s.is(page, "done")
		for n := 1; n <= 2; n++ {
			before := page.Text(widgetToken)
			page.Click("#send")
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

// TestChromiumCaptchaRemovedAfterSubmit removes a submitted form: the widget makes no further call.
func TestChromiumCaptchaRemovedAfterSubmit(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("") + `<script>
		document.forms.form.addEventListener('submit', (event) => { event.preventDefault(); document.forms.form.remove() })</script>`})
	page := s.browser.Open("http://www.shop.test/")
	page.Click("input[name=email]")
	s.is(page, "done")
	before := len(s.called())
	page.Click("#send")
	// A timer that was set later, with a longer delay, fires after the widget's.
	page.Eval(`new Promise((done) => setTimeout(done, 2500))`, nil)
	if got := s.called()[before:]; len(got) > 0 {
		t.Errorf("the removed widget called %v", got)
	}
}
