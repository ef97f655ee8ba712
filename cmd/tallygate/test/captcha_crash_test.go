package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/captcha/pow"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// solver acts as a browser and a site's server whose captcha server is killed repeatedly.
type solver struct {
	http            *http.Client
	data            string // address
	sitekey, secret string

	mu       sync.Mutex
	works    []map[string]any // solutions that were sent to verify, whatever the result
	tokens   []string         // received tokens
	accepted map[string]int   // number of times that each token was accepted
}

// newSolver returns a solver for a sitekey, at the address of a process.
func newSolver(data, sitekey, secret string) *solver {
	return &solver{http: &http.Client{Timeout: patience}, data: data, sitekey: sitekey, secret: secret, accepted: make(map[string]int)}
}

// post sends JSON and reads the response. It returns an error if the process was killed.
func (s *solver) post(path string, body any, answer any) (status int, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}

	request, err := http.NewRequest(http.MethodPost, "http://"+s.data+path, bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	request.Header.Set("User-Agent", firefox)

	response, err := s.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()

	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}

	return response.StatusCode, json.Unmarshal(raw, answer)
}

// token obtains one token.
func (s *solver) token() (string, error) {
	var c pow.Challenge
	if _, err := s.post("/api/v1/pow/config", map[string]any{"sitekey": s.sitekey}, &c); err != nil {
		return "", err
	}

	nonce, err := pow.Solve(c)
	if err != nil {
		return "", fmt.Errorf("%+v: %w", c, err)
	}

	work := map[string]any{"sitekey": s.sitekey, "challenge": c.Challenge, "nonce": nonce}
	s.mu.Lock()
	s.works = append(s.works, work)
	s.mu.Unlock()

	var solved struct{ Token string }
	if _, err := s.post("/api/v1/pow/verify", work, &solved); err != nil {
		return "", err
	}

	s.mu.Lock()
	s.tokens = append(s.tokens, solved.Token)
	s.mu.Unlock()
	return solved.Token, nil
}

// once obtains one token and redeems it with several concurrent requests.
func (s *solver) once() error {
	token, err := s.token()
	if err != nil {
		return err
	}

	var group sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		group.Go(func() { _, errs[i] = s.redeem(token) })
	}

	group.Wait()

	for _, err := range errs {
		if err != nil {
			return err
		}
	}

	return nil
}

// redeem verifies a token and counts it if it is accepted.
func (s *solver) redeem(token string) (valid bool, err error) {
	var answer struct{ Valid bool }
	status, err := s.post("/api/v1/pow/siteverify",
		map[string]any{"sitekey": s.sitekey, "secret": s.secret, "token": token}, &answer)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("siteverify: %d", status)
	}

	if err == nil && answer.Valid {
		s.mu.Lock()
		s.accepted[token]++
		s.mu.Unlock()
	}

	return answer.Valid, err
}

// TestKillNeverAcceptsTwice kills the process while challenges and tokens are redeemed. Afterwards
// no challenge returns a second token, no token is accepted twice, and the usage equals the number
// of consumed tokens.
func TestKillNeverAcceptsTwice(t *testing.T) {
	testkit.SkipLong(t, "faults of processes")
	t.Parallel()

	const rounds, solvers = 4, 8
	dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
		settings := settingsFor(t, databaseURL)
		settings["TALLYGATE_CAPTCHA_DIFFICULTY"] = "1024"
		settings["TALLYGATE_DEFAULT_CAPTCHA_PLAN"] = "PRO_1M"
		databaseURL = databaseOf(settings)
		random := rand.New(rand.NewPCG(2026, 11))
		s := newSolver("", "", "")

		var account model.AccountID
		for round := range rounds {
			p := start(t, settings, []string{"control", "data"})
			s.data = p.addr["data"]

			if round == 0 {
				newOwner(t, p).signUp("crash.localhost")
				d := dbtest.Open(t, databaseURL)
				owner, err := accounts.New(d).UserByEmail(t.Context(), "owner@crash.localhost")
				testkit.NoError(t, err)

				account = owner.AccountID
				key, secret, err := sites.New(d).Sitekeys.CreateSitekey(t.Context(), account, "Crash", nil, model.At(time.Now()))
				testkit.NoError(t, err)

				s.sitekey, s.secret = key.Sitekey, secret
			}

			var group sync.WaitGroup
			var count atomic.Int64
			for range solvers {
				group.Go(func() {
					for s.once() == nil && t.Context().Err() == nil {
						count.Add(1)
					}
				})
			}

			killUnderLoad(t, p, &count, time.Duration(random.IntN(200))*time.Millisecond)
			group.Wait()
		}

		p := start(t, settings, []string{"control", "data"})
		s.data = p.addr["data"]

		// A kill may have lost the response to a challenge: its token was not received yet.
		again := 0
		for _, work := range s.works {
			var answer struct{ Token string }
			status, err := s.post("/api/v1/pow/verify", work, &answer)
			if err != nil || status != http.StatusOK && status != http.StatusBadRequest {
				t.Fatal(status, err)
			}

			if status == http.StatusOK {
				again++
				s.tokens = append(s.tokens, answer.Token)
			}
		}

		if len(s.tokens) > len(s.works) {
			t.Errorf("%d tokens for %d challenges", len(s.tokens), len(s.works))
		}

		// Tokens whose redemption never arrived are still valid, once.
		for _, token := range s.tokens {
			for range 2 {
				if _, err := s.redeem(token); err != nil {
					t.Fatal(err)
				}
			}
		}

		eaten := 0

		for _, token := range s.tokens {
			switch n := s.accepted[token]; {
			case n > 1:
				t.Errorf("a token was accepted %d times", n)
			case n == 0:
				// The token was consumed by a commit whose response was lost.
				eaten++
			}
		}

		usage, err := accounts.New(dbtest.Open(t, databaseURL)).CaptchaUsage(t.Context(), account, model.At(time.Now()).Month())
		if err != nil || usage.Used != int64(len(s.tokens)) {
			t.Errorf("%+v, %v; want %d counted, all of which are used up", usage, err, len(s.tokens))
		}
		if len(s.tokens) < rounds {
			t.Errorf("only %d tokens in %d rounds", len(s.tokens), rounds)
		}

		t.Logf("%d challenges, %d tokens, %d of them after a restart, %d answers eaten by a kill",
			len(s.works), len(s.tokens), again, eaten)
	})
}
