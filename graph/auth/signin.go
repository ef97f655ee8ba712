package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// errWrongCredentials is the one answer to an unknown e-mail address and to a wrong password.
var errWrongCredentials = &model.Error{
	Kind: model.Invalid, Code: "wrong_credentials", Message: "The e-mail address or the password is wrong.",
}

// SignIn checks a password and signs the user in under a new session id. A wrong password and an
// unknown address are the same model.Error, wrong_credentials, in the same time; too many of them
// are rate_limited with RetryAfter (see limits).
func (a *Auth) SignIn(ctx context.Context, email, password string) (*model.User, error) {
	v, err := byPassword(ctx)
	if err != nil {
		return nil, err
	}

	address, err := model.ParseEmail(email)
	if err != nil || model.CheckPassword(password) != nil {
		// nobody can have signed up with these
		return nil, errWrongCredentials
	}

	user, err := a.try(ctx, v, address, password)
	if err != nil {
		return nil, err
	}

	return a.welcome(v, user)
}

// try checks a password within the limits of sign-ins.
func (a *Auth) try(ctx context.Context, v *visitor, address, password string) (*model.User, error) {
	device, err := a.knownDevice(ctx, v.r, address)
	if err != nil {
		return nil, err
	}

	limits := a.limits(v.r, address, device)
	leave, err := a.admit(ctx, device != nil, limits)
	if err != nil {
		return nil, err
	}
	defer leave()

	user, err := a.checkPassword(ctx, address, password)
	if errors.Is(err, errWrongCredentials) {
		return nil, err
	}

	// the password was not looked at, perhaps because the caller has gone
	if err != nil {
		return nil, a.takeBack(ctx, limits, err)
	}

	return user, a.accounts.SignInSucceeded(ctx, limits...)
}

// SignOut ends the caller's session, or with everywhere all sessions of the caller. Nobody signed
// in is no error.
func (a *Auth) SignOut(ctx context.Context, everywhere bool) error {
	v, err := byPassword(ctx)
	if err != nil {
		return err
	}

	caller, err := v.identify()
	if err != nil || caller.User == nil {
		return err
	}

	if everywhere {
		if _, err := a.accounts.DeleteUserSessions(ctx, caller.User.ID); err != nil {
			return err
		}
	}

	return v.end()
}

// checkPassword finds the user with this address and password. An unknown address costs one hash as
// well, so that the time of the answer does not tell who has an account.
func (a *Auth) checkPassword(ctx context.Context, address, password string) (*model.User, error) {
	user, err := a.accounts.UserByEmail(ctx, address)
	if err != nil && model.KindOf(err) != model.NotFound {
		return nil, err
	}

	stored := a.passwords.nobody

	if user != nil {
		stored = user.PasswordHash
	}

	ok, outdated, err := a.passwords.check(ctx, password, stored)
	if err != nil {
		return nil, err
	}
	if !ok || user == nil {
		return nil, errWrongCredentials
	}
	if !outdated {
		return user, nil
	}
	if user.PasswordHash, err = a.passwords.hash(ctx, password); err != nil {
		return nil, err
	}

	renewed, err := a.accounts.SetPasswordHash(ctx, user.ID, stored, user.PasswordHash)

	// another sign-in has renewed it, or it is another password now
	if err == nil && !renewed {
		return a.checkPassword(ctx, address, password)
	}

	return user, err
}

// welcome signs the user in, whose password was checked or chosen in this request.
func (a *Auth) welcome(v *visitor, user *model.User) (*model.User, error) {
	if err := v.begin(user); err != nil {
		return nil, err
	}
	return user, a.devices.remember(v.w, v.r, user)
}

func tooManyAttempts(wait time.Duration) error {
	seconds := int64((wait + time.Second - 1) / time.Second)
	return &model.Error{
		Kind: model.RateLimited, Code: "rate_limited", RetryAfter: wait,
		Message: fmt.Sprintf("Too many attempts. Try again in %d s.", seconds),
	}
}
