package auth

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/graph/provider"
)

// Sign-in through OpenID Connect providers: the installation's, and those of accounts. ADR 051 has
// the reasons.
//
// StartProviderSignIn returns the provider's address and sets a signed cookie. The provider sends
// the browser to the callback, which checks the answer and puts the person into the cookie.
// FinishProviderSignIn then signs the user in, as SignIn does after a password.

// ProviderCallbackPath is where the installation's provider sends browsers back. The provider of an
// account has a path of its own below it.
const ProviderCallbackPath = "/sign-in/callback"

const (
	attemptName      = "tallygate_provider"
	attemptNameHTTPS = "__Host-tallygate-provider"
	maxNext          = 300  // bytes of the page to return to
	maxAttempt       = 4000 // bytes of the cookie with its name and attributes; browsers keep 4,096
)

// attempt is the signed content of the cookie of a sign-in through a provider.
type attempt struct {
	Account  int64         `json:"a,omitempty"` // with the provider; 0: the installation's provider
	Issuer   string        `json:"i"`
	Changed  model.Instant `json:"c,omitempty"` // when the account's provider was changed
	State    string        `json:"s"`
	Nonce    string        `json:"n,omitempty"`
	Verifier string        `json:"v,omitempty"`
	Next     string        `json:"x,omitempty"`
	Expires  model.Instant `json:"e"`

	// After the provider's answer:
	Subject string     `json:"u,omitempty"`
	Email   string     `json:"m,omitempty"`
	Role    model.Role `json:"r,omitempty"` // that the claim sets; empty: none
}

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

// HasProvider returns the name of the installation's provider, or "".
func (a *Auth) HasProvider() string {
	if a.provider.Issuer == "" {
		return ""
	}
	return a.providerName
}

// StartProviderSignIn returns the address of the provider that signs people with the address in.
// Without an address, it is the installation's provider. next is the page to return to. Attempts
// count by network until they succeed. The answer for an address depends on its domain alone.
func (a *Auth) StartProviderSignIn(ctx context.Context, email *string, next string, wait func()) (string, error) {
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
	if err := a.count(ctx, a.providerLimits(r.http)); err != nil {
		return "", err
	}

	settings, row, err := a.providerFor(ctx, address)
	if err != nil {
		return "", err
	}

	// The provider may be slow, and other mutations need not wait for it.
	wait()
	made := attempt{
		Issuer: settings.Issuer, State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		Next: ownPath(next), Expires: model.At(a.now()).Add(model.ProviderSignInLifetime),
	}
	if row != nil {
		made.Account, made.Changed = row.AccountID, row.ChangedAt
	}

	redirect, err := a.ProviderRedirect(ctx, made.Account)
	if err != nil {
		return "", err
	}
	target, err := a.providers.Start(ctx, settings, made.secrets(), redirect, address)
	if err != nil {
		a.log.WarnContext(ctx, "a provider cannot sign anyone in", "issuer", settings.Issuer, "error", err)
		if failed, ok := errors.AsType[*provider.Error](err); ok && failed.Reason.IsSetting() {
			return "", errProviderSettings
		}
		return "", errProviderAway
	}
	return target, a.rememberAttempt(r.w, made)
}

func (t attempt) secrets() provider.Attempt {
	return provider.Attempt{State: t.State, Nonce: t.Nonce, Verifier: t.Verifier}
}

// providerFor returns the provider for a normalised address, or the installation's for an empty
// one.
func (a *Auth) providerFor(ctx context.Context, address string) (provider.Settings, *model.AccountProvider, error) {
	if address == "" {
		if a.provider.Issuer == "" {
			return provider.Settings{}, nil, errNoProvider
		}
		return a.provider, nil, nil
	}

	_, domain, _ := strings.Cut(address, "@")
	row, err := a.accounts.ProviderOfDomain(ctx, domain)
	if errors.Is(err, model.ErrNotFound) {
		return provider.Settings{}, nil, errNoProvider
	}
	if err != nil {
		return provider.Settings{}, nil, err
	}
	settings, err := a.settingsOf(row)
	return settings, row, err
}

