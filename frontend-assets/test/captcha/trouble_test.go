package captcha_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// withoutPauses ends a page's pauses at once, and records their durations in the page's array
// "pauses".
const withoutPauses = `{
	const start = window.setTimeout
	window.pauses = []
	window.setTimeout = (f, ms, ...rest) => { if (ms > 400 && ms !== 20000) { pauses.push(ms); ms = 0 } return start(f, ms, ...rest) }
}`

// failed is the label of a widget that failed.
const failed = "Verification failed. Try again"

// refusal is the note when the server rejects the challenge or the work.
const refusal = "The verification was refused"

// unreachable is the note when the API does not answer.
const unreachable = "Server not reachable: captcha.example.test"

func TestChromiumCaptchaShowsWhatIsWrong(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	always := func(status int) func(http.ResponseWriter) bool { return times(1<<30, status) }
	page := s.browser.NewPage()
	remove := page.Before(withoutPauses)
	for _, test := range []struct {
		name   string
		path   string
		answer func(http.ResponseWriter) bool
		note   string
		calls  []string // before the error is shown
	}{
		{"wrong domain", "/config", always(403), "The captcha is set up incorrectly: the server's reason", []string{"config"}},
		{"unknown sitekey", "/config", always(404), "The captcha is set up incorrectly: the server's reason", []string{"config"}},
		{"wrong domain at the end", "/verify", always(403), "The captcha is set up incorrectly: the server's reason", []string{"config", "verify"}},
		{"malformed", "/config", always(400), refusal, []string{"config", "config"}},
		{"refused twice", "/verify", always(400), refusal, []string{"config", "verify", "config", "verify"}},
		{"down", "/config", always(503), unreachable, []string{"config", "config"}},
		{"down at the end", "/verify", always(502), unreachable, []string{"config", "verify", "verify"}},
		{
			name: "page of another server", path: "/config",
			answer: func(w http.ResponseWriter) bool { _, _ = w.Write([]byte("<h1>Hotel Wi-Fi</h1>")); return true },
			note:   unreachable, calls: []string{"config", "config"},
		},
		{
			name: "JSON of another server", path: "/config",
			answer: func(w http.ResponseWriter) bool { _, _ = w.Write([]byte(`{"challenge":7}`)); return true },
			note:   unreachable, calls: []string{"config", "config"},
		},
		{
			name: "no JSON object", path: "/verify",
			answer: func(w http.ResponseWriter) bool { _, _ = w.Write([]byte(`null`)); return true }, note: unreachable,
			calls: []string{"config", "verify", "verify"},
		},
		{"busy", "/config", times(1<<30, 429, "Retry-After", "3000"), "Too many attempts, please wait", []string{"config"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			// The wait counts by the wall clock, so it must not be shortened.
			if test.name == "busy" {
				remove()
			}

			before := len(s.called())
			s.answer(test.path, test.answer)
			page.Goto("http://www.shop.test/")
			s.is(page, "idle")
			page.Click("input[name=email]")
			s.shows(page, failed, test.note)

			if got := s.called()[before:]; len(got) < len(test.calls) || !slices.Equal(got[:len(test.calls)], test.calls) {
				t.Errorf("called %v, want %v", got, test.calls)
			}
			if got := page.Text(`[document.querySelector('button').getAttribute('aria-checked'), document.querySelector('input[type=hidden]')].join()`); got != "false," {
				t.Errorf("checked and field: %s", got)
			}

			s.answer("/nothing", nil)

			// The server asked to wait, so pressing the button does not help.
			if test.name != "busy" {
				page.Click(".service-captcha button")
				s.is(page, "done")

				testkit.Equal(t, page.Text(widgetNote), "Verified", "after the failure the note is still")
			}
		})
	}
}

