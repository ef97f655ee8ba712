package captcha

import (
	"net/http"

	"github.com/tallygate/tallygate/dataplane/captcha/difficulty"
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
	call, key, _, err := s.openWidgetCall(w, r)
	if err != nil {
		s.countRefusal(key, configEndpoint, err)
		return err
	}

	now := s.now()
	request := s.request(r, &call, key)
	answer := s.difficulty.Challenge(request, now)
	if answer.Wait > 0 {
		err := errTooMany(answer.Wait)
		s.countRefusal(key, configEndpoint, err)
		return err
	}

	s.attacks.add(key, answer.Attack)
	s.count(key, now, model.CaptchaChallenge)
	if request.IsAutomated {
		s.count(key, now, model.CaptchaAutomated)
	}

	web.WriteJSON(w, s.keys.issue(key.text, answer.Difficulty, now))
	return nil
}

// request returns what decides about the difficulty of a challenge.
func (s *Service) request(r *http.Request, call *widgetCall, key *sitekey) difficulty.Request {
	return difficulty.Request{
		SitekeyID:   key.id,
		Policy:      &key.policy,
		Attack:      key.attack,
		Addr:        s.clientAddr(r),
		IsShared:    s.isShared(r),
		IsAutomated: isAutomated(r.Header, call.webdriver, key.policy.Strict),
	}
}
