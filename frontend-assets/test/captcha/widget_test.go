package captcha_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

func TestChromiumCaptchaProtectsAForm(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	page := s.browser.NewPage()
	page.Before(`window.seen = []; for (const type of ['input', 'change', 'submit', 'formdata', 'reset'])
		addEventListener(type, (e) => seen.push(type + ' ' + (e.target.name || e.target.id)), true)`)

	page.Goto("http://www.shop.test/")
	s.is(page, "idle")
	var button struct{ Tag, Type, Role, Label, Checked, Text string }
	read := `(({tagName, type, textContent}, a) => ({tag: tagName, type, role: a('role'), label: a('aria-label'), checked: a('aria-checked'),
		text: textContent}))(document.querySelector('.service-captcha button'), (n) => document.querySelector('.service-captcha button').getAttribute(n))`

	page.Eval(read, &button)

	testkit.Equal(t, fmt.Sprint(button), "{BUTTON button checkbox I am human false I am human}", "idle: %v", button)
	if got := page.Text(`String(document.querySelector('form').elements['service-captcha-response'])`); got != "undefined" {
		t.Errorf("a field before the work is done: %s", got)
	}

	s.hasCalled()

	page.Click("input[name=email]")
	s.is(page, "done")
	page.Eval(read, &button)

	testkit.Equal(t, fmt.Sprint(button), "{BUTTON button checkbox Verified true Verified}", "done: %v", button)

	s.hasCalled("config", "verify")
	token := page.Text(`document.querySelector('form > input[type=hidden][name=service-captcha-response]').value`)
	if got := page.Text(`seen.join()`); token == "" || got != "" {
		t.Errorf("token %q; the page got the events %s", token, got)
	}

	page.Click("#send")
	form := <-s.submitted
	if len(form) != 2 || form.Get("service-captcha-response") != token || len(form["service-captcha-response"]) != 1 {
		t.Errorf("the form sent %v, want an e-mail and the token %s", form, token)
	}
	if !s.verify(token) || s.verify(token) {
		t.Error("the token must be valid once")
	}

	noMessages(t, page)
}

func TestChromiumCaptchaStartsAtTheFirstInteraction(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("") + `<p id="outside" tabindex="0">outside</p>`})
	page := s.browser.NewPage()
	for name, interaction := range map[string]string{
		"focus":           `document.querySelector('[name=email]').focus()`,
		"pointer":         `document.querySelector('#form').dispatchEvent(new PointerEvent('pointerdown', {bubbles: true}))`,
		"autofill":        `document.querySelector('[name=email]').dispatchEvent(new Event('input', {bubbles: true}))`,
		"key":             `document.querySelector('[name=email]').dispatchEvent(new KeyboardEvent('keydown', {key: 'a', bubbles: true}))`,
		"press":           `document.querySelector('.service-captcha button').click()`,
		"stopped by page": `(document.querySelector('label').addEventListener('focusin', (e) => e.stopImmediatePropagation(), true), document.querySelector('[name=email]').focus())`,
	} {
		before := len(s.called())
		page.Goto("http://www.shop.test/")
		s.is(page, "idle")
		page.Eval(`document.querySelector('#outside').focus()`, nil)
		s.is(page, "idle")

		testkit.Equal(t, len(s.called()), before, "%s: called without interaction", name)

		page.Eval(interaction, nil)
		s.is(page, "done")
	}
}

func TestChromiumCaptchaComesLate(t *testing.T) {
	late := strings.ReplaceAll(captchaForm(""), captchaScript, "")
	s := newCaptchaSite(t, map[string]string{"/": late, "/autofocus": strings.Replace(late, "<input", "<input autofocus", 1)})
	load := `document.body.append(Object.assign(document.createElement('script'), {src: '` + captchaOrigin + `/captcha.js'}))`
	page := s.browser.Open("http://www.shop.test/autofocus")
	page.WaitFor(`document.activeElement.name === 'email'`)
	page.Eval(load, nil)
	s.is(page, "idle")
	page.Do(browsertest.Press("a"))
	s.is(page, "done")
	page = s.browser.Open("http://www.shop.test/")

	// Interact before the script is loaded.
	page.Click("input[name=email]")
	page.Eval(load, nil)
	s.is(page, "done")
}

