package test

import (
	"net/http"
	"testing"

	"github.com/tallygate/tallygate/tools/dbtest"
)

// TestPaths checks the status of the paths of the data listener. TestUnknownPaths of dataplane checks
// the answers to unknown ones.
func TestPaths(t *testing.T) {
	t.Parallel()

	p := start(t, settingsFor(t, dbtest.SQLiteURL(t)), []string{"control", "data"})
	send := func(method, path, body string) (*http.Response, string) {
		t.Helper()
		return exchange(t, stays, method, "http://"+p.addr["data"]+path, body, map[string]string{"Origin": "https://shop.example"})
	}

	for _, test := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/siteverify", "{}", 200},
		{"POST", "/api/v1/pow/siteverify", "{}", 400},
		{"POST", "/api/v1/pow/config", "{}", 400},
		{"POST", "/api/v1/pow/config?x=/", "{}", 400},
		{"POST", "/collect.php", "{", 400},
		{"GET", "/captcha.js", "", 200},
		{"GET", "/recaptcha/api.js?onload=f&render=explicit", "", 200},
		{"GET", "/recaptcha/enterprise.js", "", 200},
		{"GET", "/1/api.js", "", 200},
		{"GET", "/turnstile/v0/api.js", "", 200},
		{"POST", "/turnstile/v0/api.js", "", 405},
		{"GET", "/widget", "", 200},
		{"GET", "/widget/?sitekey=x", "", 200},
		{"GET", "/widget/frame.js", "", 200},
		{"GET", "/widget/captcha-worker.js", "", 200},
		{"GET", "/widget/captcha.wasm", "", 200},
		{"GET", "/widget/captcha-scalar.wasm", "", 200},
		{"GET", "/1", "", 404},
		{"GET", "/10", "", 404},
		{"POST", "/recaptcha/api/siteverify", "{}", 200},
		{"POST", "/1/siteverify", "{}", 200},
		{"POST", "/turnstile/v0/siteverify", "{}", 200},
		{"POST", "/checksiteconfig?sitekey=x", "", 200},
		{"OPTIONS", "/checksiteconfig", "", 204},
		{"GET", "/checksiteconfig", "", 405},
		{"POST", "/widget/api/v1/pow/config", "{}", 400},
		{"POST", "/widget/api/v1/pow/verify", "{}", 400},
		{"GET", "/nope.js", "", 404},
		{"POST", "//collect.php", "{}", 404},
		{"OPTIONS", "/x/../api/v1/pow/siteverify", "", 404},
		{"GET", "/healthz", "", 200},
		{"GET", "/readyz", "", 200},
	} {
		if response, body := send(test.method, test.path, test.body); response.StatusCode != test.status {
			t.Errorf("%s %s: %d %.100s, want %d", test.method, test.path, response.StatusCode, body, test.status)
		}
	}
}
