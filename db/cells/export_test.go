package cells

import "context"

// Begin records a move without doing a step.
func (s *Store) Begin(ctx context.Context, siteID, toCell int64) error {
	return s.begin(ctx, siteID, toCell)
}

// Advance does one step of a move.
func (s *Store) Advance(ctx context.Context, siteID int64) (done bool, err error) {
	return s.advance(ctx, siteID, true)
}
