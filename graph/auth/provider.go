package auth

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/graph/provider"
)

// Sign-in through OpenID Connect providers: the installation's, and those of accounts. ADR 051 has
// the reasons.
//
// StartSignIn returns the provider's address and sets a signed cookie. The provider sends the
// browser to the callback, which checks the answer and puts the person into the cookie.
// FinishSignIn then signs the user in, as Auth.SignIn does after a password.

// Providers signs users in through OpenID Connect providers, and changes the providers of accounts.
type Providers struct {
	accounts  *accounts.Store
	keys      *keys.Store
	passwords *passwords
	factors   *SecondFactors
	throttle  *throttle
	client    *provider.Client
	now       func() time.Time
	log       *slog.Logger

	own         provider.Settings // of the installation
	name        string            // of the installation's provider
	signups     model.SignupPolicy
	captchaPlan model.CaptchaPlan

	nets       []netip.Prefix
	allowLocal bool
	resolver   *net.Resolver

	baseURL  string
	attempts *attempts
}

// ProviderCallbackPath is where the installation's provider sends browsers back. The provider of an
// account has a path of its own below it.
const ProviderCallbackPath = "/sign-in/callback"

// The errors of sign-ins through providers.
var (
	errNoProvider = model.InvalidField("email", "no_provider",
		"No provider signs people of this domain in. Use your password.")
	errProviderExpired = &model.Error{
		Kind: model.Conflict, Code: "provider_expired", Message: "This sign-in has expired or was used. Start it again.",
	}
	errProviderAway = &model.Error{
		Kind: model.Conflict, Code: "provider_unavailable",
		Message: "The provider cannot be reached. Try again later, or use your password.",
	}
	errProviderSettings = &model.Error{
		Kind: model.Conflict, Code: "provider_misconfigured",
		Message: "The settings of the provider are wrong. Ask your administrator, or use your password.",
	}

	// ErrProviderRequired is returned to a user whose accounts all require a provider.
	ErrProviderRequired = &model.Error{
		Kind: model.Conflict, Code: "provider_required", Message: "Your account requires the sign-in through its provider.",
	}
)

// Name returns the name of the installation's provider, or "".
func (p *Providers) Name() string {
	if p.own.Issuer == "" {
		return ""
	}
	return p.name
}

// StartSignIn returns the address of the provider that signs people with the address in.
// Without an address, it is the installation's provider. next is the page to return to. Attempts
// count by network until they succeed. The answer for an address depends on its domain alone.
func (p *Providers) StartSignIn(ctx context.Context, email *string, next string, wait func()) (string, error) {
	r, err := passwordRequest(ctx)
	if err != nil {
		return "", err
	}

	address := ""
	if email != nil {
		if address, err = model.ParseEmail(*email); err != nil {
			return "", err
		}
	}
	if err := p.throttle.count(ctx, p.throttle.providerLimits(r.http)); err != nil {
		return "", err
	}

	settings, row, err := p.providerFor(ctx, address)
	if err != nil {
		return "", err
	}

	// The provider may be slow, and other mutations need not wait for it.
	wait()
	made := attempt{
		Issuer: settings.Issuer, State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		Next: ownPath(next), Expires: model.At(p.now()).Add(model.ProviderSignInLifetime),
	}
	if row != nil {
		made.Account, made.Changed = row.AccountID, row.ChangedAt
	}

	redirect, err := p.Redirect(ctx, made.Account)
	if err != nil {
		return "", err
	}
	target, err := p.client.Start(ctx, settings, made.secrets(), redirect, address)
	if err != nil {
		p.log.WarnContext(ctx, "a provider cannot sign anyone in", "issuer", settings.Issuer, "error", err)
		if failed, ok := errors.AsType[*provider.Error](err); ok && failed.Reason.IsSetting() {
			return "", errProviderSettings
		}
		return "", errProviderAway
	}
	return target, p.attempts.remember(r.w, made)
}

// providerFor returns the provider for a normalised address, or the installation's for an empty
// one.
func (p *Providers) providerFor(ctx context.Context, address string) (provider.Settings, *model.AccountProvider, error) {
	if address == "" {
		if p.own.Issuer == "" {
			return provider.Settings{}, nil, errNoProvider
		}
		return p.own, nil, nil
	}

	_, domain, _ := strings.Cut(address, "@")
	row, err := p.accounts.Providers.OfDomain(ctx, domain)
	if errors.Is(err, model.ErrNotFound) {
		return provider.Settings{}, nil, errNoProvider
	}
	if err != nil {
		return provider.Settings{}, nil, err
	}
	settings, err := p.settingsOf(row)
	return settings, row, err
}

func (p *Providers) settingsOf(row *model.AccountProvider) (provider.Settings, error) {
	secret, err := p.accounts.Providers.ClientSecret(row)
	return provider.Settings{
		Issuer: row.Issuer, ClientID: row.ClientID, ClientSecret: secret,
		VerifiesEmails: row.TrustsEmails, RoleClaim: row.RoleClaim,
	}, err
}

