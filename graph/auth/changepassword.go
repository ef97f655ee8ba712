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
	r, user, err := a.passwords.confirm(ctx, "currentPassword", current, model.CheckPassword(password))
	if err != nil {
		return nil, nil, err
	}

	hash, err := a.passwords.hasher.hash(ctx, password)
	if err != nil {
		return nil, nil, err
	}
	state, err := a.providerState(ctx)
	if err != nil {
		return nil, nil, err
	}

	change := accounts.PasswordChange{Hash: hash, At: model.At(a.now())}
	tokens, err := a.accounts.ChangePassword(ctx, user.ID, user.PasswordHash, change)

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
	user, err = r.begin(ctx, user, accounts.SessionStart{Proved: true, Provider: state})

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

	row, err := a.accounts.Providers.Of(ctx, *caller.User.Provider)
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
	_, err = a.accounts.Sessions.Get(ctx, caller.User.ID, current, model.At(a.now()))
	if errors.Is(err, model.ErrNotFound) {
		return nil, ErrUnauthenticated
	}
	return &accounts.ProviderState{Issuer: row.Issuer, Changed: row.ChangedAt}, err
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
	if err := a.throttle.count(ctx, a.throttle.resetLimits(r.http, address)); err != nil {
		return err
	}

	secret := model.NewSecret(model.ResetPrefix)
	expires := model.At(a.now()).Add(model.ResetLifetime)

	mail, err := a.Links.mail(r.http, model.MailPasswordReset, ResetPage, secret)
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
			tokens, err = a.accounts.ResetPassword(ctx, tokenHash, accounts.PasswordChange{Hash: passwordHash, At: now})
			return err
		},
	)
	return tokens, err
}
