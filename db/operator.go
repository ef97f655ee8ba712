package db

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/model"
)

// This file is what only the operator's command line does.

// SetOperator makes the user with this address an operator, or no longer. The last one stays as long as there is anybody
// else: ErrLastOperator.
func (d *DB) SetOperator(ctx context.Context, email string, operator bool) error {
	err := d.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := d.lockInstallation(ctx, tx); err != nil {
			return err
		}
		user, err := d.lockUser(ctx, tx, "email", email)
		if err != nil {
			return err
		}
		if !operator {
			if err := needOtherOperator(ctx, tx, func(q *bun.SelectQuery) { q.Where("id <> ?", user.ID) }); err != nil {
				return err
			}
		}
		_, err = tx.NewUpdate().Model((*model.User)(nil)).Set("operator = ?", operator).Where("id = ?", user.ID).Exec(ctx)
		return err
	})
	if err != nil {
		return named(err, "set an operator")
	}
	return nil
}

// StorePasswordReset stores the hash of a secret that opens the account of this address for a while, without a mail. It is
// model.ErrNotFound for an address that nobody has.
func (d *DB) StorePasswordReset(ctx context.Context, email string, tokenHash []byte, expires model.Instant) error {
	user, err := d.UserByEmail(ctx, email)
	if err != nil {
		return err
	}
	_, err = d.write.ExecContext(ctx, "INSERT INTO password_resets (token_hash, user_id, expires_at) VALUES (?, ?, ?)", tokenHash, user.ID, expires)
	if err != nil {
		return fmt.Errorf("store a password reset of user %d: %w", user.ID, err)
	}
	return nil
}
