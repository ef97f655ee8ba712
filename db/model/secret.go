package model

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

const (
	base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

	secretRandom   = 30 // characters, 178 bits
	secretChecksum = 6  // characters, enough for any CRC-32
	secretHint     = 4  // characters
)

// NewSecret returns a bearer secret: the prefix, which names its use (svcs_ for a site's server
// secret), 30 random base62 characters, and a checksum of 6. The secret is shown once; store only
// its HashToken and SecretHint.
func NewSecret(prefix string) string {
	s := prefix + randomBase62(secretRandom)
	return s + checksum62(s)
}

// IsSecret reports whether s has the form of a secret with this prefix and a correct checksum. It
// rejects a mistyped secret without a database lookup.
func IsSecret(prefix, s string) bool {
	body, ok := strings.CutPrefix(s, prefix)
	if !ok || len(body) != secretRandom+secretChecksum {
		return false
	}

	for i := range len(body) {
		if !isBase62(body[i]) {
			return false
		}
	}

	end := len(s) - secretChecksum
	return checksum62(s[:end]) == s[end:]
}

// SecretHint returns the last 4 characters of a secret, so that its owner recognises it. They
// belong to the checksum. It returns "" for text that is too short to be a secret.
func SecretHint(s string) string {
	if len(s) < secretRandom+secretChecksum {
		return ""
	}
	return s[len(s)-secretHint:]
}

// randomBase62 returns n random base62 characters, all equally likely: it discards bytes beyond the
// largest multiple of 62.
func randomBase62(n int) string {
	const fair = 256 / len(base62) * len(base62)
	out := make([]byte, 0, n)
	for len(out) < n {
		var draw [2 * secretRandom]byte

		// Read never fails, see its documentation.
		rand.Read(draw[:])

		for _, b := range draw {
			if int(b) < fair && len(out) < n {
				out = append(out, base62[int(b)%len(base62)])
			}
		}
	}

	return string(out)
}

// checksum62 returns the CRC-32 (IEEE) of s in base62. It detects any change within four
// neighbouring characters.
func checksum62(s string) string {
	sum := crc32.ChecksumIEEE([]byte(s))
	var out [secretChecksum]byte
	for i := range out {
		out[len(out)-1-i] = base62[sum%uint32(len(base62))]
		sum /= uint32(len(base62))
	}
	return string(out[:])
}

