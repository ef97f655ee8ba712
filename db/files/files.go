// Package files looks after the files of an embedded database: the write-ahead log, backups, free
// space, and who can read them. On PostgreSQL most of it does nothing.
package files

import "github.com/tallygate/tallygate/db"

// Store looks after the files of an open database. It is safe for concurrent use.
type Store struct{ db *db.DB }

// New returns the files of a database.
func New(d *db.DB) *Store { return &Store{db: d} }
