package keys

import (
	"context"
	"errors"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// OpenImportToken decrypts the token of an API from which an import of a site is read.
func (s *Store) OpenImportToken(siteID model.SiteID, sealed []byte) (string, error) {
	ring, err := s.keyRing()
	if err != nil {
		return "", err
	}
	for _, k := range ring {
		if token, err := open(k.secrets, sealed, importBytes(siteID)); err == nil {
			return string(token), nil
		}
	}
	return "", errors.New("the token was not stored with this application key")
}

// SealImportToken encrypts the token of an API, bound to the site that imports, with the key that
// the database uses.
func (s *Store) SealImportToken(ctx context.Context, tx *db.Tx, siteID model.SiteID, token string) ([]byte, error) {
	k, err := s.sealingKey(ctx, tx)
	if err != nil {
		return nil, err
	}
	return seal(k.secrets, []byte(token), importBytes(siteID)), nil
}

// importBytes is the context that a token is bound to, apart from a site's webhook secret.
func importBytes(siteID model.SiteID) []byte { return append([]byte("import"), rowBytes(siteID)...) }

// resealImportTokens encrypts the tokens of imports in progress with the new key. A token that
// neither key decrypts stays: its import fails.
func (r keyRing) resealImportTokens(ctx context.Context, tx *db.Tx) error {
	var rows []struct {
		ID     int64
		SiteID model.SiteID
		Token  []byte
	}
	err := tx.NewSelect().Table("import_jobs").Column("id", "site_id", "token").Where("token IS NOT NULL").Scan(ctx, &rows)
	if err != nil {
		return err
	}

	for _, row := range rows {
		resealed, err := r.reseal(row.Token, importBytes(row.SiteID))
		if err != nil || resealed == nil {
			continue
		}
		_, err = tx.ExecContext(ctx, "UPDATE import_jobs SET token = ? WHERE id = ? AND token = ?", resealed, row.ID, row.Token)
		if err != nil {
			return err
		}
	}
	return nil
}
