package captcha

import (
	"context"
	"net/http"
	"time"

	"github.com/tallygate/tallygate/dataplane/captcha/token"
	"github.com/tallygate/tallygate/dataplane/jsonbody"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/web"
)

// serverCall is the body of a call from a site's server (captcha contract, section 4). A member
// whose value has the wrong JSON type counts as absent.
type serverCall struct {
	sitekey, secret, token string

	deadline time.Time // of the answer
}

// readServerCall reads the body of a server's call. mCaptcha's clients send the sitekey as key; the
// contract's name wins if a call has both.
func readServerCall(r *http.Request) (call serverCall, err error) {
	o := jsonbody.OpenRequest(r)
	defer o.Close()

	var key string
	for o.Next() {
		switch o.Key() {
		case "sitekey":
			o.Exact(&call.sitekey)
		case "key":
			o.Exact(&key)
		case "secret":
			o.Exact(&call.secret)
		case "token":
			o.Exact(&call.token)
		}
	}

	if call.sitekey == "" {
		call.sitekey = key
	}

	return call, errBody(o.Err())
}

// siteverifyAnswer describes a token (captcha contract, section 2).
type siteverifyAnswer struct {
	Valid         bool `json:"valid"`          // genuine, and not consumed before
	OverLimit     bool `json:"over_limit"`     // genuine and not consumed, but the account's monthly quota is used up
	Reserve       bool `json:"reserve"`        // valid, and counted against the reserve
	QuotaExceeded bool `json:"quota_exceeded"` // not valid, because the reserve is used up too; the token is not consumed
}

// Siteverify answers POST /api/v1/pow/siteverify (captcha contract, section 4). It checks, in this
// order: method, body, JSON, fields, sitekey, secret. A token that is not valid is an answer, not
// an error.
func (s *Service) Siteverify(w http.ResponseWriter, r *http.Request) error {
	call, key, err := s.openServerCall(r)
	if err != nil {
		s.metrics.verifications.countCall("", err)
		return err
	}

	verdict, _, err := s.redeem(r.Context(), call.deadline, key, call.token)
	if err != nil {
		return err
	}
	if verdict == sitekeyDeleted {
		return errSitekey
	}

	exceeded := verdict == overQuota || verdict == accountSuspended
	web.WriteJSON(w, siteverifyAnswer{
		Valid:         verdict == claimed || verdict == claimedFromReserve,
		OverLimit:     verdict == claimedFromReserve || exceeded,
		Reserve:       verdict == claimedFromReserve,
		QuotaExceeded: exceeded,
	})

	return nil
}

// openServerCall reads a server's call, finds its sitekey and checks the secret.
func (s *Service) openServerCall(r *http.Request) (call serverCall, key *sitekey, err error) {
	if r.Method != http.MethodPost {
		return call, nil, errMethod
	}

	call, err = readServerCall(r)
	switch {
	case err != nil:
		return call, nil, err
	case call.sitekey == "":
		return call, nil, errNoSitekey
	case call.secret == "":
		return call, nil, missing("secret")
	case call.token == "":
		return call, nil, missing("token")
	}

	call.deadline = s.deadline()
	if key, err = s.sitekeyOf(call.deadline, call.sitekey); err != nil {
		return call, nil, err
	}
	if !key.owns(call.secret, model.At(s.now())) {
		s.countRefusal(key, siteverifyEndpoint, errSecret)
		return call, nil, errSecret
	}

	return call, key, nil
}

// redeem consumes a token of the sitekey and counts it, in one committed transaction, or returns
// why it cannot be consumed. It also counts the outcome for the owner, without waiting.
func (s *Service) redeem(
	ctx context.Context, deadline time.Time, key *sitekey, text string,
) (outcome, *token.Token, error) {
	result, t, err := s.consume(ctx, deadline, key, text)
	if err != nil {
		s.metrics.verifications.countCall("", err)
		return result, t, err
	}

	s.countRedeemed(key, result)
	return result, t, nil
}

func (s *Service) consume(
	ctx context.Context, deadline time.Time, key *sitekey, text string,
) (outcome, *token.Token, error) {
	now := s.now()
	t, err := s.keys.read(text, now)
	switch {
	case err != nil:
		return notOurs, nil, nil
	case t.Sitekey != key.inTokens:
		return foreign, nil, nil
	case t.Expired(now):
		return expired, nil, nil
	}

	// It is answered like a used quota, which blames the account and not the visitor. The token
	// works if the account is resumed in time.
	if key.suspended {
		return accountSuspended, nil, nil
	}

	result, err := s.claim(ctx, deadline, key, t.ID, t.Issued, now, true)
	return result, &t, err
}