func TestChromiumCaptchaTestCredentials(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	s.key = captchaKey{model.TestSitekey, model.TestSitekeySecret}
	page := s.browser.Open("http://other.test/")
	s.is(page, "idle")
	page.Click("input[name=email]")
	s.is(page, "done")

	if token := page.Text(widgetToken); !s.verify(token) || s.verify(token) {
		t.Error("the token must be valid once")
	}
}

func TestChromiumCaptchaWithoutAForm(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{
		"/": `<html lang="en"><div class="service-captcha" data-sitekey="SITEKEY">Loading</div>` + captchaScript,
	})

	page := s.browser.Open("http://www.shop.test/")
	s.is(page, "done")

	if got := page.Text(`document.querySelector('.service-captcha > input[name=service-captcha-response]').value`); !s.verify(got) {
		t.Errorf("token %q is not valid", got)
	}
	testkit.Equal(t, page.Text(`document.querySelector('.service-captcha').textContent`), "VerifiedVerified", "the widget shows")

	noMessages(t, page)
}

func TestChromiumCaptchaAttributes(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{
		"/field":     captchaForm(`data-response-field-name="g-recaptcha-response"`),
		"/empty":     captchaForm(`data-response-field-name="" data-api="" data-lang=""`),
		"/proxy":     captchaForm(`data-api="http://proxy.example.test/"`),
		"/bad-api":   captchaForm(`data-api="http://:x"`),
		"/missing":   strings.ReplaceAll(captchaForm(""), `data-sitekey="SITEKEY"`, ""),
		"/unknown":   strings.ReplaceAll(captchaForm(""), "SITEKEY", "svck_aaaaaaaaaaaaaaaaaaaaaaaa"),
		"/loadtwice": captchaForm("") + captchaScript + `<script defer src="http://proxy.example.test/captcha.js"></script>`,
	})

	start := func(path string) *browsertest.Page {
		t.Helper()
		page := s.browser.Open("http://www.shop.test" + path)
		s.is(page, "idle")
		page.Click("input[name=email]")
		return page
	}

	page := start("/field")
	s.is(page, "done")
	page.Click("#send")

	if form := <-s.submitted; !s.verify(form.Get("g-recaptcha-response")) || form.Has("service-captcha-response") {
		t.Errorf("the form sent %v", form)
	}

	page = start("/empty")
	s.is(page, "done")

	if !s.verify(page.Text(widgetToken)) {
		t.Error("empty attributes must count as missing")
	}

	page = start("/proxy")
	s.is(page, "done")

	for _, r := range page.Requests() {
		if strings.Contains(r.URL, "/api/") && !strings.HasPrefix(r.URL, "http://proxy.example.test/api/v1/pow/") {
			t.Errorf("data-api names another origin than that of %s", r.URL)
		}
	}

	page = start("/loadtwice")
	s.is(page, "done")

	if got := page.Text(`[document.querySelectorAll('.service-captcha button').length, document.querySelectorAll('input[type=hidden]').length].join()`); got != "1,1" {
		t.Errorf("with three copies of the script there are %s buttons and fields", got)
	}

	// These errors are shown at once.
	s.shows(s.browser.Open("http://www.shop.test/missing"), failed, "The captcha is set up incorrectly: data-sitekey is missing")
	s.shows(start("/bad-api"), failed, "The captcha is set up incorrectly: data-api is no address")

	for _, address := range []string{"http://www.shop.test/unknown", "http://other.test/empty"} {
		page = s.browser.Open(address)
		s.is(page, "idle")
		page.Click("input[name=email]")
		s.is(page, "error")

		if note := page.Text(widgetNote); !strings.HasPrefix(note, "The captcha is set up incorrectly: ") {
			t.Errorf("%s: %q", address, note)
		}
	}

	// A sitekey may be added later.
	page = s.browser.Open("http://www.shop.test/missing")
	s.is(page, "error")
	page.Eval(fmt.Sprintf(`document.querySelector('.service-captcha').dataset.sitekey = %q`, s.key.sitekey), nil)
	s.is(page, "idle")
	page.Click("input[name=email]")
	s.is(page, "done")
}

