// Package auth identifies the callers of the control plane: sign-up, sign-in, sign-out, passwords,
// second factors, invitations, browser sessions, API tokens and shared links. The GraphQL handler
// and the export handler share one Auth. It does not decide what a caller may do: that is a rule of
// db/model (User.May), and each query's WHERE clause restricts the rows to the caller's account.
package auth

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
	"github.com/tallygate/tallygate/graph/provider"
)

// MinSecret is the minimum length of the application key, in bytes.
const MinSecret = 32

// Options configures an Auth. All fields are required, with these exceptions: IsShared, Rotation,
// Signups (the zero value is "closed"), CaptchaPlan, NoMail and PasswordCost.
type Options struct {
	DB          *db.DB
	Secret      []byte                         // application key, at least MinSecret bytes; those of each use derive from it
	Rotation    *model.KeyRotation             // of the application key; nil: there is no previous one
	BaseURL     string                         // {base_url}; https sets the cookies' __Host- name and Secure attribute
	Signups     model.SignupPolicy             // which sign-ups are accepted
	CaptchaPlan model.CaptchaPlan              // of new accounts; empty: the free plan
	NoMail      bool                           // no mail is sent: invitations by mail are refused
	ClientAddr  func(*http.Request) netip.Addr // the client's address behind the configured proxies
	IsShared    func(*http.Request) bool       // whether many clients share that address: no limit by network; nil: never
	Now         func() time.Time

	// Provider is the OpenID Connect provider of the installation, with a name for people. Without
	// an issuer there is none.
	Provider     provider.Settings
	ProviderName string

	// Providers calls the providers. nil: there are no sign-ins through providers.
	Providers *provider.Client
	// Resolver finds the DNS records of domains. nil: the machine's.
	Resolver *net.Resolver
	// ProviderNets are the private networks in which accounts may name an issuer.
	ProviderNets []netip.Prefix
	// AllowLocalDomains accepts *.localhost as a provider's domain.
	AllowLocalDomains bool
	Log               *slog.Logger // nil: slog.Default

	// PasswordCost is the cost of a password's hash. nil: OWASP's minimum, see hasher.go. Only
	// tests set another one.
	PasswordCost *argon2id.Params
}

// Auth signs users up, in and out, and identifies callers. It is safe for concurrent use.
type Auth struct {
	accounts    *accounts.Store
	sites       *sites.Store
	signups     model.SignupPolicy
	captchaPlan model.CaptchaPlan
	noMail      bool
	clientAddr  func(*http.Request) netip.Addr
	isShared    func(*http.Request) bool
	now         func() time.Time

	baseURL  string
	sessions *store
	devices  *devices
	viewers  *cookieSigner // of viewer tokens
	throttle throttleKey
	hasher   *hasher

	providers    *provider.Client
	provider     provider.Settings // of the installation
	providerName string
	providerNets []netip.Prefix
	allowLocal   bool
	resolver     *net.Resolver
	attempts     *cookieSigner // of sign-ins through providers
	attemptName  string
	log          *slog.Logger

	keys       *keys.Store
	challenges *cookieSigner
	passkeys   *webauthn.WebAuthn // nil: the base URL permits no passkeys
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

	passwordCost := cost
	if o.PasswordCost != nil {
		passwordCost = *o.PasswordCost
	}

	passkeys, err := newPasskeys(base)
	if err != nil {
		return nil, fmt.Errorf("auth: passkeys of %s: %w", o.BaseURL, err)
	}

	if o.Providers == nil {
		o.Provider = provider.Settings{}
		o.Providers = provider.New(provider.Options{Allowed: o.ProviderNets, Now: o.Now})
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}

	secure := base.Scheme == "https"
	attemptCookie := attemptName
	if secure {
		attemptCookie = attemptNameHTTPS
	}

	return &Auth{
		accounts:    accounts.New(o.DB),
		sites:       sites.New(o.DB),
		signups:     o.Signups,
		captchaPlan: o.CaptchaPlan,
		noMail:      o.NoMail,
		clientAddr:  o.ClientAddr,
		isShared:    o.IsShared,
		now:         o.Now,
		baseURL:     strings.TrimSuffix(o.BaseURL, "/"),
		sessions:    newStore(accounts.New(o.DB), newCookieSigner(o.Secret, o.Rotation, useSessions), secure, o.Now),
		devices:     newDevices(newCookieSigner(o.Secret, o.Rotation, useDevices), secure),
		viewers:     newCookieSigner(o.Secret, o.Rotation, useViewers),
		throttle:    newThrottleKey(o.Secret, o.Rotation),
		hasher:      newHasher(passwordCost, runtime.GOMAXPROCS(0)),
		keys:        keys.New(o.DB),

		providers: o.Providers, provider: o.Provider, providerName: o.ProviderName, providerNets: o.ProviderNets,
		allowLocal: o.AllowLocalDomains, resolver: o.Resolver, log: o.Log,
		attempts: newCookieSigner(o.Secret, o.Rotation, useProviders), attemptName: attemptCookie,

		challenges: newCookieSigner(o.Secret, o.Rotation, useChallenges),
		passkeys:   passkeys,
	}, nil
}
