package auth

import (
	"context"
	"errors"

	"github.com/tallygate/tallygate/db/model"
)

// CreateAPIToken creates a token of the user, which expires after some days or never, and returns it
// with its secret, which is not stored.
func (a *Auth) CreateAPIToken(
	ctx context.Context, user *model.User, name string, scopes []model.Scope, expiresInDays int, neverExpires bool,
) (*model.APIToken, string, error) {
	now := model.At(a.now())
	name, err := model.ParseName("name", name)
	sorted, scopesErr := model.ParseScopes(scopes)

	var expiresAt model.Instant
	var skippedMails int32
	var expiryErr error
	if !neverExpires {
		expiresAt, skippedMails, expiryErr = model.TokenExpiry(expiresInDays, now)
	}

	if err := errors.Join(err, scopesErr, expiryErr); err != nil {
		return nil, "", err
	}

	secret := model.NewSecret(model.APITokenPrefix)
	token, err := a.accounts.CreateAPIToken(ctx, model.APIToken{
		AccountID: user.AccountID, UserID: user.ID, Name: name, Scopes: sorted,
		TokenHash: model.HashToken(secret), TokenHint: model.SecretHint(secret), CreatedAt: now,
		ExpiresAt: expiresAt, ExpiryMails: skippedMails,
	})

	return token, secret, err
}
