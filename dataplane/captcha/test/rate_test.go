package captcha_test

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/captcha"
	"github.com/tallygate/tallygate/dataplane/captcha/pow"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world/planetest"
	"github.com/tallygate/tallygate/web"
)

// TestTooManyChallenges checks that a network that requests many challenges gets harder ones and
// then none, with a Retry-After. Only the address that the trusted proxies report counts.
func TestTooManyChallenges(t *testing.T) {
	t.Parallel()
	p := newPlane(t, dbtest.Open(t, dbtest.SQLiteURL(t)))
	config := call{Path: configPath, Body: m{"sitekey": model.TestSitekey}, Origin: siteOrigin}

	var last pow.Challenge
	for i := range 300 {
		// The first hop may be forged by the client.
		config.Client = "1.2.3.4, 198.51.100." + string(mustJSON(t, 1+i%200))
		response, body := p.Send(config)
		if err := json.Unmarshal([]byte(body), &last); err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("challenge %d: %d %s", i, response.StatusCode, body)
		}
	}

	if last.Difficulty < 30*planetest.Difficulty {
		t.Errorf("difficulty %d after 300 challenges", last.Difficulty)
	}

	response := p.refusal(t, "the 301st", config, http.StatusTooManyRequests)
	if response.Header.Get("Retry-After") != "1" || response.Header.Get("Access-Control-Expose-Headers") != "Retry-After" {
		t.Errorf("headers %v", response.Header)
	}

	config.Client = "203.0.113.77"
	if response, body := p.Send(config); response.StatusCode != http.StatusOK {
		t.Errorf("another network: %d %s", response.StatusCode, body)
	}
}

// TestSolvedWorkCountsLess checks that a network that solves its challenges gets a lower difficulty
// than one that only requests them, and that a renewal counts least. Refused and repeated solutions
// change nothing.
func TestSolvedWorkCountsLess(t *testing.T) {
	t.Parallel()
	p := newPlane(t, dbtest.Open(t, dbtest.SQLiteURL(t)))
	const office, other = "203.0.113.1", "198.51.100.1"
	ask := func(client string) (c pow.Challenge) {
		response, body := p.Send(call{Path: configPath, Body: m{"sitekey": model.TestSitekey}, Client: client})
		if err := json.Unmarshal([]byte(body), &c); err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", response.StatusCode, body)
		}
		return c
	}

	answer := func(client string, c pow.Challenge, change uint64, status int) {
		nonce, err := pow.Solve(c)
		testkit.NoError(t, err)

		body := m{"sitekey": model.TestSitekey, "challenge": c.Challenge, "nonce": nonce ^ change}
		if response, text := p.Send(call{Path: verifyPath, Body: body, Client: client}); response.StatusCode != status {
			t.Fatalf("%d %s, want %d", response.StatusCode, text, status)
		}
	}

	var challenges []pow.Challenge
	for range 31 {
		challenges = append(challenges, ask(office))
	}

	for _, c := range challenges {
		answer(office, c, 1, http.StatusBadRequest)
	}

	testkit.Equal(t, ask(office).Difficulty, 4*planetest.Difficulty, "32 challenges, all refused: difficulty")

	for range 40 {
		ask(other)
	}

	answer(office, challenges[0], 0, http.StatusOK)

	for range 40 {
		answer(office, challenges[0], 0, http.StatusBadRequest)
		answer(other, challenges[0], 0, http.StatusBadRequest)
	}

	testkit.Equal(t, ask(office).Difficulty, 4*planetest.Difficulty, "one of 33 answered, 40 times: difficulty")
	testkit.Equal(t, ask(other).Difficulty, 4*planetest.Difficulty, "41 challenges of the other network: difficulty")

	for _, c := range challenges[1:] {
		answer(office, c, 0, http.StatusOK)
	}

	// 31 solved challenges count 7.75, and 3 more are not solved.
	testkit.Equal(t, ask(office).Difficulty, planetest.Difficulty, "31 of 34 answered: difficulty")

	// 31 renewals count for one challenge.
	p.Clock.Add(4 * time.Minute)

	for range 31 {
		answer(office, ask(office), 0, http.StatusOK)
	}

	if got := ask(office).Difficulty; got > 3*planetest.Difficulty/2 {
		t.Errorf("after 31 renewals: difficulty %d, want at most %d", got, 3*planetest.Difficulty/2)
	}
}

// TestBaseDifficultyOfSharedAddresses checks that challenges for an address that many clients
// share, behind an unknown proxy or a hop that hides them from a trusted one, are neither refused
// nor harder, however many there are.
func TestBaseDifficultyOfSharedAddresses(t *testing.T) {
	t.Parallel()
	for name, trusted := range map[string][]netip.Prefix{
		"unknown proxy":  nil,
		"hidden clients": {netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8")},
	} {
		t.Run(name, func(t *testing.T) {
			d := dbtest.Open(t, dbtest.SQLiteURL(t))
			p := newPlaneWith(t, d, testkit.NewClock(noon), captcha.StoreTimeout, func(o *captcha.Options) {
				clients := web.NewClients(trusted, o.Log, time.Now)
				o.ClientAddr, o.IsShared = clients.Addr, clients.Shared
			})
			for i := range 400 {
				response, body := p.Send(call{Path: configPath, Body: m{"sitekey": model.TestSitekey}, Origin: siteOrigin, Client: "10.0.0.5"})
				var c pow.Challenge
				if err := json.Unmarshal([]byte(body), &c); err != nil || response.StatusCode != http.StatusOK || c.Difficulty != planetest.Difficulty {
					t.Fatalf("challenge %d: %d %s, want one of difficulty %d", i+1, response.StatusCode, body, planetest.Difficulty)
				}
			}
		})
	}
}
