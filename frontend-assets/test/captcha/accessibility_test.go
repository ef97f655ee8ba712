package captcha_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// captchaStates lists the states with a page and an action that lead to the state and keep it.
var captchaStates = []struct{ state, path, do string }{
	{"idle", "/", `0`},
	{"verifying", "/hangs", `document.querySelector('[name=email]').focus()`},
	{"done", "/", `document.querySelector('[name=email]').focus()`},
	{"error", "/missing", `0`},
}

// newStatesSite returns a site with a page for each state, which follows the preferred colour
// scheme.
func newStatesSite(t *testing.T) *captchaSite {
	form := `<meta name="color-scheme" content="light dark">` + captchaForm("")
	hangs := strings.Replace(form, "data-sitekey", `data-api="http://www.shop.test/hangs" data-sitekey`, 1)
	s := newCaptchaSite(t, map[string]string{"/": form, "/hangs": hangs, "/missing": strings.Replace(form, "data-sitekey", "data-x", 1)})
	return s
}

// preferring emulates media features, given as pairs of name and value.
func preferring(page *browsertest.Page, features ...string) {
	var all []*emulation.MediaFeature
	for i := 0; i < len(features); i += 2 {
		all = append(all, &emulation.MediaFeature{Name: features[i], Value: features[i+1]})
	}
	page.Do(emulation.SetEmulatedMedia().WithFeatures(all))
}

func TestChromiumCaptchaHasNoBarriers(t *testing.T) {
	s := newStatesSite(t)
	for _, scheme := range []string{"light", "dark"} {
		page := s.newStatePage(scheme)
		barriers := page.Barriers
		if scheme == "dark" {
			barriers = page.ColorBarriers
		}

		for _, test := range captchaStates {
			s.showState(page, test.state, test.path, test.do)

			for _, barrier := range barriers("html") {
				t.Errorf("%s, %s: %s", test.state, scheme, barrier)
			}
		}

		page.Close()
	}
}

// newStatePage opens a page with a preferred colour scheme, light or dark.
func (s *captchaSite) newStatePage(scheme string) *browsertest.Page {
	s.t.Helper()
	page := s.browser.NewPage()
	preferring(page, "prefers-color-scheme", scheme)
	// Requests to this API stay unanswered.
	page.Before(browsertest.ObserveFetch(`(url, ...rest) => String(url).includes('/hangs/') ? new Promise(() => {}) : get(url, ...rest)`))
	return page
}

// showState navigates the page to a widget in the given state.
func (s *captchaSite) showState(page *browsertest.Page, state, path, do string) {
	s.t.Helper()
	page.Goto("http://www.shop.test" + path)
	page.WaitFor(`document.querySelector('.service-captcha button')`)
	page.Eval(do, nil)
	s.is(page, state)
}

