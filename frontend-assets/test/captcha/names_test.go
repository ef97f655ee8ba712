package captcha_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/testkit"
)

// manyForms is a page of forms whose fields have the names of a form's own properties, which they
// hide: forty in each form, and one form with all of them. The last form is a widget itself, with
// its fields outside. A page solves for one widget after the other, so more forms would take
// minutes on a busy computer.
const manyForms = `<html lang="en"><body><script>
	const names = [...new Set([HTMLFormElement, HTMLElement, Element, Node, EventTarget].flatMap((each) => Object.getOwnPropertyNames(each.prototype)))]
	const groups = [names]
	for (let i = 0; i < names.length; i += 40) groups.push(names.slice(i, i + 40))
	window.names = names
	const fields = (group) => group.map((name) => '<input name="' + name + '" value="mine">').join('')
	groups.forEach((group, i) => document.body.insertAdjacentHTML('beforeend', '<form method="post" action="/submit">' + fields(group) +
		'<div class="service-captcha" data-sitekey="SITEKEY"></div><button id="send' + i + '">Send</button></form>'))
	document.body.insertAdjacentHTML('beforeend', '<form id="own" class="service-captcha" data-sitekey="SITEKEY"></form>' +
		fields(names).replace(/<input/g, '<input form="own"'))
	window.forms = groups.length + 1
	window.drawn = 0
	new MutationObserver((records) => records.forEach((each) => each.addedNodes.forEach((node) => { if (node.className === 'svc-captcha') drawn++ })))
		.observe(document, {childList: true, subtree: true})
	window.all = (selector) => Document.prototype.querySelectorAll.call(document, selector)
</script>` + captchaScript

func TestChromiumCaptchaSurvivesEveryFieldName(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": manyForms})
	page := s.browser.Open("http://www.shop.test/")
	page.WaitFor(`all('.service-captcha.is-idle').length === forms || all('.is-error').length`)
	page.Eval(`all('form').forEach((form) => form instanceof HTMLFormElement && EventTarget.prototype.dispatchEvent.call(form, new Event('pointerdown')))`, nil)
	page.WaitFor(`all('.service-captcha.is-done').length === forms || all('.is-error').length`)

	var got struct {
		Names, Forms, Drawn, Errors int
		Lacking                     []string // first field names of the forms whose data lack a token
	}

	page.Eval(`({names: names.length, forms, drawn, errors: all('.is-error').length, lacking: [...all('form')]
		.filter((form) => !new FormData(form).get('service-captcha-response')).map((form) => [...new FormData(form).keys()][0])})`, &got)

	if got.Names < 300 || got.Forms != (got.Names+39)/40+2 {
		t.Fatalf("%d names in %d forms", got.Names, got.Forms)
	}
	if got.Drawn != got.Forms || got.Errors > 0 || len(got.Lacking) > 0 {
		t.Errorf("%d widgets were drawn %d times, %d failed; forms without a token begin with %q", got.Forms, got.Drawn, got.Errors, got.Lacking)
	}

	// Submit the form with all names.
	page.Click("#send0")
	form := <-s.submitted
	if len(form) != got.Names+1 || !s.verify(form.Get("service-captcha-response")) {
		t.Errorf("the form sent %d values and the token %q", len(form), form.Get("service-captcha-response"))
	}

	noMessages(t, page)
}

// TestChromiumCaptchaSurvivesEveryDocumentName runs on a page with images that hide every property
// of the document.
func TestChromiumCaptchaSurvivesEveryDocumentName(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("") + `<script>
		const add = Document.prototype.createElement
		for (const name of [Document, Node, EventTarget].flatMap((each) => Object.getOwnPropertyNames(each.prototype)))
			document.documentElement.append(Object.assign(add.call(document, 'img'), {name}))
		window.state = () => Document.prototype.querySelector.call(document, '.service-captcha').className
	</script>`})

	page := s.browser.Open("http://www.shop.test/")
	page.WaitFor(`state() === 'service-captcha is-idle' && document.querySelector instanceof HTMLElement`)
	page.Eval(`Document.prototype.querySelector.call(document, 'input[name=email]').focus()`, nil)
	page.WaitFor(`state() === 'service-captcha is-done'`)

	if token := page.Text(`serviceCaptcha.getResponse()`); !s.verify(token) {
		t.Errorf("the token %q is not valid", token)
	}

	noMessages(t, page)
}

