package auth

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
)

// Passkeys: WebAuthn credentials, as a second factor or instead of the password. The relying party
// is the host of the base URL.

// Passkeys creates and changes passkeys, and signs their users in.
type Passkeys struct {
	accounts   *accounts.Store
	keys       *keys.Store
	passwords  *passwords
	throttle   *throttle
	challenges *cookieSigner
	party      *webauthn.WebAuthn // nil: the base URL permits no passkeys
	now        func() time.Time
}

// PasskeyRequest asks a browser for a passkey.
type PasskeyRequest struct {
	Challenge string // token to send back with the answer
	Options   string // JSON for navigator.credentials.get or create
}

// PasskeyAnswer is the answer of a browser to a PasskeyRequest.
type PasskeyAnswer struct {
	Challenge  string
	Credential string // JSON of the PublicKeyCredential
}

var (
	errPasskey = model.InvalidField("credential", "invalid_passkey",
		"The passkey was not accepted, or the request has expired. Try again.")
	errNoPasskeys = &model.Error{
		Kind: model.Conflict, Code: "passkeys_unavailable",
		Message: "Passkeys need an installation under https, with a host name.",
	}
)

// newParty returns the relying party of an installation, or nil if browsers offer no passkeys
// there: they need https or localhost, and a host name.
func newParty(base *url.URL) (*webauthn.WebAuthn, error) {
	host := base.Hostname()
	local := host == "localhost" || strings.HasSuffix(host, ".localhost")
	if protocol.ValidateRPID(host) != nil || base.Scheme != "https" && !local {
		return nil, nil
	}

	return webauthn.New(&webauthn.Config{
		RPID: host, RPDisplayName: "Tallygate", RPOrigins: []string{base.Scheme + "://" + base.Host},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementPreferred, UserVerification: protocol.VerificationPreferred,
		},

		// Password managers add outputs of extensions that were not asked for.
		ExtensionsUnsolicitedOutputPolicy: protocol.UnsolicitedOutputPolicyIgnore,
	})
}

// passkeyUser is a user with passkeys, as the library sees them.
type passkeyUser struct {
	*model.User
	handle   []byte // the global id
	passkeys []*model.Passkey
}

// owner returns a user with some of the user's passkeys.
func (p *Passkeys) owner(ctx context.Context, user *model.User, passkeys ...*model.Passkey) (*passkeyUser, error) {
	ids, err := p.keys.NodeIDs(ctx)
	if err != nil {
		return nil, err
	}
	return &passkeyUser{user, []byte(nodeid.Of(ids, user.ID)), passkeys}, nil
}

// WebAuthnID implements webauthn.User.
func (u *passkeyUser) WebAuthnID() []byte { return u.handle }

// WebAuthnName implements webauthn.User.
func (u *passkeyUser) WebAuthnName() string { return u.Email }

// WebAuthnDisplayName implements webauthn.User.
func (u *passkeyUser) WebAuthnDisplayName() string { return u.Email }

// WebAuthnCredentials implements webauthn.User.
func (u *passkeyUser) WebAuthnCredentials() []webauthn.Credential {
	list := make([]webauthn.Credential, len(u.passkeys))
	for i, p := range u.passkeys {
		list[i] = webauthn.Credential{
			ID: p.CredentialID, PublicKey: p.PublicKey,
			Flags:         webauthn.NewCredentialFlags(protocol.AuthenticatorFlags(p.Flags)),
			Authenticator: webauthn.Authenticator{SignCount: uint32(p.SignCount)},
		}
		for _, transport := range strings.Fields(p.Transports) {
			list[i].Transport = append(list[i].Transport, protocol.AuthenticatorTransport(transport))
		}
	}
	return list
}

// StartSignIn returns a request for any passkey of this installation, or nil if it has none. It
// writes nothing.
func (p *Passkeys) StartSignIn() (*PasskeyRequest, error) {
	if p.party == nil {
		return nil, nil
	}

	c, token, err := p.newChallenge(challengePasskey, 0)
	if err != nil {
		return nil, err
	}

	options, _, err := p.party.BeginDiscoverableLogin(
		webauthn.WithChallenge(c.random), webauthn.WithUserVerification(protocol.VerificationRequired),
	)
	if err != nil {
		return nil, err
	}

	return passkeyRequest(token, options.Response)
}

