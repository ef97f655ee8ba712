package model

import (
	"crypto/sha256"
	"fmt"
	"net/mail"
	"slices"
	"strings"
	"unicode/utf8"
)

// Account owns sites and captcha sitekeys. Every tenant row belongs to an account.
type Account struct {
	ID          AccountID   `bun:",pk,autoincrement"`
	Name        string      `bun:",notnull"`
	CaptchaPlan CaptchaPlan `bun:",notnull"`
	CreatedAt   Instant     `bun:",notnull"`

	RequireSecondFactor bool `bun:",notnull"` // see User.Bars
	RequireProvider     bool `bun:",notnull"` // see User.Through

	SuspendedAt      Instant `bun:",notnull"` // 0: not suspended
	SuspensionReason string  `bun:",notnull"` // shown to the account's users

	Cell       int64 `bun:",notnull"` // the cell that stores its captcha, see db.Cell
	CellClosed bool  `bun:",notnull"` // its captcha is being moved to another cell: no claim is stored
}

// User is a person who signs in, as a member of one account. The person may belong to other
// accounts too: see Memberships and In.
type User struct {
	ID                 UserID    `bun:",pk,autoincrement"`
	Email              string    `bun:",notnull"` // normalised, see ParseEmail; unique in the installation
	PasswordHash       string    `bun:",notnull"` // argon2id in PHC string form
	PasswordGeneration int32     `bun:",notnull"` // how often the password was changed
	Operator           bool      `bun:",notnull"` // may set plans; the first user of an installation is an operator
	Language           Language  `bun:",notnull"` // of mails to the user
	CreatedAt          Instant   `bun:",notnull"`
	SecondFactor       bool      `bun:",notnull"` // has an authenticator app or a passkey
	LastAccount        AccountID `bun:",notnull"` // last chosen in the console; 0: none; the user may have left it

	AccountID   AccountID     `bun:"-"` // the account that the user was reached through
	Role        Role          `bun:"-"` // in that account
	Account     *Account      `bun:"-"` // only when the query joined it
	Memberships []*Membership `bun:"-"` // the accounts that the user was read with, oldest first
	OnlySites   []SiteID      `bun:"-"` // the sites that the user reaches in that account; nil: all of them
	Provider    *AccountID    `bun:"-"` // of the session, see Through; nil: no provider

	tokenSites []SiteID // the sites that the user's API token is restricted to; nil: it is not
}

// IsRestricted reports whether the user reaches only some sites of the account, as a guest or
// through an API token that is restricted to sites. Such a user reaches nothing else of the
// account. A restriction to sites that were deleted remains one.
func (u *User) IsRestricted() bool { return u.OnlySites != nil }

// Reaches reports whether the user may reach a site of the account.
func (u *User) Reaches(siteID SiteID) bool {
	return u.OnlySites == nil || slices.Contains(u.OnlySites, siteID)
}

// IsGuest reports whether the user's membership in the account is restricted to sites.
func (u *User) IsGuest() bool { return u.GuestSites() != nil }

// IsGuestOf reports whether the user reaches a site of an account as a guest. A site that was
// transferred stays with guests of the earlier account, who reach it no more.
func (u *User) IsGuestOf(accountID AccountID, siteID SiteID) bool {
	return slices.ContainsFunc(u.Memberships, func(m *Membership) bool {
		return m.AccountID == accountID && slices.Contains(m.SiteIDs, siteID)
	})
}

// IsGuestOfAny reports whether the user is, or was before a transfer, a guest of a site.
func (u *User) IsGuestOfAny(siteID SiteID) bool {
	return slices.ContainsFunc(u.Memberships, func(m *Membership) bool { return slices.Contains(m.SiteIDs, siteID) })
}

// GuestSites returns the sites that the user's membership in the account is restricted to, or nil.
func (u *User) GuestSites() []SiteID {
	for _, m := range u.Memberships {
		if m.AccountID == u.AccountID {
			return m.SiteIDs
		}
	}
	return nil
}

