package keys

import (
	"context"
	"fmt"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// OpenTOTP decrypts the secret of a user's authenticator app with any of the held keys.
func (s *Store) OpenTOTP(userID model.UserID, sealed []byte) ([]byte, error) {
	ring, err := s.keyRing()
	if err != nil {
		return nil, err
	}

	err = errNoApplicationKey
	for _, k := range ring {
		var secret []byte
		if secret, err = open(k.totp, sealed, rowBytes(userID)); err == nil {
			return secret, nil
		}
	}

	return nil, fmt.Errorf("the TOTP secret of user %d was not stored with this application key: %w", userID, err)
}

// SealTOTP encrypts the secret of an authenticator app, bound to its user, with the key that the
// database uses.
func (s *Store) SealTOTP(ctx context.Context, tx *db.Tx, userID model.UserID, secret []byte) ([]byte, error) {
	k, err := s.sealingKey(ctx, tx)
	if err != nil {
		return nil, err
	}
	return seal(k.totp, secret, rowBytes(userID)), nil
}

// resealTOTP encrypts with the new key the TOTP secrets that it has not encrypted yet, in the order
// of their users.
func (r keyRing) resealTOTP(ctx context.Context, tx *db.Tx, result *Rotation) error {
	result.UnreadableUsers = nil

	for after, last := (model.TOTPSecret{}), false; !last; {
		var rows []model.TOTPSecret
		err := tx.NewSelect().Model(&rows).Where("(user_id, confirmed) > (?, ?)", after.UserID, after.Confirmed).
			OrderExpr("user_id, confirmed").Limit(resealPage).Scan(ctx)
		if err != nil {
			return err
		}

		for i := range rows {
			if err := r.resealUser(ctx, tx, &rows[i], result); err != nil {
				return err
			}

			after = rows[i]
		}

		last = len(rows) < resealPage
	}

	return nil
}

// resealUser encrypts one TOTP secret with the new key, unless it is already.
func (r keyRing) resealUser(ctx context.Context, tx *db.Tx, row *model.TOTPSecret, result *Rotation) error {
	context := rowBytes(row.UserID)
	if _, err := open(r[0].totp, row.Secret, context); err == nil {
		return nil
	}

	secret, err := open(r[1].totp, row.Secret, context)
	if err != nil {
		result.UnreadableUsers = append(result.UnreadableUsers, row.UserID)
		return nil
	}

	// The condition skips a secret that the user changed since it was read.
	_, err = tx.ExecContext(ctx, "UPDATE totp_secrets SET secret = ? WHERE user_id = ? AND confirmed = ? AND secret = ?",
		seal(r[0].totp, secret, context), row.UserID, row.Confirmed, row.Secret)

	result.ResealedTOTP++
	return err
}