// providerOf returns the provider of an attempt, if it is still the same.
func (p *Providers) providerOf(ctx context.Context, t attempt) (provider.Settings, *model.AccountProvider, error) {
	if t.Account == 0 {
		if p.own.Issuer != t.Issuer {
			return provider.Settings{}, nil, accounts.ErrProviderChanged
		}
		return p.own, nil, nil
	}

	row, err := p.accounts.Providers.Of(ctx, t.Account)
	if errors.Is(err, model.ErrNotFound) || err == nil && (row.ChangedAt != t.Changed || row.VerifiedAt == 0) {
		return provider.Settings{}, nil, accounts.ErrProviderChanged
	}
	if err != nil {
		return provider.Settings{}, nil, err
	}
	settings, err := p.settingsOf(row)
	return settings, row, err
}

// callbackTimeout bounds a request of the callback.
const callbackTimeout = 20 * time.Second

// MountCallback adds the handler to which providers send browsers back. It leads to the sign-in
// page: with the provider's person in the cookie, or with the reason of the failure. It does not
// sign in itself.
func (p *Providers) MountCallback(mux *http.ServeMux) {
	mux.HandleFunc("GET "+ProviderCallbackPath, p.callback)
	mux.HandleFunc("GET "+ProviderCallbackPath+"/{account}", p.callback)
}

// callback checks a provider's answer, and redirects to the sign-in page.
func (p *Providers) callback(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")

	ctx, cancel := context.WithTimeout(r.Context(), callbackTimeout)
	defer cancel()

	t, valid := p.attempts.read(r)
	query := url.Values{}
	if t.Next != "" {
		query.Set("next", t.Next)
	}

	// The state alone does not name the provider: a hostile one can send a browser, with its state,
	// on to another provider, and would get that provider's code (mix-up, RFC 9700, section 4.4).
	// So each provider has a path of its own.
	path, err := p.callbackPath(ctx, t.Account)
	known := valid && r.URL.Path == path &&
		subtle.ConstantTimeCompare([]byte(r.URL.Query().Get("state")), []byte(t.State)) == 1

	// A second request for the answer, such as a reload, and a forged one, must not end the sign-in
	// of this browser.
	if valid && t.Subject != "" {
		query.Set("provider", "finish")
	} else if err = cmp.Or(err, p.answered(ctx, w, r, t, known)); err != nil {
		if known {
			p.attempts.set(w, "", -1)
		}
		query.Set("problem", p.problem(ctx, t, err))
	} else {
		query.Set("provider", "finish")
	}
	http.Redirect(w, r, "/sign-in/provider?"+query.Encode(), http.StatusSeeOther)
}

// answered checks a provider's answer and puts the person into the cookie. known means that the
// answer is to the browser's attempt.
func (p *Providers) answered(ctx context.Context, w http.ResponseWriter, r *http.Request, t attempt, known bool) error {
	query := r.URL.Query()
	if !known {
		return errProviderExpired
	}

	// Before any call to the provider: a replayed answer costs one write that changes nothing.
	if err := p.accounts.Providers.UseChallenge(ctx, t.challenge("answer")); err != nil {
		return err
	}

	settings, row, err := p.providerOf(ctx, t)
	if err != nil {
		return err
	}
	answer := provider.Answer{Code: query.Get("code"), Issuer: query.Get("iss"), Error: query.Get("error")}
	person, err := p.client.Finish(ctx, settings, t.secrets(), answer, p.baseURL+r.URL.Path)
	if err != nil {
		return err
	}

	done := attempt{
		Account: t.Account, Issuer: t.Issuer, Changed: t.Changed, State: rand.Text(), Next: t.Next,
		Expires: model.At(p.now()).Add(model.ProviderSignInLifetime), Subject: person.Subject, Email: person.Email,
	}
	if row != nil {
		if !row.HasAddress(person.Email) {
			return &provider.Error{Reason: provider.NoEmail, Cause: errors.New("the address is of another domain")}
		}
		done.Role = row.RoleOf(person.Roles)
	}
	return p.attempts.remember(w, done)
}

// problem logs the failure of a sign-in, and returns the name of its text in the console.
func (p *Providers) problem(ctx context.Context, t attempt, err error) string {
	failed, ok := errors.AsType[*provider.Error](err)
	switch {
	case ok && failed.Reason == provider.Refused:
		return string(failed.Reason)
	case ok:
		p.log.WarnContext(ctx, "a sign-in through a provider failed", "issuer", t.Issuer, "error", err)
		if failed.Reason.IsSetting() {
			return string(provider.Misconfigured)
		}
		return string(failed.Reason)
	case errors.Is(err, errProviderExpired), errors.Is(err, accounts.ErrChallengeUsed):
		return "expired"
	case errors.Is(err, accounts.ErrProviderChanged):
		return "changed"
	}

	p.log.ErrorContext(ctx, "a sign-in through a provider failed", "error", err)
	return "internal"
}