func TestChromiumCaptchaRetries(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	open := func() *browsertest.Page {
		page := s.browser.NewPage()
		page.Before(withoutPauses)
		page.Goto("http://www.shop.test/")
		s.is(page, "idle")
		page.Eval(`(window.states = [], new MutationObserver(() => states.push(document.querySelector('.service-captcha').className.slice(19)))
			.observe(document.querySelector('.service-captcha'), {attributes: true, attributeFilter: ['class']}))`, nil)

		page.Click("input[name=email]")
		s.is(page, "done")
		return page
	}
	busy := times(1, http.StatusTooManyRequests)
	busyForAMinute := func(w http.ResponseWriter) bool {
		w.Header().Set("Retry-After", time.Now().Add(time.Minute).UTC().Format(http.TimeFormat))
		if busy(w) {
			return true
		}
		w.Header().Del("Retry-After")
		return false
	}

	for _, test := range []struct {
		name   string
		path   string
		answer func(http.ResponseWriter) bool
		states string
		pauses [][2]float64 // bounds in milliseconds
	}{
		{"refused once", "/verify", times(1, 400), "verifying done", nil},
		{"down once", "/config", times(1, 500), "verifying done", [][2]float64{{500, 1500}}},
		{"down for longer", "/config", times(4, 503), "verifying error done", [][2]float64{{500, 1500}, {1000, 3000}, {2000, 6000}, {4000, 12000}}},
		{"Retry-After of 429", "/config", times(1, 429, "Retry-After", "30"), "", [][2]float64{{30000, 30000}}},
		{"Retry-After of 503", "/config", times(1, 503, "Retry-After", "40"), "", [][2]float64{{40000, 40000}}},
		{"Retry-After as a date", "/config", busyForAMinute, "", [][2]float64{{20000, 61000}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.answer(test.path, test.answer)

			// These waits count by the wall clock, which must be advanced. They are so long that a busy
			// machine does not use them up before.
			if strings.HasPrefix(test.name, "Retry-After") {
				s.skipWait(t, test.path, test.answer, test.pauses[0])
				return
			}

			page := open()
			var pauses []float64
			page.Eval("pauses", &pauses)

			if got := page.Text(`states.filter((each, i) => each !== states[i - 1]).join(' ').replace(/is-/g, '')`); got != test.states ||
				len(pauses) != len(test.pauses) {
				t.Fatalf("states %q and pauses %v, want %q and %v", got, pauses, test.states, test.pauses)
			}

			for i, bounds := range test.pauses {
				if pauses[i] < bounds[0] || pauses[i] > bounds[1] {
					t.Errorf("pause %d was %v ms, want %v", i, pauses[i], bounds)
				}
			}

			page.Close()
		})
	}
}

// TestChromiumCaptchaRetriesWithoutLeaks checks that retries leave no listeners behind.
func TestChromiumCaptchaRetriesWithoutLeaks(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	s.answer("/config", times(20, http.StatusServiceUnavailable))
	page := s.browser.NewPage()
	page.Before(withoutPauses + `{
		const add = AbortSignal.prototype.addEventListener, remove = AbortSignal.prototype.removeEventListener
		const live = new Set()
		window.listening = window.most = 0
		const count = () => { listening = live.size; most = Math.max(most, listening) }
		AbortSignal.prototype.addEventListener = function (type, f, ...rest) { live.add(f); count(); return add.call(this, type, f, ...rest) }
		AbortSignal.prototype.removeEventListener = function (type, f, ...rest) { live.delete(f); count(); return remove.call(this, type, f, ...rest) }
	}`)

	page.Goto("http://www.shop.test/")
	s.is(page, "idle")
	page.Click("input[name=email]")
	s.is(page, "done")

	testkit.Equal(t, len(s.called()), 22, "calls")

	var most, left int
	page.Eval("most", &most)
	page.Eval("listening", &left)

	// At one time there are listeners for a call or the work, and for the engines within it.
	if most < 1 || most > 3 || left != 0 {
		t.Errorf("at most %d listeners at a time, %d in the end", most, left)
	}
}

