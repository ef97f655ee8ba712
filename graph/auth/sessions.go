package auth

import (
	"bytes"
	"context"
	"slices"

	"github.com/tallygate/tallygate/db/model"
)

// Sessions returns the user's sessions, the last used first. A session of an account's provider
// sees those of the same provider.
func (a *Auth) Sessions(ctx context.Context, user *model.User) ([]*model.Session, error) {
	list, err := a.accounts.Sessions.Of(ctx, user.ID, model.At(a.now()))
	return slices.DeleteFunc(list, func(s *model.Session) bool { return !sees(user, s) }), err
}

// Session returns one of the sessions that Sessions lists, or model.ErrNotFound.
func (a *Auth) Session(ctx context.Context, user *model.User, idHash []byte) (*model.Session, error) {
	session, err := a.accounts.Sessions.Get(ctx, user.ID, idHash, model.At(a.now()))
	if err == nil && !sees(user, session) {
		return nil, model.ErrNotFound
	}
	return session, err
}

// sees reports whether the caller's session may list and end another session of the user.
func sees(user *model.User, s *model.Session) bool {
	return !user.IsThroughAccount() || s.ProviderAccount != nil && *s.ProviderAccount == *user.Provider
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
	if user.IsThroughAccount() {
		if _, err := a.Session(ctx, user, idHash); err != nil {
			return err
		}
	}
	if err := a.accounts.Sessions.End(ctx, user.ID, idHash); err != nil {
		return err
	}
	if current != nil && bytes.Equal(current, idHash) {
		return requestOf(ctx).endSession()
	}

	return nil
}
