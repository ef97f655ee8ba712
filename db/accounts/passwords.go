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
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// nobody is the id of no user and no account.
const nobody = math.MaxInt64

// RequestPasswordReset stores the hash of a secret that opens the account of this address for a
// while, and the mail that carries it; an earlier secret is void. For an address that nobody has,
// the same statements run, and there is a row to commit as well: a mail to nobody, which is not
// sent and does not hold the address. So the time that all this takes tells nobody who has an
// account. The mail's AccountID and Recipient are filled in here.
func (s *Store) RequestPasswordReset(ctx context.Context, email string, tokenHash []byte, expires model.Instant, mail model.Mail) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		mail := mail
		user, err := lockUser(ctx, tx, "email", email)
		switch {
		case err == nil:
			mail.AccountID, mail.Recipient = user.AccountID, user.Email
		case errors.Is(err, model.ErrNotFound):
			user = &model.User{ID: nobody, AccountID: nobody}
			mail.AccountID, mail.Recipient = 0, ""
			mail.End(model.MailSkipped)
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
		if err := outbox.DeleteUnsentLink(ctx, tx, mail.Kind, user.AccountID, user.Email); err != nil {
			return err
		}

		_, err = tx.NewInsert().Model(&mail).Exec(ctx)
		return err
	})
	if err != nil {
		// without the address: errors are logged
		return fmt.Errorf("request a password reset: %w", err)
	}

	return nil
}

// PasswordChange is a new password.
type PasswordChange struct {
	Hash string // argon2id in PHC string form
	At   model.Instant
	Page string // where the user signs in, for the mail
}

// ResetPassword changes the password of the user that the secret was made for, once. It ends all
// sessions, mails the user, and returns the API tokens that stay valid. ErrInvalidToken otherwise.
func (s *Store) ResetPassword(ctx context.Context, tokenHash []byte, change PasswordChange) ([]*model.APIToken, error) {
	var tokens []*model.APIToken
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		var userID int64
		err := tx.NewRaw("SELECT user_id FROM password_resets WHERE token_hash = ?", tokenHash).Scan(ctx, &userID)
		if err != nil {
			return db.OrNotFound(err)
		}

		user, err := lockUser(ctx, tx, "id", userID)
		if err != nil {
			return err
		}

		err = tx.NewRaw("DELETE FROM password_resets WHERE token_hash = ? AND expires_at > ? RETURNING user_id", tokenHash, change.At).
			Scan(ctx, &userID)
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
// tokens that stay valid. The caller has checked the old password: was is its hash, and when it is
// no longer that, the error is model.ErrStale.
func (s *Store) ChangePassword(ctx context.Context, userID int64, was string, change PasswordChange) ([]*model.APIToken, error) {
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

// changePassword changes the password of a user who is locked. The mailed secrets expire with it:
// they were for the old one. So does what browsers remember of earlier sign-ins, by the generation.
func changePassword(ctx context.Context, tx *db.Tx, user *model.User, change PasswordChange) ([]*model.APIToken, error) {
	for _, statement := range []*bun.RawQuery{
		tx.NewRaw("UPDATE users SET password_hash = ?, password_generation = password_generation + 1 WHERE id = ?", change.Hash, user.ID),
		tx.NewRaw("DELETE FROM sessions WHERE user_id = ?", user.ID),
		tx.NewRaw("DELETE FROM password_resets WHERE user_id = ?", user.ID),
	} {
		if _, err := statement.Exec(ctx); err != nil {
			return nil, err
		}
	}

	if err := outbox.DeleteUnsentLink(ctx, tx, model.MailPasswordReset, user.AccountID, user.Email); err != nil {
		return nil, err
	}

	var tokens []*model.APIToken
	if err := tx.NewSelect().Model(&tokens).Where("user_id = ?", user.ID).Order("id").Scan(ctx); err != nil {
		return nil, err
	}

	return tokens, mailPasswordChange(ctx, tx, user, tokens, change)
}

// mailPasswordChange mails the user about a new password and of what still works without it,
// model.MaxPasswordMails times an hour.
func mailPasswordChange(ctx context.Context, tx *db.Tx, user *model.User, tokens []*model.APIToken, change PasswordChange) error {
	mailed, err := tx.NewSelect().Model((*model.Mail)(nil)).Where("account_id = ?", user.AccountID).
		Where("recipient = ?", user.Email).Where("kind = ?", model.MailPasswordChanged).
		Where("created_at > ?", change.At.Add(-time.Hour)).Count(ctx)
	if err != nil || mailed >= model.MaxPasswordMails {
		return err
	}

	data := model.PasswordChangedMail{At: change.At, Page: change.Page}
	for _, token := range tokens {
		data.Tokens = append(data.Tokens, token.String())
	}

	text, err := json.Marshal(data)
	if err != nil {
		return err
	}

	return outbox.QueueMails(ctx, tx, []model.Mail{{
		AccountID: user.AccountID, Recipient: user.Email, Kind: model.MailPasswordChanged, Data: string(text), CreatedAt: change.At,
	}})
}

// DeleteExpiredSecrets removes expired password resets, invitations and pending sign-ups, for
// housekeeping, and returns how many.
func (s *Store) DeleteExpiredSecrets(ctx context.Context, now model.Instant) (int64, error) {
	var all int64
	for _, table := range []string{"password_resets", "invitations", "pending_sign_ups"} {
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

	return all, nil
}
