package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// EmailChange is a change of a user's address that waits for its confirmation.
type EmailChange struct {
	Email     string // normalised, see model.ParseEmail
	TokenHash []byte // SHA-256 of the mailed secret
	At        model.Instant

	// The mails to the new address: with the secret, and for an address that belongs to a user.
	// Their AccountID and Recipient are set.
	Confirm, Known model.Mail
}

// RequestEmailChange stores the hash of a secret that changes the user's address, and mails the
// secret to the new address and a notice to the old one. It revokes an earlier secret. The user's
// password must have been checked; it fails with model.ErrStale when it has changed since.
//
// If the new address has a user already, it gets the mail Known, which has no secret. Both cases
// run the same statements, so that neither the answer nor the response time reveals which addresses
// have users.
func (s *Store) RequestEmailChange(ctx context.Context, by *model.User, change EmailChange) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		user, err := lockUnchanged(ctx, tx, by.ID, by.PasswordHash)
		if err != nil {
			return err
		}

		taken, err := tx.NewSelect().Model((*model.User)(nil)).Where("email = ?", change.Email).Exists(ctx)
		if err != nil {
			return err
		}

		if err := revokeEmailChange(ctx, tx, user); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx,
			"INSERT INTO email_changes (token_hash, user_id, email, expires_at) VALUES (?, ?, ?, ?)",
			change.TokenHash, user.ID, change.Email, change.At.Add(model.EmailChangeLifetime))
		if err != nil {
			return err
		}

		mail := change.Confirm
		if taken {
			mail = change.Known
		}

		mail.AccountID, mail.Recipient, mail.Language = user.AccountID, change.Email, user.Language
		if _, err := tx.NewInsert().Model(&mail).Exec(ctx); err != nil {
			return err
		}

		if err := mailOldAddress(ctx, tx, user, model.MailEmailRequested, change.At); err != nil {
			return err
		}

		// Leave the address out: it is not confirmed.
		return auditUser(ctx, tx, user, nil)
	})
	if err != nil {
		// Leave the addresses out: errors are logged.
		return db.Wrap(err, "request a change of the address of user %d", by.ID)
	}

	return nil
}

// revokeEmailChange revokes a requested change of the user's address, with the mail if it is not
// sent.
func revokeEmailChange(ctx context.Context, tx *db.Tx, user *model.User) error {
	var emails []string
	err := tx.NewRaw("DELETE FROM email_changes WHERE user_id = ? RETURNING email", user.ID).Scan(ctx, &emails)
	if err != nil {
		return err
	}

	for _, email := range emails {
		if err := outbox.DeleteUnsentLink(ctx, tx, model.MailEmailChange, user.AccountID, email); err != nil {
			return err
		}
	}

	return nil
}

// ConfirmEmailChange consumes a secret and changes its user's address. It ends the user's sessions
// but keep, revokes the user's password resets, and notifies the old address. It returns the new
// address. It fails with ErrInvalidToken for an invalid secret, and with the Conflict email_taken
// when another user has the address; the secret then stays until it expires.
func (s *Store) ConfirmEmailChange(
	ctx context.Context, tokenHash, keep []byte, now model.Instant,
) (string, error) {
	var email string
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		var userID model.UserID
		err := tx.NewRaw("SELECT user_id FROM email_changes WHERE token_hash = ?", tokenHash).Scan(ctx, &userID)
		if err != nil {
			return db.OrNotFound(err)
		}

		// An address is part of a unique key, so a change needs the stronger lock.
		if err := tx.LockRowFor(ctx, "UPDATE", "users", int64(userID)); err != nil {
			return err
		}
		user, err := lockUser(ctx, tx, "id", userID)
		if err != nil {
			return err
		}

		err = tx.NewRaw("DELETE FROM email_changes WHERE token_hash = ? AND expires_at > ? RETURNING email",
			tokenHash, now).Scan(ctx, &email)
		if err != nil {
			return db.OrNotFound(err)
		}

		if _, err := tx.ExecContext(ctx, "UPDATE users SET email = ? WHERE id = ?", email, user.ID); err != nil {
			return err
		}
		if keep == nil {
			keep = []byte{}
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM sessions WHERE user_id = ? AND id_hash <> ?", user.ID, keep)
		if err != nil {
			return err
		}
		if err := revokePasswordReset(ctx, tx, user); err != nil {
			return err
		}

		if err := mailOldAddress(ctx, tx, user, model.MailEmailChanged, now); err != nil {
			return err
		}

		return audit.Write(ctx, tx, audit.Change{
			AccountID: user.AccountID, Object: userObject(user), By: user,
			Before: audit.Values{"email": user.Email}, After: audit.Values{"email": email},
		})
	})
	switch {
	case db.IsUnique(err):
		return "", emailTaken("secret", err)
	case errors.Is(err, model.ErrNotFound):
		return "", ErrInvalidToken
	case err != nil:
		return "", fmt.Errorf("change an address: %w", err)
	}

	return email, nil
}

// mailOldAddress queues a notice to the address that a user was read with.
func mailOldAddress(
	ctx context.Context, tx *db.Tx, user *model.User, kind string, at model.Instant,
) error {
	data, err := json.Marshal(outbox.EmailMail{At: at})
	if err != nil {
		return err
	}
	return outbox.QueueMails(ctx, tx, []model.Mail{
		{
			AccountID: user.AccountID, Recipient: user.Email, Language: user.Language, Kind: kind, Data: string(data),
			CreatedAt: at,
		},
	})
}
