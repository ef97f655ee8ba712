package accounts

import (
	"context"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

var (
	// ErrSetupExpired is returned when the setup of an authenticator app was not started, or too
	// long ago.
	ErrSetupExpired = &model.Error{
		Kind: model.Conflict, Code: "setup_expired", Message: "Start the setup again: it was not started, or too long ago.",
	}

	// ErrNoSecondFactor is returned to a user who lacks the second factor that a call needs.
	ErrNoSecondFactor = &model.Error{
		Kind: model.Conflict, Code: "no_second_factor", Message: "You have no such second factor. Set one up first.",
	}

	// ErrSecondFactorNeeded prevents removing a user's last second factor while one of the user's
	// accounts requires it.
	ErrSecondFactorNeeded = &model.Error{
		Kind: model.Conflict, Code: "second_factor_needed",
		Message: "Your account requires a second factor. Set up another one first.",
	}

	// ErrChallengeUsed is returned for a challenge that was answered before.
	ErrChallengeUsed = errors.New("the challenge was answered before")
)

// FactorChange says when and from where a user's second factors change.
type FactorChange struct {
	At      model.Instant
	Session []byte // hash of the session that continues when the first second factor ends all others
}

// Challenge is a signed challenge that a passkey has answered.
type Challenge struct {
	Hash      []byte
	ExpiresAt model.Instant
}

// SecondFactors stores the authenticator apps and recovery codes of users.
type SecondFactors struct{ db *db.DB }

// Of returns the second factors of a user.
func (s *SecondFactors) Of(ctx context.Context, userID model.UserID) (*model.SecondFactors, error) {
	factors := &model.SecondFactors{}
	var apps []model.TOTPSecret
	err := s.db.Read.NewSelect().Model(&apps).Where("user_id = ?", userID).Where("confirmed").Scan(ctx)
	if err == nil {
		err = s.db.Read.NewSelect().Model(&factors.Passkeys).Where("user_id = ?", userID).Order("id").Scan(ctx)
	}
	if err == nil {
		factors.RecoveryCodes, err = countRecoveryCodes(ctx, s.db.Read, userID)
	}
	if err != nil {
		return nil, fmt.Errorf("read second factors of user %d: %w", userID, err)
	}

	for _, app := range apps {
		factors.TOTPSince = app.CreatedAt
	}

	return factors, nil
}

// StartTOTP stores the secret of an authenticator app that waits for its first code. It replaces an
// earlier app that waits. The caller must have checked the password against passwordHash. It fails
// with model.ErrStale when the password has changed since.
func (s *SecondFactors) StartTOTP(
	ctx context.Context, userID model.UserID, passwordHash string, secret []byte, now model.Instant,
) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		user, err := lockUnchanged(ctx, tx, userID, passwordHash)
		if err != nil {
			return err
		}

		// Before the application key's lock, as a rotation of the key does.
		_, err = tx.ExecContext(ctx, "DELETE FROM totp_secrets WHERE user_id = ? AND NOT confirmed", userID)
		if err != nil {
			return err
		}

		sealed, err := keys.New(s.db).Seal(ctx, tx, keys.TOTPSecret(userID), string(secret))
		if err != nil {
			return err
		}

		_, err = tx.NewInsert().Model(&model.TOTPSecret{UserID: userID, Secret: sealed, CreatedAt: now}).Exec(ctx)
		if err != nil {
			return err
		}

		return auditUser(ctx, tx, user, nil)
	})
	return db.Wrap(err, "start TOTP of user %d", userID)
}

// TOTP returns the decrypted secret of a user's authenticator app, either the app in use or the app
// that waits for its first code, or model.ErrNotFound. An app that waits too long is unknown.
func (s *SecondFactors) TOTP(ctx context.Context, userID model.UserID, confirmed bool, now model.Instant) ([]byte, error) {
	var row model.TOTPSecret
	q := s.db.Read.NewSelect().Model(&row).Where("user_id = ?", userID).Where("confirmed = ?", confirmed)
	if !confirmed {
		q.Where("created_at > ?", now.Add(-model.TOTPSetupLifetime))
	}
	if err := q.Scan(ctx); err != nil {
		return nil, db.OrNotFound(err)
	}

	secret, err := keys.New(s.db).Open(keys.TOTPSecret(userID), row.Secret)
	return []byte(secret), err
}

