package captcha_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// dropin is a captcha for which a loader stands in.
type dropin struct {
	name, global, class, field string

	script string // path of the loader
	verify string // path of siteverify
	eager  bool   // starts without an interaction
}

var dropins = []dropin{
	{name: "reCAPTCHA", global: "grecaptcha", class: "g-recaptcha", field: "g-recaptcha-response",
		script: "/recaptcha/api.js", verify: "/recaptcha/api/siteverify"},
	{name: "reCAPTCHA Enterprise", global: "grecaptcha.enterprise", class: "g-recaptcha", field: "g-recaptcha-response",
		script: "/recaptcha/enterprise.js", verify: "/recaptcha/api/siteverify"},
	{name: "hCaptcha", global: "hcaptcha", class: "h-captcha", field: "h-captcha-response",
		script: "/1/api.js", verify: "/1/siteverify"},
	{name: "Turnstile", global: "turnstile", class: "cf-turnstile", field: "cf-turnstile-response",
		script: "/turnstile/v0/api.js", verify: "/turnstile/v0/siteverify", eager: true},
}

// element returns the element with the field's id that the provider's script places within its
// element.
func (d dropin) element() string {
	switch d.class {
	case "g-recaptcha":
		return "textarea.g-recaptcha-response#g-recaptcha-response"
	case "h-captcha":
		return "textarea#h-captcha-response-hcaptcha-0"
	}
	return "input[type=hidden]#turnstile-0_response"
}

// path returns the path of the captcha's test page.
func (d dropin) path() string { return "/" + d.global }

// tag returns the element that loads the script, with a query.
func (d dropin) tag(query string) string {
	return `<script async defer src="` + captchaOrigin + d.script + query + `"></script>`
}

// pageLog defines the functions that pages of the tests name, which record their calls in log.
const pageLog = `<script>
	const log = [], page = {onExpired: () => log.push('expired'), onError: (reason) => log.push('error ' + reason)}
	const onToken = (token) => log.push(token)
	window.onToken = onToken
	window.page = page
</script>`

// marked returns a page with a form, and in it an element with the class and further attributes.
func (d dropin) marked(attributes, query string) string {
	return `<title>Form</title>` + pageLog + `<form id="form" action="/submit" method="post">
		<label>E-mail <input name="email"></label>
		<div id="captcha" class="` + d.class + `" data-sitekey="SITEKEY" data-callback="onToken" data-expired-callback="page.onExpired"
			data-error-callback="page.onError" ` + attributes + `></div>
		<button id="send">Send</button></form>` + d.tag(query)
}

// pagesOf returns a page of each captcha, by its path.
func pagesOf(page func(dropin) string) map[string]string {
	pages := map[string]string{}
	for _, d := range dropins {
		pages[d.path()] = page(d)
	}
	return pages
}

// redeem verifies a token at a compatible endpoint, as the back end of another captcha does.
func (s *captchaSite) redeem(path, token string) bool {
	s.t.Helper()

	response, err := http.PostForm(s.URL+path, url.Values{"secret": {s.key.secret}, "response": {token}})
	testkit.NoError(s.t, err)
	defer response.Body.Close()

	var answer struct{ Success bool }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		s.t.Fatalf("%s answered %s: %v", path, response.Status, err)
	}

	return answer.Success
}

// logged returns what the page's functions were called with.
func logged(page *browsertest.Page) (lines []string) {
	page.Eval(`log`, &lines)
	return lines
}

// waitFor waits until the page's functions were called n times, and returns the last call.
func waitLogged(page *browsertest.Page, n int) string {
	page.WaitFor(fmt.Sprintf(`log.length >= %d`, n))
	lines := logged(page)
	return lines[len(lines)-1]
}

