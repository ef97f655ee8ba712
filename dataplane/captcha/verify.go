package captcha

import (
	"crypto/rand"
	"net/http"

	"github.com/tallygate/tallygate/dataplane/captcha/token"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/web"
)

// Verify answers POST /api/v1/pow/verify (captcha contract, section 4): it exchanges the solution
// of a challenge for a token. It checks, in this order: method, body, JSON, sitekey, domain,
// missing fields, work.
//
// The challenge is consumed before the token is sent. A client that does not receive the token must
// solve another challenge.
func (s *Service) Verify(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodOptions {
		return preflight(w, r)
	}

	call, key, hostname, err := s.openWidgetCall(w, r)

	var text string
	if err == nil {
		text, err = s.exchange(r, &call, key, hostname)
	}

	s.metrics.solutions.countCall(outcomeSolved, err)
	if err != nil {
		s.countRefusal(key, verifyEndpoint, err)
		return err
	}

	web.WriteJSON(w, tokenAnswer{Token: text})
	return nil
}

type tokenAnswer struct {
	Token string `json:"token"`
}

// exchange consumes the challenge of a call and returns its token.
func (s *Service) exchange(r *http.Request, call *widgetCall, key *sitekey, hostname string) (string, error) {
	switch {
	case call.challenge == "":
		return "", missing("challenge")
	case !call.hasNonce:
		return "", missing("nonce")
	}

	// Whatever the reason, a new challenge resolves it, so that the client needs one error only.
	now := s.now()
	work, err := s.keys.verify(key.text, call.challenge, call.nonce, now)
	if err != nil {
		return "", errWork
	}

	result, err := s.claim(r.Context(), call.deadline, key, work.ID, work.Issued, now, false)
	if err != nil {
		return "", err
	}
	if result != claimed {
		return "", errWork
	}

	if !s.isShared(r) && s.difficulty.Solved(key.id, s.clientAddr(r), work.Issued, now) {
		s.count(key, now, model.CaptchaRenewed)
	}

	s.count(key, now, model.CaptchaSolved)
	s.count(key, now, model.CaptchaWork(now.Sub(work.Issued)))

	// rand.Read never returns an error.
	t := token.Token{Sitekey: key.inTokens, Issued: now, Hostname: hostname}
	rand.Read(t.ID[:])

	return s.keys.sign(&t), nil
}
