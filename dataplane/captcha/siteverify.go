package captcha

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tallygate/tallygate/dataplane/body"
	"github.com/tallygate/tallygate/dataplane/captcha/token"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/web"
)

// serverCall is the body of a site's server (captcha contract, section 4). A key whose value has
// the wrong JSON type counts as absent.
type serverCall struct {
	sitekey, secret, token string
}

func (c *serverCall) member(d *jsontext.Decoder, key string) error {
	switch key {
	case "sitekey":
		return body.Exact(d, &c.sitekey)
	case "secret":
		return body.Exact(d, &c.secret)
	case "token":
		return body.Exact(d, &c.token)
	}

	return d.SkipValue()
}

// siteverifyAnswer is what the endpoint says of a token (captcha contract, section 2).
type siteverifyAnswer struct {
	Valid         bool `json:"valid"`          // genuine and unused until now
	OverLimit     bool `json:"over_limit"`     // genuine and unused, but the account has used its monthly quota
	Reserve       bool `json:"reserve"`        // valid, and taken from the reserve
	QuotaExceeded bool `json:"quota_exceeded"` // not valid, because the reserve is used up too; the token is not consumed
}

// Siteverify answers POST /api/v1/pow/siteverify (captcha contract, section 4). The checks run in
// this order: method, body, JSON, fields, sitekey, secret; what becomes of the token then is no
// error.
func (s *Service) Siteverify(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return errMethod
	}

	var call serverCall
	if err := readObject(r, call.member); err != nil {
		return err
	}

	switch {
	case call.sitekey == "":
		return errNoSitekey
	case call.secret == "":
		return missing("secret")
	case call.token == "":
		return missing("token")
	}

	deadline := s.deadline()
	key, err := s.sitekeyOf(deadline, call.sitekey)
	if err != nil {
		return err
	}
	if !key.owns(call.secret) {
		return errSecret
	}

	verdict, _, err := s.redeem(r.Context(), deadline, key, call.token)
	if err != nil {
		return err
	}
	if verdict == accountGone {
		return errSitekey
	}

	web.WriteJSON(w, siteverifyAnswer{
		Valid:         verdict == claimed || verdict == claimedFromReserve,
		OverLimit:     verdict == claimedFromReserve || verdict == overQuota,
		Reserve:       verdict == claimedFromReserve,
		QuotaExceeded: verdict == overQuota,
	})

	return nil
}

// redeem consumes a token of the sitekey and counts it, both by one committed transaction, or finds
// out why not.
func (s *Service) redeem(ctx context.Context, deadline time.Time, key *sitekey, text string) (outcome, *token.Token, error) {
	now := s.now()
	t, err := s.keys.read(text, now)
	if err != nil || t.Sitekey != key.inTokens {
		return notOurs, nil, nil
	}
	if t.Expired(now) {
		return duplicate, nil, nil
	}

	result, err := s.claim(ctx, deadline, &claim{
		key:     model.SpentKey{AccountID: key.accountID, IssuedAt: model.At(t.Issued), ID: t.ID},
		at:      model.At(now),
		counted: key.isCounted(),
	})

	return result, &t, err
}