// TestChromiumDropinForm submits the form of each captcha, with a widget that the class marks, and
// verifies the token at the captcha's own path.
func TestChromiumDropinForm(t *testing.T) {
	s := newCaptchaSite(t, pagesOf(func(d dropin) string {
		return `<style>textarea { display: block !important }</style>` + d.marked(`data-theme="dark" data-size="compact"`, "?hl=de")
	}))
	page := s.browser.NewPage()

	for _, d := range dropins {
		page.Goto("http://www.shop.test" + d.path())
		if !d.eager {
			page.WaitFor(`document.querySelector('#captcha > .service-captcha.is-idle')`)
			if lines := logged(page); len(lines) > 0 {
				t.Errorf("%s: before an interaction the page was called with %v", d.name, lines)
			}
			page.Click("input[name=email]")
		}

		token := waitLogged(page, 1)
		var got struct{ Field, Twin, Response, Label, Scheme, Width string }
		page.Eval(`(({style, textContent}) => ({field: document.forms.form.elements['`+d.field+`'].value,
			twin: document.querySelector('#captcha `+d.element()+`[name="`+d.field+`"]').value, response: `+d.global+
			`.getResponse(), label: textContent, scheme: style.colorScheme, width: style.width,
		}))(document.querySelector('#captcha > .service-captcha'))`, &got)
		if got.Field != token || got.Response != token || got.Scheme != "dark" || got.Width != "10em" {
			t.Errorf("%s: the callback got %q, the page has %+v", d.name, token, got)
		}
		if page.Text(`getComputedStyle(document.querySelector('#captcha [name="`+d.field+`"]')).display`) != "none" {
			t.Errorf("%s: the field is visible", d.name)
		}
		testkit.Equal(t, got.Twin, token, "%s: the field in the element", d.name)
		if !strings.HasPrefix(got.Label, "Bestätigt") {
			t.Errorf("%s: the label is %q, which is not German", d.name, got.Label)
		}

		page.Click("#send")
		form := <-s.submitted
		want := []string{"email", d.field}
		if d.name == "hCaptcha" {
			want = append(want, "g-recaptcha-response")
		}
		for _, name := range want[1:] {
			testkit.EqualSlices(t, form[name], []string{token}, "%s: the field %s", d.name, name)
		}
		if len(form) != len(want) {
			t.Errorf("%s: the form sent %v, want the fields %v", d.name, form, want)
		}
		if !s.redeem(d.verify, token) || s.redeem(d.verify, token) {
			t.Errorf("%s: the token must be valid once", d.name)
		}
	}

	noMessages(t, page)
}

// TestChromiumDropinReset checks that a page gets a second token after a reset: for Turnstile at
// once, and else after the visitor's next interaction, since the callback may send something.
func TestChromiumDropinReset(t *testing.T) {
	s := newCaptchaSite(t, pagesOf(func(d dropin) string { return d.marked("", "") }))
	page := s.browser.NewPage()

	for _, d := range dropins {
		page.Goto("http://www.shop.test" + d.path())
		page.WaitFor(`document.querySelector('#captcha > .service-captcha')`)
		page.Click("input[name=email]")
		first := waitLogged(page, 1)

		page.Eval(d.global+`.reset()`, nil)
		if !d.eager {
			page.WaitFor(`document.querySelector('.service-captcha.is-done') && ` + d.global + `.getResponse()`)
			if lines := logged(page); len(lines) != 1 {
				t.Errorf("%s: without an interaction after the reset: %v", d.name, lines)
			}
			page.Click("input[name=email]")
		}

		second := waitLogged(page, 2)
		if second == first || page.Text(d.global+`.getResponse()`) != second || !s.redeem(d.verify, second) {
			t.Errorf("%s: tokens %q, %q", d.name, first, second)
		}
		if s.redeem(d.verify, first) != true {
			t.Errorf("%s: the first token was not valid any more", d.name)
		}
	}

	noMessages(t, page)
}

// TestChromiumDropinCallback checks callbacks that reset their widget, which then waits for the
// visitor's next interaction, and callbacks that remove it, after which the page is not called.
func TestChromiumDropinCallback(t *testing.T) {
	pages := map[string]string{}
	for _, d := range dropins {
		for path, action := range map[string]string{
			"": d.global + `.reset()`, "/remove": d.global + `.remove(); setTimeout(() => log.push('later'))`,
		} {
			pages[d.path()+path] = strings.Replace(d.marked("", ""), "window.onToken = onToken",
				"window.onToken = (token) => { log.push(token); "+action+" }", 1)
		}
	}
	s := newCaptchaSite(t, pages)
	page := s.browser.NewPage()

	for _, d := range dropins {
		page.Goto("http://www.shop.test" + d.path())
		page.WaitFor(`document.querySelector('#captcha > .service-captcha')`)
		if !d.eager {
			page.Click("input[name=email]")
		}
		for n := 1; n <= 2; n++ {
			page.WaitFor(fmt.Sprintf(`log.length >= %d && document.querySelector('.service-captcha.is-done') && %s.getResponse()`, n, d.global))
			if lines := logged(page); len(lines) != n || lines[n-1] == page.Text(d.global+`.getResponse()`) {
				t.Errorf("%s: after interaction %d the page was called with %v", d.name, n, lines)
			}
			page.Click("input[name=email]")
		}
	}

	for _, d := range dropins {
		if d.class == "g-recaptcha" {
			continue // has no remove()
		}
		page.Goto("http://www.shop.test" + d.path() + "/remove")
		page.WaitFor(`document.querySelector('#captcha > .service-captcha') || log.length`)
		page.Click("input[name=email]")
		page.WaitFor(`log.includes('later')`)
		if lines := logged(page); len(lines) != 2 || lines[1] != "later" {
			t.Errorf("%s: a callback that removes the widget: %v", d.name, lines)
		}
	}

	noMessages(t, page)
}