// ConfirmTOTP puts an authenticator app in use after its first code, which was of the period step.
// It replaces an earlier app. If it is the user's first second factor, it stores the hashes of
// recovery codes, ends the user's other sessions, and returns true. It fails with ErrSetupExpired.
func (s *SecondFactors) ConfirmTOTP(
	ctx context.Context, userID model.UserID, step int64, codes [][]byte, change FactorChange,
) (first bool, err error) {
	err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		user, err := lockUser(ctx, tx, "id", userID)
		if err != nil {
			return err
		}

		// The key of a row is the user and confirmed, so the earlier app must make room first.
		if _, err := tx.ExecContext(ctx, "DELETE FROM totp_secrets WHERE user_id = ? AND confirmed", userID); err != nil {
			return err
		}

		err = db.NeedRow(tx.ExecContext(ctx, "UPDATE totp_secrets SET confirmed = ?, last_step = ?, created_at = ? "+
			"WHERE user_id = ? AND NOT confirmed AND created_at > ?",
			true, step, change.At, userID, change.At.Add(-model.TOTPSetupLifetime)))
		if errors.Is(err, model.ErrNotFound) {
			return ErrSetupExpired
		}
		if err != nil {
			return err
		}

		if first, err = addFactor(ctx, tx, user, "", codes, change); err != nil {
			return err
		}
		return auditUser(ctx, tx, user, audit.Values{"authenticatorApp": true})
	})
	if err != nil {
		return false, db.Wrap(err, "confirm TOTP of user %d", userID)
	}

	return first, nil
}

// UseTOTP records that the code of a period was used. It fails with model.ErrNotFound if that code,
// or the code of a later period, was used before.
func (s *SecondFactors) UseTOTP(ctx context.Context, userID model.UserID, step int64) error {
	return db.NeedRow(s.db.Write.ExecContext(ctx,
		"UPDATE totp_secrets SET last_step = ? WHERE user_id = ? AND confirmed AND last_step < ?", step, userID, step))
}

// UseRecoveryCode consumes a recovery code and mails the user. It fails with model.ErrNotFound for
// an unknown or used code.
func (s *SecondFactors) UseRecoveryCode(ctx context.Context, userID model.UserID, codeHash []byte, change FactorChange) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		user, err := lockUser(ctx, tx, "id", userID)
		if err != nil {
			return err
		}

		err = db.NeedRow(tx.ExecContext(ctx, "DELETE FROM recovery_codes WHERE user_id = ? AND code_hash = ?",
			userID, codeHash))
		if err != nil {
			return err
		}

		left, err := countRecoveryCodes(ctx, tx, userID)
		if err != nil {
			return err
		}

		return mailChange(ctx, tx, user, model.MailRecoveryCode, outbox.MaxSecondFactorMails, change.At,
			outbox.RecoveryCodeMail{At: change.At, Left: left})
	})
	return db.Wrap(err, "use a recovery code of user %d", userID)
}

// RenewRecoveryCodes replaces the user's recovery codes. The caller must have checked the password.
// It fails with model.ErrStale and ErrNoSecondFactor.
func (s *SecondFactors) RenewRecoveryCodes(ctx context.Context, userID model.UserID, passwordHash string, codes [][]byte) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		user, err := lockUnchanged(ctx, tx, userID, passwordHash)
		switch {
		case err != nil:
			return err
		case !user.SecondFactor:
			return ErrNoSecondFactor
		}
		if err := replaceRecoveryCodes(ctx, tx, userID, codes); err != nil {
			return err
		}
		return auditUser(ctx, tx, user, nil)
	})
	return db.Wrap(err, "renew recovery codes of user %d", userID)
}

