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

// BeginAccount is Begin for an account.
func (s *Store) BeginAccount(ctx context.Context, accountID, toCell int64) error {
	return s.beginAccount(ctx, accountID, toCell)
}

// AdvanceAccount is Advance for an account.
func (s *Store) AdvanceAccount(ctx context.Context, accountID int64) (done bool, err error) {
	return s.advanceAccount(ctx, accountID, true)
}