// SignIn signs in the user of a passkey, which must have verified its user: no password and no
// other factor is needed. It fails with invalid_passkey and, after too many failures from one
// network, with rate_limited.
func (p *Passkeys) SignIn(ctx context.Context, answer PasskeyAnswer) (*model.User, error) {
	r, err := passwordRequest(ctx)
	if err != nil {
		return nil, err
	}
	if p.party == nil {
		return nil, errNoPasskeys
	}

	c, ok := p.openChallenge(challengePasskey, answer.Challenge, 0)
	parsed, err := protocol.ParseCredentialRequestResponseBytes([]byte(answer.Credential))
	if err != nil || !ok {
		return nil, errPasskey
	}

	limits := p.throttle.networkLimits(r.http, "passkey network", networkFailures)
	if err := p.throttle.count(ctx, limits); err != nil {
		return nil, err
	}

	user, err := p.checkAny(ctx, parsed, c)
	if errors.Is(err, errPasskey) {
		return nil, err
	}
	if err := p.throttle.uncount(ctx, limits, err); err != nil {
		return nil, err
	}

	return r.begin(ctx, user, accounts.SessionStart{SignIn: true, Proved: true})
}

// checkAny returns the user who has answered a challenge with a passkey.
func (p *Passkeys) checkAny(
	ctx context.Context, parsed *protocol.ParsedCredentialAssertionData, c challenge,
) (*model.User, error) {
	passkey, user, err := p.accounts.Passkeys.ByCredential(ctx, parsed.RawID)
	if model.KindOf(err) == model.NotFound {
		return nil, errPasskey
	}
	if err != nil {
		return nil, err
	}

	owner, err := p.owner(ctx, user, passkey)
	if err != nil {
		return nil, err
	}

	_, credential, err := p.party.ValidatePasskeyLogin(
		func([]byte, []byte) (webauthn.User, error) { return owner, nil },
		webauthn.SessionData{Challenge: c.text(), UserVerification: protocol.VerificationRequired}, parsed,
	)
	if err != nil {
		return nil, errPasskey
	}

	return user, p.use(ctx, passkey, credential, c)
}

// request returns a request for one of the user's passkeys as a second factor, or nil if
// there are none.
func (p *Passkeys) request(
	ctx context.Context, user *model.User, passkeys []*model.Passkey,
) (*PasskeyRequest, error) {
	if p.party == nil || len(passkeys) == 0 {
		return nil, nil
	}

	owner, err := p.owner(ctx, user, passkeys...)
	if err != nil {
		return nil, err
	}

	c, token, err := p.newChallenge(challengeSignIn, user.ID)
	if err != nil {
		return nil, err
	}

	options, _, err := p.party.BeginLogin(owner, webauthn.WithChallenge(c.random))
	if err != nil {
		return nil, err
	}

	return passkeyRequest(token, options.Response)
}

// check checks the answer of one of the user's passkeys as a second factor. It returns
// errSecondFactor for a wrong one.
func (p *Passkeys) check(ctx context.Context, user *model.User, answer PasskeyAnswer) error {
	c, ok := p.openChallenge(challengeSignIn, answer.Challenge, user.ID)
	parsed, err := protocol.ParseCredentialRequestResponseBytes([]byte(answer.Credential))
	if err != nil || !ok || p.party == nil {
		return errSecondFactor
	}

	passkey, of, err := p.accounts.Passkeys.ByCredential(ctx, parsed.RawID)
	if model.KindOf(err) == model.NotFound || err == nil && of.ID != user.ID {
		return errSecondFactor
	}
	if err != nil {
		return err
	}

	owner, err := p.owner(ctx, user, passkey)
	if err != nil {
		return err
	}

	credential, err := p.party.ValidateLogin(owner, webauthn.SessionData{
		Challenge: c.text(), UserID: owner.handle, UserVerification: protocol.VerificationPreferred,
	}, parsed)
	if err == nil {
		err = p.use(ctx, passkey, credential, c)
	} else {
		err = errPasskey
	}

	if errors.Is(err, errPasskey) {
		return errSecondFactor
	}
	return err
}

// use records the use of a passkey that has answered a challenge. It returns errPasskey if
// the challenge was answered before, or the passkey's counter did not grow.
func (p *Passkeys) use(
	ctx context.Context, passkey *model.Passkey, credential *webauthn.Credential, c challenge,
) error {
	if credential.Authenticator.CloneWarning {
		return errPasskey
	}

	passkey.SignCount = int64(credential.Authenticator.SignCount)
	passkey.Flags = int32(credential.Flags.ProtocolValue())

	err := p.accounts.Passkeys.Use(ctx, passkey, c.answered(), model.At(p.now()))
	if errors.Is(err, accounts.ErrChallengeUsed) || errors.Is(err, model.ErrNotFound) {
		return errPasskey
	}
	return err
}

