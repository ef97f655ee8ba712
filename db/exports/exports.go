// Package exports reads a site's raw page views and events, in the order of time, and writes them as
// the columns and the JSON that an owner gets. The download and the daily export use the same rows.
package exports

import "github.com/tallygate/tallygate/db"

// Store reads exports. It is safe for concurrent use.
type Store struct{ db *db.DB }

// New returns the exports of a database.
func New(d *db.DB) *Store { return &Store{db: d} }
