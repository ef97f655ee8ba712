package test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/tallygate/tallygate/tools/dbtest"
)

// TestUnknownPaths checks that unknown paths are 404 in JSON for each method, without a redirect.
// Pages may read the response where they may read the endpoint's.
func TestUnknownPaths(t *testing.T) {
	t.Parallel()

	p := start(t, settingsFor(t, dbtest.SQLiteURL(t)), []string{"control", "data"})
	send := func(method, path, body string) (*http.Response, string) {
		t.Helper()
		return exchange(t, stays, method, "http://"+p.addr["data"]+path, body, map[string]string{"Origin": "https://shop.example"})
	}

	const sentence = "Unknown path: there is no such endpoint."
	for path, want := range map[string]struct {
		error string
		cors  bool
	}{
		"/siteverify/":                {sentence, false},
		"//siteverify":                {sentence, false},
		"/api/v1/pow/siteverify/":     {sentence, false},
		"/api/v1/pow/config/":         {sentence, true},
		"/api/v1//pow/verify":         {sentence, true},
		"/api/v1/pow/nope":            {sentence, true},
		"/API/v1/pow/config":          {sentence, true},
		"/api":                        {sentence, true},
		"/api/":                       {sentence, true},
		"/x/../api/v1/pow/siteverify": {sentence, false},
		"/recaptcha":                  {sentence, true},
		"/recaptcha/":                 {sentence, true},
		"/recaptcha/api2.js":          {sentence, true},
		"/recaptcha/api.js/":          {sentence, true},
		"/Recaptcha/api.js":           {sentence, true},
		"/recaptcha/api/siteverify/":  {sentence, false},
		"/1/secure-api.js":            {sentence, true},
		"/1/api":                      {sentence, true},
		"/1/siteverify/":              {sentence, false},
		"/turnstile/v1/api.js":        {sentence, true},
		"/turnstile/v0//siteverify":   {sentence, false},
		"/widget/nope.js":             {sentence, true},
		"/widget/api/v1/pow/config/":  {sentence, true},
		"/widget/api/v1/pow/nope":     {sentence, true},
		"/checksiteconfig/":           {sentence, true},
		"/CheckSiteConfig":            {sentence, true},
		"/collect.php/":               {"not_found", true},
		"//collect.php":               {"not_found", true},
		"/Collect.php":                {"not_found", true},
		"/server.php/":                {"not_found", false},
		"//server.php":                {"not_found", false},
	} {
		for _, method := range []string{"POST", "GET", "OPTIONS", "PUT"} {
			response, body := send(method, path, "{}")
			var answer map[string]string
			err := json.Unmarshal([]byte(body), &answer)
			if response.StatusCode != 404 || err != nil || len(answer) != 1 || answer["error"] != want.error ||
				response.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s %s: %d %s %q, want 404 with %q",
					method, path, response.StatusCode, response.Header.Get("Content-Type"), body, want.error)
			}

			allowed := response.Header.Get("Access-Control-Allow-Origin") == "https://shop.example"
			if allowed != want.cors || want.cors && response.Header.Get("Vary") != "Origin" {
				t.Errorf("%s %s: headers %v, want CORS %v", method, path, response.Header, want.cors)
			}
		}
	}

	// The endpoints and the assets remain available.
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
		{"GET", "/healthz", "", 200},
		{"GET", "/readyz", "", 200},
	} {
		if response, body := send(test.method, test.path, test.body); response.StatusCode != test.status {
			t.Errorf("%s %s: %d %.100s, want %d", test.method, test.path, response.StatusCode, body, test.status)
		}
	}
}
