package captcha_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/browsertest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// challenges records the answers of /pow/config.
type challenges struct {
	mu           sync.Mutex
	difficulties []uint32 // 0 for a refused one
	refused      http.Header
}

// watchChallenges lets the data plane answer, and records its challenges.
func (s *captchaSite) watchChallenges() *challenges {
	var c challenges
	s.mu.Lock()
	defer s.mu.Unlock()

	s.intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/config") || r.Method != http.MethodPost {
			return false
		}
		answer := httptest.NewRecorder()
		s.handler.ServeHTTP(answer, r)

		var challenge struct{ Difficulty uint32 }
		_ = json.Unmarshal(answer.Body.Bytes(), &challenge)
		c.mu.Lock()
		c.difficulties = append(c.difficulties, challenge.Difficulty)
		if answer.Code == http.StatusTooManyRequests {
			c.refused = answer.Header()
		}
		c.mu.Unlock()

		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
		return true
	}
	return &c
}

// last returns the difficulty of the last challenge, or 0 if it was refused.
func (c *challenges) last() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.difficulties[len(c.difficulties)-1]
}

// TestChromiumCaptchaMeetsAutomation opens the form as automated browsers do by default, under each
// policy, and as a person's browser and phone.
func TestChromiumCaptchaMeetsAutomation(t *testing.T) {
	// Puppeteer and Playwright leave this agent of headless Chromium as it is.
	const headless = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/145.0.0.0 Safari/537.36"
	const phone = "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/145.0.0.0 Mobile Safari/537.36"
	const hides = `Object.defineProperty(Navigator.prototype, 'webdriver', {get: () => false})`

	for _, test := range []struct {
		name, agent, before string
		factor              uint32 // of the work under HARDER
	}{
		{"headless", headless, "", 4},
		{"headless that hides webdriver", headless, hides, 4},
		{"webdriver with another agent", browsertest.UserAgent, "", 4},
		{"person", browsertest.UserAgent, hides, 1},
		{"phone", phone, hides, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newCaptchaSite(t, map[string]string{"/": captchaForm("")}, browsertest.WithUserAgent(test.agent))
			got := s.watchChallenges()
			page := s.browser.NewPage()
			if test.before != "" {
				defer page.Before(test.before)()
			}
			solve := func(state string) uint32 {
				t.Helper()
				page.Goto("http://www.shop.test/")
				page.Click("input[name=email]")
				s.is(page, state)
				return got.last()
			}

			testkit.Equal(t, solve("done"), captchaDifficulty, "ALLOW: difficulty")
			s.treat(model.AutomationHarder)
			if d := solve("done"); d != test.factor*captchaDifficulty {
				t.Errorf("HARDER: difficulty %d, want %d times the base", d, test.factor)
			}

			s.treat(model.AutomationLimit)
			for range 5 {
				testkit.Equal(t, solve("done"), captchaDifficulty, "LIMIT, within the limit: difficulty")
			}
			if test.factor == 1 {
				solve("done")
				return
			}
			if d := solve("error"); d != 0 || got.refused.Get("Retry-After") == "" {
				t.Errorf("LIMIT, beyond the limit: difficulty %d, %v", d, got.refused)
			}
		})
	}
}