// Membership is the role of a user in an account. Memberships of guests have a table of their own,
// see package accounts.
type Membership struct {
	UserID    UserID    `bun:",pk"`
	AccountID AccountID `bun:",pk"`
	Role      Role      `bun:",notnull"`
	CreatedAt Instant   `bun:",notnull"` // when the user joined

	// SiteIDs are the sites that a guest reaches, sorted; nil: the whole account. A site that is
	// deleted or transferred stays in it, so that a guest remains one.
	SiteIDs []SiteID `bun:"site_ids,type:text,nullzero"`

	User    *User    `bun:"rel:belongs-to,join:user_id=id"`    // only when the query joined it
	Account *Account `bun:"rel:belongs-to,join:account_id=id"` // only when the query joined it
}

// MaxMemberships is how many accounts a user can belong to.
const MaxMemberships = 20

// NewMember returns a user with these memberships, as a member of the first one's account.
// memberships must not be empty, and must have their users and accounts.
func NewMember(memberships []*Membership) *User {
	user := memberships[0].User
	user.Memberships = memberships
	return user.In(memberships[0].AccountID)
}

// Default returns the user as a member of the default account, which is the first that the user
// joined among the accounts that were read.
func (u *User) Default() *User { return u.In(u.Memberships[0].AccountID) }

// In returns the user as a member of one of the user's accounts; nil for any other account.
func (u *User) In(accountID AccountID) *User {
	for _, m := range u.Memberships {
		if m.AccountID == accountID {
			member := *u
			member.enter(m)
			return &member
		}
	}
	return nil
}

// enter makes the user a member of the account of a membership.
func (u *User) enter(m *Membership) {
	u.AccountID, u.Role, u.Account = m.AccountID, m.Role, m.Account
	u.OnlySites = bothSites(m.SiteIDs, u.tokenSites)
}

// Join adds a membership, and makes the user a member of its account.
func (u *User) Join(m *Membership) {
	u.Memberships = append(u.Memberships, m)
	u.enter(m)
}

// Restrict returns the user restricted to sites, as an API token restricts it, in addition to the
// restriction of a guest. nil does not restrict.
func (u *User) Restrict(siteIDs []SiteID) *User {
	member := *u
	member.tokenSites = siteIDs
	return member.In(u.AccountID)
}

// bothSites returns the sites that two restrictions have in common. A restriction can be nil. The
// result is nil only if both are.
func bothSites(a, b []SiteID) []SiteID {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}

	both := []SiteID{}
	for _, id := range a {
		if slices.Contains(b, id) {
			both = append(both, id)
		}
	}
	return both
}

// Session is a signed-in browser. The cookie holds a random id; only its SHA-256 is stored.
type Session struct {
	IDHash     []byte  `bun:",pk"`
	UserID     UserID  `bun:",notnull"`
	CreatedAt  Instant `bun:",notnull"`
	LastSeenAt Instant `bun:",notnull"`
	ExpiresAt  Instant `bun:",notnull"`

	// ProviderAccount is the account with the provider that started the session; 0: the
	// installation's provider; nil: no provider.
	ProviderAccount *AccountID
}

// HashToken returns the SHA-256 under which a bearer secret is stored and looked up. It suits
// random secrets only, not passwords.
func HashToken(token string) []byte {
	h := sha256.Sum256([]byte(token))
	return h[:]
}

// ParseEmail normalises an e-mail address to lower case. It accepts one bare address of at most 254
// characters.
func ParseEmail(s string) (string, error) {
	s = strings.ToLower(strings.TrimSpace(s))
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s || len(s) > 254 ||
		strings.ContainsAny(s, " \t\"<>") || strings.ContainsFunc(s, isInvisible) {
		return "", InvalidField("email", "invalid_email", "Enter an e-mail address such as name@example.com.")
	}
	return s, nil
}

