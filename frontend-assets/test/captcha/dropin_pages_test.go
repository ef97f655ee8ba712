package captcha_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestChromiumDropinForcedForm stands for hCaptcha's plug-in of WordPress with the option "Force
// hCaptcha": it checks the sitekey, holds the form back until the textarea in the element has a
// value, and then sends it.
func TestChromiumDropinForcedForm(t *testing.T) {
	check := func(sitekey string) string {
		return captchaOrigin + "/checksiteconfig?host=www.shop.test&sitekey=" + sitekey + "&sc=1&swa=1&spst=0"
	}
	forced := `<title>Log in</title><form id="form" action="/submit" method="post"><input name="log">
		<div class="h-captcha" data-sitekey="SITEKEY" data-callback="onSolved" ATTRIBUTES></div><button id="send">Log in</button></form>
		<script>
		const form = document.forms.form, token = () => form.querySelector('.h-captcha textarea[name="h-captcha-response"]').value
		window.onSolved = () => { if (window.clicked) form.requestSubmit(document.querySelector('#send')) }
		form.addEventListener('submit', (event) => {
			if (token()) return
			event.preventDefault()
			window.clicked = true
			hcaptcha.execute()
		})
		</script>` + dropins[2].tag("?onload=loaded")
	s := newCaptchaSite(t, map[string]string{
		"/visible": strings.Replace(forced, "ATTRIBUTES", "", 1), "/invisible": strings.Replace(forced, "ATTRIBUTES", `data-size="invisible"`, 1),
	})
	page := s.browser.NewPage()

	for _, path := range []string{"/visible", "/invisible"} {
		page.Goto("http://www.shop.test" + path)
		page.WaitFor(`document.querySelector('.h-captcha textarea[name="h-captcha-response"]')`)
		for sitekey, want := range map[string]string{s.key.sitekey: `{"pass":true,"features":{}}`, "x": `{"pass":false,"error":"Unknown sitekey."}`} {
			if got := page.Text(fmt.Sprintf(`fetch(%q, {method: 'POST'}).then((r) => r.text()).then((text) => text.trim())`, check(sitekey))); got != want {
				t.Errorf("%s: checksiteconfig of %s: %s", path, sitekey, got)
			}
		}

		page.Click("#send")
		form := <-s.submitted
		if got := form["h-captcha-response"]; len(got) != 1 || len(form) != 3 || !s.redeem("/1/siteverify", got[0]) ||
			form.Get("g-recaptcha-response") != got[0] {
			t.Errorf("%s sent %v", path, form)
		}
	}
	noMessages(t, page)
}

