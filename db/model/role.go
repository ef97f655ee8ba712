package model

import "slices"

// Role is what a user may do in the account.
type Role string

// The roles. Each may also do what the ones after it may.
const (
	RoleOwner  Role = "OWNER"  // members, deletions
	RoleMember Role = "MEMBER" // creates and configures
	RoleViewer Role = "VIEWER" // looks on
)

// Scope is what an API token may do. A token never may more than its user.
type Scope string

// The scopes.
const (
	ScopeRead   Scope = "READ"   // every query
	ScopeWrite  Scope = "WRITE"  // creates and configures; includes READ
	ScopeExport Scope = "EXPORT" // downloads rows; with WRITE, sets the addresses that events are sent to
)

// IsScope reports whether there is such a scope.
func (s Scope) IsScope() bool { return s == ScopeRead || s == ScopeWrite || s == ScopeExport }

// Permission is what a request needs.
type Permission uint8

// The permissions.
const (
	MayRead      Permission = iota // read what belongs to the account
	MayExport                      // download rows
	MayConfigure                   // create and configure sites and sitekeys, with their secrets
	MaySendOut                     // set the addresses that events are sent to
	MayErase                       // erase what was stored of one of a site's users
	MayManage                      // members and invitations; delete sites, sitekeys and the account
	MayPersonal                    // one's own password, sessions and API tokens
	MayOperate                     // set plans, of any account
)

// May reports whether a user may do something, by password (token is nil) or by an API token. It is
// the one rule of permissions. To operate is a right of its own, apart from the roles.
func (u *User) May(p Permission, token *APIToken) bool {
	if token != nil && !token.may(p) {
		return false
	}

	switch p {
	case MayRead, MayExport, MayPersonal:
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

// may is false for all that needs a person: whoever finds a token must not be able to take over the
// account.
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
		// a configuration that exports
		return has(ScopeWrite) && has(ScopeExport)
	}

	return false
}
