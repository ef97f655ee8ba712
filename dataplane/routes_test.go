package dataplane

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tallygate/tallygate/dataplane/analytics"
	"github.com/tallygate/tallygate/dataplane/captcha"
	assets "github.com/tallygate/tallygate/frontend-assets"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestUnknownPaths checks that unknown paths are 404 in JSON for each method, without a redirect, and
// that pages may read the answer where they may read the endpoint's. Scripts accept GET and HEAD
// alone.
func TestUnknownPaths(t *testing.T) {
	h := Handler(Options{
		Analytics: new(analytics.Service), Captcha: new(captcha.Service), Log: slog.New(slog.DiscardHandler), Assets: assets.Handler(),
	})
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

		"/": {"not_found", true}, "/nonsense": {"not_found", true}, "/svc.js/": {"not_found", true}, "/SVC.JS": {"not_found", true},
		"/svc.000000000000.js": {"not_found", true}, "/api/v2": {sentence, true},
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"} {
			request := httptest.NewRequest(method, "http://stats.example"+path, strings.NewReader("{}"))
			request.Header.Set("Origin", "https://shop.example")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, request)

			var answer map[string]string
			err := json.Unmarshal(w.Body.Bytes(), &answer)
			isRight := err == nil && len(answer) == 1 && answer["error"] == want.error || method == "HEAD"
			if w.Code != http.StatusNotFound || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Allow") != "" || !isRight {
				t.Errorf("%s %s: %d %v %s, want 404 with %q", method, path, w.Code, w.Header(), w.Body, want.error)
			}

			allowed := w.Header().Get("Access-Control-Allow-Origin") == "https://shop.example"
			if allowed != want.cors || want.cors && w.Header().Get("Vary") != "Origin" {
				t.Errorf("%s %s: headers %v, want CORS %v", method, path, w.Header(), want.cors)
			}
		}
	}

	for method, want := range map[string]int{"GET": 200, "HEAD": 200, "POST": 405} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/svc.js", nil))
		testkit.Equal(t, w.Code, want, "%s of a script", method)
	}
}