// TestChromiumCaptchaWithoutAnOrigin runs the script inline in a page without an origin, so the
// captcha's origin is unknown.
func TestChromiumCaptchaWithoutAnOrigin(t *testing.T) {
	s := newCaptchaSite(t, nil)
	source, err := os.ReadFile("../../dist/captcha.js")
	testkit.NoError(t, err)

	script := "<script>" + string(source) + "</script>"
	form := "<!doctype html>" + strings.Replace(captchaForm(""), captchaScript, script, 1)
	page := s.browser.Open("data:text/html;charset=utf-8;base64," + base64.StdEncoding.EncodeToString([]byte(form)))
	s.is(page, "idle")

	testkit.Require(t, page.Text("location.origin"), "null", "the page's origin")

	page.Click("input[name=email]")
	s.shows(page, failed, "The captcha is set up incorrectly: data-api is missing")
	noMessages(t, page, "service-captcha: setup: data-api is missing")
}

func TestChromiumCaptchaHidesAShortWait(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	s.answer("/config", times(1, 503, "Retry-After", "1"))
	page := s.browser.Open("http://www.shop.test/")
	s.is(page, "idle")
	page.Eval(`new MutationObserver(() => { window.failed = window.failed || document.querySelector('.is-error') })
		.observe(document.querySelector('.service-captcha'), {attributes: true})`, nil)

	page.Click("input[name=email]")
	s.is(page, "done")

	testkit.Equal(t, page.Text(`String(window.failed)`), "null", "the widget has shown an error")
}

// skipWait opens the form while the server asks to wait, checks the duration of the widget's pause,
// and advances the clock to its end.
func (s *captchaSite) skipWait(t *testing.T, path string, answer func(http.ResponseWriter) bool, bounds [2]float64) {
	t.Helper()

	before := len(s.called())
	page := s.browser.NewPage()
	page.Before(movableClock + `{
		const start = window.setTimeout
		window.pauses = []
		window.setTimeout = (f, ms, ...rest) => { if (ms < 1800 || ms === 20000) return start(f, ms, ...rest); pauses.push(ms); window.wake = f }
	}`)

	page.Goto("http://www.shop.test/")
	s.is(page, "idle")
	page.Click("input[name=email]")
	s.is(page, "error")
	page.WaitFor(`pauses.length === 1`)

	var pause float64
	if page.Eval(`pauses[0]`, &pause); pause < bounds[0] || pause > bounds[1] {
		t.Errorf("pause %v ms, want %v", pause, bounds)
	}

	// Neither the button nor a new connection shortens the wait.
	page.Click(".service-captcha button")
	page.WaitFor(`pauses.length === 2`)
	page.Eval(`dispatchEvent(new Event('online'))`, nil)
	page.WaitFor(`pauses.length === 3`)

	testkit.Equal(t, len(s.called())-before, 1, "calls while the server asked to wait")

	page.Eval(`(later(pauses[0]), wake())`, nil)
	s.is(page, "done")
	page.Close()
}

// TestChromiumCaptchaIsRateLimited requests challenges up to the rate limit, and then opens the
// form as a visitor.
func TestChromiumCaptchaIsRateLimited(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	body := fmt.Sprintf(`{"sitekey":%q}`, s.key.sitekey)
	for {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/api/v1/pow/config", strings.NewReader(body))
		testkit.NoError(t, err)

		request.Header.Set("Origin", "http://www.shop.test")
		response, err := http.DefaultClient.Do(request)
		testkit.NoError(t, err)

		response.Body.Close()

		if response.StatusCode == http.StatusTooManyRequests {
			break
		}
		if response.StatusCode != http.StatusOK || len(s.called()) > 5000 {
			t.Fatalf("config answered %s after %d challenges", response.Status, len(s.called()))
		}
	}

	before := len(s.called())
	page := s.browser.NewPage()
	// The page records what its scripts can read of the responses.
	page.Before(`window.waits = [];` + browsertest.ObserveFetch(`async (...call) => {
		const response = await get(...call)
		if (response.status === 429) waits.push(Number(response.headers.get('retry-after')))
		return response
	}`))

	page.Goto("http://www.shop.test/")
	s.is(page, "idle")
	page.Click("input[name=email]")
	page.WaitFor(`waits.length > 0`)

	testkit.Equal(t, page.Text(`String(waits[0] >= 1)`), "true", "the page cannot read Retry-After")

	s.Clock.Add(time.Minute)
	s.is(page, "done")

	if n := len(s.called()) - before; n < 3 || !s.verify(page.Text(widgetToken)) {
		t.Errorf("%d calls, and the token must be valid", n)
	}
}

