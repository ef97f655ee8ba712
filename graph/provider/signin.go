package provider

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/tallygate/tallygate/db/model"
)

// Settings name a provider, and this installation as its client.
type Settings struct {
	Issuer, ClientID, ClientSecret string
	Trusted                        bool   // the operator named it: private addresses are allowed
	VerifiesEmails                 bool   // its addresses are verified, also where it does not say so
	RoleClaim                      string // the claim whose values are wanted; empty: none
}

// Reason classifies why a sign-in through a provider failed.
type Reason string

// The reasons. The console shows a text for each.
const (
	Unavailable   Reason = "unavailable"   // it cannot be reached, or does not answer in time
	Misconfigured Reason = "misconfigured" // its metadata, or its answer to the code, is wrong
	OtherIssuer   Reason = "issuer"        // it calls itself like the cause, and not as the settings do
	NoChallenge   Reason = "challenge"     // it does not support PKCE with S256
	RefusedClient Reason = "client"        // it refuses the client, its secret or its redirect address
	Refused       Reason = "refused"       // it, or the person, has refused the sign-in
	BadToken      Reason = "token"         // the ID token does not hold
	ClockSkew     Reason = "clock"         // the ID token has expired, or is not valid yet
	NoEmail       Reason = "email"         // it has verified no address
)

// IsSetting reports whether the settings of the provider are wrong, here or there, so that waiting
// does not help.
func (r Reason) IsSetting() bool {
	return r == Misconfigured || r == OtherIssuer || r == NoChallenge || r == RefusedClient
}

// Error is a failed sign-in. Cause can have words that a provider has chosen, and internal
// addresses: it is logged, and shown only if it is IsOwn.
type Error struct {
	Reason Reason
	Cause  error
	IsOwn  bool // the cause has this program's words, and nothing but names and codes of the provider
}

// said is a cause in this program's words.
type said string

func (s said) Error() string { return string(s) }

func (e *Error) Error() string { return string(e.Reason) + ": " + strconv.Quote(e.Cause.Error()) }

// maxCause is the length of a cause in characters. Libraries put whole answers of providers into
// their errors.
const maxCause = 160

// newError returns an Error without line breaks and control characters of the provider's answer. Of
// an answer with an error status it keeps the status and the start of the OAuth code, and of a
// failed call no address.
func newError(reason Reason, cause error) *Error {
	if failed, ok := errors.AsType[*url.Error](cause); ok {
		cause = failed.Err
	}
	if errors.Is(cause, errBlocked) {
		cause = said(errBlocked.Error())
	}
	if refused, ok := errors.AsType[*oauth2.RetrieveError](cause); ok && refused.Response != nil {
		cause = said(fmt.Sprintf("status %d, error %q", refused.Response.StatusCode, model.Clean(refused.ErrorCode, maxCode)))
	}
	_, isOwn := cause.(said)
	return &Error{reason, errors.New(model.Clean(cause.Error(), maxCause)), isOwn}
}

// maxCode is the length of an OAuth error code in characters; RFC 6749 names none that is longer.
const maxCode = 40

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// leeway is by how much the clocks of a provider and of this machine may differ.
const leeway = time.Minute

// algorithms are the signatures of ID tokens that are accepted. A token without a signature, and
// one that is signed with the client secret, is not.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// discover reads and checks the metadata of a provider.
func (c *Client) discover(ctx context.Context, s Settings) (*oidc.Provider, metadata, error) {
	// The issuer is compared here, because go-oidc's error does not have the provider's own name.
	ctx = oidc.InsecureIssuerURLContext(oidc.ClientContext(ctx, c.http(s)), s.Issuer)
	found, err := oidc.NewProvider(ctx, s.Issuer)
	if err != nil {
		return nil, metadata{}, failure(err)
	}

	var data metadata
	if err := found.Claims(&data); err != nil {
		return nil, metadata{}, newError(Misconfigured, err)
	}
	if data.Issuer != s.Issuer {
		return nil, metadata{}, newError(OtherIssuer, said(strconv.Quote(data.Issuer)))
	}

	// Without the list, RS256 is what every provider has.
	if data.Algorithms == nil {
		data.Algorithms = []string{oidc.RS256}
	}
	data.Algorithms = slices.DeleteFunc(data.Algorithms, func(a string) bool { return !slices.Contains(algorithms, a) })
	if len(data.Algorithms) == 0 {
		return nil, metadata{}, newError(Misconfigured, said("the provider signs ID tokens in no accepted way"))
	}
	if data.Challenges != nil && !slices.Contains(data.Challenges, "S256") {
		return nil, metadata{}, newError(NoChallenge, said("the provider does not support PKCE with S256"))
	}

	endpoint := found.Endpoint()
	for _, address := range []string{endpoint.AuthURL, endpoint.TokenURL, data.Keys, data.EndSession, found.UserInfoEndpoint()} {
		if address != "" && !isWeb(address, s) {
			return nil, metadata{}, newError(Misconfigured, said(fmt.Sprintf("the address %q is not https", address)))
		}
	}
	if endpoint.AuthURL == "" || endpoint.TokenURL == "" {
		return nil, metadata{}, newError(Misconfigured, said("the provider names no addresses for the sign-in"))
	}

	return found, data, nil
}

