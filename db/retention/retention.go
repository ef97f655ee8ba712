// Package retention deletes expired data: old months with their partitions, the rows of deleted
// sites, and the data of a user whom an owner asks to erase. It also creates the partitions of
// coming months and corrects times in the future. The worker's housekeeping and the operator's
// commands call it.
package retention

import (
	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/keys"
)

// Store deletes rows. It is safe for concurrent use.
type Store struct {
	db   *db.DB
	keys *keys.Store
}

// New returns the retention of a database.
func New(d *db.DB) *Store { return &Store{db: d, keys: keys.New(d)} }

// cell deletes rows of one cell.
type cell struct{ *db.Cell }

// common deletes rows of common tables, which the connections of each cell find.
func (s *Store) common() cell { return cell{s.db.DefaultCell()} }