func TestChromiumCaptchaOfflineThenOnline(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	page := s.browser.NewPage()

	// Pauses never end.
	page.Before(`{ const start = window.setTimeout; window.setTimeout = (f, ms, ...rest) => ms > 400 && ms !== 20000 ? 0 : start(f, ms, ...rest) }`)
	page.Goto("http://www.shop.test/")
	s.is(page, "idle")
	connected := func(yes bool) {
		t.Helper()
		conditions := []*network.Conditions{{Offline: !yes, DownloadThroughput: -1, UploadThroughput: -1}}
		page.Do(chromedp.ActionFunc(func(ctx context.Context) error {
			if _, err := network.EmulateNetworkConditionsByRule(conditions).Do(ctx); err != nil {
				return err
			}
			return network.OverrideNetworkState(!yes, 0, -1, -1).Do(ctx)
		}))
	}

	connected(false)
	page.Click("input[name=email]")
	s.shows(page, failed, unreachable)
	s.hasCalled()

	// A retry by the visitor is shown, and fails again.
	page.Click(".service-captcha button")
	s.shows(page, failed, unreachable)
	connected(true)

	// The widget retries without a press.
	s.is(page, "done")

	if !s.verify(page.Text(widgetToken)) {
		t.Error("the token is not valid")
	}

	noMessages(t, page, "ERR_INTERNET_DISCONNECTED")
}

