package captcha_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/tallygate/tallygate/dataplane/captcha/pow"
	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/db/model"
)

// TestTooManyChallenges: a network that asks on and on gets harder challenges and then none, with the time to come back. Only
// the address that the proxies vouch for counts.
func TestTooManyChallenges(t *testing.T) {
	p := newPlane(t, dbtest.Open(t, dbtest.SQLiteURL(t)))
	config := call{path: configPath, body: m{"sitekey": model.TestSitekey}, origin: siteOrigin}
	var last pow.Challenge
	for i := range 300 {
		config.client = "1.2.3.4, 198.51.100." + string(mustJSON(t, 1+i%200)) // the first hop is anybody's claim
		response, body := p.send(config)
		if err := json.Unmarshal([]byte(body), &last); err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("challenge %d: %d %s", i, response.StatusCode, body)
		}
	}
	if last.Difficulty < 30*difficulty {
		t.Errorf("difficulty %d after 300 challenges", last.Difficulty)
	}
	response := p.refusal(t, "the 301st", config, http.StatusTooManyRequests)
	if response.Header.Get("Retry-After") != "1" || response.Header.Get("Access-Control-Expose-Headers") != "Retry-After" {
		t.Errorf("headers %v", response.Header)
	}
	config.client = "203.0.113.77"
	if response, body := p.send(config); response.StatusCode != http.StatusOK {
		t.Errorf("another network: %d %s", response.StatusCode, body)
	}
}
