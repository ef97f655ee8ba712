package captcha

import (
	"net/http"
	"time"

	"github.com/tallygate/tallygate/web"
)

// Config answers POST /api/v1/pow/config (captcha contract, section 4) with a challenge. The checks
// run in this order: method, body, JSON, sitekey, domain, rate. Nothing is stored: a challenge is
// signed.
func (s *Service) Config(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodOptions {
		return preflight(w, r)
	}

	_, key, _, err := s.open(w, r)
	if err != nil {
		return err
	}

	now := s.now()
	difficulty, wait := s.difficulty(r, key, now)
	if wait > 0 {
		return errTooMany(wait)
	}

	web.WriteJSON(w, s.keys.issue(key.text, difficulty, now))
	return nil
}

// difficulty counts a request for a challenge and returns its difficulty, or how long the network
// has to wait.
func (s *Service) difficulty(r *http.Request, key *sitekey, now time.Time) (difficulty uint32, wait time.Duration) {
	addr := s.clientAddr(r)
	if s.isShared(r) {
		return s.pressure.sharedChallenge(key.id, now), 0
	}
	return s.pressure.challenge(key.id, addr, now)
}
