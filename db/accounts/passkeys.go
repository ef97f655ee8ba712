package accounts

import (
	"context"
	"errors"
	"fmt"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
)

// Passkeys stores the passkeys of users.
type Passkeys struct{ db *db.DB }

// ByCredential returns the passkey with a credential id and its user, with the account, or
// model.ErrNotFound.
func (s *Passkeys) ByCredential(ctx context.Context, credentialID []byte) (*model.Passkey, *model.User, error) {
	passkey, err := readOne[model.Passkey](ctx, s.db.Read, "credential_id = ?", credentialID)
	if err != nil {
		return nil, nil, err
	}

	user, err := userByID(ctx, s.db.Read, passkey.UserID)
	return passkey, user, err
}

// Get returns a passkey of the user, or model.ErrNotFound, also for a passkey of another user.
func (s *Passkeys) Get(ctx context.Context, userID model.UserID, id model.PasskeyID) (*model.Passkey, error) {
	return readOne[model.Passkey](ctx, s.db.Read, "user_id = ? AND id = ?", userID, id)
}

// Create stores a passkey of a user and consumes the challenge that it has answered. If it is the
// user's first second factor, it stores the hashes of recovery codes, ends the user's other
// sessions, and returns true. It fails with ErrChallengeUsed, and with the Conflicts
// too_many_passkeys and passkey_exists.
func (s *Passkeys) Create(
	ctx context.Context, passkey model.Passkey, answered Challenge, codes [][]byte, change FactorChange,
) (made *model.Passkey, first bool, err error) {
	err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		row := passkey
		made = &row

		user, err := lockUser(ctx, tx, "id", row.UserID)
		if err != nil {
			return err
		}
		if err := consume(ctx, tx, answered); err != nil {
			return err
		}

		n, err := tx.NewSelect().Model((*model.Passkey)(nil)).Where("user_id = ?", row.UserID).Count(ctx)
		if err != nil {
			return err
		}
		if n >= model.MaxPasskeys {
			return &model.Error{
				Kind: model.Conflict, Code: "too_many_passkeys",
				Message: fmt.Sprintf("A user has at most %d passkeys. Delete one first.", model.MaxPasskeys),
			}
		}

		if _, err := tx.NewInsert().Model(made).Exec(ctx); err != nil {
			return err
		}

		if first, err = addFactor(ctx, tx, user, row.Name, codes, change); err != nil {
			return err
		}
		return auditPasskey(ctx, tx, user, made, nil, audit.Values{"name": made.Name})
	})
	if db.IsUnique(err) {
		// The credential id is the only unique key that is not generated.
		err = &model.Error{
			Kind: model.Conflict, Code: "passkey_exists", Message: "This passkey is registered already.", Cause: err,
		}
	}
	if err != nil {
		return nil, false, db.Wrap(err, "create a passkey of user %d", passkey.UserID)
	}

	return made, first, nil
}

// Use records the use of a passkey, with the new counter and flags set in used, and consumes the
// challenge that it has answered. It fails with ErrChallengeUsed. It fails with model.ErrNotFound
// if the passkey was deleted, or its counter did not grow since its last use: it may be a copy.
func (s *Passkeys) Use(ctx context.Context, used *model.Passkey, answered Challenge, now model.Instant) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := consume(ctx, tx, answered); err != nil {
			return err
		}
		return db.NeedRow(tx.ExecContext(ctx, "UPDATE passkeys SET sign_count = ?, flags = ?, last_used_at = ? "+
			"WHERE id = ? AND (sign_count < ? OR sign_count = 0 AND ? = 0)",
			used.SignCount, used.Flags, now, used.ID, used.SignCount, used.SignCount))
	})
	return db.Wrap(err, "use passkey %d", used.ID)
}

// consume records that a challenge was answered. It fails with ErrChallengeUsed if the challenge
// was answered before.
func consume(ctx context.Context, tx *db.Tx, answered Challenge) error {
	err := db.NeedRow(tx.ExecContext(ctx, "INSERT INTO used_challenges (challenge_hash, expires_at) VALUES (?, ?) "+
		"ON CONFLICT (challenge_hash) DO NOTHING", answered.Hash, answered.ExpiresAt))
	if errors.Is(err, model.ErrNotFound) {
		return ErrChallengeUsed
	}
	return err
}

// Rename changes the name of a passkey of the user and returns the passkey. It fails with
// model.ErrNotFound for a passkey of another user.
func (s *Passkeys) Rename(ctx context.Context, userID model.UserID, id model.PasskeyID, name string) (*model.Passkey, error) {
	var passkey *model.Passkey
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		user, err := lockUser(ctx, tx, "id", userID)
		if err != nil {
			return err
		}
		if passkey, err = readOne[model.Passkey](ctx, tx, "id = ? AND user_id = ?", id, userID); err != nil {
			return err
		}

		before := passkey.Name
		passkey.Name = name
		if err := db.NeedRow(tx.NewUpdate().Model(passkey).Column("name").WherePK().Exec(ctx)); err != nil {
			return err
		}

		return auditPasskey(ctx, tx, user, passkey, audit.Values{"name": before}, audit.Values{"name": name})
	})
	if err != nil {
		return nil, db.Wrap(err, "rename passkey %d", id)
	}

	return passkey, nil
}

// Delete deletes a passkey of the user and returns it. The caller must have checked the password.
// It fails with model.ErrStale, ErrNoPasskey for a passkey of another user, and
// ErrSecondFactorNeeded.
func (s *Passkeys) Delete(
	ctx context.Context, userID model.UserID, passwordHash string, id model.PasskeyID, change FactorChange,
) (*model.Passkey, error) {
	var passkey model.Passkey
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		user, err := lockUnchanged(ctx, tx, userID, passwordHash)
		if err != nil {
			return err
		}

		err = tx.NewDelete().Model(&passkey).Where("id = ?", id).Where("user_id = ?", userID).Returning("*").Scan(ctx)
		if err = db.OrNotFound(err); errors.Is(err, model.ErrNotFound) {
			return ErrNoPasskey
		}
		if err != nil {
			return err
		}

		if err := removeFactor(ctx, tx, user, passkey.Name, change); err != nil {
			return err
		}
		return auditPasskey(ctx, tx, user, &passkey, audit.Values{"name": passkey.Name}, nil)
	})
	if err != nil {
		return nil, db.Wrap(err, "delete passkey %d", id)
	}

	return &passkey, nil
}

// auditPasskey records a change of a passkey in the log of the user's default account.
func auditPasskey(
	ctx context.Context, tx *db.Tx, user *model.User, passkey *model.Passkey, before, after audit.Values,
) error {
	return audit.Write(ctx, tx, audit.Change{
		AccountID: user.AccountID, By: user, Before: before, After: after,
		Object: audit.Object{Kind: nodeid.Passkey, ID: int64(passkey.ID), Name: passkey.Name},
	})
}

// ErrNoPasskey is returned for a passkey that does not exist or belongs to another user.
var ErrNoPasskey = &model.Error{
	Kind: model.NotFound, Code: "not_found", Field: "passkeyId", Message: "No such object.",
}