// ParseAccountName is ParseName for accounts, without web addresses. An account's name appears in
// mails to people outside the account, and an address would turn these mails into advertisements.
func ParseAccountName(field, s string) (string, error) {
	s, err := ParseName(field, s)
	if lower := strings.ToLower(s); err == nil && (strings.Contains(lower, "://") || strings.Contains(lower, "www.")) {
		return "", InvalidField(field, "invalid_name", "Use a name without web addresses.")
	}
	return s, err
}

// mailedName is how many characters of an account's name a mail shows.
const mailedName = 60

// MailName returns an account's name for a mail to a person outside the account: one line of at
// most 60 characters in quotes, in which mail programs find no address to link.
func MailName(name string) string {
	clean := Clean(name, mailedName)
	if clean != Clean(name, len(name)) {
		clean = Clean(name, mailedName-1) + "…"
	}

	var b strings.Builder

	for i, r := range clean {
		rest := clean[i+utf8.RuneLen(r):]

		// Mail programs link "example.com", but not "Inc. of".
		linked := r == '.' && rest != "" && rest[0] != ' '
		switch {
		case linked, r == '@', r == '"':
			b.WriteRune('·')
		case strings.HasPrefix(clean[i:], "://"):
			b.WriteRune(' ')
		default:
			b.WriteRune(r)
		}
	}

	return `"` + b.String() + `"`
}

// ParseName trims the display name of an account, site, sitekey or API token. It requires 1 to 100
// characters, all of them visible (see IsVisible), because names are shown to other people in lists
// and mails.
func ParseName(field, s string) (string, error) {
	s = strings.TrimSpace(s)
	if n := len([]rune(s)); n < 1 || n > 100 {
		return "", InvalidField(field, "invalid_name", "Use a name of 1 to 100 characters.")
	}
	if !IsClean(s) || !IsVisible(s) {
		return "", InvalidField(field, "invalid_name",
			"Use a name without control characters and invisible characters.")
	}

	return s, nil
}

// CheckSuspended returns an error if the account is suspended and the permission is for changes.
func (a *Account) CheckSuspended(p Permission) error {
	switch p {
	case MayConfigure, MaySendOut, MayErase, MayManage:
	default:
		return nil
	}

	if a.SuspendedAt == 0 {
		return nil
	}
	return &Error{Kind: Forbidden, Code: "account_suspended",
		Message: "An operator has suspended this account: " + a.SuspensionReason}
}

// maxReason is how many characters the reason of a suspension has at most.
const maxReason = 500

// ParseReason trims the reason for which an operator suspends an account. It requires 1 to 500
// characters in one line, because mails and the console show it to the account's users.
func ParseReason(field, s string) (string, error) {
	s = strings.TrimSpace(s)
	if n := utf8.RuneCountInString(s); n < 1 || n > maxReason || !IsClean(s) || !IsVisible(s) {
		return "", InvalidField(field, "invalid_text", fmt.Sprintf("Use 1 to %d visible characters in one line.", maxReason))
	}
	return s, nil
}

// Role is the set of permissions of a user in an account.
type Role string

// The roles. Each role includes the permissions of the roles after it.
const (
	RoleOwner  Role = "OWNER"  // members, deletions
	RoleMember Role = "MEMBER" // creates and configures
	RoleViewer Role = "VIEWER" // reads
)

// Scope is a set of permissions of an API token. A token never has more permissions than its user.
type Scope string

// The scopes.
const (
	ScopeRead   Scope = "READ"   // every query
	ScopeWrite  Scope = "WRITE"  // creates and configures; includes READ
	ScopeExport Scope = "EXPORT" // downloads rows; with WRITE, sets the addresses that events are sent to
)

// IsScope reports whether s is one of the scopes.
func (s Scope) IsScope() bool { return s == ScopeRead || s == ScopeWrite || s == ScopeExport }

// Permission is a right that a request requires.
type Permission uint8

// The permissions.
const (
	MayRead      Permission = iota // read the account's data
	MayExport                      // download rows
	MayConfigure                   // create and configure sites and sitekeys, with their secrets
	MaySendOut                     // set the addresses that events are sent to
	MayErase                       // erase the data of one of a site's users
	MayManage                      // members and invitations; delete sites, sitekeys and the account
	MayPersonal                    // the user's own password, sessions and API tokens
	MaySecure                      // the user's own second factor; leave an account
	MayOperate                     // set plans, of any account
)

