package captcha_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/captcha/pow"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world/planetest"
)

// ask requests a challenge and returns its difficulty, or 0 with the time to wait.
func (p *plane) ask(key sitekey, client string, header http.Header, body m) (difficulty uint32, retryAfter string) {
	p.TB.Helper()
	if body == nil {
		body = m{}
	}
	body["sitekey"] = key.Sitekey.Sitekey

	response, text := p.Send(call{Path: configPath, Body: body, Client: client, Header: header})
	if response.StatusCode == http.StatusTooManyRequests {
		return 0, response.Header.Get("Retry-After")
	}

	var c pow.Challenge
	if err := json.Unmarshal([]byte(text), &c); err != nil || response.StatusCode != http.StatusOK {
		p.TB.Fatalf("config: %d %s, %v", response.StatusCode, text, err)
	}
	return c.Difficulty, ""
}

// TestPolicyActsOnEveryNode: a policy that is stored through one process is in force on another
// within a second or so, and an own network is exempt.
func TestPolicyActsOnEveryNode(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		first, second := newPlane(t, d), newPlane(t, d)
		key := first.Sitekey(first.Account("a", model.CaptchaPlanFree))
		for _, p := range []*plane{first, second} {
			if got, _ := p.ask(key, planetest.NextClient(), nil, nil); got != planetest.Difficulty {
				t.Errorf("without a policy: difficulty %d", got)
			}
		}

		base, own := 1, []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
		limit := model.AutomationLimit
		_, err := sites.New(d).Sitekeys.UpdatePolicy(t.Context(), key.AccountID, key.ID,
			sites.PolicyUpdate{BaseMS: &base, Automation: &limit, Exempt: &own})
		testkit.NoError(t, err)

		for i, p := range []*plane{first, second} {
			testkit.Await(t, fmt.Sprintf("the policy on node %d", i+1), func() bool {
				got, _ := p.ask(key, planetest.NextClient(), nil, nil)
				return got == model.PhoneRate
			})

			waits := 0
			for range 8 {
				if got, wait := p.ask(key, planetest.NextClient(), http.Header{"User-Agent": {"curl/8.5.0"}}, nil); got == 0 && wait != "" {
					waits++
				}
			}
			if waits != 3 {
				t.Errorf("node %d refuses %d of 8 challenges of automation", i+1, waits)
			}
			for range 20 {
				if got, _ := p.ask(key, "198.51.100.9", http.Header{"User-Agent": {"curl/8.5.0"}}, nil); got != model.PhoneRate {
					t.Fatalf("own network: difficulty %d", got)
				}
			}
		}
	})
}