// isWeb reports whether an address of a provider is one that browsers and this program may call:
// https, or as the issuer itself.
func isWeb(address string, s Settings) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && strings.HasPrefix(s.Issuer, "http://")
}

// failure returns the error of a failed call.
func failure(err error) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	if _, isURL := errors.AsType[*url.Error](err); isURL {
		return newError(Unavailable, err)
	}
	if status, _, _ := strings.Cut(err.Error(), " "); len(status) == 3 && status[0] == '5' { // go-oidc's text: status and body
		return newError(Unavailable, said("status "+status))
	}
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && slices.Contains(clientErrors, refused.ErrorCode) {
		return newError(RefusedClient, err)
	}
	return newError(Misconfigured, err)
}

// clientErrors are the error codes of token endpoints that refuse a client or its secret (RFC 6749,
// section 5.2).
var clientErrors = []string{"invalid_client", "unauthorized_client"}

// Check reads the metadata and returns why the provider cannot sign anyone in, or nil.
func (c *Client) Check(ctx context.Context, s Settings) error {
	_, err := c.find(ctx, s)
	return err
}

// Attempt is one sign-in. Its values are secrets of one browser.
type Attempt struct {
	State, Nonce, Verifier string
}

// Start returns the address that a browser opens to sign in, with a hint of the address.
func (c *Client) Start(ctx context.Context, s Settings, a Attempt, redirect, email string) (string, error) {
	k, err := c.find(ctx, s)
	if err != nil {
		return "", err
	}

	options := []oauth2.AuthCodeOption{oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)}
	if email != "" {
		options = append(options, oauth2.SetAuthURLParam("login_hint", email))
	}
	return client(k, s, redirect).AuthCodeURL(a.State, options...), nil
}

func client(k *known, s Settings, redirect string) *oauth2.Config {
	config := &oauth2.Config{
		ClientID: s.ClientID, ClientSecret: s.ClientSecret, Endpoint: k.provider.Endpoint(), RedirectURL: redirect,
		Scopes: []string{oidc.ScopeOpenID, "email", "profile"},
	}
	if styles := k.metadata.styles(); len(styles) == 1 {
		config.Endpoint.AuthStyle = styles[0]
	}
	return config
}

// styles returns the ways in which the token endpoint may accept the client's secret.
func (m *metadata) styles() []oauth2.AuthStyle {
	var styles []oauth2.AuthStyle
	for _, style := range []struct {
		name  string
		style oauth2.AuthStyle
	}{{"client_secret_basic", oauth2.AuthStyleInHeader}, {"client_secret_post", oauth2.AuthStyleInParams}} {
		if m.Methods == nil || slices.Contains(m.Methods, style.name) {
			styles = append(styles, style.style)
		}
	}
	return styles
}

// Answer is what a provider sends back with the browser.
type Answer struct {
	Code, Issuer, Error string // Issuer may be empty, see RFC 9207
}

// Person is whom a provider has signed in, with a verified address.
type Person struct {
	Issuer, Subject, Email string
	Roles                  []string // values of the claim that sets roles
}

