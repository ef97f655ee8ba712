package captcha_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/tallygate/tallygate/tools/testkit"
)

// wrappers is the folder of the published packages that wrap other captchas' scripts, and of the
// pages that use them.
const wrappers = "../dropin/wrappers"

// secureOrigin is {captcha_url} over https, which the packages prepend to host names.
const secureOrigin = "https://captcha.example.test"

// wrapped returns the bundle of a page with its packages. Addresses that a package has no setting
// for are replaced in the bundle. Without the packages the test is skipped, or failed in CI.
func wrapped(t *testing.T, entry string, addresses ...string) string {
	t.Helper()

	folder, err := filepath.Abs(wrappers)
	testkit.NoError(t, err)
	if !isInstalled(t, folder) {
		testkit.Missing(t, "the packages of "+wrappers+" are not installed: make setup does that")
	}

	built := api.Build(api.BuildOptions{
		AbsWorkingDir: folder, EntryPoints: []string{entry}, Bundle: true, Format: api.FormatIIFE, JSX: api.JSXAutomatic,
		Define: map[string]string{"process.env.NODE_ENV": `"production"`, "__VUE_OPTIONS_API__": "true",
			"__VUE_PROD_DEVTOOLS__": "false", "__VUE_PROD_HYDRATION_MISMATCH_DETAILS__": "false"},
	})
	if len(built.Errors) > 0 {
		t.Fatal(built.Errors)
	}

	text := string(built.OutputFiles[0].Contents)
	for _, address := range addresses {
		if !strings.Contains(text, address) {
			t.Fatalf("the package does not contain %s", address)
		}
		text = strings.ReplaceAll(text, address, strings.TrimPrefix(secureOrigin, "https://"))
	}
	return "<script>" + strings.ReplaceAll(text, "</script", `<\/script`) + "</script>"
}

// isInstalled reports whether the folder has the packages of its lock file. npm stores a copy of
// what it has installed, without the entry of the folder itself.
func isInstalled(t *testing.T, folder string) bool {
	t.Helper()
	installed, err := os.Stat(filepath.Join(folder, "node_modules/.package-lock.json"))
	if err != nil {
		return false
	}
	lock, err := os.Stat(filepath.Join(folder, "package-lock.json"))
	testkit.NoError(t, err)
	return !installed.ModTime().Before(lock.ModTime())
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
