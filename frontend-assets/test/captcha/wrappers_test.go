package captcha_test

import (
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/npmtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// wrappers is the folder of the published packages that wrap other captchas' scripts, and of the
// pages that use them.
const wrappers = "../dropin/wrappers"

// secureOrigin is {captcha_url} over https, which the packages prepend to host names.
const secureOrigin = "https://captcha.example.test"

// wrapped returns the bundle of a page with its packages. Addresses that a package has no setting
// for are replaced in the bundle.
func wrapped(t *testing.T, page string, addresses ...string) string {
	t.Helper()
	var pairs []string
	for _, address := range addresses {
		pairs = append(pairs, address, strings.TrimPrefix(secureOrigin, "https://"))
	}
	return npmtest.Script(t, wrappers, page, pairs...)
}

// TestChromiumDropinWrappers runs the published wrappers, unchanged but for the script's address: a
// token by the wrapper's event, another one after a reset, and one of an invisible widget.
func TestChromiumDropinWrappers(t *testing.T) {
	testkit.SkipLong(t, "packages from a registry")
	root := `<title>Wrapper</title><div id="app" data-sitekey="SITEKEY" data-api="` + secureOrigin + `" data-host="captcha.example.test"></div>`
	s := newCaptchaSite(t, map[string]string{
		"/react-google-recaptcha": root + wrapped(t, "recaptcha.jsx", "www.google.com"),
		"/react-hcaptcha":         root + wrapped(t, "hcaptcha.jsx"),
		"/react-turnstile":        root + wrapped(t, "turnstile.jsx", "challenges.cloudflare.com"),
		"/vue-recaptcha":          root + wrapped(t, "recaptcha.vue.js"),
	})

	for _, test := range []struct{ name, verify string }{
		{"react-google-recaptcha", "/recaptcha/api/siteverify"},
		{"react-hcaptcha", "/siteverify"},
		{"react-turnstile", "/turnstile/v0/siteverify"},
		{"vue-recaptcha", "/recaptcha/api/siteverify"},
	} {
		t.Run(test.name, func(t *testing.T) {
			page := s.browser.Open("http://www.shop.test/" + test.name)
			page.WaitFor(`document.querySelector('.service-captcha')`)
			page.Click("input[name=email]")
			first := waitLogged(page, 1)
			if page.Text(`value()`) != first || !s.redeem(test.verify, first) {
				t.Errorf("the first token is %q", first)
			}

			page.Eval(`void again()`, nil)
			page.WaitFor(`document.querySelector('.service-captcha.is-done') && value()`)
			page.Click("input[name=email]")
			page.WaitFor(`log.some((each) => each && each !== log[0])`)
			if second := page.Text(`value()`); second == first || !s.redeem(test.verify, second) {
				t.Errorf("the second token is %q", second)
			}

			var third string
			page.Eval(`execute()`, &third)
			if !s.redeem(test.verify, third) {
				t.Errorf("the token of the invisible widget is %q", third)
			}
			noMessages(t, page)
		})
	}
}

// TestChromiumDropinMCaptchaGlue runs mCaptcha's own script for pages, which puts the widget into a
// frame, with a sitekey that is bound to the page's domain.
func TestChromiumDropinMCaptchaGlue(t *testing.T) {
	testkit.SkipLong(t, "packages from a registry")
	glue := `<title>Glue</title><form id="form" action="/submit" method="post">
		<label data-mcaptcha_url="` + captchaOrigin + `/widget/?sitekey=SITEKEY" for="mcaptcha__token" id="mcaptcha__token-label">
		Token <input type="text" name="mcaptcha__token" id="mcaptcha__token"></label>
		<div id="mcaptcha__widget-container"></div><button id="send">Send</button></form>` + wrapped(t, "mcaptcha.js")
	s := newCaptchaSite(t, map[string]string{"/": glue})
	page := s.browser.Open("http://www.shop.test/")
	page.WaitFor(`document.querySelector('#mcaptcha__token').value`)
	page.Click("#send")
	form := <-s.submitted
	if token := form.Get("mcaptcha__token"); len(form) != 1 || !s.verifyAs("key", token) || s.verifyAs("key", token) {
		t.Errorf("the form sent %v", form)
	}
}