func (a *Auth) settingsOf(row *model.AccountProvider) (provider.Settings, error) {
	secret, err := a.accounts.ClientSecret(row)
	return provider.Settings{
		Issuer: row.Issuer, ClientID: row.ClientID, ClientSecret: secret,
		VerifiesEmails: row.TrustsEmails, RoleClaim: row.RoleClaim,
	}, err
}

// providerOf returns the provider of an attempt, if it is still the same.
func (a *Auth) providerOf(ctx context.Context, t attempt) (provider.Settings, *model.AccountProvider, error) {
	if t.Account == 0 {
		if a.provider.Issuer != t.Issuer {
			return provider.Settings{}, nil, accounts.ErrProviderChanged
		}
		return a.provider, nil, nil
	}

	row, err := a.accounts.Provider(ctx, t.Account)
	if errors.Is(err, model.ErrNotFound) || err == nil && (row.ChangedAt != t.Changed || row.VerifiedAt == 0) {
		return provider.Settings{}, nil, accounts.ErrProviderChanged
	}
	if err != nil {
		return provider.Settings{}, nil, err
	}
	settings, err := a.settingsOf(row)
	return settings, row, err
}

// providerLimits returns the counters of sign-ins through providers by network. Each causes calls
// to a provider.
func (a *Auth) providerLimits(r *http.Request) []accounts.SignInLimit {
	return a.networkLimits(r, "provider network", networkFailures)
}

// rememberAttempt sets the cookie that binds a sign-in to the browser.
func (a *Auth) rememberAttempt(w http.ResponseWriter, t attempt) error {
	value, err := a.encodeAttempt(t)

	// A long issuer and subject leave no room for the page.
	if err != nil && t.Next != "" {
		t.Next = ""
		value, err = a.encodeAttempt(t)
	}
	if err != nil {
		return err
	}

	a.setAttempt(w, value, int(t.Expires.Time().Sub(a.now())/time.Second))
	return nil
}

// encodeAttempt returns the value of the cookie. It fails if a browser would not keep the cookie.
func (a *Auth) encodeAttempt(t attempt) (string, error) {
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)

	// An escaped & would be six bytes.
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(t); err != nil {
		return "", err
	}
	value, err := a.attempts.Encode(a.attemptName, content.Bytes())
	if err == nil && len(value) > maxAttempt {
		err = errors.New("the cookie of a sign-in is too long")
	}
	return value, err
}

// setAttempt sets the cookie. SameSite=Lax lets the browser send it when the provider leads back.
func (a *Auth) setAttempt(w http.ResponseWriter, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: a.attemptName, Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: a.devices.secure, SameSite: http.SameSiteLaxMode,
	})
}

// readAttempt returns the attempt of a browser. It reports false for a wrong, missing or expired
// cookie.
func (a *Auth) readAttempt(r *http.Request) (t attempt, ok bool) {
	cookie, err := r.Cookie(a.attemptName)
	if err != nil {
		return t, false
	}

	var content []byte
	if a.attempts.Decode(a.attemptName, cookie.Value, &content) != nil || json.Unmarshal(content, &t) != nil {
		return t, false
	}
	return t, model.At(a.now()) < t.Expires
}

// ownPath returns a path of the console to return to; "" for anything else.
func ownPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || len(next) > maxNext || !strings.HasPrefix(next, "/") ||
		strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") {
		return ""
	}
	return next
}

// callbackTimeout bounds a request of the callback.
const callbackTimeout = 20 * time.Second

// MountCallback adds the handler to which providers send browsers back. It leads to the sign-in
// page: with the provider's person in the cookie, or with the reason of the failure. It does not
// sign in itself.
func (a *Auth) MountCallback(mux *http.ServeMux) {
	mux.HandleFunc("GET "+ProviderCallbackPath, a.callback)
	mux.HandleFunc("GET "+ProviderCallbackPath+"/{account}", a.callback)
}

