// Package exports reads a site's raw page views and events in the order of time, and formats them
// as the columns and JSON that an owner receives. The download and the daily export use it. It
// changes nothing.
package exports

import (
	"context"

	"github.com/tallygate/tallygate/db"
)

// Store reads exports. It is safe for concurrent use.
type Store struct{ db *db.DB }

// New returns the exports of a database.
func New(d *db.DB) *Store { return &Store{db: d} }

// ofSite returns the exports of a site's cell. A page is read from one cell; the next page may be in
// another one.
func (s *Store) ofSite(ctx context.Context, siteID int64) (*Store, error) {
	in, err := s.db.OfSite(ctx, siteID)
	return &Store{db: in}, err
}
