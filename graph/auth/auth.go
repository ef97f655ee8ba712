// Package auth identifies the callers of the control plane: sign-up, sign-in, sign-out, passwords,
// second factors, invitations, browser sessions, API tokens and shared links. The GraphQL handler
// and the export handler share one Auth. It does not decide what a caller may do: that is a rule of
// db/model (User.May), and each query's WHERE clause restricts the rows to the caller's account.
package auth

import (
	"cmp"
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

// check reports missing and wrong options, and returns the base URL.
func (o *Options) check() (*url.URL, error) {
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
	return base, nil
}

// setDefaults sets the options that are not given.
func (o *Options) setDefaults() {
	if o.IsShared == nil {
		o.IsShared = func(*http.Request) bool { return false }
	}
	if o.Providers == nil {
		o.Provider = provider.Settings{}
		o.Providers = provider.New(provider.Options{Allowed: o.ProviderNets, Now: o.Now})
	}

	o.Resolver = cmp.Or(o.Resolver, net.DefaultResolver)
	o.Log = cmp.Or(o.Log, slog.Default())
	o.PasswordCost = cmp.Or(o.PasswordCost, &cost)
}

// signer returns the signer of one use of the application key.
func (o *Options) signer(use string) *cookieSigner { return newCookieSigner(o.Secret, o.Rotation, use) }

// Auth signs users up, in and out, and identifies callers. It is safe for concurrent use.
type Auth struct {
	Providers     *Providers
	SecondFactors *SecondFactors
	Passkeys      *Passkeys
	SharedLinks   *SharedLinks
	Links         *Links

	accounts  *accounts.Store
	passwords *passwords
	throttle  *throttle
	sessions  *store
	now       func() time.Time

	signups     model.SignupPolicy
	captchaPlan model.CaptchaPlan
	noMail      bool
}

// New checks the options and returns an Auth. It starts nothing.
func New(o Options) (*Auth, error) {
	base, err := o.check()
	if err != nil {
		return nil, err
	}
	party, err := newParty(base)
	if err != nil {
		return nil, fmt.Errorf("auth: passkeys of %s: %w", o.BaseURL, err)
	}

	o.setDefaults()
	secure, baseURL := base.Scheme == "https", strings.TrimSuffix(o.BaseURL, "/")
	rows, keyRows := accounts.New(o.DB), keys.New(o.DB)

	// Each part gets what it uses: passwords check the throttle, second factors also passwords and
	// passkeys, and providers all of them.
	limits := &throttle{
		accounts: rows, key: newThrottleKey(o.Secret, o.Rotation), clientAddr: o.ClientAddr, isShared: o.IsShared, now: o.Now,
	}
	checks := &passwords{
		accounts: rows, hasher: newHasher(*o.PasswordCost, runtime.GOMAXPROCS(0)), throttle: limits,
		devices: newDevices(o.signer(useDevices), secure), now: o.Now,
	}
	passkeys := &Passkeys{
		accounts: rows, keys: keyRows, passwords: checks, throttle: limits,
		challenges: o.signer(useChallenges), party: party, now: o.Now,
	}
	factors := &SecondFactors{
		accounts: rows, passwords: checks, passkeys: passkeys, throttle: limits, baseURL: baseURL, now: o.Now,
	}

	return &Auth{
		Providers: &Providers{
			accounts: rows, keys: keyRows, passwords: checks, factors: factors, throttle: limits,
			client: o.Providers, now: o.Now, log: o.Log,
			own: o.Provider, name: o.ProviderName, signups: o.Signups, captchaPlan: o.CaptchaPlan,
			nets: o.ProviderNets, allowLocal: o.AllowLocalDomains, resolver: o.Resolver,
			baseURL: baseURL, attempts: newAttempts(o.signer(useProviders), secure, o.Now),
		},
		SecondFactors: factors,
		Passkeys:      passkeys,
		SharedLinks: &SharedLinks{
			links: sites.New(o.DB).Objects, passwords: checks, throttle: limits,
			viewers: o.signer(useViewers), secure: secure, now: o.Now,
		},
		Links: &Links{baseURL: baseURL, now: o.Now},

		accounts: rows, passwords: checks, throttle: limits,
		sessions: newStore(rows, o.signer(useSessions), secure, o.Now), now: o.Now,
		signups: o.Signups, captchaPlan: o.CaptchaPlan, noMail: o.NoMail,
	}, nil
}