// TestChromiumDropinContainers renders again into containers that a page has emptied, replaced by a
// copy, or moved.
func TestChromiumDropinContainers(t *testing.T) {
	s := newCaptchaSite(t, pagesOf(func(d dropin) string {
		return `<title>Containers</title>` + pageLog +
			`<form id="form" action="/submit" method="post"><div id="c"></div><button id="send">Send</button></form>` +
			d.tag("?render=explicit")
	}))
	page := s.browser.NewPage()

	for _, d := range dropins {
		page.Goto("http://www.shop.test" + d.path())
		page.WaitFor(`window.serviceCaptcha && window.` + strings.Split(d.global, ".")[0])
		page.Eval(`void (window.draw = () => `+d.global+`.render('c', {sitekey: '`+s.key.sitekey+
			`', callback: onToken}), window.c = () => document.querySelector('#c'))`, nil)

		ids := map[string]bool{}
		for n, change := range []string{``, `c().innerHTML = ''`, `c().firstChild.remove()`, `c().replaceWith(c().cloneNode(true))`,
			`form.innerHTML = form.innerHTML`, `form.innerHTML = '<div id="c"></div><button id="send">Send</button>'`} {
			page.Eval(`(() => { const form = document.querySelector('#form'); `+change+` })()`, nil)
			if n > 0 && strings.HasPrefix(change, "c().i") {
				for _, target := range []string{"", "last", "'c'"} {
					if got := page.Text(`'' + (` + d.global + `.reset(` + target + `), ` + d.global + `.getResponse(` + target + `) || '')`); got != "" {
						t.Errorf("%s, %s: the widget that is over is found by %q, and has the token %q", d.name, change, target, got)
					}
				}
			}

			id := page.Text(`'' + (window.last = draw())`)
			page.Eval(`document.querySelector('#form').dispatchEvent(new Event('focusin'))`, nil)
			if ids[id] || page.Text(`'' + draw()`) != id {
				t.Errorf("%s, %s: the id is %s, before %v", d.name, change, id, ids)
			}
			ids[id] = true

			page.WaitFor(fmt.Sprintf(`document.querySelector('#c [name="%s"]').value`, d.field))
			var widgets, fields int
			page.Eval(`document.querySelectorAll('.service-captcha').length`, &widgets)
			page.Eval(fmt.Sprintf(`document.querySelectorAll('[name="%s"]').length`, d.field), &fields)
			if widgets != 1 || fields != 1 {
				t.Errorf("%s, %s: %d widgets and %d fields", d.name, change, widgets, fields)
			}
		}

		// A button keeps its widget where a page wraps the button, and not where a page replaces
		// it.
		var got struct {
			Wrapped, Replaced bool
			Left              int
		}
		page.Eval(`(() => {
			const button = document.createElement('button'), wrapper = document.createElement('p'), draw = (element) => `+d.global+
			`.render(element, {sitekey: 'x'})
			document.body.append(button)
			const id = draw(button)
			button.replaceWith(wrapper)
			wrapper.append(button)
			const wrapped = draw(button) === id
			const copy = button.cloneNode()
			button.replaceWith(copy)
			const replaced = draw(copy) !== id
			return {wrapped, replaced, left: document.querySelectorAll('body > [data-svc]').length}
		})()`, &got)
		if !got.Wrapped || !got.Replaced || got.Left > 0 {
			t.Errorf("%s: the widget of a button: %+v", d.name, got)
		}

		page.Click("#send")
		if form := <-s.submitted; len(form[d.field]) != 1 || !s.redeem(d.verify, form.Get(d.field)) {
			t.Errorf("%s: the form sent %v", d.name, form)
		}
	}
	noMessages(t, page)
}

// TestChromiumDropinCopied sends a form whose content a page has replaced by a copy, without
// rendering again.
func TestChromiumDropinCopied(t *testing.T) {
	s := newCaptchaSite(t, pagesOf(func(d dropin) string { return d.marked("", "") }))
	page := s.browser.NewPage()

	for _, d := range dropins {
		page.Goto("http://www.shop.test" + d.path())
		page.WaitFor(`document.querySelector('#captcha > .service-captcha')`)
		page.Click("input[name=email]")
		first := waitLogged(page, 1)
		page.Eval(`(() => { const form = document.querySelector('#form'); form.innerHTML = form.innerHTML })()`, nil)
		page.Click("input[name=email]")
		renewed := func(before string) string {
			field := fmt.Sprintf(`document.querySelector('#captcha [name="%s"]').value`, d.field)
			page.WaitFor(fmt.Sprintf(`!['', %q].includes(%s)`, before, field))
			return page.Text(field)
		}
		second := renewed(first)
		page.Eval(`document.forms.form.reset()`, nil)
		renewed(second)
		page.Click("#send")
		if form := <-s.submitted; len(form[d.field]) != 1 || !s.redeem(d.verify, form.Get(d.field)) {
			t.Errorf("%s: the form sent %v", d.name, form)
		}
	}
	noMessages(t, page)
}