// ProviderSignedIn is the outcome of FinishSignIn.
type ProviderSignedIn struct {
	SignedIn
	Email         string // that the provider has verified
	NeedsPassword bool   // a user with this address must prove it once
}

// FinishSignIn signs in the user whom the provider has named in this browser, under a new
// session id. The provider replaces the password, and never the second factor. A user whom the
// provider names for the first time proves the address by the password, which counts as at SignIn.
func (p *Providers) FinishSignIn(ctx context.Context, password string, proof Proof) (*ProviderSignedIn, error) {
	r, err := passwordRequest(ctx)
	if err != nil {
		return nil, err
	}
	t, ok := p.attempts.read(r.http)
	if !ok || t.Subject == "" {
		return nil, errProviderExpired
	}

	arrival := p.arrivalOf(r, t)
	outcome := &ProviderSignedIn{Email: t.Email}
	user, err := p.arriving(ctx, r, t, &arrival, password, outcome)
	if err != nil || outcome.NeedsPassword {
		return outcome, err
	}

	// The second factor comes before anything is stored.
	proved := user != nil && user.SecondFactor
	if proved {
		if proof == (Proof{}) {
			asked, err := p.factors.ask(ctx, user)
			if err != nil {
				return nil, err
			}
			outcome.SignedIn = *asked
			return outcome, nil
		}
		if err := p.factors.proveThrough(ctx, r, user, t.Account, proof); err != nil {
			return nil, err
		}
	}

	user, err = p.accounts.Providers.Arrive(ctx, arrival)
	switch {
	case errors.Is(err, accounts.ErrChallengeUsed), errors.Is(err, accounts.ErrProofNeeded), errors.Is(err, model.ErrStale):
		return nil, errProviderExpired
	case err != nil:
		return nil, err
	}
	p.attempts.set(r.w, "", -1)
	if err := p.throttle.uncount(ctx, p.throttle.providerLimits(r.http), nil); err != nil {
		return nil, err
	}

	user.Provider = &t.Account
	state := &accounts.ProviderState{Issuer: t.Issuer, Changed: t.Changed}
	outcome.User, err = r.begin(ctx, user, accounts.SessionStart{SignIn: true, Proved: proved, Provider: state})
	return outcome, err
}

// arrivalOf returns the arrival of the person in an attempt.
func (p *Providers) arrivalOf(r *request, t attempt) accounts.Arrival {
	return accounts.Arrival{
		Identity: model.Identity{
			AccountID: t.Account, Issuer: t.Issuer, Subject: t.Subject, CreatedAt: model.At(p.now()),
		},
		Email: t.Email, Role: t.Role, Changed: t.Changed, SignIn: t.challenge("end"), Language: requestLanguage(r.http),
		Signups: p.signups, Plan: p.captchaPlan, PasswordHash: noPassword(p.passwords.hasher.cost),
	}
}

// arriving returns the user of the person in an attempt, or nil for a new person. A user whom the
// provider names for the first time must have the password.
func (p *Providers) arriving(
	ctx context.Context, r *request, t attempt, arrival *accounts.Arrival, password string, outcome *ProviderSignedIn,
) (*model.User, error) {
	user, err := p.accounts.Providers.IdentityUser(ctx, arrival.Identity)
	if !errors.Is(err, model.ErrNotFound) {
		return user, err
	}

	_, err = p.accounts.UserByEmail(ctx, t.Email)
	switch {
	case errors.Is(err, model.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case password == "":
		outcome.NeedsPassword = true
		return nil, nil
	case !model.IsPassword(password):
		return nil, wrongPassword("password")
	}

	user, err = p.passwords.authenticate(ctx, r, t.Email, password)
	if errors.Is(err, errWrongCredentials) {
		return nil, wrongPassword("password")
	}
	arrival.Proved = user
	return user, err
}

// Redirect returns the address to which the provider of an account, or the installation's provider
// for 0, sends browsers back. It is registered at the provider.
func (p *Providers) Redirect(ctx context.Context, accountID model.AccountID) (string, error) {
	path, err := p.callbackPath(ctx, accountID)
	return p.baseURL + path, err
}

func (p *Providers) callbackPath(ctx context.Context, accountID model.AccountID) (string, error) {
	if accountID == 0 {
		return ProviderCallbackPath, nil
	}
	ids, err := p.keys.NodeIDs(ctx)
	if err != nil {
		return "", err
	}
	return ProviderCallbackPath + "/" + nodeid.Of(ids, accountID), nil
}

// leave returns the address that ends the session of a user at the provider that has signed the
// user in, or "". A provider that cannot be reached does not keep anyone signed in here.
func (p *Providers) leave(ctx context.Context, user *model.User, wait func()) string {
	if user.Provider == nil {
		return ""
	}

	settings := p.own
	if user.IsThroughAccount() {
		row, err := p.accounts.Providers.Of(ctx, *user.Provider)
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
	return p.client.SignOut(ctx, settings, p.baseURL+"/sign-in")
}