// TestChromiumCaptchaIsNotMovedByNames checks that an image, whose name becomes a property of the
// document, does not change the captcha's origin.
func TestChromiumCaptchaIsNotMovedByNames(t *testing.T) {
	image := `<img name="currentScript" src="http://proxy.example.test/captcha.png">`
	s := newCaptchaSite(t, map[string]string{
		"/":       image + captchaForm(""),
		"/twice":  image + image + captchaForm(""),
		"/module": image + strings.Replace(captchaForm(""), "<script defer", `<script type="module"`, 1),
	})

	page := s.browser.NewPage()
	for path := range s.pages {
		page.Goto("http://www.shop.test" + path)
		s.is(page, "idle")
		page.Click("input[name=email]")
		s.is(page, "done")

		if !s.verify(page.Text(widgetToken)) {
			t.Errorf("%s: the token is not valid", path)
		}

		for _, r := range page.Requests() {
			if strings.HasPrefix(r.URL, "http://proxy.example.test/") && r.URL != "http://proxy.example.test/captcha.png" {
				t.Errorf("%s: %s %s", path, r.Method, r.URL)
			}
		}
	}
}

func TestChromiumCaptchaReset(t *testing.T) {
	widget := `<div class="service-captcha" id="%s" data-sitekey="SITEKEY"></div>`
	s := newCaptchaSite(t, map[string]string{
		"/": `<html lang="en"><form id="first">` + fmt.Sprintf(widget, "a") + `</form><form id="second">` + fmt.Sprintf(widget, "b") + `</form>` +
			fmt.Sprintf(widget, "c") + `<p id="empty"></p>` + captchaScript,
	})

	page := s.browser.Open("http://www.shop.test/")
	page.WaitFor(`document.querySelector('#c').matches('.is-done')`)
	tokens := func() (all []string) {
		page.WaitFor(`document.querySelectorAll('.service-captcha.is-done').length === 3`)
		page.Eval(`['#first > input', '#second > input', '#c > input'].map((each) => document.querySelector(each).value)`, &all)
		return all
	}

	var count int

	// Widgets that have not started are reset too, which starts them.
	page.Eval(`serviceCaptcha.reset()`, &count)
	old := tokens()
	if count != 3 || old[0] == old[1] || old[1] == old[2] || !s.verify(old[0]) || !s.verify(old[1]) || !s.verify(old[2]) {
		t.Errorf("%d widgets were reset; tokens %v", count, old)
	}

	for _, test := range []struct {
		target string
		count  int
		which  string // widgets with a new token afterwards
	}{
		{"", 3, "abc"},
		{"undefined", 3, "abc"},
		{`'#b'`, 1, "b"},
		{`document.getElementById('a')`, 1, "a"},
		{`'.service-captcha'`, 3, "abc"},
		{`'form'`, 2, "ab"},
		{`document.querySelector('#second')`, 1, "b"},
		{`'#nothing'`, 0, ""},
		{`'#empty'`, 0, ""},
		{`document.querySelector('#nothing')`, 0, ""},
		{`'not a selector!'`, 0, ""},
		{`''`, 0, ""},
		{`document.createElement('div')`, 0, ""},
		{`document.querySelectorAll('form')`, 2, "ab"},
		{`[document.querySelector('#b'), document.querySelector('#nothing'), 'text']`, 1, "b"},
		{`new Set([document.querySelector('#c')])`, 1, "c"},
		{`document.forms`, 2, "ab"},
		{`document`, 3, "abc"},
		{`[]`, 0, ""},
		{`null`, 0, ""},
		{`{}`, 0, ""},
		{`7`, 0, ""},
	} {
		if page.Eval(`serviceCaptcha.reset(`+test.target+`)`, &count); count != test.count {
			t.Errorf("reset(%s) = %d, want %d", test.target, count, test.count)
		}

		now := tokens()
		which := ""
		for i := range now {
			if now[i] != old[i] {
				which += string(rune('a' + i))
			}
		}

		testkit.Equal(t, which, test.which, "reset(%s) gave new tokens to", test.target)

		old = now
	}

	// Within the same task the field is empty and the widget is no longer done.
	if got := page.Text(`(serviceCaptcha.reset('#a'), document.querySelector('#first > input').value + document.querySelector('#a').className +
		document.querySelector('#a button').getAttribute('aria-checked'))`); got != "service-captcha is-verifyingfalse" {
		t.Errorf("after reset: %q", got)
	}

	// A widget that was added in the same task counts.
	page.Eval(fmt.Sprintf(`(document.querySelector('#empty').append(document.createRange().createContextualFragment(
		'<div class="service-captcha" id="d" data-sitekey="%s"></div>')), serviceCaptcha.reset('#d'))`, s.key.sitekey), &count)

	testkit.Equal(t, count, 1, "reset of a new widget")

	page.WaitFor(`document.querySelector('#d').matches('.is-done')`)
	noMessages(t, page)
}

