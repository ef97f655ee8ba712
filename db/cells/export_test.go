package cells

import (
	"context"
	"github.com/tallygate/tallygate/db/model"
)

// Begin records a move without doing a step.
func (s *Store) Begin(ctx context.Context, siteID model.SiteID, toCell int64) error {
	return s.begin(ctx, siteID, toCell)
}

// Advance does one step of a move.
func (s *Store) Advance(ctx context.Context, siteID model.SiteID) (done bool, err error) {
	return s.advance(ctx, siteID, true)
}

// BeginAccount is Begin for an account.
func (s *Store) BeginAccount(ctx context.Context, accountID model.AccountID, toCell int64) error {
	return s.beginAccount(ctx, accountID, toCell)
}

// AdvanceAccount is Advance for an account.
func (s *Store) AdvanceAccount(ctx context.Context, accountID model.AccountID) (done bool, err error) {
	return s.advanceAccount(ctx, accountID, true)
}
