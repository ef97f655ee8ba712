package auth

import (
	"context"
	"errors"

	"github.com/tallygate/tallygate/db/model"
)

// CreateAPIToken creates a token of the user and returns it with its secret, which is not stored.
func (a *Auth) CreateAPIToken(
	ctx context.Context, user *model.User, name string, scopes []model.Scope,
) (*model.APIToken, string, error) {
	name, err := model.ParseName("name", name)
	sorted, scopesErr := model.ParseScopes(scopes)
	if err := errors.Join(err, scopesErr); err != nil {
		return nil, "", err
	}

	secret := model.NewSecret(model.APITokenPrefix)
	token, err := a.accounts.CreateAPIToken(ctx, model.APIToken{
		AccountID: user.AccountID, UserID: user.ID, Name: name, Scopes: sorted,
		TokenHash: model.HashToken(secret), TokenHint: model.SecretHint(secret), CreatedAt: model.At(a.now()),
	})

	return token, secret, err
}
