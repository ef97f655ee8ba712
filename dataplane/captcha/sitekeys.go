package captcha

import (
	"context"
	"crypto/subtle"
	"time"

	"github.com/tallygate/tallygate/dataplane/captcha/token"
	"github.com/tallygate/tallygate/dataplane/rulecache"
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// sitekey holds the settings of a sitekey that requests need. It is cached and never changed.
type sitekey struct {
	id         model.SitekeyID // 0 for the test sitekey
	accountID  model.AccountID // 0 for the test sitekey
	claims     model.AccountID // see model.Sitekey.Claims; 0 for the test sitekey
	suspended  bool            // the account is
	cell       int64           // of the account's usage
	claimCell  int64           // of claims
	text       string
	inTokens   token.Sitekey
	domains    []string // normalised, subdomains included; none: every domain is allowed
	secretHash []byte

	policy model.CaptchaPolicy
	attack model.CaptchaAttack // the last one that any process saw

	oldSecretHash  []byte        // of the secret that a rotation replaced; nil without one
	oldSecretUntil model.Instant // its expiry
}

// testSitekey is not in the database (captcha contract, section 5). Options.NoTestSitekey disables
// it. Programs drive the browsers of tests, so that automation has no more work.
var testSitekey = &sitekey{
	cell:       db.DefaultCell,
	claimCell:  db.DefaultCell,
	text:       model.TestSitekey,
	inTokens:   token.SitekeyOf(model.TestSitekey),
	secretHash: model.HashToken(model.TestSitekeySecret),
	policy:     model.CaptchaPolicy{Automation: model.AutomationAllow, AttackMode: model.AttackOff},
}

// isCounted reports whether verifications count against an account's quota.
func (k *sitekey) isCounted() bool { return k.accountID != 0 }

// owns reports whether the secret belongs to this sitekey at a time: it is the current secret, or
// the old one before its expiry.
func (k *sitekey) owns(secret string, at model.Instant) bool {
	hash := model.HashToken(secret)
	return subtle.ConstantTimeCompare(hash, k.secretHash) == 1 ||
		at < k.oldSecretUntil && subtle.ConstantTimeCompare(hash, k.oldSecretHash) == 1
}

// loadSitekey returns a loader for the cache that reads sitekeys with read.
func loadSitekey(read func(context.Context, string) (*model.Sitekey, error)) rulecache.Load[sitekey] {
	return func(ctx context.Context, key string) (int64, *sitekey, error) {
		k, err := read(ctx, key)
		if err != nil {
			return 0, nil, err
		}

		return int64(k.ID), &sitekey{
			id:         k.ID,
			accountID:  k.AccountID,
			claims:     k.Claims(),
			suspended:  k.Suspended,
			cell:       k.Cell,
			claimCell:  k.ClaimCell,
			text:       k.Sitekey,
			inTokens:   token.SitekeyOf(k.Sitekey),
			domains:    k.Domains,
			secretHash: k.SecretHash,
			policy:     k.Policy,
			attack:     k.Attack,

			oldSecretHash:  k.OldSecretHash,
			oldSecretUntil: k.OldSecretUntil,
		}, nil
	}
}

// sitekeyOf returns the sitekey with a public text.
func (s *Service) sitekeyOf(deadline time.Time, text string) (*sitekey, error) {
	isTest := text == model.TestSitekey
	if isTest && !s.noTestSitekey {
		return testSitekey, nil
	}
	if isTest || !model.IsSitekey(text) {
		return nil, errSitekey
	}

	key, err := s.bySitekey.Get(deadline, text)
	if err != nil {
		return nil, errUnavailable(err)
	}
	if key == nil {
		return nil, errSitekey
	}

	return key, nil
}

// findCell reads a claim's sitekey again after its account was found to be in another cell, or
// deleted, perhaps after it gave the sitekey away. It fails with errSitekey for a deleted sitekey,
// and with errSuspended for a token of a suspended account.
func (s *Service) findCell(c *claim) error {
	s.bySitekey.Changed(int64(c.sitekey.id))
	s.bySecret.Changed(int64(c.sitekey.id))

	found, err := s.sitekeyOf(c.deadline, c.sitekey.text)
	if err != nil {
		return err
	}
	if found.suspended && c.isToken {
		return errSuspended
	}
	c.setSitekey(found)
	return nil
}

// sitekeyOfSecret returns the sitekey with a secret, or nil for an unknown secret.
func (s *Service) sitekeyOfSecret(deadline time.Time, secret string) (*sitekey, error) {
	isTest := secret == model.TestSitekeySecret
	if isTest && !s.noTestSitekey {
		return testSitekey, nil
	}

	// A malformed secret needs no lookup.
	if isTest || !model.IsSecret(model.CaptchaSecretPrefix, secret) {
		return nil, nil
	}

	key, err := s.bySecret.Get(deadline, string(model.HashToken(secret)))
	if err != nil {
		return nil, errUnavailable(err)
	}

	// The sitekey stays in the cache after its old secret has expired.
	if key != nil && !key.owns(secret, model.At(s.now())) {
		return nil, nil
	}

	return key, nil
}