// StartCreation returns a request to create a passkey for the signed-in user, after checking the
// password.
func (p *Passkeys) StartCreation(ctx context.Context, password string) (*PasskeyRequest, error) {
	if p.party == nil {
		return nil, errNoPasskeys
	}

	_, user, err := p.passwords.confirm(ctx, "password", password, nil)
	if err != nil {
		return nil, err
	}

	factors, err := p.accounts.SecondFactors.Of(ctx, user.ID)
	if err != nil {
		return nil, err
	}
	owner, err := p.owner(ctx, user, factors.Passkeys...)
	if err != nil {
		return nil, err
	}

	c, token, err := p.newChallenge(challengeRegister, user.ID)
	if err != nil {
		return nil, err
	}

	options, _, err := p.party.BeginRegistration(
		owner, webauthn.WithExclusions(webauthn.Credentials(owner.WebAuthnCredentials()).CredentialDescriptors()),
		func(o *protocol.PublicKeyCredentialCreationOptions) error {
			o.Challenge = c.random
			return nil
		},
	)
	if err != nil {
		return nil, err
	}

	return passkeyRequest(token, options.Response)
}

// FinishCreation stores the passkey that the signed-in user's browser has created. It returns
// recovery codes if it is the user's first second factor. It fails with invalid_passkey,
// invalid_name, too_many_passkeys and passkey_exists.
func (p *Passkeys) FinishCreation(
	ctx context.Context, answer PasskeyAnswer, name string,
) (passkey *model.Passkey, codes []string, err error) {
	user, change, err := p.passwords.factorChange(ctx)
	if err != nil {
		return nil, nil, err
	}
	if p.party == nil {
		return nil, nil, errNoPasskeys
	}

	name, nameErr := model.ParseName("name", name)
	c, ok := p.openChallenge(challengeRegister, answer.Challenge, user.ID)
	parsed, err := protocol.ParseCredentialCreationResponseBytes([]byte(answer.Credential))
	if err != nil || !ok {
		return nil, nil, errors.Join(nameErr, errPasskey)
	}
	if nameErr != nil {
		return nil, nil, nameErr
	}

	owner, err := p.owner(ctx, user)
	if err != nil {
		return nil, nil, err
	}

	credential, err := p.party.CreateCredential(owner, webauthn.SessionData{
		Challenge: c.text(), UserID: owner.handle, UserVerification: protocol.VerificationPreferred,
		CredParams: webauthn.CredentialParametersDefault(),
	}, parsed)
	if err != nil {
		return nil, nil, errPasskey
	}

	transports := make([]string, len(credential.Transport))
	for i, transport := range credential.Transport {
		transports[i] = string(transport)
	}

	codes, hashes := newRecoveryCodes(user.ID)
	passkey, first, err := p.accounts.Passkeys.Create(ctx, model.Passkey{
		UserID: user.ID, CredentialID: credential.ID, PublicKey: credential.PublicKey,
		SignCount: int64(credential.Authenticator.SignCount), Flags: int32(credential.Flags.ProtocolValue()),
		Transports: model.Clean(strings.Join(transports, " "), maxTransports), Name: name, CreatedAt: change.At,
	}, c.answered(), hashes, change)
	if errors.Is(err, accounts.ErrChallengeUsed) {
		return nil, nil, errPasskey
	}
	if err == nil {
		_, err = requestOf(ctx).reload(ctx)
	}
	if err != nil || !first {
		codes = nil
	}

	return passkey, codes, err
}

// maxTransports bounds the names of a passkey's transports, which the browser sends.
const maxTransports = 100

// Rename changes the name of a passkey of the user.
func (p *Passkeys) Rename(ctx context.Context, user *model.User, id model.PasskeyID, name string) (*model.Passkey, error) {
	if user.IsThroughAccount() {
		return nil, model.ErrForbidden
	}
	name, err := model.ParseName("name", name)
	if err != nil {
		return nil, err
	}
	return p.accounts.Passkeys.Rename(ctx, user.ID, id, name)
}

// Delete deletes a passkey of the signed-in user after checking the password. It fails with
// not_found for a passkey of another user, and with second_factor_needed.
func (p *Passkeys) Delete(ctx context.Context, password string, id model.PasskeyID) (*model.Passkey, error) {
	user, change, err := p.passwords.confirmFactorChange(ctx, password)
	if err != nil {
		return nil, err
	}

	passkey, err := p.accounts.Passkeys.Delete(ctx, user.ID, user.PasswordHash, id, change)
	return passkey, reloadAfter(ctx, err)
}

// passkeyRequest returns a request with its options as JSON.
func passkeyRequest(token string, options any) (*PasskeyRequest, error) {
	text, err := json.Marshal(options)
	return &PasskeyRequest{Challenge: token, Options: string(text)}, err
}
