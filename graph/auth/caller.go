package auth

import (
	"context"
	"net/http"
	"strings"

	"github.com/tallygate/tallygate/db/model"
)

// Caller is who sends a request: a user in a browser, a program with a user's API token, or nobody.
type Caller struct {
	User  *model.User     // with the account; nil for nobody
	Token *model.APIToken // nil for a session
}

// The errors of callers who are nobody.
var (
	ErrUnauthenticated = &model.Error{
		Kind: model.Unauthenticated, Code: "unauthenticated", Message: "Sign in first.",
	}
	errToken = &model.Error{
		Kind: model.Unauthenticated, Code: "unauthenticated", Message: "The API token is wrong or was revoked.",
	}
)

// Who returns the caller of a request whose context came through Middleware. After SignUp, SignIn
// and SignOut it gives their outcome. It fails with the model.Error unauthenticated for a token
// that is none, and with the database.
func Who(ctx context.Context) (Caller, error) {
	v, ok := ctx.Value(visitorKey{}).(*visitor)
	if !ok {
		return Caller{}, nil
	}
	return v.identify()
}

// Require returns the caller who may do something: ErrUnauthenticated for nobody,
// model.ErrForbidden for one who may not.
func Require(ctx context.Context, p model.Permission) (Caller, error) {
	caller, err := Who(ctx)
	if err != nil {
		return Caller{}, err
	}
	return caller, caller.check(p)
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

// Downloader returns the user who may download rows: ErrUnauthenticated and model.ErrForbidden as
// with Require. It is for handlers outside Middleware.
func (a *Auth) Downloader(r *http.Request) (*model.User, error) {
	caller, err := (&visitor{auth: a, r: r}).identify()
	if err != nil {
		return nil, err
	}
	return caller.User, caller.check(model.MayExport)
}

// byPassword returns the visitor of a request that may deal with passwords and sessions. A request
// with an API token may not: whoever finds a token must not be able to take over the account.
func byPassword(ctx context.Context) (*visitor, error) {
	v := visitorOf(ctx)
	if _, ok := bearer(v.r); ok {
		return nil, model.ErrForbidden
	}
	return v, nil
}

// bearer returns the API token of a request. Other schemes are none of ours: a proxy in front may
// have asked for a password.
func bearer(r *http.Request) (string, bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// token returns the caller with an API token.
func (a *Auth) token(ctx context.Context, secret string) (Caller, error) {
	if !model.IsSecret(model.APITokenPrefix, secret) {
		// a typing error costs no look-up
		return Caller{}, errToken
	}

	token, user, err := a.accounts.APITokenUser(ctx, model.HashToken(secret), model.At(a.now()))
	if model.KindOf(err) == model.NotFound {
		return Caller{}, errToken
	}

	return Caller{User: user, Token: token}, err
}