// TestAutomationMeetsMoreWork: each sign of automation raises the work of a challenge, and a
// browser's absence of any does not.
func TestAutomationMeetsMoreWork(t *testing.T) {
	t.Parallel()
	const chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/145.0.0.0 Safari/537.36"
	const headless = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/145.0.0.0 Safari/537.36"

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p := newPlane(t, d)
		account := p.Account("a", model.CaptchaPlanFree)
		strict := true

		for _, test := range []struct {
			name      string
			header    http.Header
			body      m
			automated bool
			strict    bool // it counts in a strict policy
		}{
			{"browser", http.Header{"User-Agent": {chrome}, "Accept-Language": {"de"}}, nil, false, false},
			{
				name:   "browser with hints",
				header: http.Header{"User-Agent": {chrome}, "Accept-Language": {"de"}, "Sec-Ch-Ua": {`"Chromium";v="145", "Not:A-Brand";v="99"`}},
				body:   nil, automated: false, strict: false,
			},
			{"headless in the agent", http.Header{"User-Agent": {headless}, "Accept-Language": {"de"}}, nil, true, true},
			{
				name:   "headless in a hint",
				header: http.Header{"User-Agent": {chrome}, "Accept-Language": {"de"}, "Sec-Ch-Ua": {`"Chromium";v="145", "HeadlessChrome";v="145"`}},
				body:   nil, automated: true, strict: true,
			},
			{"webdriver", http.Header{"User-Agent": {chrome}, "Accept-Language": {"de"}}, m{"webdriver": true}, true, true},
			{"no webdriver", http.Header{"User-Agent": {chrome}, "Accept-Language": {"de"}}, m{"webdriver": false}, false, false},
			{"webdriver of another type", http.Header{"User-Agent": {chrome}, "Accept-Language": {"de"}}, m{"webdriver": "true"}, false, false},
			{"library", http.Header{"User-Agent": {"python-requests/2.32.3"}}, nil, true, true},
			{"no agent", http.Header{"User-Agent": {""}, "Accept-Language": {"de"}}, nil, false, true},
			{"no language", http.Header{"User-Agent": {chrome}}, nil, false, true},
			{
				name:   "search engine",
				header: http.Header{"User-Agent": {"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"}, "Accept-Language": {"de"}},
				body:   nil, automated: false, strict: false,
			},
		} {
			for _, isStrict := range []bool{false, true} {
				key := p.Sitekey(account)
				if isStrict {
					if _, err := sites.New(d).Sitekeys.UpdatePolicy(t.Context(), account, key.ID, sites.PolicyUpdate{Strict: &strict}); err != nil {
						t.Fatal(err)
					}
				}

				want := uint32(planetest.Difficulty)
				if test.automated || isStrict && test.strict {
					want *= 4
				}
				if got, _ := p.ask(key, planetest.NextClient(), test.header, test.body); got != want {
					t.Errorf("%s, strict %v: difficulty %d, want %d", test.name, isStrict, got, want)
				}
			}
		}

		if got, _ := p.ask(planetest.TestSitekey, planetest.NextClient(), http.Header{"User-Agent": {headless}}, nil); got != planetest.Difficulty {
			t.Errorf("the test sitekey: difficulty %d", got)
		}
	})
}

// TestAttackActsOnEveryNode: a process that sees an attack makes the work harder at once, others
// follow, the owner gets one mail with the figures, and the work returns to the base afterwards.
func TestAttackActsOnEveryNode(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		first := newPlane(t, d)
		second := newPlaneOn(t, d, nil, first.Clock)
		account := first.Account("a", model.CaptchaPlanFree)
		key := first.Sitekey(account)
		base := func(p *plane) (got uint32) {
			got, _ = p.ask(key, planetest.NextClient(), nil, nil)
			return got
		}

		// Two calm windows of ten minutes.
		for range 3 {
			testkit.Require(t, base(first), planetest.Difficulty, "calm: difficulty")
			first.Clock.Add(10 * time.Minute)
		}
		for range 399 {
			base(first)
		}
		testkit.Equal(t, base(first), 2*planetest.Difficulty, "the challenge number 400: difficulty")

		testkit.Await(t, "the other node follows", func() bool { return base(second) == 2*planetest.Difficulty })
		stored, err := sites.New(d).Sitekeys.SitekeyByID(t.Context(), account, key.ID)
		if a := stored.Attack; err != nil || a.Level != 1 || a.Networks < 400 || a.Challenges < 400 || a.Since != model.At(first.Clock.Now()) {
			t.Errorf("stored: %+v, %v", a, err)
		}

		// It is seen on and on, and stored again after a minute, without another mail.
		first.Clock.Add(2 * time.Minute)
		base(first)
		testkit.Await(t, "the attack is stored again", func() bool {
			stored, err := sites.New(d).Sitekeys.SitekeyByID(t.Context(), account, key.ID)
			return err == nil && stored.Attack.Seen == model.At(first.Clock.Now())
		})
		dbtest.HasRows(t, d, "mails", 1, "mails")

		// The lowest level lasts ten minutes after the attack was last seen.
		for _, test := range []struct {
			after time.Duration
			want  uint32
		}{{9 * time.Minute, 2 * planetest.Difficulty}, {90 * time.Second, planetest.Difficulty}} {
			first.Clock.Add(test.after)
			for i, p := range []*plane{first, second} {
				testkit.Equal(t, base(p), test.want, "%v later on node %d: difficulty", test.after, i+1)
			}
		}
	})
}