// TestChromiumDropinExpiry checks what a page learns of a renewal, after four minutes, and of a
// token that expired while the computer slept.
func TestChromiumDropinExpiry(t *testing.T) {
	s := newCaptchaSite(t, pagesOf(func(d dropin) string { return d.marked("", "") }))
	page := s.browser.NewPage()
	page.Before(movableClock)

	for _, d := range dropins {
		for _, test := range []struct {
			name  string
			sleep time.Duration
			eager []string // what the callbacks of an eager widget are
			other []string
		}{
			{"renewed", 4 * time.Minute, []string{"token"}, []string{"expired", "token"}},
			{"expired", 6 * time.Minute, []string{"expired", "token"}, []string{"expired", "token"}},
		} {
			page.Goto("http://www.shop.test" + d.path())
			page.WaitFor(`document.querySelector('#captcha > .service-captcha')`)
			page.Click("input[name=email]")
			first := waitLogged(page, 1)

			s.later(page, test.sleep)
			page.Eval(`tick()`, nil)
			want := test.eager
			if !d.eager {
				want = test.other
				waitLogged(page, 2)
				page.WaitFor(`document.querySelector('.service-captcha.is-done') && !['', ` + fmt.Sprintf("%q", first) + `].includes(` + d.global +
					`.getResponse())`)
				if lines := logged(page); len(lines) != 2 {
					t.Errorf("%s, %s: without an interaction %v", d.name, test.name, lines)
				}
				page.Click("input[name=email]")
			}

			last := waitLogged(page, 1+len(want))
			got := logged(page)[1:]
			for i, line := range got {
				if line == last {
					got[i] = "token"
				}
			}
			if !slices.Equal(got, want) || last == first || !s.redeem(d.verify, last) {
				t.Errorf("%s, %s: calls %v, want %v; tokens %q and %q", d.name, test.name, got, want, first, last)
			}
		}
	}

	noMessages(t, page)
}

// TestChromiumDropinErrors checks the error callback: for an unknown sitekey, where a page that
// resets the widget in its callback must not repeat the call.
func TestChromiumDropinErrors(t *testing.T) {
	s := newCaptchaSite(t, pagesOf(func(d dropin) string {
		return strings.ReplaceAll(d.marked("", ""), "SITEKEY", "svck_NoSuchSitekeyNoSuchSitekey")
	}))
	page := s.browser.NewPage()

	for _, d := range dropins {
		before := len(s.called())
		page.Goto("http://www.shop.test" + d.path())
		page.WaitFor(`document.querySelector('#captcha > .service-captcha')`)
		page.Eval(`void (page.onError = (reason) => { log.push('error ' + reason); `+d.global+`.reset() })`, nil)
		page.Click("input[name=email]")
		testkit.Equal(t, waitLogged(page, 1), "error setup", "%s: unknown sitekey", d.name)
		page.WaitFor(`document.querySelector('#captcha > .service-captcha.is-error')`)
		if got := s.called()[before:]; len(got) > 2 || page.Text(`log.join()`) != "error setup" {
			t.Errorf("%s: unknown sitekey: called %v, the page %v", d.name, got, logged(page))
		}
	}
}

