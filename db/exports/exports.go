// Package exports reads a site's raw page views and events in the order of time, and formats them
// as the columns and JSON that an owner receives. The download and the daily export use it. It
// changes nothing.
package exports

import "github.com/tallygate/tallygate/db"

// Store reads exports. It is safe for concurrent use.
type Store struct{ db *db.DB }

// New returns the exports of a database.
func New(d *db.DB) *Store { return &Store{db: d} }