func isBase62(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// Overlaps of a replaced secret with the new secret.
const (
	MaxKeepOldDays = 7              // of a server secret or a sitekey's secret, as its owner chooses
	WebhookOverlap = 24 * time.Hour // of a webhook secret, always
)

// KeepOldUntil returns until when a secret that is replaced now remains valid: for the given days,
// at most MaxKeepOldDays. It returns 0 for 0 days: the secret is revoked at once.
func KeepOldUntil(days int, now Instant) (Instant, error) {
	switch {
	case days < 0 || days > MaxKeepOldDays:
		return 0, InvalidField("keepOldFor", "invalid_duration",
			fmt.Sprintf("An old secret can remain valid for 0 to %d days.", MaxKeepOldDays))
	case days == 0:
		return 0, nil
	}

	return now.Add(time.Duration(days) * 24 * time.Hour), nil
}

// The prefixes of users' secrets, see NewSecret.
const (
	APITokenPrefix   = "tga_"
	ResetPrefix      = "tgr_"
	InvitationPrefix = "tgi_"
	SignUpPrefix     = "tgs_"
	EmailPrefix      = "tge_"
	SharedLinkPrefix = "tgl_"
	AlertTokenPrefix = "tgc_" // confirms an alert channel
)

// Lifetimes of mailed secrets.
const (
	ResetLifetime       = time.Hour
	EmailChangeLifetime = time.Hour
	InvitationLifetime  = 7 * 24 * time.Hour
	SignUpLifetime      = 24 * time.Hour
)

// Lifetimes of a session: without use, and in all.
const (
	SessionIdle     = 14 * 24 * time.Hour
	SessionLifetime = 90 * 24 * time.Hour
)

// Limits of one account and one user. The contract does not limit them.
const (
	MaxMembers       = 100 // including invitations
	MaxAPITokens     = 50  // of one user
	MaxAccountTokens = 400 // listed tokens of an account
	MaxSessions      = 100 // listed sessions of one user; there can be more
)

// APIToken lets a program act for a user.
type APIToken struct {
	ID         APITokenID `bun:",pk,autoincrement"`
	AccountID  AccountID  `bun:",notnull"`
	UserID     UserID     `bun:",notnull"`
	Name       string     `bun:",notnull"`
	Scopes     []Scope    `bun:"scopes,type:text,notnull"` // sorted, each once, at least one
	TokenHash  []byte     `bun:",notnull"`                 // SHA-256, see HashToken
	TokenHint  string     `bun:",notnull"`                 // the last characters
	CreatedAt  Instant    `bun:",notnull"`
	LastUsedAt Instant    `bun:",nullzero"` // to the minute; 0 before the first use
	ExpiresAt  Instant    `bun:",nullzero"` // 0: never

	// SiteIDs are the sites that the token is restricted to, sorted; nil: it is not restricted. A
	// site that is deleted or transferred stays in it, so that a restricted token remains one.
	SiteIDs []SiteID `bun:"site_ids,type:text,nullzero"`

	ExpiryMails int32 `bun:",notnull"` // mails about the expiry that were queued, see TokenMailTimes

	User *User `bun:"-"` // only in a list of an account's tokens
}

// Expired reports whether the token has expired at the given time.
func (t *APIToken) Expired(at Instant) bool { return t.ExpiresAt != 0 && at >= t.ExpiresAt }

// MaxChosenSites is the maximum number of sites that a token or a guest is restricted to.
const MaxChosenSites = 100

// MaxTokenDays is the longest life of an API token that expires, in days.
const MaxTokenDays = 3_650

// TokenMailTimes are how long before its expiry a token's user is mailed, the first mail first.
var TokenMailTimes = []time.Duration{14 * 24 * time.Hour, 24 * time.Hour}

// TokenExpiry returns when a token that is created now expires, after 1 to MaxTokenDays days. A
// token with a short life skips the mails that would have been due before its creation.
func TokenExpiry(days int, now Instant) (at Instant, skippedMails int32, err error) {
	if days < 1 || days > MaxTokenDays {
		return 0, 0, InvalidField("expiresInDays", "invalid_duration",
			fmt.Sprintf("A token expires after 1 to %d days, or never.", MaxTokenDays))
	}

	lifetime := time.Duration(days) * 24 * time.Hour
	for _, before := range TokenMailTimes {
		if lifetime <= before {
			skippedMails++
		}
	}

	return now.Add(lifetime), skippedMails, nil
}

// String describes a token to its user, in any language: name, scopes and last characters.
func (t *APIToken) String() string {
	scopes := make([]string, len(t.Scopes))
	for i, scope := range t.Scopes {
		scopes[i] = string(scope)
	}
	return fmt.Sprintf("%q (%s, …%s)", t.Name, strings.Join(scopes, " "), t.TokenHint)
}

// ParseScopes returns the scopes sorted, without duplicates. It returns an error if scopes is empty
// or contains an unknown scope.
func ParseScopes(scopes []Scope) ([]Scope, error) {
	sorted := slices.Compact(slices.Sorted(slices.Values(scopes)))
	if len(sorted) == 0 || slices.ContainsFunc(sorted, func(s Scope) bool { return !s.IsScope() }) {
		return nil, InvalidField("scopes", "invalid_scopes", "Choose at least one of READ, WRITE and EXPORT.")
	}
	return sorted, nil
}

// Invitation invites a person to join an account.
type Invitation struct {
	ID        InvitationID `bun:",pk,autoincrement"`
	AccountID AccountID    `bun:",notnull"`
	Email     string       `bun:",notnull"` // normalised, see ParseEmail
	Role      Role         `bun:",notnull"`
	TokenHash []byte       `bun:",notnull"` // SHA-256 of the mailed secret
	CreatedAt Instant      `bun:",notnull"`
	ExpiresAt Instant      `bun:",notnull"`
	InvitedBy UserID       `bun:",notnull"` // id of a user, who may be deleted; 0 for the command line

	SiteIDs []SiteID `bun:"site_ids,type:text,nullzero"` // of a guest, see Membership; nil: the whole account
}

// CheckGuest returns an error for a guest of sites with another role than VIEWER: members create
// and configure objects of the whole account. siteIDs is nil for a member.
func CheckGuest(role Role, siteIDs []SiteID) error {
	if siteIDs == nil || role == RoleViewer {
		return nil
	}
	return InvalidField("role", "invalid_role", "A person who is invited to some sites has the role VIEWER.")
}

// InvitationOffer is what an invited person reads before accepting.
type InvitationOffer struct {
	Invitation `bun:",extend"`
	Account    string // name
	By         string // e-mail address of the inviting user; empty if the user is deleted
}

// NewInvitation returns an invitation that the secret opens, valid for InvitationLifetime from now.
func NewInvitation(accountID AccountID, email string, role Role, secret string, now Instant) Invitation {
	return Invitation{
		AccountID: accountID, Email: email, Role: role, TokenHash: HashToken(secret),
		CreatedAt: now, ExpiresAt: now.Add(InvitationLifetime),
	}
}

// PendingSignUp is a sign-up with an unverified address.
type PendingSignUp struct {
	ID           int64   `bun:",pk,autoincrement"`
	Email        string  `bun:",notnull"` // normalised, see ParseEmail
	AccountName  string  `bun:",notnull"`
	PasswordHash string  `bun:",notnull"` // argon2id in PHC string form
	TokenHash    []byte  `bun:",notnull"` // SHA-256 of the mailed secret
	CreatedAt    Instant `bun:",notnull"`
	ExpiresAt    Instant `bun:",notnull"`
}

// ApplicationKey is the secret that every other key of the installation is derived from.
type ApplicationKey []byte

// Derive returns the 32-byte key for one use. Different uses have unrelated keys.
func (k ApplicationKey) Derive(use string) []byte {
	return k.derive(use, sha256.Size)
}

// Fingerprint identifies the key without revealing it: 32 hexadecimal characters.
func (k ApplicationKey) Fingerprint() string {
	return hex.EncodeToString(k.derive("fingerprint", 16))
}

func (k ApplicationKey) derive(use string, size int) []byte {
	key, err := hkdf.Key(sha256.New, k, nil, use, size)
	if err != nil {
		// Only a length over 255 hashes fails.
		panic(err)
	}
	return key
}

// KeyRotation describes a change of the application key as one process sees it. The process holds
// both keys; the database decides which of them signs. A nil *KeyRotation means that there is no
// previous key. It is safe for concurrent use.
type KeyRotation struct {
	// Previous is the key that is being replaced. It never changes after the start.
	Previous ApplicationKey

	at atomic.Int64 // Instant of the replacement; 0 before it
}

// Replaced records that the database uses the new key since the given time.
func (r *KeyRotation) Replaced(at Instant) { r.at.Store(int64(at)) }

// SignsWithPrevious reports whether the previous key still signs and seals, because the database
// still uses it.
func (r *KeyRotation) SignsWithPrevious() bool { return r != nil && r.at.Load() == 0 }

// ReplacedAt returns when the database changed to the new key, or 0 before that.
func (r *KeyRotation) ReplacedAt() Instant { return Instant(r.at.Load()) }
