package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// noID is an id that no user and no account has.
const noID = math.MaxInt64

// RequestPasswordReset stores the hash of a secret that resets the password of the user with this
// address, and the mail that carries it. It revokes an earlier secret. For an unknown address it
// runs the same statements and commits a mail without a recipient, which is not sent and does not
// contain the address. So the response time does not reveal which addresses have accounts. It sets
// the mail's AccountID, Recipient and Language.
func (s *Store) RequestPasswordReset(
	ctx context.Context, email string, tokenHash []byte, expires model.Instant, mail model.Mail,
) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		mail := mail
		user, err := lockUser(ctx, tx, "email", email)
		switch {
		case err == nil:
			mail.AccountID, mail.Recipient, mail.Language = user.AccountID, user.Email, user.Language
		case errors.Is(err, model.ErrNotFound):
			// lockUser has read no account.
			if _, err := defaultAccount(ctx, tx, noID); err != nil {
				return err
			}

			user = &model.User{ID: noID, AccountID: noID}
			mail.AccountID, mail.Recipient = 0, ""
			mail.End(model.MailSkipped)
		default:
			return err
		}

		if err := revokePasswordReset(ctx, tx, user); err != nil {
			return err
		}

		_, err = tx.ExecContext(ctx, "INSERT INTO password_resets (token_hash, user_id, expires_at) "+
			"SELECT ?, id, ? FROM users WHERE id = ?",
			tokenHash, expires, user.ID)
		if err != nil {
			return err
		}

		if _, err = tx.NewInsert().Model(&mail).Exec(ctx); err != nil {
			return err
		}

		// No account has the number noID.
		return audit.Write(ctx, tx, audit.Change{AccountID: user.AccountID, Object: userObject(user)})
	})
	if err != nil {
		// Leave the address out: errors are logged.
		return fmt.Errorf("request a password reset: %w", err)
	}

	return nil
}

// revokePasswordReset revokes the secrets that reset a user's password. A mail in the queue would
// have an invalid link, so it is not sent.
func revokePasswordReset(ctx context.Context, tx *db.Tx, user *model.User) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM password_resets WHERE user_id = ?", user.ID); err != nil {
		return err
	}
	return outbox.DeleteUnsentLink(ctx, tx, model.MailPasswordReset, user.AccountID, user.Email)
}

// PasswordChange holds a new password and the facts for the mail about it.
type PasswordChange struct {
	Hash string // argon2id in PHC string form
	At   model.Instant
}

// ResetPassword consumes a secret and changes its user's password. It ends all sessions, mails the
// user, and returns the API tokens that stay valid. It fails with ErrInvalidToken for an invalid
// secret.
func (s *Store) ResetPassword(ctx context.Context, tokenHash []byte, change PasswordChange) ([]*model.APIToken, error) {
	var tokens []*model.APIToken
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		// Read the user without a lock, because the user's row comes first in the order of locks.
		// The DELETE below decides which of two callers consumes the secret.
		var userID model.UserID
		err := tx.NewRaw("SELECT user_id FROM password_resets WHERE token_hash = ?", tokenHash).Scan(ctx, &userID)
		if err != nil {
			return db.OrNotFound(err)
		}

		user, err := lockUser(ctx, tx, "id", userID)
		if err != nil {
			return err
		}

		err = tx.NewRaw("DELETE FROM password_resets WHERE token_hash = ? AND expires_at > ? RETURNING user_id",
			tokenHash, change.At).Scan(ctx, &userID)
		if err != nil {
			return db.OrNotFound(err)
		}

		tokens, err = changePassword(ctx, tx, user, change)
		return err
	})
	switch {
	case errors.Is(err, model.ErrNotFound):
		return nil, ErrInvalidToken
	case err != nil:
		return nil, fmt.Errorf("reset a password: %w", err)
	}

	return tokens, nil
}

// ChangePassword changes a user's password, ends all sessions, mails the user, and returns the API
// tokens that stay valid. The caller must have checked the old password against the hash was. It
// fails with model.ErrStale when the hash has changed since.
func (s *Store) ChangePassword(
	ctx context.Context, userID model.UserID, was string, change PasswordChange,
) ([]*model.APIToken, error) {
	var tokens []*model.APIToken
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		user, err := lockUnchanged(ctx, tx, userID, was)
		if err != nil {
			return err
		}

		tokens, err = changePassword(ctx, tx, user, change)
		return err
	})
	if err != nil {
		return nil, db.Wrap(err, "change the password of user %d", userID)
	}

	return tokens, nil
}

