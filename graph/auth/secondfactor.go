package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/boombuler/barcode/qr"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
)

// Second factors: codes of an authenticator app (TOTP, RFC 6238), recovery codes, and passkeys, see
// passkey.go.

// SecondFactors proves and changes the second factors of users.
type SecondFactors struct {
	accounts  *accounts.Store
	passwords *passwords
	passkeys  *Passkeys
	throttle  *throttle
	baseURL   string
	now       func() time.Time
}

// Proof is what a caller offers as a second factor. The zero Proof is none.
type Proof struct {
	Code    string // of an authenticator app, or a recovery code
	Passkey *PasskeyAnswer
}

// SignedIn is the outcome of SignIn.
type SignedIn struct {
	User *model.User // nil: a second factor is missing

	// Without a user: how the second factor can be proved.
	Methods []model.SecondFactorMethod
	Passkey *PasskeyRequest // nil: the user has no passkey
}

var errSecondFactor = model.InvalidField("secondFactor", "invalid_second_factor",
	"The code or the passkey is wrong, expired or was used already.")

// ask returns how a user with the right password can prove a second factor.
func (f *SecondFactors) ask(ctx context.Context, user *model.User) (*SignedIn, error) {
	factors, err := f.accounts.SecondFactors.Of(ctx, user.ID)
	if err != nil {
		return nil, err
	}

	request, err := f.passkeys.request(ctx, user, factors.Passkeys)
	return &SignedIn{Methods: factors.Methods(), Passkey: request}, err
}

// prove checks a second factor of a user with the right password. Wrong ones are counted for the
// user, or for a known device: after 5, each further attempt must wait as in signInLimits. Three
// codes of six digits are valid at a time, so one of some 300,000 attempts is right; a day of waits
// has about 110 attempts.
func (f *SecondFactors) prove(ctx context.Context, r *request, user *model.User, proof Proof) error {
	return f.proveThrough(ctx, r, user, 0, proof)
}

// proveThrough is prove for a user whom the provider of an account has named; 0: no account's. Its
// wrong second factors are counted for the user in this account: a hostile provider must not delay
// the user's other sign-ins.
func (f *SecondFactors) proveThrough(ctx context.Context, r *request, user *model.User, accountID model.AccountID, proof Proof) error {
	code, method, ok := model.ParseSecondFactor(proof.Code)
	if proof.Passkey == nil && !ok {
		return errSecondFactor
	}

	device, err := f.passwords.knownDevice(ctx, r.http, user.Email)
	if err != nil {
		return err
	}

	limits := f.throttle.secondFactorLimits(user, device, accountID)
	if err := f.throttle.count(ctx, limits); err != nil {
		return err
	}

	switch {
	case proof.Passkey != nil:
		err = f.passkeys.check(ctx, user, *proof.Passkey)
	case method == model.MethodTOTP:
		err = f.checkTOTP(ctx, user, code)
	default:
		err = f.checkRecoveryCode(ctx, user, code)
	}

	switch {
	case err == nil:
		return f.accounts.SignIns.Succeeded(ctx, limits...)
	case errors.Is(err, errSecondFactor):
		return err
	}

	// The second factor was not checked, so the attempt does not count.
	return f.throttle.uncount(ctx, limits, err)
}

// checkTOTP consumes a code of the user's authenticator app. It returns errSecondFactor for a wrong
// or used one.
func (f *SecondFactors) checkTOTP(ctx context.Context, user *model.User, code string) error {
	now := f.now()
	secret, err := f.accounts.SecondFactors.TOTP(ctx, user.ID, true, model.At(now))
	if model.KindOf(err) == model.NotFound {
		return errSecondFactor
	}
	if err != nil {
		return err
	}

	step, ok := totpStep(secret, code, now)
	if !ok {
		return errSecondFactor
	}

	err = f.accounts.SecondFactors.UseTOTP(ctx, user.ID, step)
	if errors.Is(err, model.ErrNotFound) {
		return errSecondFactor
	}
	return err
}

// checkRecoveryCode consumes a recovery code. It returns errSecondFactor for an unknown or used
// one.
func (f *SecondFactors) checkRecoveryCode(ctx context.Context, user *model.User, code string) error {
	change := accounts.FactorChange{At: model.At(f.now())}
	err := f.accounts.SecondFactors.UseRecoveryCode(ctx, user.ID, model.HashRecoveryCode(user.ID, code), change)
	if errors.Is(err, model.ErrNotFound) {
		return errSecondFactor
	}
	return err
}

// totpText is the form in which apps take secrets.
var totpText = base32.StdEncoding.WithPadding(base32.NoPadding)

// totpStep returns the period whose code this is: the one of the time, the one before or the one
// after, because clocks differ.
func totpStep(secret []byte, code string, now time.Time) (step int64, ok bool) {
	current := now.Unix() / int64(model.TOTPPeriod/time.Second)
	for _, step := range []int64{current, current - 1, current + 1} {
		if subtle.ConstantTimeCompare([]byte(code), []byte(totpCode(secret, step))) == 1 {
			return step, true
		}
	}
	return 0, false
}

// totpCode returns the six digits of a period.
func totpCode(secret []byte, step int64) string {
	mac := hmac.New(sha1.New, secret)
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(step)))
	sum := mac.Sum(nil)

	// RFC 4226, section 5.3: the last four bits are the place of the number, without its sign.
	value := binary.BigEndian.Uint32(sum[sum[len(sum)-1]&0xf:]) & 0x7fffffff
	return fmt.Sprintf("%06d", value%1_000_000)
}

// TOTPSetup is the secret of a new authenticator app.
type TOTPSetup struct {
	Secret string // base32, to type
	URI    string // otpauth://
	Size   int    // of the QR code of URI, in modules
	Path   string // SVG path of the dark modules
}

