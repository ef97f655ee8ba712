package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/gorilla/sessions"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
)

// Middleware lets the handlers below it identify the caller, and sign users up, in and out, with
// the request's context. It does not read the database itself.
func (a *Auth) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		state := &request{auth: a, w: w}
		state.http = r.WithContext(context.WithValue(r.Context(), requestKey{}, state))
		next.ServeHTTP(w, state.http)
	})
}

// request is one HTTP request with its response, whose cookies may be read and set. It looks its
// caller up at most once, when the caller is first needed.
type request struct {
	auth *Auth
	w    http.ResponseWriter
	http *http.Request

	mu     sync.Mutex
	loaded bool
	caller Caller
}

type requestKey struct{}

// requestOf returns the request of a context. It panics if the request did not pass Middleware.
func requestOf(ctx context.Context) *request {
	r, ok := ctx.Value(requestKey{}).(*request)
	if !ok {
		panic("auth: the request did not pass Auth.Middleware")
	}
	return r
}

// passwordRequest returns the request of a call that reads or changes passwords or sessions. It
// rejects API tokens with model.ErrForbidden: a leaked token must not be enough to take over the
// account.
func passwordRequest(ctx context.Context) (*request, error) {
	r := requestOf(ctx)
	if _, ok := Bearer(r.http); ok {
		return nil, model.ErrForbidden
	}
	return r, nil
}

// identify looks the caller up: by the API token or viewer token if there is one, whatever the
// cookies, else by the session.
func (r *request) identify() (Caller, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.loaded {
		return r.caller, nil
	}

	var err error

	if secret, ok := Bearer(r.http); ok && strings.HasPrefix(secret, viewerTokenPrefix) {
		r.caller, err = r.auth.SharedLinks.view(r.http.Context(), secret)
	} else if ok {
		r.caller, err = r.auth.token(r.http.Context(), secret)
	} else {
		r.caller, err = r.signedIn()
	}

	r.loaded = err == nil
	return r.caller, err
}

func (r *request) signedIn() (Caller, error) {
	session, err := r.session()
	if err != nil {
		return Caller{}, err
	}
	return Caller{User: userOf(session)}, nil
}

func (r *request) session() (*sessions.Session, error) {
	session, err := r.auth.sessions.Get(r.http, r.auth.sessions.name)
	if err != nil {
		return nil, fmt.Errorf("find session: %w", err)
	}
	return session, nil
}