// TestChromiumDropinIsNotMovedByNames is TestChromiumCaptchaIsNotMovedByNames for the loaders, with
// each element whose name becomes a property of the document. A loader that asks it for its address
// imports that server's file.
func TestChromiumDropinIsNotMovedByNames(t *testing.T) {
	const other = "http://proxy.example.test"
	pages := map[string]string{}
	for _, d := range dropins {
		src := `src="` + other + d.script + `"`
		image := `<img name="currentScript" ` + src + `>`
		marked := d.marked("", "")
		for name, element := range map[string]string{
			"img": image, "twice": image + image, "embed": `<embed name="currentScript" ` + src + `>`,
			"object": `<object name="currentScript" data="` + other + d.script + `"></object>`,
			"iframe": `<iframe name="currentScript" ` + src + `></iframe>`,
			"form":   `<form name="currentScript"><input name="src" value="` + other + d.script + `"></form>`,
		} {
			pages[d.path()+"/"+name] = element + marked
		}
		pages[d.path()+"/module"] = image + `<img name="querySelector">` + strings.Replace(marked, "<script async", `<script type="module"`, 1)
		pages[d.path()+"/folder"] = strings.Replace(marked, captchaOrigin+d.script, captchaOrigin+"/recaptcha/1"+d.script+"?x=/recaptcha/", 1)
	}
	s := newCaptchaSite(t, pages)

	// A proxy serves the captcha below a folder, too.
	s.intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		r.URL.Path = strings.TrimPrefix(r.URL.Path, "/recaptcha/1")
		return false
	}

	page := s.browser.NewPage()
	for _, d := range dropins {
		for path := range pages {
			if !strings.HasPrefix(path, d.path()+"/") {
				continue
			}

			before := len(page.Requests())
			page.Goto("http://www.shop.test" + path)
			page.WaitFor(`document.querySelectorAll('#captcha > .service-captcha').length`)
			page.Click("input[name=email]")
			if token := waitLogged(page, 1); !s.redeem(d.verify, token) {
				t.Errorf("%s: the token %q is not valid", path, token)
			}

			folder := captchaOrigin
			if strings.HasSuffix(path, "/folder") {
				folder += "/recaptcha/1"
			}
			isLoaded := false
			for _, r := range page.Requests()[before:] {
				isLoaded = isLoaded || r.URL == folder+"/captcha.js"
				if strings.HasPrefix(r.URL, other) && r.URL != other+d.script {
					t.Errorf("%s: %s %s", path, r.Method, r.URL)
				}
			}
			if !isLoaded {
				t.Errorf("%s: the widget was not loaded from %s", path, folder)
			}
		}
	}
}

// TestChromiumCaptchaIsNotSwitchedOffByAnID runs on pages where window.serviceCaptcha is an element
// with that id.
func TestChromiumCaptchaIsNotSwitchedOffByAnID(t *testing.T) {
	form := captchaForm("")
	s := newCaptchaSite(t, map[string]string{
		"/widget":  strings.Replace(form, `<div class`, `<div id="serviceCaptcha" class`, 1),
		"/wrapper": strings.Replace(form, `<main>`, `<main id="serviceCaptcha">`, 1),
		"/form":    strings.Replace(form, `<form id="form"`, `<form id="serviceCaptcha" name="serviceCaptcha"`, 1), // which has a reset()
		"/twice":   `<p id="serviceCaptcha"></p><p id="serviceCaptcha"></p>` + form,
		"/frame":   `<iframe name="serviceCaptcha"></iframe>` + form,
	})

	page := s.browser.NewPage()
	for path := range s.pages {
		page.Goto("http://www.shop.test" + path)
		s.is(page, "idle")
		page.Click("input[name=email]")
		s.is(page, "done")

		var count int
		if page.Eval(`serviceCaptcha.reset()`, &count); count != 1 {
			t.Errorf("%s: reset() = %d, want 1", path, count)
		}

		s.is(page, "done")
		page.Click("#send")

		if form := <-s.submitted; !s.verify(form.Get("service-captcha-response")) {
			t.Errorf("%s: the form sent %v", path, form)
		}

		// The form's own navigation must end before the next one starts.
		page.WaitFor("location.pathname === '/submit'")
	}
}

