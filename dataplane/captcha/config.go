package captcha

import "net/http"

// Config answers POST /api/v1/pow/config (captcha contract, section 4) with a challenge. The checks run in this order: method,
// body, JSON, sitekey, domain, rate. Nothing is stored: a challenge is signed.
func (s *Service) Config(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodOptions {
		return preflight(w, r)
	}
	_, key, _, err := s.open(w, r)
	if err != nil {
		return err
	}
	now := s.now()
	difficulty, wait := s.pressure.challenge(key.id, s.clientAddr(r), now)
	if wait > 0 {
		return errTooMany(wait)
	}
	reply(w, s.keys.issue(key.text, difficulty, now))
	return nil
}
