package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestDemoPurchaseChromium buys the kettle in a real browser after a campaign, and checks that the
// shop's back end receives a signed call. A second start of the demo, with another address and
// secret, must do the same.
func TestDemoPurchaseChromium(t *testing.T) {
	testkit.SkipLong(t, "Chromium")
	dir := t.TempDir()
	for i, run := range []string{"sqlite", "sqlite again", "postgres"} {
		t.Run(run, func(t *testing.T) {
			// The campaign names this run's page view among those of the history.
			campaign := fmt.Sprintf("spring-%d", i)
			settings := map[string]string{"TALLYGATE_DATA_DIR": dir, "TALLYGATE_DEMO_ADDR": "127.0.0.1:0"}

			if run == "postgres" {
				settings["TALLYGATE_DATA_DIR"], settings["TALLYGATE_DATABASE_URL"] = t.TempDir(), dbtest.PostgresURL(t)
			}

			p := start(t, settings, []string{"control", "data", "demo"}, "demo")
			defer p.kill()

			_, port, err := net.SplitHostPort(p.addr["demo"])
			testkit.NoError(t, err)

			shop := "http://demo.localhost:" + port
			page := browsertest.New(t, browsertest.Host("demo.localhost", "http://"+p.addr["demo"])).
				Open(shop + "/shop/kettle?utm_source=newsletter&utm_medium=email&utm_campaign=" + campaign)

			// Wait for the stored page view, and so for the script.
			page.WaitFor(`[...document.querySelectorAll('#rows tr')].some((tr) => tr.textContent.includes('` + campaign + `'))`)
			page.Click("#buy")
			page.WaitFor(`document.querySelector('#bought').textContent.startsWith('Bought as T-')`)
			var bought string
			page.Eval(`document.querySelector('#bought').textContent.split(/[ .]/)[2]`, &bought)
			page.Click(`#bought a`)
			page.WaitFor(`location.pathname === '/webhooks' && document.querySelectorAll('#calls tr').length > 0`)

			var cells []string
			page.Eval(`[...document.querySelectorAll('#calls tr:first-child td')].slice(1).map((td) => td.textContent)`,
				&cells)

			if got, want := strings.Join(cells, "; "),
				"purchase; "+bought+"; 39.9 EUR; email; newsletter / email / "+campaign+"; valid"; got != want {
				t.Errorf("the shop's back end received %q, want %q", got, want)
			}

			var body string
			page.Eval(`document.querySelector('#body').textContent`, &body)

			var call struct {
				Type    string
				SiteKey string `json:"site_key"`
				Path    string
			}
			if err := json.Unmarshal([]byte(body), &call); err != nil || call.Type != "conversion" ||
				call.Path != "/shop/kettle" || len(call.SiteKey) != 32 {
				t.Errorf("the call is %s, %v", body, err)
			}

			wantQuietConsole(t, page)

			for _, barrier := range page.Barriers("html") {
				t.Error(barrier)
			}
		})
	}
}

// TestDemoFormChromium fills in the demo's form in a real browser, and the shop's server verifies
// the token over HTTP. Then it checks that a repeated, a missing and a wrong token are refused.
func TestDemoFormChromium(t *testing.T) {
	testkit.SkipLong(t, "Chromium")
	p := start(t, map[string]string{"TALLYGATE_DATA_DIR": t.TempDir(), "TALLYGATE_DEMO_ADDR": "127.0.0.1:0"},
		[]string{"control", "data", "demo"}, "demo")
	_, port, err := net.SplitHostPort(p.addr["demo"])
	testkit.NoError(t, err)

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

	wantQuietConsole(t, page)

	for _, fault := range []struct{ name, token, want string }{
		{"the same token", token, "Refused: the token was used before"},
		{"no token", "", "Refused: the form came without a token"},
		{"another token", token[:len(token)-4] + "AAAA", "Refused: the token was used before, has expired or is none"},
	} {
		response, err := http.PostForm("http://"+p.addr["demo"]+"/contact",
			url.Values{"service-captcha-response": {fault.token}})
		testkit.NoError(t, err)

		answer, err := io.ReadAll(response.Body)
		response.Body.Close()

		if err != nil || !strings.Contains(string(answer), fault.want) {
			t.Errorf("%s: %v, the page is\n%s", fault.name, err, answer)
		}
	}
}
