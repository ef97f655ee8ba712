package auth

import (
	"context"
	"errors"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
)

// ChangePassword changes the password of the signed-in user after checking the current one. All
// other sessions end, this one continues under a new id, and other browsers are no longer known
// devices. The user's API tokens stay valid and are returned. A wrong password returns
// wrong_credentials and counts as at sign-in.
func (a *Auth) ChangePassword(ctx context.Context, current, password string) (*model.User, []*model.APIToken, error) {
	r, user, err := a.confirm(ctx, "currentPassword", current, model.CheckPassword(password))
	if err != nil {
		return nil, nil, err
	}

	hash, err := a.hasher.hash(ctx, password)
	if err != nil {
		return nil, nil, err
	}
	state, err := a.providerState(ctx)
	if err != nil {
		return nil, nil, err
	}

	tokens, err := a.accounts.ChangePassword(ctx, user.ID, user.PasswordHash, a.passwordChange(hash, model.At(a.now())))

	// A concurrent change was first.
	if model.KindOf(err) == model.NotFound {
		return nil, nil, wrongPassword("currentPassword")
	}
	if err != nil {
		return nil, nil, err
	}

	// The session goes on under a new id, and reaches no more than before.
	caller, err := r.identify()
	if err != nil {
		return nil, nil, err
	}
	user.PasswordHash, user.Provider = hash, caller.User.Provider
	user.PasswordGeneration++
	user, err = a.begin(ctx, r, user, state, false, true)

	return user, tokens, err
}

// providerState returns the account's provider that has started the caller's session; nil for
// another session. It reads the session after the provider: a session that still exists was started
// by this provider.
func (a *Auth) providerState(ctx context.Context) (*accounts.ProviderState, error) {
	caller, err := CallerOf(ctx)
	if err != nil || caller.User == nil || !caller.User.IsThroughAccount() {
		return nil, err
	}

	row, err := a.accounts.Provider(ctx, *caller.User.Provider)
	if errors.Is(err, model.ErrNotFound) {
		return nil, ErrUnauthenticated
	}
	if err != nil {
		return nil, err
	}
	current, err := CurrentSession(ctx)
	if err != nil {
		return nil, err
	}
	_, err = a.accounts.Session(ctx, caller.User.ID, current, model.At(a.now()))
	if errors.Is(err, model.ErrNotFound) {
		return nil, ErrUnauthenticated
	}
	return &accounts.ProviderState{Issuer: row.Issuer, Changed: row.ChangedAt}, err
}

// passwordChange returns a new password as the database stores it.
func (a *Auth) passwordChange(hash string, now model.Instant) accounts.PasswordChange {
	return accounts.PasswordChange{Hash: hash, At: now}
}

// DeleteAccount deletes an account of the signed-in owner, with everything in it, after checking
// the password. name is the account's, which confirms the deletion; nil: not asked for. It ends the
// session of an owner who belongs to no other account.
func (a *Auth) DeleteAccount(ctx context.Context, accountID int64, password string, name *string) error {
	r, user, err := a.confirm(ctx, "password", password, nil)
	if err != nil {
		return err
	}

	owner := user.In(accountID)
	if owner == nil {
		return model.ErrForbidden
	}
	if err := model.Confirm(name, owner.Account.Name); err != nil {
		return err
	}

	err = a.accounts.DeleteAccount(ctx, owner, model.At(a.now()))

	// The password has changed since it was checked.
	if model.KindOf(err) == model.NotFound {
		return wrongPassword("password")
	}
	if err != nil {
		return err
	}

	_, err = r.reload(ctx)
	return err
}

// confirm checks the password of the signed-in user. It returns other mistakes in the input before
// it checks the password.
func (a *Auth) confirm(ctx context.Context, field, password string, mistakes error) (*request, *model.User, error) {
	r, err := passwordRequest(ctx)
	if err != nil {
		return nil, nil, err
	}

	caller, err := r.identify()
	if err == nil && caller.User == nil {
		err = ErrUnauthenticated
	}
	if err = errors.Join(err, mistakes); err != nil {
		return nil, nil, err
	}
	if !model.IsPassword(password) {
		return nil, nil, wrongPassword(field)
	}

	user, err := a.authenticate(ctx, r, caller.User.Email, password)
	if errors.Is(err, errWrongCredentials) {
		err = wrongPassword(field)
	}

	return r, user, err
}

// RequestPasswordReset mails a secret that resets the password of this address for an hour. For an
// unknown address it mails nothing; the response and its time are the same.
func (a *Auth) RequestPasswordReset(ctx context.Context, email string) error {
	r, err := passwordRequest(ctx)
	if err != nil {
		return err
	}

	address, err := model.ParseEmail(email)
	if err != nil {
		return err
	}
	if err := a.count(ctx, a.resetLimits(r.http, address)); err != nil {
		return err
	}

	secret := model.NewSecret(model.ResetPrefix)
	expires := model.At(a.now()).Add(model.ResetLifetime)

	mail, err := a.linkMail(r.http, model.MailPasswordReset, ResetPage, secret)
	if err != nil {
		return err
	}

	return a.accounts.RequestPasswordReset(ctx, address, model.HashToken(secret), expires, mail)
}

// ResetPassword consumes a mailed secret and changes the password. It ends all sessions and starts
// none. The user's API tokens stay valid and are returned.
func (a *Auth) ResetPassword(ctx context.Context, secret, password string) (tokens []*model.APIToken, err error) {
	err = a.redeem(
		ctx, model.ResetPrefix, secret, password,
		func(tokenHash []byte, passwordHash string, now model.Instant) error {
			tokens, err = a.accounts.ResetPassword(ctx, tokenHash, a.passwordChange(passwordHash, now))
			return err
		},
	)
	return tokens, err
}
