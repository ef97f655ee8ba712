// Package outbox stores outgoing messages: webhook deliveries with their attempts, daily exports,
// mails, and quota notices. Each row is written in the transaction of the fact that it reports. The
// worker leases and finishes them; an owner lists and repeats them through GraphQL. The package
// itself sends nothing.
package outbox

import (
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/exports"
	"github.com/tallygate/tallygate/db/keys"
)

// Store reads and changes the outbox. It is safe for concurrent use.
type Store struct {
	db      *db.DB
	keys    *keys.Store
	exports *exports.Store
}

// New returns the outbox of a database.
func New(d *db.DB) *Store { return &Store{db: d, keys: keys.New(d), exports: exports.New(d)} }

// cell reads and changes the outbox of one cell.
type cell struct{ *db.Cell }
