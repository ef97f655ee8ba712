package captcha_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/browsertest"
)

// replacingFetch returns a page for each way in which pages replace fetch. When its widget is done,
// a page submits the token, and goes to the next one.
func replacingFetch() (pages map[string]string, ways []string) {
	pages = map[string]string{"/end": ""}
	ways = slices.Sorted(maps.Keys(browsertest.ReplacedFetch))
	for i, way := range ways {
		next := "/end"
		if i+1 < len(ways) {
			next = fmt.Sprint("/", i+1)
		}
		pages[fmt.Sprint("/", i)] = fmt.Sprintf(`<html lang="en"><script>%s;
			addEventListener("service-captcha:verified", () => {
				const call = new XMLHttpRequest();
				call.open("POST", "/submit");
				call.setRequestHeader("Content-Type", "application/x-www-form-urlencoded");
				call.onload = () => { location.href = "%s" };
				call.send("way=%d&token=" + encodeURIComponent(serviceCaptcha.getResponse()));
			})</script><div class="service-captcha" data-sitekey="SITEKEY"></div>`, browsertest.ReplacedFetch[way], next, i) + captchaScript
	}
	return pages, ways
}

// hasSolvedWith waits for a valid token of each page of replacingFetch.
func (s *captchaSite) hasSolvedWith(ways []string) {
	s.t.Helper()

	for i, way := range ways {
		select {
		case form := <-s.submitted:
			if form.Get("way") != fmt.Sprint(i) || !s.verify(form.Get("token")) {
				s.t.Errorf("fetch %s: submitted %v, want a valid token", way, form)
			}
		case <-time.After(browsertest.Timeout):
			s.t.Fatalf("fetch %s: nothing was submitted", way)
		}
	}
}

// TestChromiumCaptchaReplacedFetch checks that the widget works on pages with a replaced fetch.
func TestChromiumCaptchaReplacedFetch(t *testing.T) {
	pages, ways := replacingFetch()
	s := newCaptchaSite(t, pages)
	page := s.browser.Open("http://www.shop.test/0")
	s.hasSolvedWith(ways)

	for _, r := range page.Requests() {
		if r.Method == "OPTIONS" {
			t.Errorf("preflight to %s", r.URL)
		}
	}
	if got := page.Console(); len(got) > 0 {
		t.Errorf("console %v", got)
	}
}

// TestFirefoxCaptchaReplacedFetch is TestChromiumCaptchaReplacedFetch in Firefox.
func TestFirefoxCaptchaReplacedFetch(t *testing.T) {
	pages, ways := replacingFetch()
	s := newCaptchaSite(t, pages)
	browsertest.OpenFirefox(t, "http://www.shop.test/0",
		browsertest.Host("captcha.example.test", s.URL), browsertest.Host("www.shop.test", s.numeric))
	s.hasSolvedWith(ways)
}

// TestChromiumCaptchaReplacedRequests checks that the note of a widget that reaches no server names
// the possible cause, on a page that replaces fetch and XMLHttpRequest.
func TestChromiumCaptchaReplacedRequests(t *testing.T) {
	s := newCaptchaSite(t, map[string]string{"/": captchaForm("")})
	page := s.browser.NewPage()
	page.Before(withoutPauses + `window.fetch = () => Promise.reject(new Error("no")); XMLHttpRequest.prototype.send = function () { this.onloadend() }`)
	page.Goto("http://www.shop.test/")
	s.is(page, "idle")
	page.Click("input[name=email]")
	s.shows(page, failed, unreachable+" (this page replaces fetch)")
}