// TestChromiumDropinWithoutTheWidget checks pages where the widget's script cannot be loaded.
func TestChromiumDropinWithoutTheWidget(t *testing.T) {
	s := newCaptchaSite(t, pagesOf(func(d dropin) string { return d.marked("", "") }))
	s.answer("/captcha.js", func(w http.ResponseWriter) bool { w.WriteHeader(http.StatusServiceUnavailable); return true })
	page := s.browser.NewPage()
	page.Before(`addEventListener('unhandledrejection', (e) => log.push('unhandled ' + e.reason))`)

	for _, d := range dropins {
		page.Goto("http://www.shop.test" + d.path())
		testkit.Equal(t, waitLogged(page, 1), "error unreachable", "%s", d.name)
		if got := page.Text(`'' + ` + d.global + `.getResponse()`); got != "" && got != "undefined" {
			t.Errorf("%s: a token %q", d.name, got)
		}
	}
	noMessages(t, page, "503", "Failed to load resource")
}

// TestChromiumDropinRender renders widgets by calls: by id, selector and element, with parameters
// or with the element's attributes, once each, after the script has called the page's function.
func TestChromiumDropinRender(t *testing.T) {
	s := newCaptchaSite(t, pagesOf(func(d dropin) string {
		return `<title>Render</title>` + pageLog + `<script>function loaded() { log.push('loaded') }</script>
			<div class="` + d.class + `" data-sitekey="SITEKEY"></div><div id="byid"></div>
			<div id="attributes" data-sitekey="SITEKEY" data-callback="onToken" data-response-field-name="own"></div>` +
			d.tag("?render=explicit&onload=loaded")
	}))
	page := s.browser.NewPage()

	for _, d := range dropins {
		page.Goto("http://www.shop.test" + d.path())
		testkit.Equal(t, waitLogged(page, 1), "loaded", "%s: onload", d.name)
		if got := page.Text(`String(document.querySelectorAll('.service-captcha').length)`); got != "0" {
			t.Errorf("%s: render=explicit rendered %s widgets", d.name, got)
		}

		var got struct {
			Same      bool
			Different bool
			Widgets   int
			Missing   string
		}
		page.Eval(`(() => {
			const api = `+d.global+`, element = document.querySelector('#attributes')
			const first = api.render('byid', {sitekey: 'SITEKEY'.replace('SITEKEY', document.querySelector('[data-sitekey]').dataset.sitekey), callback: (t) => log.push('own ' + t)})
			const second = api.render(element)
			let missing = ''
			try { api.render('nowhere', {}) } catch (e) { missing = e.message }
			return {same: api.render('byid', {}) === first && api.render(element, {}) === second, different: first !== second, missing,
				widgets: document.querySelectorAll('.service-captcha').length}
		})()`, &got)
		if !got.Same || !got.Different || got.Widgets != 2 || got.Missing != strings.Split(d.global, ".")[0]+": not found: nowhere" {
			t.Errorf("%s: %+v", d.name, got)
		}

		// Without a form the work starts at once.
		waitLogged(page, 3)
		lines := logged(page)
		slices.Sort(lines)
		var own string
		for _, line := range lines {
			if token, ok := strings.CutPrefix(line, "own "); ok {
				own = token
			}
		}
		if own == "" || !s.redeem(d.verify, own) {
			t.Errorf("%s: no valid token of the first widget: %v", d.name, lines)
		}
		field := page.Text(`document.querySelector('#attributes [name=own]').value`)
		if !slices.Contains(lines, field) || !s.redeem(d.verify, field) {
			t.Errorf("%s: no valid token of the second widget: %v", d.name, lines)
		}
	}
	noMessages(t, page)
}

