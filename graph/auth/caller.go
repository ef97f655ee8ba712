package auth

import (
	"context"
	"net/http"

	"github.com/tallygate/tallygate/db/model"
)

// Caller is the sender of a request: a user in a browser, a program with a user's API token, or
// unauthenticated.
type Caller struct {
	User  *model.User     // with its account; nil for an unauthenticated caller
	Token *model.APIToken // nil for a session
}

// ErrUnauthenticated is returned for a caller without a session and without an API token.
var ErrUnauthenticated = &model.Error{
	Kind: model.Unauthenticated, Code: "unauthenticated", Message: "Sign in first.",
}

// CallerOf returns the caller of a request that passed Middleware; the zero Caller if it did not.
// After SignUp, SignIn and SignOut it returns their outcome. It fails with the model.Error
// unauthenticated for an unknown API token, and with the database's errors.
func CallerOf(ctx context.Context) (Caller, error) {
	r, ok := ctx.Value(requestKey{}).(*request)
	if !ok {
		return Caller{}, nil
	}
	return r.identify()
}

// Require returns the caller if it has the permission. It fails with ErrUnauthenticated or
// model.ErrForbidden.
func Require(ctx context.Context, p model.Permission) (Caller, error) {
	caller, err := CallerOf(ctx)
	if err != nil {
		return Caller{}, err
	}
	return caller, caller.check(p)
}

// MayPersonal reports whether the caller may read its sessions and API tokens, which an API token
// may not. The caller must be authenticated.
func MayPersonal(ctx context.Context) (bool, error) {
	caller, err := CallerOf(ctx)
	return err == nil && caller.User.May(model.MayPersonal, caller.Token), err
}

func (c Caller) check(p model.Permission) error {
	switch {
	case c.User == nil:
		return ErrUnauthenticated
	case !c.User.May(p, c.Token):
		return model.ErrForbidden
	}
	return nil
}

// Downloader returns the user if it may download rows, with the errors of Require. It is for
// handlers outside of Middleware.
func (a *Auth) Downloader(r *http.Request) (*model.User, error) {
	caller, err := (&request{auth: a, http: r}).identify()
	if err != nil {
		return nil, err
	}
	return caller.User, caller.check(model.MayExport)
}
