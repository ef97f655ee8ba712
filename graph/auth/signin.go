package auth

import (
	"context"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
)

// SignIn checks a password and the second factor, if the user has one, and signs the user in under
// a new session id. A wrong password and an unknown address return the same model.Error,
// wrong_credentials, after the same time. Too many attempts return rate_limited with RetryAfter,
// see throttle.signInLimits.
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

	user, err := a.passwords.authenticate(ctx, r, address, password)
	if err != nil {
		return nil, err
	}

	if user.SecondFactor {
		if proof == (Proof{}) {
			return a.SecondFactors.ask(ctx, user)
		}
		if err := a.SecondFactors.prove(ctx, r, user, proof); err != nil {
			return nil, err
		}
	}

	user, err = r.begin(ctx, user, accounts.SessionStart{SignIn: true, Proved: user.SecondFactor})
	return &SignedIn{User: user}, err
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
		err = a.accounts.Sessions.EndByProvider(ctx, caller.User.ID, *caller.User.Provider)
	} else if everywhere {
		_, err = a.accounts.Sessions.EndAll(ctx, caller.User.ID)
	} else if current, _ := CurrentSession(ctx); current != nil {
		err = a.accounts.Sessions.End(ctx, caller.User.ID, current)
	}

	// A concurrent request has ended the session, or deleted the user.
	if err != nil && model.KindOf(err) != model.NotFound {
		return "", err
	}
	if err := r.endSession(); err != nil {
		return "", err
	}

	return a.Providers.leave(ctx, caller.User, wait), nil
}