// Bars reports whether the account requires a second factor that the user does not have. Such a
// user can only set one up.
func (a *Account) Bars(u *User) bool { return a != nil && a.RequireSecondFactor && !u.SecondFactor }

// Check returns nil if a user has a permission, see May. It fails with ErrForbidden, or with
// ErrSecondFactorRequired if only a second factor is missing.
func (u *User) Check(p Permission, token *APIToken) error {
	switch {
	case !u.permits(p, token):
		return ErrForbidden
	case p != MaySecure && u.Account.Bars(u):
		return ErrSecondFactorRequired
	}
	return nil
}

// May reports whether a user has a permission in the account that the user was reached through,
// signed in (token is nil) or through an API token. It is the only rule of permissions. Operating
// is independent of the roles.
func (u *User) May(p Permission, token *APIToken) bool { return u.Check(p, token) == nil }

// permits is May without the rule of second factors.
func (u *User) permits(p Permission, token *APIToken) bool {
	if token != nil && !token.may(p) {
		return false
	}

	switch p {
	case MayRead, MayExport, MayPersonal, MaySecure:
		return true
	case MayConfigure, MaySendOut, MayErase:
		return u.Role == RoleOwner || u.Role == RoleMember
	case MayManage:
		return u.Role == RoleOwner
	case MayOperate:
		return u.Operator
	}

	return false
}

// CheckInAny returns nil if a user has a permission in one of the user's accounts. It fails as
// Check does: with ErrSecondFactorRequired if one of them needs only that.
func (u *User) CheckInAny(p Permission, token *APIToken) error {
	err := u.Check(p, token)
	for _, m := range u.Memberships {
		switch other := u.In(m.AccountID).Check(p, token); other {
		case nil:
			return nil
		case ErrSecondFactorRequired:
			err = other
		}
	}
	return err
}

// may reports whether the token's scopes include the permission. It is false for everything that
// requires a person: a stolen token must not be enough to take over the account.
func (t *APIToken) may(p Permission) bool {
	has := func(s Scope) bool { return slices.Contains(t.Scopes, s) }

	switch p {
	case MayRead:
		return has(ScopeRead) || has(ScopeWrite)
	case MayExport:
		return has(ScopeExport)
	case MayConfigure:
		return has(ScopeWrite)
	case MaySendOut:
		// This is a configuration that exports rows.
		return has(ScopeWrite) && has(ScopeExport)
	}

	return false
}

// SignupPolicy restricts who can create an account over the network (setting TALLYGATE_SIGNUPS).
// The zero value is closed.
type SignupPolicy uint8

// The policies. Closed refuses even the first account, which is then created on the command line.
const (
	SignupsClosed    SignupPolicy = iota // no accounts
	SignupsFirstOnly                     // only the first account of an installation, which is the operator's
	SignupsOpen                          // any account
)

var signupNames = map[SignupPolicy]string{SignupsClosed: "closed", SignupsFirstOnly: "first-only", SignupsOpen: "open"}

// ParseSignupPolicy parses open, closed or first-only.
func ParseSignupPolicy(s string) (SignupPolicy, error) {
	for p, name := range signupNames {
		if s == name {
			return p, nil
		}
	}
	return SignupsClosed, fmt.Errorf("%q is not open, closed or first-only", s)
}

// String returns the policy's name in settings.
func (p SignupPolicy) String() string {
	if name, ok := signupNames[p]; ok {
		return name
	}
	return fmt.Sprintf("SignupPolicy(%d)", uint8(p))
}

// MarshalText returns the policy's name.
func (p SignupPolicy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalFlag parses the policy's name.
func (p *SignupPolicy) UnmarshalFlag(name string) error {
	parsed, err := ParseSignupPolicy(name)
	if err != nil {
		return err
	}
	*p = parsed
	return nil
}
