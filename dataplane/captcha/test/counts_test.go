package captcha_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
)

// TestCallsAreCountedForTheSitekey: challenges, solutions, verifications and refusals are counted
// by day, for the sitekey that they name and for no other.
func TestCallsAreCountedForTheSitekey(t *testing.T) {
	t.Parallel()
	const origin = "https://example.com"

	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		p := newPlane(t, d)
		account := p.account("a", model.CaptchaPlanFree)
		key, other := p.pair(account, "example.com"), p.pair(account)

		// The work takes 2 s by the clock.
		body := p.solved(key, origin)
		p.clock.Add(2 * time.Second)
		if response, text := p.send(call{path: verifyPath, body: body, origin: origin}); response.StatusCode != http.StatusOK {
			t.Fatalf("verify: %s", text)
		}

		// The same solution again, and one for another page.
		p.send(call{path: verifyPath, body: body, origin: origin})
		p.send(call{path: verifyPath, body: m{"sitekey": key.Sitekey.Sitekey}, origin: origin})
		p.send(call{path: configPath, body: m{"sitekey": key.Sitekey.Sitekey}, origin: "https://example.org"})
		p.send(call{path: configPath, body: m{"sitekey": "svck_000000000000000000000000"}, origin: origin})

		token := p.token(key, origin)
		p.send(call{path: siteverifyPath, body: m{"sitekey": key.Sitekey.Sitekey, "secret": "wrong", "token": token}})
		if got := p.siteverify(other, token); got != invalid {
			t.Errorf("another sitekey's token: %s", got)
		}
		if got := p.siteverify(key, token); got != valid {
			t.Errorf("a token: %s", got)
		}
		p.compat(key, token)
		p.token(testPair, origin)

		p.clock.Add(24 * time.Hour)
		p.config(key, origin)
		p.stop()

		activity, err := ingest.New(d).CaptchaActivity(t.Context(), []model.SitekeyID{key.ID, other.ID}, 0)
		if err != nil {
			t.Fatal(err)
		}

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
		if !slices.Equal(got.Refusals, want) {
			t.Errorf("refusals %v, want %v", got.Refusals, want)
		}
		if foreign := activity[other.ID]; len(foreign) != 1 || fmt.Sprint(foreign[0].Refusals) != "[{siteverify foreign_token 1}]" {
			t.Errorf("the other sitekey has %+v", foreign)
		}

		if n, err := dbtest.Count(d, "captcha_counts"); err != nil || n != 12 {
			t.Errorf("%d counters, %v; the test sitekey and an unknown one have none", n, err)
		}
	})
}