// Finish redeems the code of an answer, and returns the person whom the ID token names. The attempt
// must be the browser's, and must not be finished twice. All its errors are of type Error.
func (c *Client) Finish(ctx context.Context, s Settings, a Attempt, answer Answer, redirect string) (*Person, error) {
	k, err := c.find(ctx, s)
	if err != nil {
		return nil, err
	}

	// An answer of another provider must not bring its code to this one (mix-up).
	if answer.Issuer != "" && answer.Issuer != s.Issuer || answer.Issuer == "" && k.metadata.SendsIssuer {
		return nil, newError(BadToken, fmt.Errorf("the answer is of the issuer %q", answer.Issuer))
	}
	if answer.Error != "" || answer.Code == "" {
		return nil, newError(Refused, fmt.Errorf("the provider answered %q", model.Clean(answer.Error, maxCode)))
	}

	leave, err := c.enter(ctx, s)
	if err != nil {
		return nil, err
	}
	defer leave()

	// The call does not end with the request: a browser that leaves must not hide a slow provider,
	// or make another one look slow.
	ctx, cancel := context.WithTimeout(oidc.ClientContext(context.WithoutCancel(ctx), c.http(s)), c.timeout)
	defer cancel()
	began := time.Now()
	person, err := c.redeem(ctx, k, s, a, answer.Code, redirect)
	c.entry(s).note(c.now(), time.Since(began), err)
	return person, err
}

// redeem calls the token endpoint, and checks the ID token.
func (c *Client) redeem(
	ctx context.Context, k *known, s Settings, a Attempt, code, redirect string,
) (*Person, error) {
	token, err := client(k, s, redirect).Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return nil, failure(err)
	}

	raw, _ := token.Extra("id_token").(string)
	if raw == "" {
		return nil, newError(Misconfigured, errors.New("the answer has no ID token"))
	}
	verified, err := c.check(ctx, k, s, a, raw)
	if err != nil {
		return nil, err
	}
	known, err := c.claims(ctx, k, s, token, verified)
	if err != nil {
		return nil, err
	}
	return person(s, verified.Subject, known)
}

// check checks an ID token, but for the claims of the person.
func (c *Client) check(ctx context.Context, k *known, s Settings, a Attempt, raw string) (*oidc.IDToken, error) {
	token, err := k.provider.Verifier(&oidc.Config{
		ClientID: s.ClientID, SupportedSigningAlgs: k.metadata.Algorithms,
		Now: func() time.Time { return c.now().Add(-leeway) },
	}).Verify(ctx, raw)
	if err != nil {
		return nil, tokenFailure(err)
	}

	var claims struct {
		Party string `json:"azp"`
	}
	if err := token.Claims(&claims); err != nil {
		return nil, newError(BadToken, err)
	}

	switch {
	case subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(a.Nonce)) != 1:
		return nil, newError(BadToken, errors.New("the nonce is of another sign-in"))
	case claims.Party != "" && claims.Party != s.ClientID, claims.Party == "" && len(token.Audience) > 1:
		return nil, newError(BadToken, fmt.Errorf("the token was issued to %q", claims.Party))
	case token.IssuedAt.After(c.now().Add(leeway)):
		return nil, newError(ClockSkew, fmt.Errorf("the token was issued in the future, at %v", token.IssuedAt))
	case token.Subject == "" || len(token.Subject) > maxSubject:
		return nil, newError(BadToken, errors.New("the token names no person"))
	}
	return token, nil
}

// maxSubject is the longest name of a person, as OpenID Connect Core requires.
const maxSubject = 255

// tokenFailure returns the error of a token that does not hold.
func tokenFailure(err error) error {
	if _, expired := errors.AsType[*oidc.TokenExpiredError](err); expired || strings.Contains(err.Error(), "before the nbf") {
		return newError(ClockSkew, err)
	}
	if _, isURL := errors.AsType[*url.Error](err); isURL {
		return newError(Unavailable, err)
	}
	return newError(BadToken, err)
}

// SignOut returns the address that ends the person's session at the provider and leads back, or ""
// if the provider has none. It makes no call unless the metadata must be read.
func (c *Client) SignOut(ctx context.Context, s Settings, back string) string {
	k, err := c.find(ctx, s)
	if err != nil || k.metadata.EndSession == "" {
		return ""
	}

	u, err := url.Parse(k.metadata.EndSession)
	if err != nil {
		return ""
	}
	query := u.Query()
	query.Set("client_id", s.ClientID)
	query.Set("post_logout_redirect_uri", back)
	u.RawQuery = query.Encode()
	return u.String()
}