// callback checks a provider's answer, and redirects to the sign-in page.
func (a *Auth) callback(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")

	ctx, cancel := context.WithTimeout(r.Context(), callbackTimeout)
	defer cancel()

	t, valid := a.readAttempt(r)
	query := url.Values{}
	if t.Next != "" {
		query.Set("next", t.Next)
	}

	// The state alone does not name the provider: a hostile one can send a browser, with its state,
	// on to another provider, and would get that provider's code (mix-up, RFC 9700, section 4.4).
	// So each provider has a path of its own.
	path, err := a.callbackPath(ctx, t.Account)
	known := valid && r.URL.Path == path &&
		subtle.ConstantTimeCompare([]byte(r.URL.Query().Get("state")), []byte(t.State)) == 1

	// A second request for the answer, such as a reload, and a forged one, must not end the sign-in
	// of this browser.
	if valid && t.Subject != "" {
		query.Set("provider", "finish")
	} else if err = cmp.Or(err, a.answered(ctx, w, r, t, known)); err != nil {
		if known {
			a.setAttempt(w, "", -1)
		}
		query.Set("problem", a.problem(ctx, t, err))
	} else {
		query.Set("provider", "finish")
	}
	http.Redirect(w, r, "/sign-in/provider?"+query.Encode(), http.StatusSeeOther)
}

// answered checks a provider's answer and puts the person into the cookie. known means that the
// answer is to the browser's attempt.
func (a *Auth) answered(ctx context.Context, w http.ResponseWriter, r *http.Request, t attempt, known bool) error {
	query := r.URL.Query()
	if !known {
		return errProviderExpired
	}

	// Before any call to the provider: a replayed answer costs one write that changes nothing.
	if err := a.accounts.UseChallenge(ctx, t.challenge("answer")); err != nil {
		return err
	}

	settings, row, err := a.providerOf(ctx, t)
	if err != nil {
		return err
	}
	answer := provider.Answer{Code: query.Get("code"), Issuer: query.Get("iss"), Error: query.Get("error")}
	person, err := a.providers.Finish(ctx, settings, t.secrets(), answer, a.baseURL+r.URL.Path)
	if err != nil {
		return err
	}

	done := attempt{
		Account: t.Account, Issuer: t.Issuer, Changed: t.Changed, State: rand.Text(), Next: t.Next,
		Expires: model.At(a.now()).Add(model.ProviderSignInLifetime), Subject: person.Subject, Email: person.Email,
	}
	if row != nil {
		if !row.HasAddress(person.Email) {
			return &provider.Error{Reason: provider.NoEmail, Cause: errors.New("the address is of another domain")}
		}
		done.Role = row.RoleOf(person.Roles)
	}
	return a.rememberAttempt(w, done)
}

// challenge returns the attempt as the database records it: each of its steps counts once.
func (t attempt) challenge(step string) accounts.Challenge {
	return accounts.Challenge{Hash: model.HashToken("provider " + step + " " + t.State), ExpiresAt: t.Expires}
}

// problem logs the failure of a sign-in, and returns the name of its text in the console.
func (a *Auth) problem(ctx context.Context, t attempt, err error) string {
	failed, ok := errors.AsType[*provider.Error](err)
	switch {
	case ok && failed.Reason == provider.Refused:
		return string(failed.Reason)
	case ok:
		a.log.WarnContext(ctx, "a sign-in through a provider failed", "issuer", t.Issuer, "error", err)
		if failed.Reason.IsSetting() {
			return string(provider.Misconfigured)
		}
		return string(failed.Reason)
	case errors.Is(err, errProviderExpired), errors.Is(err, accounts.ErrChallengeUsed):
		return "expired"
	case errors.Is(err, accounts.ErrProviderChanged):
		return "changed"
	}

	a.log.ErrorContext(ctx, "a sign-in through a provider failed", "error", err)
	return "internal"
}

// ProviderSignedIn is the outcome of FinishProviderSignIn.
type ProviderSignedIn struct {
	SignedIn
	Email         string // that the provider has verified
	NeedsPassword bool   // a user with this address must prove it once
}

