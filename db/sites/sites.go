// Package sites stores sites with their settings and webhook addresses, and captcha sitekeys. The
// control plane changes them, the data plane reads and watches them. A site or sitekey of another
// account is model.ErrNotFound.
package sites

import (
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/keys"
)

// Store reads and changes sites and sitekeys. It is safe for concurrent use.
type Store struct {
	db   *db.DB
	keys *keys.Store
	tx   *db.Tx // set in a store that InTx passes to its callback; otherwise nil
}

// New returns the store of a database's sites.
func New(d *db.DB) *Store { return &Store{db: d, keys: keys.New(d)} }