func TestChromiumCaptchaForScreenReadersAndKeyboards(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	s.answer("/config", times(1<<30, http.StatusNotFound))
	page := s.browser.Open("http://www.shop.test/")
	s.is(page, "idle")

	// announced returns what a screen reader reports: role, name, state and the note beneath.
	announced := func() string {
		t.Helper()

		var lines []string
		page.Do(chromedp.ActionFunc(func(ctx context.Context) error {
			nodes, err := accessibility.GetFullAXTree().Do(ctx)
			if err != nil {
				return err
			}

			for _, node := range nodes {
				role := strings.Trim(string(node.Role.Value), `"`)
				if node.Ignored || role != "checkbox" && role != "status" {
					continue
				}

				line := role

				if node.Name != nil {
					line += " " + string(node.Name.Value)
				}
				if node.Description != nil && string(node.Description.Value) != `""` {
					line += " (" + string(node.Description.Value) + ")"
				}

				for _, p := range node.Properties {
					if p.Name == "checked" || p.Name == "focused" || p.Name == "live" {
						line += fmt.Sprintf(" %s=%s", p.Name, p.Value.Value)
					}
				}

				lines = append(lines, line)
			}

			return nil
		}))

		return strings.ReplaceAll(strings.Join(lines, "; "), `"`, "")
	}
	testkit.Equal(t, announced(), "checkbox I am human checked=false; status  live=polite", "idle")

	// With the keyboard alone, focus the field, then the widget, which has failed, and press it.
	page.Do(browsertest.Press(kb.Tab))
	s.is(page, "error")
	page.Do(browsertest.Press(kb.Tab))

	if got := announced(); got != "checkbox Verification failed. Try again (The captcha is set up incorrectly: the server's reason) focused=true checked=false; status  live=polite" {
		t.Errorf("error: %s", got)
	}
	if got := page.Text(`document.querySelector('[role=status]').textContent + getComputedStyle(document.activeElement).outlineStyle`); got != "The captcha is set up incorrectly: the server's reasonsolid" {
		t.Errorf("error: beneath, and the focus ring: %s", got)
	}

	s.answer("/nothing", nil)
	page.Do(browsertest.Press(" "))
	s.is(page, "done")

	testkit.Equal(t, announced(), "checkbox Verified focused=true checked=true; status  live=polite", "done")

	// Pressed again, the widget neither solves again nor submits the form.
	page.Do(browsertest.Press(kb.Enter))
	page.Do(browsertest.Press(kb.Tab))

	if got := page.Text(`document.activeElement.id`); got != "send" {
		t.Errorf("after the widget comes %q, want the form's own button", got)
	}

	s.is(page, "done")
	s.hasCalled("config", "config", "verify")

	select {
	case form := <-s.submitted:
		t.Errorf("the form was sent: %v", form)
	default:
	}
}

// TestChromiumCaptchaAnnouncesAnErrorOnce checks that retries do not write the same note again,
// because screen readers announce a note whenever it is written.
func TestChromiumCaptchaAnnouncesAnErrorOnce(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	s.answer("/config", times(5, http.StatusServiceUnavailable))
	page := s.browser.NewPage()
	page.Before(withoutPauses)
	page.Goto("http://www.shop.test/")
	s.is(page, "idle")
	page.Eval(`(window.announced = [], new MutationObserver((records) => records.forEach(({addedNodes}) => announced.push(...[...addedNodes].map((each) => each.textContent))))
		.observe(document.querySelector('[role=status]'), {childList: true, characterData: true, subtree: true}))`, nil)

	page.Click("input[name=email]")
	s.is(page, "done")
	s.hasCalled("config", "config", "config", "config", "config", "config", "verify")

	testkit.Equal(t, page.Text(`announced.join('; ')`), unreachable+"; Verified", "announced")
}

func TestChromiumCaptchaRespectsPreferences(t *testing.T) {
	s := newStatesSite(t)
	page := s.newStatePage("light")
	s.showState(page, "verifying", "/hangs", `document.querySelector('[name=email]').focus()`)

	animation := `getComputedStyle(document.querySelector('.svc-captcha-box')).animationName`
	testkit.Equal(t, page.Text(animation), "svc-captcha-turn", "animation")

	colours := `((s) => s.backgroundColor + ' ' + s.color)(getComputedStyle(document.querySelector('.service-captcha button')))`
	testkit.Equal(t, page.Text(colours), "rgb(255, 255, 255) rgb(0, 0, 0)", "light")

	preferring(page, "prefers-reduced-motion", "reduce", "prefers-color-scheme", "dark")

	testkit.Equal(t, page.Text(animation), "none", "with reduced motion: animation")
	testkit.Equal(t, page.Text(colours), "rgb(18, 18, 18) rgb(255, 255, 255)", "dark")

	// A page with a fixed light scheme has a light widget.
	page.Eval(`document.documentElement.style.colorScheme = 'light'`, nil)

	testkit.Equal(t, page.Text(colours), "rgb(255, 255, 255) rgb(0, 0, 0)", "on a light page")

	// A page's rules for buttons do not apply to the widget.
	page.Eval(`document.querySelector('#send').insertAdjacentHTML('beforebegin',
		'<style>button { color: red; background: red; text-transform: uppercase; padding: 9em; display: none } form button { color: red }</style>')`, nil)

	if got := page.Text(colours + ` + getComputedStyle(document.querySelector('.service-captcha button')).textTransform`); got != "rgb(255, 255, 255) rgb(0, 0, 0)none" {
		t.Errorf("with the page's rules for buttons: %s", got)
	}
}