// DeleteTOTP removes a user's authenticator app, and an app that waits for its first code. The
// caller must have checked the password. It fails with model.ErrStale, ErrNoSecondFactor and
// ErrSecondFactorNeeded.
func (s *SecondFactors) DeleteTOTP(ctx context.Context, userID model.UserID, passwordHash string, change FactorChange) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		user, err := lockUnchanged(ctx, tx, userID, passwordHash)
		if err != nil {
			return err
		}

		err = db.NeedRow(tx.ExecContext(ctx, "DELETE FROM totp_secrets WHERE user_id = ? AND confirmed", userID))
		if errors.Is(err, model.ErrNotFound) {
			return ErrNoSecondFactor
		}
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM totp_secrets WHERE user_id = ?", userID); err != nil {
			return err
		}

		if err := removeFactor(ctx, tx, user, "", change); err != nil {
			return err
		}
		return auditUser(ctx, tx, user, audit.Values{"authenticatorApp": false})
	})
	return db.Wrap(err, "delete TOTP of user %d", userID)
}

// Reset removes all second factors of the user with this address, ends all sessions and mails the
// user. Only the operator's command line calls it. It fails with model.ErrNotFound for an unknown
// address, and with ErrNoSecondFactor.
func (s *SecondFactors) Reset(ctx context.Context, email string, change FactorChange) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		user, err := lockUser(ctx, tx, "email", email)
		switch {
		case err != nil:
			return err
		case !user.SecondFactor:
			return ErrNoSecondFactor
		}

		for _, statement := range []string{
			"DELETE FROM totp_secrets WHERE user_id = ?", "DELETE FROM passkeys WHERE user_id = ?",
			"DELETE FROM sessions WHERE user_id = ?",
		} {
			if _, err := tx.ExecContext(ctx, statement, user.ID); err != nil {
				return err
			}
		}
		if err := clearFactors(ctx, tx, user.ID); err != nil {
			return err
		}

		err = mailChange(ctx, tx, user, model.MailSecondFactor, outbox.MaxSecondFactorMails, change.At,
			outbox.SecondFactorMail{At: change.At, Operator: true})
		if err != nil {
			return err
		}

		return audit.Write(ctx, tx, audit.Change{AccountID: user.AccountID, Object: userObject(user)})
	})
	if err != nil {
		// Leave the address out: errors are logged.
		return db.Wrap(err, "reset a second factor")
	}

	return nil
}

// SetAccountSecurity sets whether an account requires a second factor of its members, and returns
// the account. The caller must have checked the password of the user by, a member of that account.
// It fails with model.ErrStale, with model.ErrForbidden for a user who is no owner, and with
// ErrNoSecondFactor if an owner without one requires it.
func (s *Store) SetAccountSecurity(
	ctx context.Context, by *model.User, requireSecondFactor bool,
) (*model.Account, error) {
	var account *model.Account
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockAccount(ctx, by.AccountID); err != nil {
			return err
		}

		owner, err := lockOwner(ctx, tx, by)
		switch {
		case err != nil:
			return err
		// The account would bar its own owner.
		case requireSecondFactor && !owner.SecondFactor:
			return ErrNoSecondFactor
		}

		account = owner.Account
		before := account.RequireSecondFactor
		account.RequireSecondFactor = requireSecondFactor
		if _, err := tx.NewUpdate().Model(account).Column("require_second_factor").WherePK().Exec(ctx); err != nil {
			return err
		}

		return audit.Write(ctx, tx, audit.Change{
			AccountID: account.ID, Object: accountObject(account),
			Before: audit.Values{"requireSecondFactor": before},
			After:  audit.Values{"requireSecondFactor": requireSecondFactor},
		})
	})
	if err != nil {
		return nil, db.Wrap(err, "set the security of account %d", by.AccountID)
	}

	return account, nil
}

