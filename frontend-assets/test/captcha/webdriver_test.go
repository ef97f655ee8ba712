package captcha_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestChromiumCaptchaReportsWebdriver checks the body of /pow/config.
func TestChromiumCaptchaReportsWebdriver(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	page := s.browser.NewPage()

	var mu sync.Mutex
	var bodies []string
	s.mu.Lock()
	s.intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/config") {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			mu.Lock()
			bodies = append(bodies, string(body))
			mu.Unlock()
		}
		return false
	}
	s.mu.Unlock()

	for _, test := range []struct{ name, value, want string }{
		{"true", "true", `,"webdriver":true`},
		{"false", "false", ""},
		{"missing", "undefined", ""},
		{"a page's own property", "'yes'", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer page.Before(`Object.defineProperty(Navigator.prototype, 'webdriver', {get: () => ` + test.value + `})`)()
			page.Goto("http://www.shop.test/")
			s.is(page, "idle")
			page.Click("input[name=email]")
			s.is(page, "done")

			mu.Lock()
			defer mu.Unlock()
			if want := `{"sitekey":"` + s.key.sitekey + `"` + test.want + `}`; len(bodies) != 1 || bodies[0] != want {
				t.Errorf("sent %q, want %s", bodies, want)
			}
			bodies = nil
		})
	}
}