// TestChromiumCaptchaErrorsStayInTheirWidget breaks the browser's functions for one widget. The
// error must reach neither the page nor the other widgets.
func TestChromiumCaptchaErrorsStayInTheirWidget(t *testing.T) {
	widget := `<form id="%s"><input name="q"><div class="service-captcha" data-sitekey="SITEKEY"></div></form>`
	s := newCaptchaSite(t, map[string]string{"/": `<html lang="en">` + fmt.Sprintf(widget, "bad") + fmt.Sprintf(widget, "good") + captchaScript})

	const broken = "This browser cannot do the verification"
	for _, function := range []string{
		"Element.prototype.closest", "Element.prototype.querySelectorAll", "EventTarget.prototype.addEventListener",
		"Element.prototype.append",
	} {
		page := s.browser.NewPage()
		page.Before(`{ window.calls = 0
			const plain = ` + function + `
			` + function + ` = function (...all) {
				if (this instanceof Element && this.matches('#bad, #bad > .service-captcha')) { calls++; throw new TypeError('broken by the page') }
				return plain.apply(this, all)
			} }`)

		page.Goto("http://www.shop.test/")
		page.WaitFor(`document.querySelector('#bad .is-error') && document.querySelector('#good .is-idle')`)

		// If the view cannot be inserted into the element, only the class shows the error.
		want := failed + broken

		if function == "Element.prototype.append" {
			want = ""
		}
		testkit.Equal(t, page.Text(`document.querySelector('#bad .service-captcha').textContent`), want, "%s: the widget shows", function)

		page.Eval(`document.querySelector('#good input').focus()`, nil)
		page.WaitFor(`document.querySelector('#good .is-done')`)

		if token := page.Text(`serviceCaptcha.getResponse('#good')`); !s.verify(token) {
			t.Errorf("%s: the other widget's token %q is not valid", function, token)
		}

		var calls int
		if page.Eval("calls", &calls); calls < 1 || calls > 20 {
			t.Errorf("%s: called %d times for the broken widget", function, calls)
		}

		errors := 0
		for _, line := range page.Console() {
			if line.Level == "exception" {
				t.Errorf("%s: thrown into the page: %s", function, line.Text)
			}
			if strings.Contains(line.Text, "broken by the page") {
				errors++
			}
		}

		if errors != 1 {
			t.Errorf("%s: the error is %d times in the console, want once", function, errors)
		}

		page.Close()
	}
}

// TestChromiumCaptchaStopsRepairing checks that a page which removes the widget's content does not
// cause an endless loop.
func TestChromiumCaptchaStopsRepairing(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("") + `<script>
		window.removed = 0
		const widget = document.querySelector('.service-captcha')
		new MutationObserver(() => { if (widget.firstChild) { removed++; widget.textContent = '' } }).observe(widget, {childList: true})
	</script>`})

	page := s.browser.Open("http://www.shop.test/")
	page.WaitFor(`removed >= 100`)
	page.Eval(`document.querySelector('[name=email]').focus()`, nil)
	s.is(page, "done")
	var removed int

	// The widget repairs itself at most a hundred times between two ticks, and the focus is a tick.
	if page.Eval("removed", &removed); removed > 1000 {
		t.Errorf("drawn %d times", removed)
	}

	page.Click("#send")

	if form := <-s.submitted; !s.verify(form.Get("service-captcha-response")) {
		t.Errorf("the form sent %v", form)
	}
}

func TestChromiumCaptchaTrimsItsAttributes(t *testing.T) {
	attributes := strings.ReplaceAll(captchaForm(`data-response-field-name=" token " data-api=" `+captchaOrigin+` "`), `"SITEKEY"`, "\" SITEKEY\n\t\"")
	s := newCaptchaSite(t, map[string]string{"/": attributes})
	page := s.browser.Open("http://www.shop.test/")
	s.is(page, "idle")
	page.Click("input[name=email]")
	s.is(page, "done")
	page.Click("#send")

	form := <-s.submitted
	if len(form) != 2 || !s.verify(form.Get("token")) {
		t.Errorf("the form sent %v", form)
	}
}
