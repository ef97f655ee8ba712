package accounts

import (
	"context"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// tokenTouch is how exactly the last use of an API token is noted, so that reading is not a write.
const tokenTouch = time.Minute

// CreateAPIToken stores a token, of which a user has at most model.MaxAPITokens, and returns it
// with its id.
func (s *Store) CreateAPIToken(ctx context.Context, token model.APIToken) (*model.APIToken, error) {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		// The account's row, not the user's: a deletion of the account takes it first, too, so that
		// neither waits for the other.
		if err := tx.LockRow(ctx, "accounts", token.AccountID); err != nil {
			return err
		}

		n, err := tx.NewSelect().Model((*model.APIToken)(nil)).Where("user_id = ?", token.UserID).Count(ctx)
		if err != nil {
			return err
		}

		if n >= model.MaxAPITokens {
			return &model.Error{
				Kind: model.Conflict, Code: "too_many_tokens",
				Message: fmt.Sprintf("A user has at most %d API tokens. Revoke one first.", model.MaxAPITokens),
			}
		}

		_, err = tx.NewInsert().Model(&token).Exec(ctx)
		return err
	})
	if err != nil {
		return nil, db.Wrap(err, "create API token of user %d", token.UserID)
	}

	return &token, nil
}

// APITokens returns the tokens of a user in the order of their making.
func (s *Store) APITokens(ctx context.Context, userID int64) ([]*model.APIToken, error) {
	var tokens []*model.APIToken
	if err := s.db.Read.NewSelect().Model(&tokens).Where("user_id = ?", userID).Order("id").Scan(ctx); err != nil {
		return nil, fmt.Errorf("list API tokens of user %d: %w", userID, err)
	}
	return tokens, nil
}

// APIToken returns a token of the user. One of another user is model.ErrNotFound.
func (s *Store) APIToken(ctx context.Context, userID, id int64) (*model.APIToken, error) {
	var token model.APIToken
	if err := s.db.Read.NewSelect().Model(&token).Where("user_id = ?", userID).Where("id = ?", id).Scan(ctx); err != nil {
		return nil, db.OrNotFound(err)
	}
	return &token, nil
}

// DeleteAPIToken ends a token of the user and returns what it was. One of another user is
// model.ErrNotFound.
func (s *Store) DeleteAPIToken(ctx context.Context, userID, id int64) (*model.APIToken, error) {
	var token model.APIToken
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		err := tx.NewSelect().Model(&token).Where("id = ?", id).Where("user_id = ?", userID).Scan(ctx)
		if err != nil {
			return db.OrNotFound(err)
		}
		_, err = tx.NewDelete().Model(&token).WherePK().Exec(ctx)
		return err
	})
	if err != nil {
		return nil, db.Wrap(err, "delete API token %d", id)
	}

	return &token, nil
}

// APITokenUser returns the token with this hash and its user, with the account, and notes that it
// was used. model.ErrNotFound when there is none.
func (s *Store) APITokenUser(ctx context.Context, hash []byte, now model.Instant) (*model.APIToken, *model.User, error) {
	var token model.APIToken
	if err := s.db.Read.NewSelect().Model(&token).Where("token_hash = ?", hash).Scan(ctx); err != nil {
		return nil, nil, db.OrNotFound(err)
	}

	user, err := userByID(ctx, s.db.Read, token.UserID)
	if err != nil {
		return nil, nil, err
	}

	if seen := now.Add(-tokenTouch); token.LastUsedAt <= seen {
		// Only one of several requests at once writes.
		_, err := s.db.Write.NewUpdate().Model((*model.APIToken)(nil)).Set("last_used_at = ?", now).
			Where("id = ?", token.ID).Where("last_used_at IS NULL OR last_used_at <= ?", seen).Exec(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("note use of API token %d: %w", token.ID, err)
		}
	}

	return &token, user, nil
}