// SetPasswordHash replaces the hash of a user's unchanged password, unless it is another one than
// was by now. It reports whether it replaced the hash.
func (s *Store) SetPasswordHash(ctx context.Context, userID model.UserID, was, hash string) (bool, error) {
	res, err := s.db.Write.NewUpdate().Model((*model.User)(nil)).Set("password_hash = ?", hash).
		Where("id = ?", userID).Where("password_hash = ?", was).Exec(ctx)
	if err != nil {
		return false, fmt.Errorf("set password hash of user %d: %w", userID, err)
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// changePassword changes the password of a user; the user's row must be locked. It deletes the
// user's password resets and a requested change of the address. The new generation also invalidates
// the sign-ins that browsers remember.
func changePassword(
	ctx context.Context, tx *db.Tx, user *model.User, change PasswordChange,
) ([]*model.APIToken, error) {
	for _, statement := range []*bun.RawQuery{
		tx.NewRaw("UPDATE users SET password_hash = ?, password_generation = password_generation + 1 WHERE id = ?",
			change.Hash, user.ID),
		tx.NewRaw("DELETE FROM sessions WHERE user_id = ?", user.ID),
	} {
		if _, err := statement.Exec(ctx); err != nil {
			return nil, err
		}
	}

	if err := revokePasswordReset(ctx, tx, user); err != nil {
		return nil, err
	}
	if err := revokeEmailChange(ctx, tx, user); err != nil {
		return nil, err
	}

	var tokens []*model.APIToken
	if err := tx.NewSelect().Model(&tokens).Where("user_id = ?", user.ID).Order("id").Scan(ctx); err != nil {
		return nil, err
	}
	if err := auditUser(ctx, tx, user, nil); err != nil {
		return nil, err
	}

	// The mail names the API tokens that stay valid.
	data := outbox.PasswordChangedMail{At: change.At}
	for _, token := range tokens {
		data.Tokens = append(data.Tokens, token.String())
	}
	return tokens, mailChange(ctx, tx, user, model.MailPasswordChanged, outbox.MaxPasswordMails, change.At, data)
}

// mailChange mails the user about a change of the password or the second factors, at most so many
// times of a kind within an hour.
func mailChange(
	ctx context.Context, tx *db.Tx, user *model.User, kind string, most int64, now model.Instant, data any,
) error {
	mailed, err := tx.NewSelect().Model((*model.Mail)(nil)).Where("account_id = ?", user.AccountID).
		Where("recipient = ?", user.Email).Where("kind = ?", kind).Where("created_at > ?", now.Add(-time.Hour)).
		Count(ctx)
	if err != nil || mailed >= most {
		return err
	}

	text, err := json.Marshal(data)
	if err != nil {
		return err
	}

	return outbox.QueueMails(ctx, tx, []model.Mail{{
		AccountID: user.AccountID, Recipient: user.Email, Language: user.Language, Kind: kind, Data: string(text), CreatedAt: now,
	}})
}

// DeleteExpiredSecrets deletes expired password resets, changes of addresses, invitations, pending
// sign-ups, answered challenges and setups of authenticator apps, and returns their number.
// Housekeeping calls it.
func (s *Store) DeleteExpiredSecrets(ctx context.Context, now model.Instant) (int64, error) {
	var all int64
	for _, table := range []string{
		"password_resets", "email_changes", "invitations", "pending_sign_ups", "used_challenges",
	} {
		res, err := s.db.Write.ExecContext(ctx, "DELETE FROM ? WHERE expires_at <= ?", bun.Ident(table), now)
		if err != nil {
			return all, fmt.Errorf("delete expired %s: %w", table, err)
		}

		n, err := res.RowsAffected()
		if err != nil {
			return all, err
		}

		all += n
	}

	res, err := s.db.Write.ExecContext(ctx, "DELETE FROM totp_secrets WHERE NOT confirmed AND created_at <= ?",
		now.Add(-model.TOTPSetupLifetime))
	if err != nil {
		return all, fmt.Errorf("delete expired setups of authenticator apps: %w", err)
	}

	n, err := res.RowsAffected()
	return all + n, err
}
