package accounts

import (
	"context"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// SetOperator grants or revokes the operator role of the user with this address. Only the
// operator's command line calls it. It fails with ErrLastOperator for the last operator.
func (s *Store) SetOperator(ctx context.Context, email string, operator bool) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		// Two revocations at the same time must not remove the last two operators.
		if err := tx.LockInstallation(ctx); err != nil {
			return err
		}

		user, err := lockUser(ctx, tx, "email", email)
		if err != nil {
			return err
		}

		if !operator && user.Operator {
			others, err := tx.NewSelect().Table("users").Where("operator AND id <> ?", user.ID).Exists(ctx)
			if err == nil && !others {
				err = ErrLastOperator
			}
			if err != nil {
				return err
			}
		}

		_, err = tx.NewUpdate().Model((*model.User)(nil)).Set("operator = ?", operator).Where("id = ?", user.ID).
			Exec(ctx)
		if err != nil {
			return err
		}

		return audit.Write(ctx, tx, audit.Change{
			AccountID: user.AccountID, Object: userObject(user), ByOperator: true,
			Before: audit.Values{"operator": user.Operator}, After: audit.Values{"operator": operator},
		})
	})
	return db.Wrap(err, "set an operator")
}

// StorePasswordReset stores the hash of a secret that resets the password of the user with this
// address, until expires. The operator passes the secret on to the user. Earlier secrets are
// revoked. With notify it also mails the user that a secret exists. It fails with model.ErrNotFound
// for an unknown address.
func (s *Store) StorePasswordReset(
	ctx context.Context, email string, tokenHash []byte, now, expires model.Instant, notify bool,
) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		user, err := lockUser(ctx, tx, "email", email)
		if err != nil {
			return err
		}

		if err := revokePasswordReset(ctx, tx, user); err != nil {
			return err
		}

		_, err = tx.ExecContext(ctx, "INSERT INTO password_resets (token_hash, user_id, expires_at) VALUES (?, ?, ?)",
			tokenHash, user.ID, expires)
		if err != nil {
			return err
		}

		err = audit.Write(ctx, tx, audit.Change{AccountID: user.AccountID, Object: userObject(user), ByOperator: true})
		if err != nil || !notify {
			return err
		}

		return outbox.QueueMails(ctx, tx, []model.Mail{{
			AccountID: user.AccountID, Recipient: user.Email, Language: user.Language, Kind: model.MailOperatorLink,
			CreatedAt: now,
		}})
	})
	return db.Wrap(err, "store a password reset")
}
