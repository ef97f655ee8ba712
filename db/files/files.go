// Package files maintains the files of an embedded database: write-ahead log, backups, free space,
// and file permissions. On PostgreSQL most of its functions do nothing.
package files

import "github.com/tallygate/tallygate/db"

// Store maintains the files of an open database. It is safe for concurrent use.
type Store struct{ db *db.DB }

// New returns the files of a database.
func New(d *db.DB) *Store { return &Store{db: d} }
