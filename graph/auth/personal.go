package auth

import (
	"bytes"
	"context"
	"errors"

	"github.com/tallygate/tallygate/db/model"
)

// Sessions returns the caller's sessions, the one used last first.
func (a *Auth) Sessions(ctx context.Context, user *model.User) ([]*model.Session, error) {
	return a.accounts.Sessions(ctx, user.ID, model.At(a.now()))
}

// CurrentSession is the hash of the id of the request's session; nil without one.
func CurrentSession(ctx context.Context) ([]byte, error) {
	v := visitorOf(ctx)
	v.mu.Lock()
	defer v.mu.Unlock()

	session, err := v.session()
	if err != nil || session.ID == "" {
		return nil, err
	}

	return model.HashToken(session.ID), nil
}

// RevokeSession ends a session of the user; one of another user is model.ErrNotFound. The request's
// own one ends like at SignOut.
func (a *Auth) RevokeSession(ctx context.Context, user *model.User, idHash []byte) error {
	current, err := CurrentSession(ctx)
	if err != nil {
		return err
	}
	if current != nil && bytes.Equal(current, idHash) {
		return visitorOf(ctx).end()
	}

	return a.accounts.DeleteUserSession(ctx, user.ID, idHash)
}

// CreateAPIToken makes a token for the user and returns it with the secret, which is shown once.
func (a *Auth) CreateAPIToken(ctx context.Context, user *model.User, name string, scopes []model.Scope) (*model.APIToken, string, error) {
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