func TestChromiumCaptchaRenewsItsToken(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	open := func() *browsertest.Page {
		page := s.browser.NewPage()
		page.Before(movableClock + `addEventListener('DOMContentLoaded', () => { window.changes = 0; for (const type of ['input', 'change', 'submit'])
			addEventListener(type, () => changes++, true) })`)

		page.Goto("http://www.shop.test/")
		s.is(page, "idle")
		page.Eval(`document.querySelector('[name=email]').focus()`, nil)
		s.is(page, "done")

		return page
	}

	changed := func(page *browsertest.Page, old string) string {
		t.Helper()
		page.WaitFor(fmt.Sprintf(`%s && %[1]s !== %q`, widgetToken, old))
		return page.Text(widgetToken)
	}

	page := open()
	first := page.Text(widgetToken)
	s.later(page, 3*time.Minute)
	page.Eval("tick()", nil)
	s.hasCalled("config", "verify")
	s.later(page, 45*time.Second)

	// During the renewal the old token stays, nothing changes for the visitor, and no event is
	// fired.
	release := make(chan struct{})
	s.answer("/config", func(http.ResponseWriter) bool { <-release; return false })
	page.Eval(`(window.touched = 0, new MutationObserver(() => touched++).observe(document.querySelector('.service-captcha'),
		{attributes: true, childList: true, subtree: true, characterData: true, attributeFilter: ['class', 'aria-label', 'aria-checked']}))`, nil)

	// Further ticks do not start a second renewal.
	page.Eval("(tick(), tick())", nil)

	if got := page.Text(widgetToken + ` + document.querySelector('.service-captcha').className`); got != first+"service-captcha is-done" {
		t.Errorf("during renewal: %q, want %q, done", got, first)
	}

	close(release)
	second := changed(page, first)
	if !s.verify(first) || !s.verify(second) {
		t.Error("both tokens must be good")
	}
	if got := page.Text(`document.querySelector('.service-captcha').className + [changes, touched]`); got != "service-captcha is-done0,0" {
		t.Errorf("after renewal: %s", got)
	}

	s.hasCalled("config", "verify", "config", "verify")

	// After a sleep the token has expired. It is cleared at once, and replaced.
	s.answer("/config", func(http.ResponseWriter) bool { return false })
	s.later(page, 10*time.Minute)

	if got := page.Text(`(document.dispatchEvent(new Event('visibilitychange')), ` + widgetToken +
		` + document.querySelector('.service-captcha').className)`); got != "service-captcha is-verifying" {
		t.Errorf("after a sleep: %q", got)
	}

	third := changed(page, second)
	if !s.verify(third) {
		t.Error("the token after a sleep is not valid")
	}

	// A failing renewal shows no error before the token expires.
	s.answer("/config", times(1<<30, 503))
	s.later(page, 4*time.Minute)
	page.Eval("tick()", nil)

	// Wait for the first attempt.
	for n := len(s.called()); len(s.called()) < n+1; {
		page.WaitFor("true")
	}

	if got := page.Text(`document.querySelector('.service-captcha').className`); got != "service-captcha is-done" || page.Text(widgetToken) != third {
		t.Errorf("while renewal fails: %s", got)
	}

	s.later(page, 2*time.Minute)
	page.Eval("tick()", nil)
	s.is(page, "error")

	testkit.Equal(t, page.Text(widgetToken), "", "the field still")

	s.answer("/config", func(http.ResponseWriter) bool { return false })
	page.Click(".service-captcha button")

	if fourth := changed(page, third); !s.verify(fourth) {
		t.Error("the token after the outage is not valid")
	}

	// After the clock was set back the token's age is unknown, so the token is renewed.
	before := page.Text(widgetToken)
	page.Eval(`(later(-3600000), tick())`, nil)
	changed(page, before)
	noMessages(t, page, "503")
}

func TestChromiumCaptchaInAHiddenTab(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	page := s.browser.NewPage()
	page.Before(movableClock)
	page.Goto("http://www.shop.test/")
	s.is(page, "idle")
	page.Click("input[name=email]")
	s.is(page, "done")
	other := s.browser.NewPage()
	page.WaitFor("document.hidden")
	token := page.Text(widgetToken)
	renewed := func() bool {
		page.Eval("tick()", nil)
		calls := len(s.called())
		return calls > 0 && page.Text(`document.querySelector('.service-captcha').className`) != "" && calls%2 == 0 && token != page.Text(widgetToken)
	}

	for range 3 {
		s.later(page, 4*time.Minute)
		page.Eval("tick()", nil)
		page.WaitFor(fmt.Sprintf("%s && %[1]s !== %q", widgetToken, token))
		token = page.Text(widgetToken)
	}

	calls := len(s.called())

	// The form is unlikely to be sent soon.
	s.later(page, 2*time.Hour)

	if renewed() || len(s.called()) != calls {
		t.Error("a tab that has been hidden for hours still renews its token")
	}

	page.Front()
	page.WaitFor("!document.hidden")
	other.WaitFor("document.hidden")
	page.WaitFor(fmt.Sprintf("%s && %[1]s !== %q", widgetToken, token))

	if !s.verify(page.Text(widgetToken)) {
		t.Error("the token is not valid")
	}
}

func TestChromiumCaptchaAfterGoingBack(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	page := s.browser.Open("http://www.shop.test/")
	s.is(page, "idle")
	page.Click("input[name=email]")
	s.is(page, "done")
	token := page.Text(widgetToken)
	page.Eval(`(window.same = true, dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true})))`, nil)

	// The old token was probably sent with the form.
	page.WaitFor(fmt.Sprintf("%s && %[1]s !== %q", widgetToken, token))
	s.is(page, "done")
}