// TestChromiumDropinExecute checks widgets that work on demand: nothing before execute(), a token
// each time, nothing after a reset, and an expiry instead of renewals.
func TestChromiumDropinExecute(t *testing.T) {
	s := newCaptchaSite(t, pagesOf(func(d dropin) string {
		return `<title>Execute</title>` + pageLog + `<form id="form"><input name="email"><div id="here"></div></form>` +
			d.tag("?render=explicit")
	}))
	page := s.browser.NewPage()
	page.Before(movableClock)

	for _, d := range dropins {
		before := len(s.called())
		page.Goto("http://www.shop.test" + d.path())
		page.WaitFor(`window.serviceCaptcha && window.` + strings.Split(d.global, ".")[0])
		page.Eval(`void (window.id = `+d.global+`.render('here', {sitekey: '`+s.key.sitekey+`', size: 'invisible', execution: 'execute',
			callback: onToken, 'expired-callback': page.onExpired}))`, nil)
		page.Click("input[name=email]")
		if got := s.called()[before:]; len(got) > 0 {
			t.Errorf("%s: before execute() the widget called %v", d.name, got)
		}

		var tokens []string
		for i := range 2 {
			page.Eval(`void `+d.global+`.execute(id)`, nil)
			tokens = append(tokens, waitLogged(page, i+1))
		}
		page.Eval(d.global+`.reset(id)`, nil)
		testkit.Equal(t, page.Text(`'' + (`+d.global+`.getResponse(id) || '')`), "", "%s: after a reset there is the token", d.name)
		page.Eval(`void `+d.global+`.execute(id)`, nil)
		tokens = append(tokens, waitLogged(page, 3))

		for i, token := range tokens {
			if slices.Contains(tokens[:i], token) || !s.redeem(d.verify, token) {
				t.Errorf("%s: token %d of %v", d.name, i, tokens)
			}
		}

		s.later(page, 4*time.Minute)
		page.Eval(`tick()`, nil)
		if got := waitLogged(page, 4); got != "expired" || page.Text(`'' + (`+d.global+`.getResponse(id) || '')`) != "" {
			t.Errorf("%s: after four minutes %s", d.name, got)
		}
	}
	noMessages(t, page)
}

// TestChromiumDropinPromises checks the promises of execute(): of version 3, of hCaptcha's async
// calls, and of an invisible widget of reCAPTCHA.
func TestChromiumDropinPromises(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{
		"/v3":       `<title>3</title>` + pageLog + `<script src="` + captchaOrigin + `/recaptcha/api.js?render=SITEKEY"></script>`,
		"/hcaptcha": `<title>h</title><form><div id="here"></div></form><script src="` + captchaOrigin + `/1/api.js?render=explicit"></script>`,
	})

	page := s.browser.Open("http://www.shop.test/v3")
	var tokens []string
	page.Eval(`new Promise((resolve) => grecaptcha.ready(() => resolve(Promise.all(['a', 'b'].map((action) =>
		grecaptcha.execute('`+s.key.sitekey+`', {action}))))))`, &tokens)
	if len(tokens) != 2 || tokens[0] == tokens[1] || !s.redeem("/recaptcha/api/siteverify", tokens[0]) ||
		!s.redeem("/recaptcha/api/siteverify", tokens[1]) {
		t.Errorf("version 3: tokens %v", tokens)
	}
	testkit.Equal(t, page.Text(`String(document.querySelectorAll('.service-captcha, input').length)`), "0", "version 3: elements remain")
	if got := page.Text(`grecaptcha.execute('svck_NoSuchSitekeyNoSuchSitekey', {action: 'a'}).catch((e) => e.message)`); got != "setup" {
		t.Errorf("version 3 with an unknown sitekey: %s", got)
	}
	if got := page.Text(`(() => { try { grecaptcha.execute(7) } catch (e) { return e.message } })()`); got != "grecaptcha: not found: 7" {
		t.Errorf("an unknown widget: %s", got)
	}

	page.Goto("http://www.shop.test/hcaptcha")
	var answer struct{ Response, Key string }
	page.Eval(`(() => {
		const answer = hcaptcha.execute(hcaptcha.render('here', {sitekey: '`+s.key.sitekey+`', size: 'invisible'}), {async: true})
		document.forms[0].reset() // which cancels nothing, since there is no token
		return answer
	})()`, &answer)
	if answer.Key != "" || !s.redeem("/siteverify", answer.Response) {
		t.Errorf("hCaptcha: %+v", answer)
	}
	if got := page.Text(`(() => { const done = hcaptcha.execute(undefined, {async: true}).catch((e) => e.message); hcaptcha.remove(); return done })()`); got != "cancelled" {
		t.Errorf("hCaptcha: removed while it works: %s", got)
	}
	if got := page.Text(`String(document.querySelectorAll('#here > *').length) + hcaptcha.getResponse()`); got != "0" {
		t.Errorf("hCaptcha: removed, but there is %s", got)
	}
}

