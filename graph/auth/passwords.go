package auth

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
)

// passwords checks the passwords of users within the limits of sign-ins.
type passwords struct {
	accounts *accounts.Store
	hasher   *hasher
	throttle *throttle
	devices  *devices
	now      func() time.Time
}

// authenticate checks a password within the limits of sign-ins.
func (p *passwords) authenticate(ctx context.Context, r *request, address, password string) (*model.User, error) {
	device, err := p.knownDevice(ctx, r.http, address)
	if err != nil {
		return nil, err
	}

	limits := p.throttle.signInLimits(r.http, address, device)
	release, err := p.admit(ctx, device != nil, limits)
	if err != nil {
		return nil, err
	}
	defer release()

	user, err := p.checkPassword(ctx, address, password)
	if errors.Is(err, errWrongCredentials) {
		return nil, err
	}

	// The password was not checked, so the attempt does not count.
	if err != nil {
		return nil, p.throttle.uncount(ctx, limits, err)
	}

	return user, p.accounts.SignIns.Succeeded(ctx, limits...)
}

// checkPassword returns the user with this address and password, or errWrongCredentials. It hashes
// once for an unknown address too, so the response time does not reveal which addresses exist.
func (p *passwords) checkPassword(ctx context.Context, address, password string) (*model.User, error) {
	user, err := p.accounts.UserByEmail(ctx, address)
	if err != nil && model.KindOf(err) != model.NotFound {
		return nil, err
	}

	stored := p.hasher.unusable
	if user != nil {
		stored = user.PasswordHash
	}

	ok, outdated, err := p.hasher.check(ctx, password, stored)
	if err != nil {
		return nil, err
	}
	if !ok || user == nil {
		return nil, errWrongCredentials
	}
	if !outdated {
		return user, nil
	}
	if user.PasswordHash, err = p.hasher.hash(ctx, password); err != nil {
		return nil, err
	}

	renewed, err := p.accounts.SetPasswordHash(ctx, user.ID, stored, user.PasswordHash)

	// A concurrent sign-in has renewed the hash, or the password has changed.
	if err == nil && !renewed {
		return p.checkPassword(ctx, address, password)
	}

	return user, err
}

// admit reserves a place to hash a password and counts the attempt. The caller returns the place
// with release. known means that the request comes from a known device. It fails with the
// model.Errors unavailable and rate_limited, which write nothing.
func (p *passwords) admit(ctx context.Context, known bool, limits []accounts.SignInLimit) (release func(), err error) {
	release, err = p.hasher.reserve(known)
	if err != nil {
		return nil, err
	}

	if err := p.throttle.count(ctx, limits); err != nil {
		release()
		return nil, err
	}

	return release, nil
}

// knownDevice returns the identity of a browser that has signed in to this address with the current
// password, or nil. It reads the user only for a browser with a cookie for this address.
func (p *passwords) knownDevice(ctx context.Context, r *http.Request, address string) ([]byte, error) {
	device, generation := p.devices.read(r, address)
	if device == nil {
		return nil, nil
	}

	user, err := p.accounts.UserByEmail(ctx, address)
	switch {
	case model.KindOf(err) == model.NotFound:
		return nil, nil
	case err != nil:
		return nil, err
	case user.PasswordGeneration != generation:
		return nil, nil
	}

	return device, nil
}

// confirm checks the password of the signed-in user. It returns other mistakes in the input before
// it checks the password.
func (p *passwords) confirm(ctx context.Context, field, password string, mistakes error) (*request, *model.User, error) {
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

	user, err := p.authenticate(ctx, r, caller.User.Email, password)
	if errors.Is(err, errWrongCredentials) {
		err = wrongPassword(field)
	}

	return r, user, err
}

// confirmOwner is confirm for an owner of an account. It returns the user as a member of the
// account.
func (p *passwords) confirmOwner(
	ctx context.Context, accountID model.AccountID, password string, mistakes error,
) (*model.User, error) {
	_, user, err := p.confirm(ctx, "password", password, mistakes)
	if err != nil {
		return nil, err
	}

	owner := user.In(accountID)
	if owner == nil {
		return nil, model.ErrForbidden
	}
	return owner, nil
}

// confirmFactorChange is factorChange after checking the password of the signed-in user.
func (p *passwords) confirmFactorChange(
	ctx context.Context, password string,
) (*model.User, accounts.FactorChange, error) {
	_, user, err := p.confirm(ctx, "password", password, nil)
	if err != nil {
		return nil, accounts.FactorChange{}, err
	}

	_, change, err := p.factorChange(ctx)
	return user, change, err
}

// factorChange returns the signed-in user, and how a change of the user's second factors is
// recorded. It rejects API tokens.
func (p *passwords) factorChange(ctx context.Context) (*model.User, accounts.FactorChange, error) {
	r, err := passwordRequest(ctx)
	if err != nil {
		return nil, accounts.FactorChange{}, err
	}

	caller, err := r.identify()
	if err == nil && caller.User == nil {
		err = ErrUnauthenticated
	}
	if err != nil {
		return nil, accounts.FactorChange{}, err
	}

	session, err := CurrentSession(ctx)
	return caller.User, accounts.FactorChange{At: model.At(p.now()), Session: session}, err
}

// reloadAfter reads the signed-in user again after a change, which may have ended the session. It
// returns the error of the change as orWrongPassword does.
func reloadAfter(ctx context.Context, err error) error {
	if err != nil {
		return orWrongPassword(err)
	}

	_, err = requestOf(ctx).reload(ctx)
	return err
}

// orWrongPassword replaces model.ErrStale: the password has changed since it was checked.
func orWrongPassword(err error) error {
	if errors.Is(err, model.ErrStale) {
		return wrongPassword("password")
	}
	return err
}
