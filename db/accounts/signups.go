package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// The bounds of sign-ups that wait for their address to be verified.
const (
	maxPendingSignUps        = 10_000 // of the installation, each with a mail
	maxPendingSignUpsAddress = 10     // of one address; the oldest goes first
)

// errManySignUps is returned while the installation has maxPendingSignUps pending sign-ups.
var errManySignUps = &model.Error{
	Kind: model.Unavailable, Code: "unavailable", RetryAfter: time.Hour,
	Message: "Too many sign-ups wait for their confirmation. Try again later.",
}

// RequestSignUp stores a pending sign-up and the mail with the secret that confirms it. An address
// that already has an account gets the mail known, which has no secret. Both cases run the same
// statements and insert the same rows, so that neither the answer nor the response time reveals
// which addresses have accounts. It fails with the Unavailable unavailable while 10,000 sign-ups
// are pending.
func (s *Store) RequestSignUp(ctx context.Context, signUp model.PendingSignUp, confirm, known model.Mail) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		// Lock the installation so that boundSignUps counts exactly.
		if err := tx.LockInstallation(ctx); err != nil {
			return err
		}
		if err := boundSignUps(ctx, tx, signUp.Email, signUp.CreatedAt); err != nil {
			return err
		}

		language, taken, err := languageOf(ctx, tx, signUp.Email)
		if err != nil {
			return err
		}

		signUp := signUp
		if _, err := tx.NewInsert().Model(&signUp).Exec(ctx); err != nil {
			return err
		}

		mail := confirm
		if taken {
			mail, mail.Language = known, language
		}

		mail.Recipient = signUp.Email
		_, err = tx.NewInsert().Model(&mail).Exec(ctx)
		return err
	})
	if err != nil {
		// Leave the address out: errors are logged.
		return db.Wrap(err, "request a sign-up")
	}

	return nil
}

// boundSignUps deletes the oldest pending sign-ups of the address over its bound. It fails with
// errManySignUps when the installation's bound is reached.
func boundSignUps(ctx context.Context, tx *db.Tx, email string, now model.Instant) error {
	_, err := tx.NewDelete().Model((*model.PendingSignUp)(nil)).Where("expires_at <= ?", now).Exec(ctx)
	if err != nil {
		return err
	}

	all, err := tx.NewSelect().Model((*model.PendingSignUp)(nil)).Count(ctx)
	if err != nil {
		return err
	}
	if all >= maxPendingSignUps {
		return errManySignUps
	}

	// The caller inserts one more.
	newest := tx.NewSelect().Model((*model.PendingSignUp)(nil)).Column("id").Where("email = ?", email).
		Order("id DESC").Limit(maxPendingSignUpsAddress - 1)

	_, err = tx.NewDelete().Model((*model.PendingSignUp)(nil)).Where("email = ?", email).Where("id NOT IN (?)", newest).
		Exec(ctx)
	return err
}

// PendingSignUp returns the sign-up that the secret confirms. It fails with ErrInvalidToken for a
// secret that is wrong, consumed or expired.
func (s *Store) PendingSignUp(ctx context.Context, tokenHash []byte, now model.Instant) (*model.PendingSignUp, error) {
	var signUp model.PendingSignUp
	err := db.OrNotFound(s.db.Read.NewSelect().Model(&signUp).Where("token_hash = ?", tokenHash).
		Where("expires_at > ?", now).Scan(ctx))
	switch {
	case errors.Is(err, model.ErrNotFound):
		return nil, ErrInvalidToken
	case err != nil:
		return nil, fmt.Errorf("read a pending sign-up: %w", err)
	}

	return &signUp, nil
}

// ConfirmSignUp consumes a pending sign-up: it creates the account and its first user, who reads
// mails in the language, and returns the user with the account. Other pending sign-ups of the
// address are deleted. It fails with ErrInvalidToken, with ErrSignupsClosed when the policy admits
// no more accounts, or with the Conflict email_taken when the address has got an account in another
// way. In the last case the sign-up stays until it expires.
func (s *Store) ConfirmSignUp(
	ctx context.Context, policy model.SignupPolicy, tokenHash []byte, plan model.CaptchaPlan,
	language model.Language, now model.Instant,
) (*model.User, error) {
	var user *model.User
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		// Exactly one sign-up can be the first, which makes its user the operator.
		if err := tx.LockInstallation(ctx); err != nil {
			return err
		}

		var signUp model.PendingSignUp
		err := tx.NewDelete().Model(&signUp).Where("token_hash = ?", tokenHash).Where("expires_at > ?", now).
			Returning("*").Scan(ctx)
		if err != nil {
			return db.OrNotFound(err)
		}

		account := model.Account{
			Name: signUp.AccountName, CaptchaPlan: cmp.Or(plan, model.CaptchaPlanFree), CreatedAt: now,
		}
		user = &model.User{
			Email: signUp.Email, PasswordHash: signUp.PasswordHash, Language: language, CreatedAt: now,
		}
		if err := createAccount(ctx, tx, policy, &account, user); err != nil {
			return err
		}

		_, err = tx.NewDelete().Model((*model.PendingSignUp)(nil)).Where("email = ?", signUp.Email).Exec(ctx)
		if err != nil {
			return err
		}

		if err := ownSignUpMails(ctx, tx, user); err != nil {
			return err
		}

		return audit.Write(ctx, tx, newAccount(user, &account))
	})
	switch {
	case db.IsUnique(err):
		return nil, emailTaken("secret", err)
	case errors.Is(err, model.ErrNotFound):
		return nil, ErrInvalidToken
	case errors.Is(err, ErrSignupsClosed):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("confirm a sign-up: %w", err)
	}

	return user, nil
}

// ownSignUpMails deletes the unsent mails to the user's address, because their links are now
// invalid. It assigns the sent mails to the account, so that they are deleted with it.
func ownSignUpMails(ctx context.Context, tx *db.Tx, user *model.User) error {
	if err := outbox.DeleteUnsentLink(ctx, tx, model.MailSignUp, 0, user.Email); err != nil {
		return err
	}
	_, err := tx.NewUpdate().Model((*model.Mail)(nil)).Set("account_id = ?", user.AccountID).Where("account_id = 0").
		Where("recipient = ?", user.Email).Where("kind = ?", model.MailSignUp).Exec(ctx)
	return err
}
