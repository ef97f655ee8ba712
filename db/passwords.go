package db

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/model"
)

// nobody is the id of no user and no account.
const nobody = math.MaxInt64

// RequestPasswordReset stores the hash of a secret that opens the account of this address for a while, and the mail that
// carries it; an earlier secret is void. For an address that nobody has, the same statements run, and there is a row to commit
// as well: a mail to nobody, which is not sent and does not hold the address. So the time that all this takes tells nobody who
// has an account. The mail's AccountID and Recipient are filled in here.
func (d *DB) RequestPasswordReset(ctx context.Context, email string, tokenHash []byte, expires model.Instant, mail model.Mail) error {
	err := d.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		mail := mail
		user, err := d.lockUser(ctx, tx, "email", email)
		switch {
		case err == nil:
			mail.AccountID, mail.Recipient = user.AccountID, user.Email
		case errors.Is(err, model.ErrNotFound):
			user = &model.User{ID: nobody, AccountID: nobody}
			mail.AccountID, mail.Recipient = 0, ""
			end(&mail, model.MailSkipped)
		default:
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM password_resets WHERE user_id = ?", user.ID); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO password_resets (token_hash, user_id, expires_at) SELECT ?, id, ? FROM users WHERE id = ?",
			tokenHash, expires, user.ID)
		if err != nil {
			return err
		}
		if err := forgetLink(ctx, tx, mail.Kind, user.AccountID, user.Email); err != nil {
			return err
		}
		_, err = tx.NewInsert().Model(&mail).Exec(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("request a password reset: %w", err) // without the address: errors are logged
	}
	return nil
}

// ResetPassword changes the password of whoever has the secret, once, and ends all sessions. ErrInvalidToken otherwise.
func (d *DB) ResetPassword(ctx context.Context, tokenHash []byte, passwordHash string, now model.Instant) error {
	err := d.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		var userID int64
		err := tx.NewRaw("SELECT user_id FROM password_resets WHERE token_hash = ?", tokenHash).Scan(ctx, &userID)
		if err != nil {
			return orNotFound(err)
		}
		user, err := d.lockUser(ctx, tx, "id", userID)
		if err != nil {
			return err
		}
		err = tx.NewRaw("DELETE FROM password_resets WHERE token_hash = ? AND expires_at > ? RETURNING user_id", tokenHash, now).
			Scan(ctx, &userID)
		if err != nil {
			return orNotFound(err)
		}
		return changePassword(ctx, tx, user, passwordHash)
	})
	switch {
	case errors.Is(err, model.ErrNotFound):
		return ErrInvalidToken
	case err != nil:
		return fmt.Errorf("reset a password: %w", err)
	}
	return nil
}

// ChangePassword changes a user's password and ends all sessions. The caller has checked the old password: was is its
// hash, and when it is no longer that, the change comes too late and is model.ErrNotFound.
func (d *DB) ChangePassword(ctx context.Context, userID int64, was, passwordHash string) error {
	err := d.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
		user, err := d.lockUser(ctx, tx, "id", userID)
		if err != nil {
			return err
		}
		if user.PasswordHash != was {
			return model.ErrNotFound
		}
		return changePassword(ctx, tx, user, passwordHash)
	})
	if err != nil {
		return named(err, "change the password of user %d", userID)
	}
	return nil
}

// changePassword also voids the mailed secrets, which were for the old password.
func changePassword(ctx context.Context, tx bun.Tx, user *model.User, passwordHash string) error {
	for _, statement := range []*bun.RawQuery{
		tx.NewRaw("UPDATE users SET password_hash = ? WHERE id = ?", passwordHash, user.ID),
		tx.NewRaw("DELETE FROM sessions WHERE user_id = ?", user.ID),
		tx.NewRaw("DELETE FROM password_resets WHERE user_id = ?", user.ID),
	} {
		if _, err := statement.Exec(ctx); err != nil {
			return err
		}
	}
	return forgetLink(ctx, tx, model.MailPasswordReset, user.AccountID, user.Email)
}

// DeleteExpiredSecrets removes expired password resets, invitations and pending sign-ups, for
// housekeeping, and returns how many.
func (d *DB) DeleteExpiredSecrets(ctx context.Context, now model.Instant) (int64, error) {
	var all int64
	for _, table := range []string{"password_resets", "invitations", "pending_sign_ups"} {
		res, err := d.write.ExecContext(ctx, "DELETE FROM ? WHERE expires_at <= ?", bun.Ident(table), now)
		if err != nil {
			return all, fmt.Errorf("delete expired %s: %w", table, err)
		}
		n, err := res.RowsAffected()
		if err != nil {
			return all, err
		}
		all += n
	}
	return all, nil
}