// replaceSession ends the request's session, if any, and starts one of the user under a new id.
// start has the fields SignIn, Proved and Provider. It returns errWrongCredentials if the user's
// password has changed since it was checked: a change ends all sessions, and this one must not
// survive it. It returns the same for a user with a second factor if that was not proved. It
// returns the user as the session reaches it, and fails with ErrProviderRequired if it reaches no
// account. It fails with accounts.ErrProviderChanged if the account's provider that signs the user
// in has changed since. ctx is the mutation's.
func (r *request) replaceSession(
	ctx context.Context, user *model.User, start accounts.SessionStart,
) (*model.User, error) {
	if user = user.Through(user.Provider); user == nil {
		return nil, ErrProviderRequired
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	session, err := r.session()
	if err != nil {
		return nil, err
	}

	// An earlier mutation of the same request may have signed out.
	session.Options.MaxAge = r.auth.sessions.options.MaxAge
	before := userOf(session)
	setUser(session, user)
	session.Values[startValue] = start

	if err := session.Save(r.http.WithContext(ctx), r.w); err != nil {
		setUser(session, before)

		switch {
		case errors.Is(err, accounts.ErrProviderChanged):
			return nil, accounts.ErrProviderChanged
		case model.KindOf(err) == model.NotFound:
			return nil, errWrongCredentials
		}

		return nil, fmt.Errorf("start session: %w", err)
	}

	r.caller, r.loaded = Caller{User: user}, true
	return user, nil
}

// begin signs in a user whom this request has identified, and remembers the browser.
func (r *request) begin(ctx context.Context, user *model.User, start accounts.SessionStart) (*model.User, error) {
	user, err := r.replaceSession(ctx, user, start)
	if err != nil {
		return nil, err
	}

	// A browser that only the provider of an account knows must not get a counter of wrong
	// passwords of its own.
	if user.IsThroughAccount() {
		return user, nil
	}
	return user, r.auth.passwords.devices.remember(r.w, r.http, user)
}

// reload reads the user of the session again, after its memberships have changed, and returns the
// user. If the user was deleted, it ends the session and returns nil.
func (r *request) reload(ctx context.Context) (*model.User, error) {
	user, err := r.readUser(ctx)
	if model.KindOf(err) == model.NotFound {
		return nil, r.endSession()
	}
	return user, err
}

// Reload reads the signed-in user again, with all memberships that the session reaches. It returns
// nil for a caller without a session, and if the user was deleted.
func Reload(ctx context.Context) (*model.User, error) {
	r := requestOf(ctx)
	caller, err := r.identify()
	if err != nil || caller.User == nil || caller.Token != nil {
		return nil, err
	}
	return r.reload(ctx)
}

func (r *request) readUser(ctx context.Context) (*model.User, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	session, err := r.session()
	if err != nil {
		return nil, err
	}

	before := userOf(session)
	user, err := r.auth.accounts.UserByID(ctx, before.ID)
	if err != nil {
		return nil, err
	}
	if user = user.Through(before.Provider); user == nil {
		return nil, model.ErrNotFound
	}

	setUser(session, user)
	r.caller, r.loaded = Caller{User: user}, true
	return user, nil
}

// endSession deletes the request's session, if any, and its cookie.
func (r *request) endSession() error {
	r.mu.Lock()
	defer r.mu.Unlock()

	session, err := r.session()
	if err != nil {
		return err
	}

	session.Options.MaxAge = -1
	if err := session.Save(r.http, r.w); err != nil {
		return fmt.Errorf("end session: %w", err)
	}

	r.caller, r.loaded = Caller{}, true
	return nil
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
	return caller, caller.Check(p)
}

// MayPersonal reports whether the caller may read its sessions and API tokens, which an API token
// must not. The caller must be authenticated.
func MayPersonal(ctx context.Context) (bool, error) {
	caller, err := CallerOf(ctx)
	return err == nil && caller.User.May(model.MayPersonal, caller.Token), err
}

// Downloader returns the user if it may download rows of one of its accounts, with the errors of
// Require. It is for handlers outside of Middleware. They must restrict the rows to an account that
// permits it, see accounts.Store.MemberFor: the default account may require a second factor that
// another one does not.
func (a *Auth) Downloader(r *http.Request) (*model.User, error) {
	caller, err := (&request{auth: a, http: r}).identify()
	if err != nil {
		return nil, err
	}
	if caller.User == nil {
		return nil, caller.Check(model.MayExport)
	}
	return caller.User, caller.User.CheckInAny(model.MayExport, caller.Token)
}

// Uploader returns the user, and the API token if there is one, if it may change the settings of
// one of its accounts. See Downloader.
func (a *Auth) Uploader(r *http.Request) (*model.User, *model.APIToken, error) {
	caller, err := (&request{auth: a, http: r}).identify()
	if err != nil {
		return nil, nil, err
	}
	if caller.User == nil {
		return nil, nil, caller.Check(model.MayConfigure)
	}
	return caller.User, caller.Token, caller.User.CheckInAny(model.MayConfigure, caller.Token)
}

// Program returns the caller of a request with an API token or a viewer token. It fails with
// ErrUnauthenticated without one: cookies do not count. See Downloader.
func (a *Auth) Program(r *http.Request) (Caller, error) {
	if _, ok := Bearer(r); !ok {
		return Caller{}, ErrUnauthenticated
	}
	return (&request{auth: a, http: r}).identify()
}

// Bearer returns the API token or viewer token of a request. Other schemes are ignored: a proxy in
// front may use them.
func Bearer(r *http.Request) (string, bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// token returns the caller with an API token.
func (a *Auth) token(ctx context.Context, secret string) (Caller, error) {
	if !model.IsSecret(model.APITokenPrefix, secret) {
		// A mistyped token costs no lookup.
		return Caller{}, errToken
	}

	token, user, err := a.accounts.Tokens.User(ctx, model.HashToken(secret), model.At(a.now()))
	if model.KindOf(err) == model.NotFound {
		return Caller{}, errToken
	}

	return Caller{User: user, Token: token}, err
}
