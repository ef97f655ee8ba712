package model

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"
	"time"
)

// Limits of second factors.
const (
	RecoveryCodes     = 10 // made at once
	MaxPasskeys       = 20 // of one user
	TOTPSetupLifetime = 15 * time.Minute
	ChallengeLifetime = 5 * time.Minute // of a challenge that a passkey answers
	TOTPPeriod        = 30 * time.Second
)

// SecondFactorMethod is a way to prove a second factor.
type SecondFactorMethod string

// The methods.
const (
	MethodTOTP         SecondFactorMethod = "TOTP"          // code of an authenticator app
	MethodRecoveryCode SecondFactorMethod = "RECOVERY_CODE" // one of the codes that were shown once
	MethodPasskey      SecondFactorMethod = "PASSKEY"
)

// TOTPSecret is the secret of a user's authenticator app.
type TOTPSecret struct {
	UserID    UserID  `bun:",pk"`
	Confirmed bool    `bun:",pk"`      // false: waits for its first code
	Secret    []byte  `bun:",notnull"` // encrypted, see keys.TOTPSecret
	LastStep  int64   `bun:",notnull"` // the newest period with a used code; 0 before the first
	CreatedAt Instant `bun:",notnull"`
}

// Passkey is a WebAuthn credential of a user.
type Passkey struct {
	ID           PasskeyID `bun:",pk,autoincrement"`
	UserID       UserID    `bun:",notnull"`
	CredentialID []byte    `bun:",notnull"`
	PublicKey    []byte    `bun:",notnull"` // COSE
	SignCount    int64     `bun:",notnull"` // at the last use; 0: the authenticator does not count
	Flags        int32     `bun:",notnull"` // of the authenticator data at the last use
	Transports   string    `bun:",notnull"` // separated by spaces
	Name         string    `bun:",notnull"`
	CreatedAt    Instant   `bun:",notnull"`
	LastUsedAt   Instant   `bun:",nullzero"` // 0 before the first use
}

// SecondFactors are the second factors of a user.
type SecondFactors struct {
	TOTPSince     Instant // 0: no authenticator app
	Passkeys      []*Passkey
	RecoveryCodes int // unused codes
}

// Any reports whether the user has a second factor. Recovery codes alone do not count.
func (f *SecondFactors) Any() bool { return f.TOTPSince != 0 || len(f.Passkeys) > 0 }

// Methods returns the ways in which the user can prove a second factor.
func (f *SecondFactors) Methods() []SecondFactorMethod {
	var methods []SecondFactorMethod
	if f.TOTPSince != 0 {
		methods = append(methods, MethodTOTP)
	}
	if len(f.Passkeys) > 0 {
		methods = append(methods, MethodPasskey)
	}
	if f.RecoveryCodes > 0 && f.Any() {
		methods = append(methods, MethodRecoveryCode)
	}
	return methods
}

// recoveryAlphabet is Crockford's base32 in lower case, without i, l, o and u.
var recoveryAlphabet = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

const (
	recoveryBytes  = 10 // 80 bits, so that a stolen hash is not enough to find the code
	recoveryLength = 16 // characters
	recoveryGroup  = 4
)

// NewRecoveryCodes returns RecoveryCodes random codes such as "4f7x-k2m9-q0wd-7n5r".
func NewRecoveryCodes() []string {
	codes := make([]string, RecoveryCodes)
	for i := range codes {
		var b [recoveryBytes]byte

		// Read never fails, see its documentation.
		rand.Read(b[:])

		text := recoveryAlphabet.EncodeToString(b[:])
		var groups []string
		for at := 0; at < len(text); at += recoveryGroup {
			groups = append(groups, text[at:at+recoveryGroup])
		}
		codes[i] = strings.Join(groups, "-")
	}
	return codes
}

// ParseSecondFactor normalises a code that a person typed. It returns MethodTOTP for six digits,
// MethodRecoveryCode for a recovery code, and false for any other text.
func ParseSecondFactor(s string) (code string, method SecondFactorMethod, ok bool) {
	if len(s) > 64 {
		return "", "", false
	}

	code = strings.NewReplacer(" ", "", "-", "", "o", "0", "i", "1", "l", "1").Replace(strings.ToLower(s))
	_, err := recoveryAlphabet.DecodeString(code)
	switch {
	case len(code) == 6 && strings.Trim(code, "0123456789") == "":
		return code, MethodTOTP, true
	case len(code) == recoveryLength && err == nil:
		return code, MethodRecoveryCode, true
	}

	return "", "", false
}

// HashRecoveryCode returns the hash under which a user's normalised recovery code is stored.
func HashRecoveryCode(userID UserID, code string) []byte {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(userID)))
	h.Write([]byte(strings.ReplaceAll(code, "-", "")))
	return h.Sum(nil)
}
