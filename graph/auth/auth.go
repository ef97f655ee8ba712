// Package auth knows who is calling: sign-up, sign-in, sign-out, passwords, invitations, the
// sessions of the account application and API tokens. The GraphQL handler and the export handler
// share one Auth. What a caller may do is a rule of db/model (User.May), and whose rows they are is
// part of each query's WHERE clause.
package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/sessions"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
)

// MinSecret is the least number of bytes of the application key.
const MinSecret = 32

// Options is what an Auth needs. Every field is required, except IsShared and Rotation, that the
// zero Signups is "closed", CaptchaPlan has a default, and mails are sent unless NoMail says
// otherwise.
type Options struct {
	DB          *db.DB
	Secret      []byte                         // application key, at least MinSecret bytes; keys for each use are derived from it
	Rotation    *model.KeyRotation             // of the application key; nil: there is no previous one
	BaseURL     string                         // {base_url}; https decides the cookies' name and Secure attribute
	Signups     model.SignupPolicy             // who may sign up
	CaptchaPlan model.CaptchaPlan              // of new accounts; empty: the free one
	NoMail      bool                           // no mail is sent, so that nobody can be invited by one
	ServesHits  bool                           // the process also has the data role, which keeps half of the processor time
	ClientAddr  func(*http.Request) netip.Addr // the client's address behind the configured proxies
	IsShared    func(*http.Request) bool       // whether many clients share that address, so that no limit by network applies; nil: never
	Now         func() time.Time
}

// Auth signs users up, in and out, and recognises them. It is safe for concurrent use.
type Auth struct {
	accounts    *accounts.Store
	signups     model.SignupPolicy
	captchaPlan model.CaptchaPlan
	noMail      bool
	clientAddr  func(*http.Request) netip.Addr
	isShared    func(*http.Request) bool
	now         func() time.Time

	baseURL   string
	sessions  *store
	devices   *devices
	throttle  throttleKey
	passwords *passwords
}

// New checks the options and returns an Auth. It starts nothing.
func New(o Options) (*Auth, error) {
	switch {
	case o.DB == nil, o.ClientAddr == nil, o.Now == nil:
		return nil, errors.New("auth: DB, ClientAddr and Now are required")
	case len(o.Secret) < MinSecret:
		return nil, fmt.Errorf("auth: the application key has %d bytes, it needs at least %d", len(o.Secret), MinSecret)
	}

	base, err := url.Parse(o.BaseURL)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("auth: the base URL %q is not an http or https address", o.BaseURL)
	}
	if o.IsShared == nil {
		o.IsShared = func(*http.Request) bool { return false }
	}

	secure := base.Scheme == "https"
	return &Auth{
		accounts:    accounts.New(o.DB),
		signups:     o.Signups,
		captchaPlan: o.CaptchaPlan,
		noMail:      o.NoMail,
		clientAddr:  o.ClientAddr,
		isShared:    o.IsShared,
		now:         o.Now,
		baseURL:     strings.TrimSuffix(o.BaseURL, "/"),
		sessions:    newStore(accounts.New(o.DB), newCookieSigner(o.Secret, o.Rotation, useSessions), secure, o.Now),
		devices:     newDevices(newCookieSigner(o.Secret, o.Rotation, useDevices), secure),
		throttle:    newThrottleKey(o.Secret, o.Rotation),
		passwords:   newPasswords(runtime.GOMAXPROCS(0), o.ServesHits),
	}, nil
}

// Middleware lets the handlers beneath it ask for the caller, and sign people up, in and out, with
// the request's context. It reads no database itself: the caller is looked up when somebody first
// asks.
func (a *Auth) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visitor{auth: a, w: w}
		r = r.WithContext(context.WithValue(r.Context(), visitorKey{}, v))
		v.r = r
		next.ServeHTTP(w, r)
	})
}

// visitor is the caller of one request: nobody is looked up before somebody asks.
type visitor struct {
	auth *Auth
	w    http.ResponseWriter
	r    *http.Request

	mu     sync.Mutex
	loaded bool
	caller Caller
}

type visitorKey struct{}

// visitorOf returns the caller whose cookies may be read and set. Without Middleware the program is
// wrong.
func visitorOf(ctx context.Context) *visitor {
	v, ok := ctx.Value(visitorKey{}).(*visitor)
	if !ok {
		panic("auth: the request did not pass Auth.Middleware")
	}
	return v
}

// identify looks the caller up. A request with an API token is the token's, whatever cookies it
// carries.
func (v *visitor) identify() (Caller, error) {
	v.mu.Lock()
	defer v.mu.Unlock()

	if v.loaded {
		return v.caller, nil
	}

	var err error

	if secret, ok := bearer(v.r); ok {
		v.caller, err = v.auth.token(v.r.Context(), secret)
	} else {
		v.caller, err = v.signedIn()
	}

	v.loaded = err == nil
	return v.caller, err
}

func (v *visitor) signedIn() (Caller, error) {
	session, err := v.session()
	if err != nil {
		return Caller{}, err
	}
	return Caller{User: userOf(session)}, nil
}

func (v *visitor) session() (*sessions.Session, error) {
	session, err := v.auth.sessions.Get(v.r, v.auth.sessions.name)
	if err != nil {
		return nil, fmt.Errorf("find session: %w", err)
	}
	return session, nil
}

// begin ends the request's session, if it has one, and starts a new one for the user under a new
// id. It is errWrongCredentials when the user's password has changed since it was checked: a change
// ends all sessions, and this one must not outlive it.
func (v *visitor) begin(user *model.User) error {
	v.mu.Lock()
	defer v.mu.Unlock()

	session, err := v.session()
	if err != nil {
		return err
	}

	// sign-out may have come before in the same request
	session.Options.MaxAge = v.auth.sessions.options.MaxAge
	before := userOf(session)
	setUser(session, user)

	if err := session.Save(v.r, v.w); err != nil {
		setUser(session, before)

		if model.KindOf(err) == model.NotFound {
			return errWrongCredentials
		}

		return fmt.Errorf("start session: %w", err)
	}

	v.caller, v.loaded = Caller{User: user}, true
	return nil
}

// end deletes the request's session, if it has one, and its cookie.
func (v *visitor) end() error {
	v.mu.Lock()
	defer v.mu.Unlock()

	session, err := v.session()
	if err != nil {
		return err
	}

	session.Options.MaxAge = -1
	if err := session.Save(v.r, v.w); err != nil {
		return fmt.Errorf("end session: %w", err)
	}

	v.caller, v.loaded = Caller{}, true
	return nil
}
