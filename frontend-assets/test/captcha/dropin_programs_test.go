package captcha_test

import (
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
)

// TestChromiumDropinFrame checks mCaptcha's page for a frame: pages of a bound sitekey's domains
// get a token by message, and other pages cannot frame it. Any page may frame the widget of an
// unbound sitekey.
func TestChromiumDropinFrame(t *testing.T) {
	page := func(path, sitekey string) string {
		return `<title>Frame</title><script>window.log = []; addEventListener('message', (e) => log.push(e.origin + ' ' + e.data.token))</script>
			<iframe src="` + captchaOrigin + path + `?sitekey=` + sitekey + `" onload="log.push('loaded')"></iframe>`
	}
	s := newCaptchaSite(t, map[string]string{
		"/bound": page("/widget", "SITEKEY"), "/slash": page("/widget/", "SITEKEY"),
		"/test": page("/widget", model.TestSitekey), "/unknown": page("/widget", "svck_nothing"),
	})
	tab := s.browser.NewPage()

	for _, address := range []string{"http://www.shop.test/bound", "http://www.shop.test/slash"} {
		tab.Goto(address)
		tab.WaitFor(`log.find((line) => line !== 'loaded')`)
		token, ok := strings.CutPrefix(tab.Text(`log.find((line) => line !== 'loaded')`), captchaOrigin+" ")
		if !ok || !s.redeem("/siteverify", token) {
			t.Errorf("%s: no valid token, but %v", address, logged(tab))
		}
	}

	tab.Goto("http://other.test/test")
	tab.WaitFor(`log.find((line) => line.startsWith('` + captchaOrigin + `'))`)

	// The browser loads its own error page into a frame that a policy forbids.
	before := len(s.called())
	tab.Goto("http://other.test/bound")
	tab.WaitFor(`log.length`)
	refused := false
	for _, m := range tab.Console() {
		refused = refused || strings.Contains(m.Text, "frame-ancestors")
	}
	if got := s.called()[before:]; len(got) > 0 || !refused {
		t.Errorf("another domain framed the widget: calls %v, console %v", got, tab.Console())
	}

	tab.Goto("http://other.test/unknown")
	frame := s.browser.Frame(captchaOrigin + "/widget?sitekey=svck_nothing")
	frame.WaitFor(`document.querySelector('.service-captcha.is-error') && document.documentElement.lang === 'en'`)
}

// TestChromiumDropinFrameAddress frames addresses from which a script would read the bound sitekey,
// but the server another text or nothing. Any page may frame them, so they must not give a token of
// the sitekey.
func TestChromiumDropinFrameAddress(t *testing.T) {
	queries := map[string]string{
		"/blank": "sitekey=SITEKEY+", "/escaped": "sitekey=%20SITEKEY", "/tab": "sitekey=SITEKEY%09", "/mark": "sitekey=%EF%BB%BFSITEKEY",
		"/many": strings.Repeat("a&", 10_001) + "sitekey=SITEKEY",
	}
	pages := map[string]string{}
	for path, query := range queries {
		pages[path] = `<title>Frame</title><iframe src="` + captchaOrigin + `/widget?` + query + `"></iframe>`
	}
	s := newCaptchaSite(t, pages)
	tab := s.browser.NewPage()

	for path, query := range queries {
		tab.Goto("http://other.test" + path)
		frame := s.browser.Frame(captchaOrigin + "/widget?" + strings.ReplaceAll(query, "SITEKEY", s.key.sitekey))
		frame.WaitFor(`document.querySelector('.service-captcha.is-error, .service-captcha.is-done')`)
		if got := frame.Text(`document.querySelector('.service-captcha').className`); !strings.Contains(got, "is-error") {
			t.Errorf("%s: the widget of another domain's page is %q", path, got)
		}
	}
	if got := s.called(); len(got) > 0 {
		t.Errorf("pages of another domain called %v", got)
	}
}

