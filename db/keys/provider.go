package keys

import (
	"context"
	"fmt"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// OpenProvider decrypts the client secret of an account's provider with any of the held keys.
func (s *Store) OpenProvider(accountID model.AccountID, sealed []byte) (string, error) {
	ring, err := s.keyRing()
	if err != nil {
		return "", err
	}

	err = errNoApplicationKey
	for _, k := range ring {
		var secret []byte
		if secret, err = open(k.provider, sealed, rowBytes(accountID)); err == nil {
			return string(secret), nil
		}
	}

	return "", fmt.Errorf("the client secret of account %d was not stored with this application key: %w", accountID, err)
}

// SealProvider encrypts the client secret of an account's provider, bound to the account, with the
// key that the database uses.
func (s *Store) SealProvider(ctx context.Context, tx *db.Tx, accountID model.AccountID, secret string) ([]byte, error) {
	k, err := s.sealingKey(ctx, tx)
	if err != nil {
		return nil, err
	}
	return seal(k.provider, []byte(secret), rowBytes(accountID)), nil
}

// resealProviders encrypts with the new key the client secrets that it has not encrypted yet. A
// secret that neither key opens stays: its account enters it again.
func (r keyRing) resealProviders(ctx context.Context, tx *db.Tx) error {
	for after, last := model.AccountID(0), false; !last; {
		var rows []model.AccountProvider
		err := tx.NewSelect().Model(&rows).Where("account_id > ?", after).Order("account_id").Limit(resealPage).Scan(ctx)
		if err != nil {
			return err
		}

		for i := range rows {
			if err := r.resealProvider(ctx, tx, &rows[i]); err != nil {
				return err
			}

			after = rows[i].AccountID
		}

		last = len(rows) < resealPage
	}

	return nil
}

// resealProvider encrypts one client secret with the new key, unless it is already.
func (r keyRing) resealProvider(ctx context.Context, tx *db.Tx, row *model.AccountProvider) error {
	context := rowBytes(row.AccountID)
	if _, err := open(r[0].provider, row.ClientSecret, context); err == nil {
		return nil
	}

	secret, err := open(r[1].provider, row.ClientSecret, context)
	if err != nil {
		return nil
	}

	// The condition skips a secret that was replaced since it was read.
	_, err = tx.ExecContext(ctx, "UPDATE account_providers SET client_secret = ? WHERE account_id = ? AND client_secret = ?",
		seal(r[0].provider, secret, context), row.AccountID, row.ClientSecret)
	return err
}
