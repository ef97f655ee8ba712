package model

import "slices"

// Role is the set of permissions of a user in the account.
type Role string

// The roles. Each one includes the permissions of those after it.
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

// Permission is what a request requires.
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
	MayOperate                     // set plans, of any account
)

// May reports whether a user has a permission, signed in by password (token is nil) or through an
// API token. It is the only rule of permissions. Operating is independent of the roles.
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
