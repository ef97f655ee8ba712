package main

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/frontend-assets/browsertest"
)

// TestDemoFormChromium fills in the demo's form in a real browser, and the shop's server verifies
// the token over HTTP. Then it checks that a repeated, a missing and a wrong token are refused.
func TestDemoFormChromium(t *testing.T) {
	p := start(t, map[string]string{"TALLYGATE_DATA_DIR": t.TempDir(), "TALLYGATE_DEMO_ADDR": "127.0.0.1:0"},
		[]string{"control", "data", "demo"}, "demo")
	_, port, err := net.SplitHostPort(p.addr["demo"])
	if err != nil {
		t.Fatal(err)
	}

	browser := browsertest.New(t, browsertest.Host("demo.localhost", "http://"+p.addr["demo"]))
	open := func() *browsertest.Page {
		page := browser.Open("http://demo.localhost:" + port + "/contact")
		page.WaitFor(`document.querySelector('.service-captcha.is-idle')`)
		page.Click("textarea")
		page.WaitFor(`document.querySelector('.service-captcha.is-done')`)
		return page
	}

	// Use a separate page, because axe-core violates the page's policy.
	for _, barrier := range open().Barriers("html") {
		t.Error(barrier)
	}

	page := open()
	var token string
	page.Eval(`(document.querySelector('textarea').value = 'Hello', document.querySelector('[name=service-captcha-response]').value)`, &token)
	page.Click("main form button:not([role])")
	page.WaitFor(`document.querySelector('.result')`)
	var result string
	page.Eval(`document.querySelector('.result').textContent`, &result)

	if !strings.HasPrefix(result, "Accepted: ") || !strings.Contains(result, `"valid":true`) {
		t.Errorf("the shop shows %q", result)
	}

	for _, message := range page.Console() {
		t.Errorf("the page's console shows %s: %s", message.Level, message.Text)
	}

	for _, fault := range []struct{ name, token, want string }{
		{"the same token", token, "Refused: the token was used before"},
		{"no token", "", "Refused: the form came without a token"},
		{"another token", token[:len(token)-4] + "AAAA", "Refused: the token was used before, has expired or is none"},
	} {
		response, err := http.PostForm("http://"+p.addr["demo"]+"/contact",
			url.Values{"service-captcha-response": {fault.token}})
		if err != nil {
			t.Fatal(err)
		}

		answer, err := io.ReadAll(response.Body)
		response.Body.Close()

		if err != nil || !strings.Contains(string(answer), fault.want) {
			t.Errorf("%s: %v, the page is\n%s", fault.name, err, answer)
		}
	}
}