// FinishProviderSignIn signs in the user whom the provider has named in this browser, under a new
// session id. The provider replaces the password, and never the second factor. A user whom the
// provider names for the first time proves the address by the password, which counts as at SignIn.
func (a *Auth) FinishProviderSignIn(ctx context.Context, password string, proof Proof) (*ProviderSignedIn, error) {
	r, err := passwordRequest(ctx)
	if err != nil {
		return nil, err
	}
	t, ok := a.readAttempt(r.http)
	if !ok || t.Subject == "" {
		return nil, errProviderExpired
	}

	arrival := a.arrivalOf(r, t)
	outcome := &ProviderSignedIn{Email: t.Email}
	user, err := a.arriving(ctx, r, t, &arrival, password, outcome)
	if err != nil || outcome.NeedsPassword {
		return outcome, err
	}

	// The second factor comes before anything is stored.
	proved := user != nil && user.SecondFactor
	if proved {
		if proof == (Proof{}) {
			asked, err := a.askSecondFactor(ctx, user)
			if err != nil {
				return nil, err
			}
			outcome.SignedIn = *asked
			return outcome, nil
		}
		if err := a.proveThrough(ctx, r, user, t.Account, proof); err != nil {
			return nil, err
		}
	}

	user, err = a.accounts.Arrive(ctx, arrival)
	switch {
	case errors.Is(err, accounts.ErrChallengeUsed), errors.Is(err, accounts.ErrProofNeeded), errors.Is(err, model.ErrStale):
		return nil, errProviderExpired
	case err != nil:
		return nil, err
	}
	a.setAttempt(r.w, "", -1)
	if err := a.uncount(ctx, a.providerLimits(r.http), nil); err != nil {
		return nil, err
	}

	user.Provider = &t.Account
	state := &accounts.ProviderState{Issuer: t.Issuer, Changed: t.Changed}
	outcome.User, err = a.begin(ctx, r, user, state, true, proved)
	return outcome, err
}

// arrivalOf returns the arrival of the person in an attempt.
func (a *Auth) arrivalOf(r *request, t attempt) accounts.Arrival {
	return accounts.Arrival{
		Identity: model.Identity{
			AccountID: t.Account, Issuer: t.Issuer, Subject: t.Subject, CreatedAt: model.At(a.now()),
		},
		Email: t.Email, Role: t.Role, Changed: t.Changed, SignIn: t.challenge("end"), Language: requestLanguage(r.http),
		Signups: a.signups, Plan: a.captchaPlan, PasswordHash: noPassword(a.hasher.cost),
	}
}

// arriving returns the user of the person in an attempt, or nil for a new person. A user whom the
// provider names for the first time must have the password.
func (a *Auth) arriving(
	ctx context.Context, r *request, t attempt, arrival *accounts.Arrival, password string, outcome *ProviderSignedIn,
) (*model.User, error) {
	user, err := a.accounts.IdentityUser(ctx, arrival.Identity)
	if !errors.Is(err, model.ErrNotFound) {
		return user, err
	}

	_, err = a.accounts.UserByEmail(ctx, t.Email)
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

	user, err = a.authenticate(ctx, r, t.Email, password)
	if errors.Is(err, errWrongCredentials) {
		return nil, wrongPassword("password")
	}
	arrival.Proved = user
	return user, err
}

// ProviderRedirect returns the address to which the provider of an account, or the installation's
// provider for 0, sends browsers back. It is registered at the provider.
func (a *Auth) ProviderRedirect(ctx context.Context, accountID int64) (string, error) {
	path, err := a.callbackPath(ctx, accountID)
	return a.baseURL + path, err
}

func (a *Auth) callbackPath(ctx context.Context, accountID int64) (string, error) {
	if accountID == 0 {
		return ProviderCallbackPath, nil
	}
	ids, err := a.keys.NodeIDs(ctx)
	if err != nil {
		return "", err
	}
	return ProviderCallbackPath + "/" + ids.Of(model.NodeAccount, accountID), nil
}