func TestChromiumCaptchaFollowsItsSitekey(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	ours, other := s.key, captchaKey{model.TestSitekey, model.TestSitekeySecret}
	page := s.browser.Open("http://www.shop.test/")
	set := func(sitekey string) {
		t.Helper()
		page.Eval(fmt.Sprintf(`document.querySelector('.service-captcha').dataset.sitekey = %q`, sitekey), nil)
	}

	is := func(key captchaKey) {
		t.Helper()
		s.is(page, "done")
		s.key = key
		if !s.verify(page.Text(widgetToken)) {
			t.Errorf("the token is not valid for %s", key.sitekey)
		}
	}

	s.is(page, "idle")

	// Change the sitekey before any interaction.
	set(other.sitekey)
	s.is(page, "idle")
	s.hasCalled()
	page.Click("input[name=email]")
	is(other)

	// Setting the same sitekey changes nothing.
	set(other.sitekey)
	s.is(page, "done")
	s.hasCalled("config", "verify")

	// The old token is cleared at once, and a new one follows without interaction.
	if got := page.Text(fmt.Sprintf(`(async () => { document.querySelector('.service-captcha').dataset.sitekey = %q; await 0
		return document.querySelector('.service-captcha').className + %s })()`, ours.sitekey, widgetToken)); got != "service-captcha is-verifying" {
		t.Errorf("with another sitekey: %s", got)
	}

	is(ours)
	s.hasCalled("config", "verify", "config", "verify")

	// Change the sitekey during the verification, whose token must be discarded.
	release := make(chan struct{})
	s.answer("/verify", func(http.ResponseWriter) bool { <-release; return false })
	page.Eval(`serviceCaptcha.reset()`, nil)

	for len(s.called()) < 6 {
		page.WaitFor("true")
	}

	set(other.sitekey)
	close(release)
	is(other)

	// Change from an error, to an error, and back.
	for _, bad := range []string{"svck_aaaaaaaaaaaaaaaaaaaaaaaa", ""} {
		set(bad)
		s.is(page, "error")

		testkit.Equal(t, page.Text(widgetToken), "", "with the sitekey %q the field still", bad)
	}

	page.Eval(`document.activeElement.blur()`, nil)
	set(ours.sitekey)
	s.is(page, "idle")
	set("svck_aaaaaaaaaaaaaaaaaaaaaaaa")
	page.Click("input[name=email]")
	s.is(page, "error")
	set(other.sitekey)
	is(other)
}

