package auth

import (
	"context"
	"errors"

	"github.com/tallygate/tallygate/db/model"
)

// NewToken describes an API token that is created.
type NewToken struct {
	Name          string
	Scopes        []model.Scope
	SiteIDs       []model.SiteID // restrict the token, sorted; nil: all sites of the account
	ExpiresInDays int            // 1 to model.MaxTokenDays
	NeverExpires  bool           // then ExpiresInDays does not count
}

// CreateAPIToken creates a token of the user, and returns it with its secret, which is not stored.
func (a *Auth) CreateAPIToken(
	ctx context.Context, user *model.User, wanted NewToken,
) (*model.APIToken, string, error) {
	now := model.At(a.now())
	name, err := model.ParseName("name", wanted.Name)
	sorted, scopesErr := model.ParseScopes(wanted.Scopes)

	var expiresAt model.Instant
	var skippedMails int32
	var expiryErr error
	if !wanted.NeverExpires {
		expiresAt, skippedMails, expiryErr = model.TokenExpiry(wanted.ExpiresInDays, now)
	}

	if err := errors.Join(err, scopesErr, expiryErr); err != nil {
		return nil, "", err
	}

	secret := model.NewSecret(model.APITokenPrefix)
	token, err := a.accounts.Tokens.Create(ctx, model.APIToken{
		AccountID: user.AccountID, UserID: user.ID, Name: name, Scopes: sorted,
		TokenHash: model.HashToken(secret), TokenHint: model.SecretHint(secret), CreatedAt: now,
		ExpiresAt: expiresAt, ExpiryMails: skippedMails, SiteIDs: wanted.SiteIDs,
	})

	return token, secret, err
}
