package auth

import (
	"context"
	"errors"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/provider"
)

// SignIn checks a password and the second factor, if the user has one, and signs the user in under
// a new session id. A wrong password and an unknown address return the same model.Error,
// wrong_credentials, after the same time. Too many attempts return rate_limited with RetryAfter,
// see limits.
//
// Without a proof, a user with a second factor is not signed in: SignedIn then has no user. A wrong
// second factor returns invalid_second_factor.
func (a *Auth) SignIn(ctx context.Context, email, password string, proof Proof) (*SignedIn, error) {
	r, err := passwordRequest(ctx)
	if err != nil {
		return nil, err
	}

	address, err := model.ParseEmail(email)
	if err != nil || !model.IsPassword(password) {
		// No user can have signed up with these.
		return nil, errWrongCredentials
	}

	user, err := a.authenticate(ctx, r, address, password)
	if err != nil {
		return nil, err
	}

	if !user.SecondFactor {
		user, err = a.startSession(ctx, r, user, true)
		return &SignedIn{User: user}, err
	}

	if proof == (Proof{}) {
		return a.askSecondFactor(ctx, user)
	}
	if err := a.prove(ctx, r, user, proof); err != nil {
		return nil, err
	}

	user, err = a.startProvedSession(ctx, r, user, true)
	return &SignedIn{User: user}, err
}

// authenticate checks a password within the limits of sign-ins.
func (a *Auth) authenticate(ctx context.Context, r *request, address, password string) (*model.User, error) {
	device, err := a.knownDevice(ctx, r.http, address)
	if err != nil {
		return nil, err
	}

	limits := a.limits(r.http, address, device)
	release, err := a.admit(ctx, device != nil, limits)
	if err != nil {
		return nil, err
	}
	defer release()

	user, err := a.checkPassword(ctx, address, password)
	if errors.Is(err, errWrongCredentials) {
		return nil, err
	}

	// The password was not checked, so the attempt does not count.
	if err != nil {
		return nil, a.uncount(ctx, limits, err)
	}

	return user, a.accounts.SignInSucceeded(ctx, limits...)
}

// SignOut ends the caller's session, or with everywhere all sessions of the caller's user. For a
// session of an account's provider, these are the provider's sessions. It does nothing for an
// unauthenticated caller. It returns the address at which the browser signs out of the provider as
// well, if there is one. It calls wait before it reads the address from the provider.
func (a *Auth) SignOut(ctx context.Context, everywhere bool, wait func()) (string, error) {
	r, err := passwordRequest(ctx)
	if err != nil {
		return "", err
	}

	caller, err := r.identify()
	if err != nil || caller.User == nil {
		return "", err
	}

	if everywhere && caller.User.IsThroughAccount() {
		err = a.accounts.DeleteProviderSessions(ctx, caller.User.ID, *caller.User.Provider)
	} else if everywhere {
		_, err = a.accounts.DeleteUserSessions(ctx, caller.User.ID)
	} else if current, _ := CurrentSession(ctx); current != nil {
		err = a.accounts.DeleteUserSession(ctx, caller.User.ID, current)
	}

	// A concurrent request has ended the session, or deleted the user.
	if err != nil && model.KindOf(err) != model.NotFound {
		return "", err
	}
	if err := r.endSession(); err != nil {
		return "", err
	}

	return a.leaveProvider(ctx, caller.User, wait), nil
}

// leaveProvider returns the address that ends the session of a user at the provider that has signed
// the user in, or "". A provider that cannot be reached does not keep anyone signed in here.
func (a *Auth) leaveProvider(ctx context.Context, user *model.User, wait func()) string {
	if user.Provider == nil {
		return ""
	}

	settings := a.provider
	if user.IsThroughAccount() {
		row, err := a.accounts.Provider(ctx, *user.Provider)
		if err != nil {
			return ""
		}
		settings = provider.Settings{Issuer: row.Issuer, ClientID: row.ClientID}
	}
	if settings.Issuer == "" {
		return ""
	}

	// The provider may be slow, and other mutations need not wait for it.
	wait()
	return a.providers.SignOut(ctx, settings, a.baseURL+"/sign-in")
}

// checkPassword returns the user with this address and password, or errWrongCredentials. It hashes
// once for an unknown address too, so the response time does not reveal which addresses exist.
func (a *Auth) checkPassword(ctx context.Context, address, password string) (*model.User, error) {
	user, err := a.accounts.UserByEmail(ctx, address)
	if err != nil && model.KindOf(err) != model.NotFound {
		return nil, err
	}

	stored := a.hasher.unusable
	if user != nil {
		stored = user.PasswordHash
	}

	ok, outdated, err := a.hasher.check(ctx, password, stored)
	if err != nil {
		return nil, err
	}
	if !ok || user == nil {
		return nil, errWrongCredentials
	}
	if !outdated {
		return user, nil
	}
	if user.PasswordHash, err = a.hasher.hash(ctx, password); err != nil {
		return nil, err
	}

	renewed, err := a.accounts.SetPasswordHash(ctx, user.ID, stored, user.PasswordHash)

	// A concurrent sign-in has renewed the hash, or the password has changed.
	if err == nil && !renewed {
		return a.checkPassword(ctx, address, password)
	}

	return user, err
}

// startSession signs in a user whose password was checked or chosen in this request, and remembers
// the browser. With signIn, the audit log gets an entry.
func (a *Auth) startSession(ctx context.Context, r *request, user *model.User, signIn bool) (*model.User, error) {
	return a.begin(ctx, r, user, nil, signIn, false)
}

// startProvedSession is startSession for a user who has proved the second factor, in this request
// or in the session that it replaces.
func (a *Auth) startProvedSession(
	ctx context.Context, r *request, user *model.User, signIn bool,
) (*model.User, error) {
	return a.begin(ctx, r, user, nil, signIn, true)
}

func (a *Auth) begin(
	ctx context.Context, r *request, user *model.User, state *accounts.ProviderState, signIn, proved bool,
) (*model.User, error) {
	user, err := r.replaceSession(ctx, user, state, signIn, proved)
	if err != nil {
		return nil, err
	}

	// A browser that only the provider of an account knows must not get a counter of wrong
	// passwords of its own.
	if user.IsThroughAccount() {
		return user, nil
	}
	return user, a.devices.remember(r.w, r.http, user)
}