// TestChromiumDropinButton checks a button with the class, as pages have it for invisible widgets:
// a click gets a token, and the page's function sends the form.
func TestChromiumDropinButton(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": `<title>Button</title><script>function send(token) { document.forms.form.submit() }</script>
		<form id="form" action="/submit" method="post"><input name="email" value="a@shop.test">
		<button id="send" class="g-recaptcha" data-sitekey="SITEKEY" data-callback="send">Send</button></form>
		<script src="` + captchaOrigin + `/recaptcha/api.js"></script>`})
	page := s.browser.Open("http://www.shop.test/")
	page.WaitFor(`document.querySelector('#send + div')`)
	s.hasCalled()
	page.Click("#send")
	form := <-s.submitted
	if len(form) != 2 || !s.redeem("/recaptcha/api/siteverify", form.Get("g-recaptcha-response")) {
		t.Errorf("the form sent %v", form)
	}
}

// TestChromiumDropinTogether loads the scripts of three captchas, one of them twice, and the
// widget's own, into one page with one form.
func TestChromiumDropinTogether(t *testing.T) {
	page := `<title>All</title>` + pageLog + `<form id="form" action="/submit" method="post"><input name="email">`
	for _, class := range []string{"h-captcha", "g-recaptcha", "cf-turnstile"} {
		page += `<div class="` + class + `" data-sitekey="SITEKEY" data-callback="onToken"></div>`
	}
	page += `<div class="service-captcha" data-sitekey="SITEKEY"></div><button id="send">Send</button></form>`
	for _, path := range []string{
		"/1/api.js", "/recaptcha/api.js", "/turnstile/v0/api.js", "/captcha.js",
		"/recaptcha/api.js?render=explicit&onload=onToken",
	} {
		page += `<script defer src="` + captchaOrigin + path + `"></script>`
	}
	s := newCaptchaSite(t, map[string]string{"/": page})
	tab := s.browser.Open("http://www.shop.test/")
	tab.Click("input[name=email]")
	tab.WaitFor(`document.querySelectorAll('.service-captcha.is-done').length === 4`)
	tab.WaitFor(`log.length === 4`)

	var responses []string
	tab.Eval(`[grecaptcha.getResponse(), hcaptcha.getResponse(), turnstile.getResponse()]`, &responses)
	testkit.Equal(t, tab.Text(`String(document.querySelectorAll('.service-captcha').length)`), "4", "widgets")

	tab.Click("#send")
	form := <-s.submitted
	for i, field := range []string{"g-recaptcha-response", "h-captcha-response", "cf-turnstile-response", "service-captcha-response"} {
		if len(form[field]) != 1 || i < 3 && form.Get(field) != responses[i] || !s.redeem("/siteverify", form.Get(field)) {
			t.Errorf("the form sent %v", form)
		}
	}
	noMessages(t, tab)
}

// TestChromiumDropinUnderAPolicy checks that the contract's Content-Security-Policy suffices for
// loaders, with stricter forms of it.
func TestChromiumDropinUnderAPolicy(t *testing.T) {
	pages := pagesOf(func(d dropin) string { return d.marked("", "") })
	for path, page := range pages {
		// The policy forbids the log's inline script.
		pages[path] = strings.ReplaceAll(strings.ReplaceAll(page, pageLog, ""), "<script ", `<script nonce="n0nce" `)
	}
	s := newCaptchaSite(t, pages)
	const contract = "default-src 'self'; script-src " + captchaOrigin + "; connect-src " + captchaOrigin + "; worker-src blob:"

	page := s.browser.NewPage()
	for name, policy := range map[string]string{
		"the contract's":           contract,
		"no style":                 contract + "; style-src 'none'",
		"nonce and strict-dynamic": "script-src 'nonce-n0nce' 'strict-dynamic'; connect-src " + captchaOrigin + "; worker-src blob:",
		"trusted types":            contract + "; require-trusted-types-for 'script'; trusted-types service-captcha",
		"no trusted types":         contract + "; require-trusted-types-for 'script'; trusted-types 'none'",
	} {
		s.headers = http.Header{"Content-Security-Policy": {policy}}
		for _, d := range dropins {
			page.Goto("http://www.shop.test" + d.path())
			page.WaitFor(`document.querySelector('#captcha > .service-captcha')`)
			page.Click("input[name=email]")
			page.WaitFor(`document.querySelector('#captcha > .service-captcha.is-done')`)
			if !s.redeem(d.verify, page.Text(d.global+`.getResponse()`)) {
				t.Errorf("%s, %s: the token is not valid", d.name, name)
			}
		}
	}
	for _, m := range page.Console() {
		if m.Level == "exception" {
			t.Errorf("the page's console has %s", m.Text)
		}
	}
}
