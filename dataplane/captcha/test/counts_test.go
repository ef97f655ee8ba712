package captcha_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
	"github.com/tallygate/tallygate/tools/world/planetest"
)

// TestCallsAreCountedForTheSitekey: challenges, solutions, verifications and refusals are counted
// by day, for the sitekey that they name and for no other.
func TestCallsAreCountedForTheSitekey(t *testing.T) {
	t.Parallel()
	const origin = "https://example.com"

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p := newPlane(t, d)
		account := p.Account("a", model.CaptchaPlanFree)
		key, other := p.Sitekey(account, "example.com"), p.Sitekey(account)

		// The work takes 2 s by the clock.
		body := p.Solved(key, origin)
		p.Clock.Add(2 * time.Second)
		if response, text := p.Send(call{Path: verifyPath, Body: body, Origin: origin}); response.StatusCode != http.StatusOK {
			t.Fatalf("verify: %s", text)
		}

		// The same solution again, and one for another page.
		p.Send(call{Path: verifyPath, Body: body, Origin: origin})
		p.Send(call{Path: verifyPath, Body: m{"sitekey": key.Sitekey.Sitekey}, Origin: origin})
		p.Send(call{Path: configPath, Body: m{"sitekey": key.Sitekey.Sitekey}, Origin: "https://example.org"})
		p.Send(call{Path: configPath, Body: m{"sitekey": "svck_000000000000000000000000"}, Origin: origin})

		token := p.Token(key, origin)
		p.Send(call{Path: siteverifyPath, Body: m{"sitekey": key.Sitekey.Sitekey, "secret": "wrong", "token": token}})
		testkit.Equal(t, p.Siteverify(other, token), invalid, "another sitekey's token")
		testkit.Equal(t, p.Siteverify(key, token), valid, "a token")
		p.Compat(key, token)
		p.Token(planetest.TestSitekey, origin)

		p.Clock.Add(24 * time.Hour)
		p.Challenge(key, origin)
		p.Stop()

		activity, err := ingest.New(d).CaptchaActivity(t.Context(), []model.SitekeyID{key.ID, other.ID}, 0)
		testkit.NoError(t, err)

		today := model.At(noon).Day()
		days := activity[key.ID]
		if len(days) != 2 || days[0].Day != today+1 || days[1].Day != today {
			t.Fatalf("the sitekey has %d days", len(days))
		}

		got := days[1]
		if got.Challenges != 2 || got.Solved != 2 || got.Verified != 1 || days[0].Challenges != 1 || days[0].Solved != 0 {
			t.Errorf("counts %+v and %+v", got, days[0])
		}

		// One solution took 2 s and the other none: the lower median is the shortest time.
		if got.MedianWork > 20*time.Millisecond {
			t.Errorf("the median is %s", got.MedianWork)
		}

		want := []model.CaptchaRefusals{
			{Endpoint: "config", Code: "domain_not_allowed", Count: 1}, {Endpoint: "siteverify", Code: "used_token", Count: 1},
			{Endpoint: "siteverify", Code: "wrong_secret", Count: 1}, {Endpoint: "verify", Code: "invalid_work", Count: 1},
			{Endpoint: "verify", Code: "missing_field", Count: 1},
		}
		testkit.EqualSlices(t, got.Refusals, want, "refusals")
		if foreign := activity[other.ID]; len(foreign) != 1 || fmt.Sprint(foreign[0].Refusals) != "[{siteverify foreign_token 1}]" {
			t.Errorf("the other sitekey has %+v", foreign)
		}

		if n, err := dbtest.Count(d, "captcha_counts"); err != nil || n != 12 {
			t.Errorf("%d counters, %v; the test sitekey and an unknown one have none", n, err)
		}
	})
}