// TestChromiumDropinGitea makes the calls of Gitea's page: a deferred script of the configured
// address, and render() in an element, for reCAPTCHA inside ready().
func TestChromiumDropinGitea(t *testing.T) {
	form := func(script, render string) string {
		return `<title>Gitea</title><form id="form" action="/submit" method="post"><input name="user_name">
			<div id="captcha" data-sitekey="SITEKEY"></div><button id="send">Register</button></form>
			<script defer src="` + captchaOrigin + script + `"></script>
			<script type="module">
				const element = document.querySelector('#captcha')
				const parameters = {sitekey: element.getAttribute('data-sitekey'), theme: 'light'}
				` + render + `
			</script>`
	}
	s := newCaptchaSite(t, map[string]string{
		"/recaptcha": form("/recaptcha/api.js", `window.grecaptcha.ready(() => window.grecaptcha.render(element, parameters))`),
		"/hcaptcha":  form("/1/api.js", `window.hcaptcha.render(element, parameters)`),
		"/turnstile": form("/turnstile/v0/api.js", `window.turnstile.render(element, parameters)`),
	})
	page := s.browser.NewPage()

	for path, test := range map[string]struct{ field, verify string }{
		"/recaptcha": {"g-recaptcha-response", "/recaptcha/api/siteverify"},
		"/hcaptcha":  {"h-captcha-response", "/siteverify"},
		"/turnstile": {"cf-turnstile-response", "/turnstile/v0/siteverify"},
	} {
		page.Goto("http://www.shop.test" + path)
		page.WaitFor(`document.querySelector('#captcha > .service-captcha')`)
		page.Click("input[name=user_name]")
		page.WaitFor(`document.querySelector('#captcha > .service-captcha.is-done')`)
		page.Click("#send")
		if form := <-s.submitted; !s.redeem(test.verify, form.Get(test.field)) {
			t.Errorf("%s: the form sent %v", path, form)
		}
	}
	noMessages(t, page)
}

// TestChromiumDropinAuthentik makes the calls of authentik's page: a frame without an address, with
// the script of the configured address and either the class or an invisible widget, and a message
// to the page around it.
func TestChromiumDropinAuthentik(t *testing.T) {
	stage := func(script, body string) string {
		frame := `<!doctype html><html><head></head><body><script>
			function callback(token) { self.parent.postMessage({message: 'captcha', token}) }</script>` + body +
			`<script src="` + captchaOrigin + script + `"></script></body></html>`
		return `<title>authentik</title><script>window.log = []; addEventListener('message', (e) => log.push(e.data.token))</script>
			<iframe srcdoc="` + strings.NewReplacer("&", "&amp;", `"`, "&quot;").Replace(frame) + `"></iframe>`
	}
	invisible := func(call string) string {
		return `<div id="box"></div><script>addEventListener('load', () => {
			const box = document.querySelector('#box'), parameters = {sitekey: 'SITEKEY', callback, size: 'invisible'}
			` + call + ` })</script>`
	}
	s := newCaptchaSite(t, map[string]string{
		"/recaptcha": stage("/recaptcha/api.js", `<div class="g-recaptcha" data-sitekey="SITEKEY" data-theme="light" data-callback="callback"></div>`),
		"/hcaptcha":  stage("/1/api.js", `<div class="h-captcha" data-sitekey="SITEKEY" data-theme="light" data-callback="callback"></div>`),
		"/turnstile": stage("/turnstile/v0/api.js", `<div class="cf-turnstile" data-sitekey="SITEKEY" data-theme="light" data-callback="callback"></div>`),
		"/recaptcha/invisible": stage("/recaptcha/api.js?render=explicit",
			invisible(`grecaptcha.ready(() => grecaptcha.execute(grecaptcha.render(box, parameters)))`)),
		"/hcaptcha/invisible":  stage("/1/api.js?render=explicit", invisible(`hcaptcha.execute(hcaptcha.render(box, parameters))`)),
		"/turnstile/invisible": stage("/turnstile/v0/api.js?render=explicit", invisible(`turnstile.render(box, {sitekey: 'SITEKEY', callback})`)),
	})
	page := s.browser.NewPage()

	for path := range s.pages {
		page.Goto("http://www.shop.test" + path)
		if token := waitLogged(page, 1); !s.redeem("/siteverify", token) {
			t.Errorf("%s: the token %q is not valid", path, token)
		}
	}
	noMessages(t, page)
}
