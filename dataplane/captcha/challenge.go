package captcha

import (
	"net/http"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/web"
)

// Config answers POST /api/v1/pow/config (captcha contract, section 4) with a challenge. It checks,
// in this order: method, body, JSON, sitekey, domain, rate. It waits for no write, because a
// challenge is signed.
func (s *Service) Config(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodOptions {
		return preflight(w, r)
	}

	err := s.answerConfig(w, r)
	s.metrics.challenges.countCall(outcomeIssued, err)
	return err
}

// answerConfig is Config for all methods but OPTIONS.
func (s *Service) answerConfig(w http.ResponseWriter, r *http.Request) error {
	_, key, _, err := s.openWidgetCall(w, r)
	if err != nil {
		s.countRefusal(key, configEndpoint, err)
		return err
	}

	now := s.now()
	difficulty, wait := s.nextDifficulty(r, key, now)
	if wait > 0 {
		err := errTooMany(wait)
		s.countRefusal(key, configEndpoint, err)
		return err
	}

	s.count(key, now, model.CaptchaChallenge)
	web.WriteJSON(w, s.keys.issue(key.text, difficulty, now))
	return nil
}

// nextDifficulty counts a request for a challenge. It returns the challenge's difficulty, or how
// long the network must wait for one.
func (s *Service) nextDifficulty(r *http.Request, key *sitekey, now time.Time) (difficulty uint32, wait time.Duration) {
	addr := s.clientAddr(r)
	if s.isShared(r) {
		return s.difficulty.SharedChallenge(key.id, now), 0
	}
	return s.difficulty.Challenge(key.id, addr, now)
}