// totpSecretSize is the size of a secret in bytes, as RFC 4226 recommends.
const totpSecretSize = 20

// StartTOTP begins the setup of an authenticator app of the signed-in user, after checking the
// password.
func (f *SecondFactors) StartTOTP(ctx context.Context, password string) (*TOTPSetup, error) {
	_, user, err := f.passwords.confirm(ctx, "password", password, nil)
	if err != nil {
		return nil, err
	}

	secret := make([]byte, totpSecretSize)

	// Read never fails, see its documentation.
	rand.Read(secret)

	setup, err := f.totpSetup(user, secret)
	if err != nil {
		return nil, err
	}

	err = f.accounts.SecondFactors.StartTOTP(ctx, user.ID, user.PasswordHash, secret, model.At(f.now()))
	return setup, orWrongPassword(err)
}

func (f *SecondFactors) totpSetup(user *model.User, secret []byte) (*TOTPSetup, error) {
	issuer := "Tallygate"
	if base, err := url.Parse(f.baseURL); err == nil {
		issuer += " " + base.Hostname()
	}

	// Apps show a plus sign as one, so spaces are %20 in the query, too.
	issuer = strings.ReplaceAll(issuer, ":", ".")
	text := totpText.EncodeToString(secret)
	uri := (&url.URL{
		Scheme: "otpauth", Host: "totp", Path: "/" + issuer + ":" + user.Email,
		RawQuery: "algorithm=SHA1&digits=6&issuer=" + url.PathEscape(issuer) + "&period=30&secret=" + text,
	}).String()

	code, err := qr.Encode(uri, qr.L, qr.Auto)
	if err != nil {
		return nil, fmt.Errorf("make a QR code: %w", err)
	}

	size := code.Bounds().Dx()
	dark := func(x, y int) bool {
		if x == size {
			return false
		}
		light, _, _, _ := code.At(x, y).RGBA()
		return light == 0
	}

	// One rectangle for each run of dark modules.
	var path strings.Builder
	for y := range size {
		for x := 0; x < size; x++ {
			from := x
			for dark(x, y) {
				x++
			}
			if x > from {
				fmt.Fprintf(&path, "M%d %dh%dv1h-%dz", from, y, x-from, x-from)
			}
		}
	}

	return &TOTPSetup{Secret: text, URI: uri, Size: size, Path: path.String()}, nil
}

// ConfirmTOTP puts the authenticator app whose setup was started in use, by its first code. It
// returns recovery codes if it is the user's first second factor.
func (f *SecondFactors) ConfirmTOTP(ctx context.Context, code string) ([]string, error) {
	user, change, err := f.passwords.factorChange(ctx)
	if err != nil {
		return nil, err
	}

	secret, err := f.accounts.SecondFactors.TOTP(ctx, user.ID, false, change.At)
	if model.KindOf(err) == model.NotFound {
		return nil, accounts.ErrSetupExpired
	}
	if err != nil {
		return nil, err
	}

	digits, method, ok := model.ParseSecondFactor(code)
	step, right := totpStep(secret, digits, f.now())
	if !ok || method != model.MethodTOTP || !right {
		return nil, model.InvalidField("code", errSecondFactor.Code, "The code is wrong. Check the clock of your device.")
	}

	codes, hashes := newRecoveryCodes(user.ID)
	first, err := f.accounts.SecondFactors.ConfirmTOTP(ctx, user.ID, step, hashes, change)
	if err == nil {
		_, err = requestOf(ctx).reload(ctx)
	}
	if err != nil || !first {
		return nil, err
	}

	return codes, nil
}

// DisableTOTP removes the authenticator app of the signed-in user after checking the password.
func (f *SecondFactors) DisableTOTP(ctx context.Context, password string) error {
	user, change, err := f.passwords.confirmFactorChange(ctx, password)
	if err != nil {
		return err
	}
	return reloadAfter(ctx, f.accounts.SecondFactors.DeleteTOTP(ctx, user.ID, user.PasswordHash, change))
}

// RenewRecoveryCodes replaces the recovery codes of the signed-in user after checking the password,
// and returns the new ones.
func (f *SecondFactors) RenewRecoveryCodes(ctx context.Context, password string) ([]string, error) {
	_, user, err := f.passwords.confirm(ctx, "password", password, nil)
	if err != nil {
		return nil, err
	}

	codes, hashes := newRecoveryCodes(user.ID)
	return codes, reloadAfter(ctx, f.accounts.SecondFactors.RenewRecoveryCodes(ctx, user.ID, user.PasswordHash, hashes))
}

// SetAccountSecurity sets whether an account of the signed-in owner requires a second factor of its
// members, after checking the password. The caller must have checked that the user may manage it.
func (f *SecondFactors) SetAccountSecurity(
	ctx context.Context, accountID model.AccountID, password string, requireSecondFactor bool,
) (*model.Account, error) {
	owner, err := f.passwords.confirmOwner(ctx, accountID, password, nil)
	if err != nil {
		return nil, err
	}

	account, err := f.accounts.SetAccountSecurity(ctx, owner, requireSecondFactor)
	return account, reloadAfter(ctx, err)
}

// Of returns the second factors of a user.
func (f *SecondFactors) Of(ctx context.Context, user *model.User) (*model.SecondFactors, error) {
	return f.accounts.SecondFactors.Of(ctx, user.ID)
}

// newRecoveryCodes returns recovery codes and the hashes under which they are stored.
func newRecoveryCodes(userID model.UserID) (codes []string, hashes [][]byte) {
	codes = model.NewRecoveryCodes()
	for _, code := range codes {
		hashes = append(hashes, model.HashRecoveryCode(userID, code))
	}
	return codes, hashes
}
