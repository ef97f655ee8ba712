package auth

import (
	"bytes"
	"context"

	"github.com/tallygate/tallygate/db/model"
)

// Sessions returns the user's sessions, the last used first.
func (a *Auth) Sessions(ctx context.Context, user *model.User) ([]*model.Session, error) {
	return a.accounts.Sessions(ctx, user.ID, model.At(a.now()))
}

// CurrentSession returns the stored hash of the request's session id; nil without a session.
func CurrentSession(ctx context.Context) ([]byte, error) {
	r := requestOf(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()

	session, err := r.session()
	if err != nil || session.ID == "" {
		return nil, err
	}

	return model.HashToken(session.ID), nil
}

// RevokeSession ends a session of the user. It returns model.ErrNotFound for a session of another
// user. The request's own session ends as at SignOut.
func (a *Auth) RevokeSession(ctx context.Context, user *model.User, idHash []byte) error {
	current, err := CurrentSession(ctx)
	if err != nil {
		return err
	}
	if err := a.accounts.DeleteUserSession(ctx, user.ID, idHash); err != nil {
		return err
	}
	if current != nil && bytes.Equal(current, idHash) {
		return requestOf(ctx).endSession()
	}

	return nil
}