func TestChromiumCaptchaFollowsThePage(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": `<html lang="en"><main></main>` + captchaScript})
	page := s.browser.NewPage()
	page.Before(`{ // records all listeners and intervals
		window.live = new Set(); let names = 0; const name = new WeakMap()
		const key = (target, type, f, o) => { for (const each of [target, f]) if (!name.has(each)) name.set(each, ++names); return [name.get(target), type, name.get(f), !!o] .join() }
		const add = EventTarget.prototype.addEventListener, remove = EventTarget.prototype.removeEventListener
		EventTarget.prototype.addEventListener = function (type, f, o) { if (this === window || this instanceof Node) live.add(key(this || window, type, f, o)); return add.call(this, type, f, o) }
		EventTarget.prototype.removeEventListener = function (type, f, o) { live.delete(key(this || window, type, f, o)); return remove.call(this, type, f, o) }
		const start = window.setInterval, stop = window.clearInterval
		window.setInterval = (...a) => { const id = start(...a); live.add('interval ' + id); return id }
		window.clearInterval = (id) => { live.delete('interval ' + id); stop(id) }
	}`)

	page.Goto("http://www.shop.test/")
	page.WaitFor(`window.serviceCaptcha`)
	before := page.Text(`[...live].join(' ')`)
	page.Eval(fmt.Sprintf(`document.querySelector('main').append(document.createRange().createContextualFragment(
		'<form id="one"><input name="q"><div class="service-captcha" data-sitekey="%[1]s"></div></form><form id="two"></form>'))`, s.key.sitekey), nil)

	s.is(page, "idle")
	page.Click("input[name=q]")
	s.is(page, "done")
	token := page.Text(`document.querySelector('#one > input[type=hidden]').value`)

	// A widget that is moved to another form moves its field too, and restores what the page
	// removes.
	page.Eval(`document.querySelector('#two').append(document.querySelector('.service-captcha'))`, nil)
	page.WaitFor(`document.querySelector('#two > input[type=hidden]') && !document.querySelector('#one > input[type=hidden]')`)
	page.Eval(`(document.querySelector('.service-captcha').textContent = '', document.querySelector('#two > input').remove())`, nil)
	page.WaitFor(`document.querySelector('#two > input[type=hidden]') && document.querySelector('.service-captcha button')`)

	if got := page.Text(widgetToken); got != token {
		t.Errorf("token %q, want still %q", got, token)
	}

	// A removed widget leaves nothing behind: no field, no timer, no listener and no call.
	page.Eval(`(window.taken = document.querySelector('.service-captcha'), serviceCaptcha.reset(), taken.remove())`, nil)
	page.WaitFor(`!taken.firstChild && taken.className === 'service-captcha' && !document.querySelector('input[type=hidden]')`)
	page.WaitFor(`!document.querySelector('main').textContent.trim()`)

	if after := page.Text(`(document.querySelector('#two').remove(), [...live].filter((each) => !each.includes('click')).join(' '))`); after != before {
		t.Errorf("left behind: %s; before: %s", after, before)
	}

	var count int
	if page.Eval(`serviceCaptcha.reset()`, &count); count != 0 {
		t.Errorf("%d widgets are left", count)
	}

	// Inserted again, outside of a form, it starts.
	page.Eval(`document.querySelector('main').append(taken)`, nil)
	s.is(page, "done")

	if got := page.Text(`document.querySelector('.service-captcha > input').value`); !s.verify(got) {
		t.Errorf("token %q is not valid", got)
	}

	noMessages(t, page)
}

func TestChromiumCaptchaInACopyOfThePage(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	page := s.browser.Open("http://www.shop.test/")
	s.is(page, "idle")
	page.Click("input[name=email]")
	s.is(page, "done")
	page.Eval(`document.body.replaceWith(document.body.cloneNode(true))`, nil)
	s.is(page, "idle")

	if got := page.Text(`[document.querySelectorAll('.service-captcha button').length, document.querySelectorAll('input[type=hidden]').length].join()`); got != "1,0" {
		t.Errorf("the copy has %s buttons and fields", got)
	}

	page.Click("input[name=email]")
	s.is(page, "done")
	page.Click("#send")

	if form := <-s.submitted; len(form["service-captcha-response"]) != 1 || !s.verify(form.Get("service-captcha-response")) {
		t.Errorf("the copy has sent %v", form)
	}
}

func TestChromiumCaptchaTwoWidgetsInOneForm(t *testing.T) {
	widget := `<div class="service-captcha" data-sitekey="SITEKEY"></div>`
	s := newCaptchaSite(t, map[string]string{"/": `<html lang="en"><form action="/submit" method="post">` + widget + widget +
		`<button id="send">Send</button></form>` + captchaScript})
	page := s.browser.Open("http://www.shop.test/")
	s.is(page, "idle")
	page.Eval(`document.querySelector('button').focus()`, nil)
	page.WaitFor(`document.querySelectorAll('.service-captcha.is-done').length === 2`)
	page.Click("#send")
	form := <-s.submitted
	sent := form["service-captcha-response"]
	if len(sent) != 2 || sent[0] == sent[1] || !s.verify(sent[0]) || !s.verify(sent[1]) {
		t.Errorf("the form sent %v, want two valid tokens", form)
	}
}
