package auth

import (
	"github.com/tallygate/tallygate/db/model"
)

// Caller is the sender of a request: a user in a browser, a program with a user's API token, a
// reader of a shared link, or unauthenticated.
type Caller struct {
	User   *model.User       // with its account; nil for a reader and for an unauthenticated caller
	Token  *model.APIToken   // nil for a session
	Shared *model.SharedView // of a reader, which has no permission; nil for others
}

// Check returns an error if the caller does not have the permission.
func (c Caller) Check(p model.Permission) error {
	switch {
	case c.Shared != nil:
		return model.ErrForbidden
	case c.User == nil:
		return ErrUnauthenticated
	}
	return c.User.Check(p, c.Token)
}