// TestChromiumDropinEvaluated runs scripts whose text a loader evaluates, while the loader is the
// current script and the captcha's own element stays on the page, after an element with a similar
// address.
func TestChromiumDropinEvaluated(t *testing.T) {
	s := newCaptchaSite(t, pagesOf(func(d dropin) string {
		inert := strings.Replace(d.tag("?hl=de"), "<script", `<script type="text/plain"`, 1)
		similar := `<script type="text/plain" src="/x` + d.script + `on?from=` + d.script + `"></script>`
		return strings.Replace(d.marked("", ""), d.tag(""), similar+inert, 1) + `<script src='data:text/javascript,
			fetch("` + captchaOrigin + d.script +
			`").then((r) => r.text()).then((text) => { const loader = document.createElement("script"); loader.textContent = text; document.head.append(loader) })'></script>`
	}))
	page := s.browser.NewPage()

	for _, d := range dropins {
		page.Goto("http://www.shop.test" + d.path())
		page.WaitFor(`document.querySelector('#captcha > .service-captcha')`)
		page.Click("input[name=email]")
		token := waitLogged(page, 1)
		if label := page.Text(widgetLabel); !strings.HasPrefix(label, "Bestätigt") || !s.redeem(d.verify, token) {
			t.Errorf("%s: label %q, calls %v", d.name, label, logged(page))
		}
	}
	noMessages(t, page)
}

// TestChromiumDropinShadowRoot checks that a page's author learns why a widget in a shadow root
// does not work, and that one in a slot works.
func TestChromiumDropinShadowRoot(t *testing.T) {
	s := newCaptchaSite(t, pagesOf(func(d dropin) string {
		return `<title>Shadow</title>` + pageLog + `<section id="host"><div id="slotted"></div></section><script>
			document.querySelector('#host').attachShadow({mode: 'open'}).innerHTML = '<slot></slot><div id="inner"></div>'</script>` +
			d.tag("?render=explicit")
	}))

	for _, d := range dropins {
		page := s.browser.Open("http://www.shop.test" + d.path())
		page.WaitFor(`window.serviceCaptcha && window.` + strings.Split(d.global, ".")[0])
		page.Eval(`void `+d.global+`.render('slotted', {sitekey: '`+s.key.sitekey+`', callback: onToken})`, nil)
		if token := waitLogged(page, 1); !s.redeem(d.verify, token) {
			t.Errorf("%s: calls %v", d.name, logged(page))
		}
		if console := page.Console(); len(console) > 0 {
			t.Errorf("%s: console %v", d.name, console)
		}

		page.Eval(`void `+d.global+`.render(document.querySelector('#host').shadowRoot.querySelector('#inner'), {sitekey: 'x'})`, nil)
		page.Eval(`0`, nil)
		want := strings.Split(d.global, ".")[0] + ": does not work in a shadow root"
		if console := page.Console(); len(console) != 1 || console[0].Text != want {
			t.Errorf("%s: console %v, want %q", d.name, console, want)
		}
		page.Close()
	}
}

// TestChromiumDropinFormReset resets a form, which empties its textareas: the widget gets a fresh
// token, and the page gets no call of its expired-callback. A cancelled reset changes nothing. The
// form has a field named "contains".
func TestChromiumDropinFormReset(t *testing.T) {
	s := newCaptchaSite(t, pagesOf(func(d dropin) string { return d.marked("", "") }))
	page := s.browser.NewPage()

	for _, d := range dropins {
		page.Goto("http://www.shop.test" + d.path())
		page.WaitFor(`document.querySelector('#captcha > .service-captcha')`)
		page.Click("input[name=email]")
		first := waitLogged(page, 1)
		page.Eval(`document.forms.form.insertAdjacentHTML('beforeend', '<input type="hidden" name="contains">')`, nil)
		page.Eval(`document.forms.form.addEventListener('reset', (event) => event.preventDefault(), {once: true})`, nil)
		page.Eval(`document.forms.form.reset(), new Promise((done) => setTimeout(done))`, nil)
		testkit.Equal(t, page.Text(d.global+`.getResponse()`), first, "%s: a cancelled reset changed the token to", d.name)
		page.Eval(`document.forms.form.reset()`, nil)
		page.WaitFor(fmt.Sprintf(`!['', %q].includes(document.querySelector('#captcha [name="%s"]').value)`, first, d.field))
		page.Click("input[name=email]")
		if second := waitLogged(page, 2); second == "expired" || second == first || !s.redeem(d.verify, second) {
			t.Errorf("%s: calls %v", d.name, logged(page))
		}
	}
	noMessages(t, page)
}
