package captcha

import (
	"errors"
	"time"

	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
)

// The endpoints' names in the counters of refused calls.
const (
	configEndpoint     = "config"
	verifyEndpoint     = "verify"
	siteverifyEndpoint = "siteverify" // both of them
)

// count adds to a counter of the sitekey's day. The test sitekey has none.
func (s *Service) count(key *sitekey, now time.Time, name string) {
	if key != nil && key.id != 0 {
		s.counts.Add(ingest.CaptchaCountKey{SitekeyID: key.id, Day: model.At(now).Day(), Name: name})
	}
}

// countRefusal counts a call that was refused with err, if the sitekey is known.
func (s *Service) countRefusal(key *sitekey, endpoint string, err error) {
	if e, ok := errors.AsType[*model.Error](err); ok {
		s.count(key, s.now(), model.CaptchaRefusal(endpoint, e.Code))
	}
}

// refusedOutcomes are the codes under which tokens that are not valid are counted.
var refusedOutcomes = map[outcome]string{
	notOurs: model.RefusedToken, foreign: model.RefusedForeignToken, duplicate: model.RefusedUsedToken,
	expired: model.RefusedExpiredToken, overQuota: "quota_exceeded",
	accountSuspended: errSuspended.Code,
}

// countRedeemed counts the outcome of a redeemed token, for owners and for the operator.
func (s *Service) countRedeemed(key *sitekey, result outcome) {
	s.metrics.verifications.count(verdicts[result])

	if code, refused := refusedOutcomes[result]; refused {
		if model.IsCaptchaNoise(code) {
			s.difficulty.Refused(key.id, s.now())
		}
		s.count(key, s.now(), model.CaptchaRefusal(siteverifyEndpoint, code))
	} else if result != sitekeyDeleted {
		s.count(key, s.now(), model.CaptchaVerified)
	}
}
