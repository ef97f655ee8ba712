// Package accounts stores accounts and their users: sign-up, members, invitations, passwords,
// sign-in attempts, sessions and API tokens. The control plane and the operator's command line call
// it. It never sees a password or a secret, only their hashes.
package accounts

import (
	"sync/atomic"

	"github.com/tallygate/tallygate/db"
)

// Store reads and changes accounts. It is safe for concurrent use.
type Store struct {
	db *db.DB

	newSignInFailures atomic.Int64 // rows inserted by this process since it last checked the table's bound
}

// New returns the store of a database's accounts.
func New(d *db.DB) *Store { return &Store{db: d} }
