package accounts

import (
	"context"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// tokenTouch is the precision of an API token's last use, so that most requests write nothing.
const tokenTouch = time.Minute

// CreateAPIToken stores a token and returns it with its id. A user has at most model.MaxAPITokens.
func (s *Store) CreateAPIToken(ctx context.Context, token model.APIToken) (*model.APIToken, error) {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		// Lock the account's row and not the user's: deleting the account also locks it first, so
		// that neither transaction waits for the other.
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

// APITokens returns the tokens of a user in the order of their creation.
func (s *Store) APITokens(ctx context.Context, userID int64) ([]*model.APIToken, error) {
	var tokens []*model.APIToken
	if err := s.db.Read.NewSelect().Model(&tokens).Where("user_id = ?", userID).Order("id").Scan(ctx); err != nil {
		return nil, fmt.Errorf("list API tokens of user %d: %w", userID, err)
	}
	return tokens, nil
}

// APIToken returns a token of the user, or model.ErrNotFound, also for a token of another user.
func (s *Store) APIToken(ctx context.Context, userID, id int64) (*model.APIToken, error) {
	var token model.APIToken
	err := s.db.Read.NewSelect().Model(&token).Where("user_id = ?", userID).Where("id = ?", id).Scan(ctx)
	if err != nil {
		return nil, db.OrNotFound(err)
	}
	return &token, nil
}

// DeleteAPIToken revokes a token of the user and returns it. It fails with model.ErrNotFound for a
// token of another user.
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

// APITokenUser returns the token with this hash and its user, with the account, and records the use
// of the token. It returns model.ErrNotFound for an unknown hash.
func (s *Store) APITokenUser(
	ctx context.Context, hash []byte, now model.Instant,
) (*model.APIToken, *model.User, error) {
	var token model.APIToken
	if err := s.db.Read.NewSelect().Model(&token).Where("token_hash = ?", hash).Scan(ctx); err != nil {
		return nil, nil, db.OrNotFound(err)
	}

	user, err := userByID(ctx, s.db.Read, token.UserID)
	if err != nil {
		return nil, nil, err
	}

	if seen := now.Add(-tokenTouch); token.LastUsedAt <= seen {
		// The condition lets only one of several concurrent requests write.
		_, err := s.db.Write.NewUpdate().Model((*model.APIToken)(nil)).Set("last_used_at = ?", now).
			Where("id = ?", token.ID).Where("last_used_at IS NULL OR last_used_at <= ?", seen).Exec(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("note use of API token %d: %w", token.ID, err)
		}
	}

	return &token, user, nil
}
