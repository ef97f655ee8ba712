package model

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The prefixes of users' secrets, see NewSecret.
const (
	APITokenPrefix   = "tga_"
	ResetPrefix      = "tgr_"
	InvitationPrefix = "tgi_"
	SignUpPrefix     = "tgs_"
	SharedLinkPrefix = "tgl_"
)

// Lifetimes of mailed secrets.
const (
	ResetLifetime      = time.Hour
	InvitationLifetime = 7 * 24 * time.Hour
	SignUpLifetime     = 24 * time.Hour
)

// Limits of one account and one user. The contract sets none.
const (
	MaxMembers   = 100 // including invitations
	MaxAPITokens = 50  // of one user
	MaxSessions  = 100 // listed sessions of one user; there can be more
)

// APIToken lets a program act for a user.
type APIToken struct {
	ID         int64   `bun:",pk,autoincrement"`
	AccountID  int64   `bun:",notnull"`
	UserID     int64   `bun:",notnull"`
	Name       string  `bun:",notnull"`
	Scopes     []Scope `bun:"scopes,type:text,notnull"` // sorted, each once, at least one
	TokenHash  []byte  `bun:",notnull"`                 // SHA-256, see HashToken
	TokenHint  string  `bun:",notnull"`                 // the last characters
	CreatedAt  Instant `bun:",notnull"`
	LastUsedAt Instant `bun:",nullzero"` // to the minute; 0 before the first use
}

// String describes a token to its user: name, scopes and last characters.
func (t *APIToken) String() string {
	scopes := make([]string, len(t.Scopes))
	for i, scope := range t.Scopes {
		scopes[i] = string(scope)
	}
	return fmt.Sprintf("%q (%s, ends in %s)", t.Name, strings.Join(scopes, " "), t.TokenHint)
}

// ParseScopes returns the scopes sorted, without duplicates. It returns an error if there are none
// or one is unknown.
func ParseScopes(scopes []Scope) ([]Scope, error) {
	sorted := slices.Compact(slices.Sorted(slices.Values(scopes)))
	if len(sorted) == 0 || slices.ContainsFunc(sorted, func(s Scope) bool { return !s.IsScope() }) {
		return nil, InvalidField("scopes", "invalid_scopes", "Choose at least one of READ, WRITE and EXPORT.")
	}
	return sorted, nil
}

// Invitation invites a person to join an account.
type Invitation struct {
	ID        int64   `bun:",pk,autoincrement"`
	AccountID int64   `bun:",notnull"`
	Email     string  `bun:",notnull"` // normalised, see ParseEmail
	Role      Role    `bun:",notnull"`
	TokenHash []byte  `bun:",notnull"` // SHA-256 of the mailed secret
	CreatedAt Instant `bun:",notnull"`
	ExpiresAt Instant `bun:",notnull"`
}

// NewInvitation returns an invitation that the secret opens, valid for InvitationLifetime from now.
func NewInvitation(accountID int64, email string, role Role, secret string, now Instant) Invitation {
	return Invitation{
		AccountID: accountID, Email: email, Role: role, TokenHash: HashToken(secret),
		CreatedAt: now, ExpiresAt: now.Add(InvitationLifetime),
	}
}

// PendingSignUp is a sign-up whose address is not verified yet.
type PendingSignUp struct {
	ID           int64   `bun:",pk,autoincrement"`
	Email        string  `bun:",notnull"` // normalised, see ParseEmail
	AccountName  string  `bun:",notnull"`
	PasswordHash string  `bun:",notnull"` // argon2id in PHC string form
	TokenHash    []byte  `bun:",notnull"` // SHA-256 of the mailed secret
	CreatedAt    Instant `bun:",notnull"`
	ExpiresAt    Instant `bun:",notnull"`
}