// addFactor records that a user has a new second factor: a passkey with this name, or an
// authenticator app. For the first factor it stores recovery codes and ends the user's other
// sessions, which were started without a second factor. The user's row must be locked.
func addFactor(
	ctx context.Context, tx *db.Tx, user *model.User, passkey string, codes [][]byte, change FactorChange,
) (first bool, err error) {
	if first = !user.SecondFactor; first {
		if err := replaceRecoveryCodes(ctx, tx, user.ID, codes); err != nil {
			return false, err
		}

		// Without a session pass an empty value: a comparison with NULL selects no row.
		_, err := tx.ExecContext(ctx, "DELETE FROM sessions WHERE user_id = ? AND id_hash <> ?", user.ID,
			append([]byte{}, change.Session...))
		if err != nil {
			return false, err
		}
		if err := setSecondFactor(ctx, tx, user.ID, true); err != nil {
			return false, err
		}
	}

	return first, mailChange(ctx, tx, user, model.MailSecondFactor, outbox.MaxSecondFactorMails, change.At,
		outbox.SecondFactorMail{At: change.At, Passkey: passkey, Added: true})
}

// removeFactor records that a user has lost a second factor. Without another factor it deletes the
// recovery codes, or fails with ErrSecondFactorNeeded if the user needs a factor. The user's row
// must be locked.
func removeFactor(ctx context.Context, tx *db.Tx, user *model.User, passkey string, change FactorChange) error {
	var others int
	err := tx.NewRaw("SELECT (SELECT count(*) FROM passkeys WHERE user_id = ?) + "+
		"(SELECT count(*) FROM totp_secrets WHERE user_id = ? AND confirmed)", user.ID, user.ID).Scan(ctx, &others)
	if err != nil {
		return err
	}

	if others == 0 {
		needed, err := needsSecondFactor(ctx, tx, user.ID)
		switch {
		case err != nil:
			return err
		case needed:
			return ErrSecondFactorNeeded
		}

		if err := clearFactors(ctx, tx, user.ID); err != nil {
			return err
		}
	}

	return mailChange(ctx, tx, user, model.MailSecondFactor, outbox.MaxSecondFactorMails, change.At,
		outbox.SecondFactorMail{At: change.At, Passkey: passkey})
}

// needsSecondFactor reports whether an account of the user requires a second factor.
func needsSecondFactor(ctx context.Context, idb bun.IDB, userID model.UserID) (bool, error) {
	return idb.NewSelect().Table("accounts").Where("require_second_factor").
		Where("id IN (SELECT account_id FROM "+db.AllMemberships+" AS m WHERE user_id = ?)", userID).Exists(ctx)
}

// clearFactors records that a user has no second factor, and deletes the recovery codes.
func clearFactors(ctx context.Context, tx *db.Tx, userID model.UserID) error {
	if err := replaceRecoveryCodes(ctx, tx, userID, nil); err != nil {
		return err
	}
	return setSecondFactor(ctx, tx, userID, false)
}

func setSecondFactor(ctx context.Context, tx *db.Tx, userID model.UserID, has bool) error {
	_, err := tx.ExecContext(ctx, "UPDATE users SET second_factor = ? WHERE id = ?", has, userID)
	return err
}

// replaceRecoveryCodes replaces the hashes of the recovery codes.
func replaceRecoveryCodes(ctx context.Context, tx *db.Tx, userID model.UserID, codes [][]byte) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM recovery_codes WHERE user_id = ?", userID); err != nil {
		return err
	}

	for _, hash := range codes {
		_, err := tx.ExecContext(ctx, "INSERT INTO recovery_codes (user_id, code_hash) VALUES (?, ?)", userID, hash)
		if err != nil {
			return err
		}
	}

	return nil
}

func countRecoveryCodes(ctx context.Context, idb bun.IDB, userID model.UserID) (n int, err error) {
	err = idb.NewRaw("SELECT count(*) FROM recovery_codes WHERE user_id = ?", userID).Scan(ctx, &n)
	return n, err
}
