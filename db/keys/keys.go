// Package keys encrypts and derives keys with the application key, rotates it, and stores the key
// of global ids. The data plane, GraphQL and the outbox call it. The database records which
// application key is in use; the keys themselves are only in memory.
package keys

import (
	"sync/atomic"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/nodeid"
)

// Store uses the keys of a database. It is safe for concurrent use.
type Store struct {
	db *db.DB

	nodeIDs atomic.Pointer[nodeid.IDs] // nil before the first NodeIDs
}

// New returns the keys of a database.
func New(d *db.DB) *Store { return &Store{db: d} }
