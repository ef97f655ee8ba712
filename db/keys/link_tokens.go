package keys

import (
	"context"
	"errors"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// OpenLinkToken decrypts the token of a shared link with any of the held keys.
func (s *Store) OpenLinkToken(siteID model.SiteID, sealed []byte) (string, error) {
	ring, err := s.keyRing()
	if err != nil {
		return "", err
	}
	for _, k := range ring {
		if token, err := open(k.secrets, sealed, linkBytes(siteID)); err == nil {
			return string(token), nil
		}
	}
	return "", errors.New("the token was not stored with this application key")
}

// SealLinkToken encrypts the token of a shared link, bound to its site, with the key that the
// database uses.
func (s *Store) SealLinkToken(ctx context.Context, tx *db.Tx, siteID model.SiteID, token string) ([]byte, error) {
	k, err := s.sealingKey(ctx, tx)
	if err != nil {
		return nil, err
	}
	return seal(k.secrets, []byte(token), linkBytes(siteID)), nil
}

// linkBytes is the context that a token is bound to, apart from a site's other secrets.
func linkBytes(siteID model.SiteID) []byte { return append([]byte("link"), rowBytes(siteID)...) }

// resealLinkTokens encrypts the tokens of shared links with the new key, in the order of their ids.
// A token that neither key decrypts stays: its link works, but its owner cannot read the address
// again.
func (r keyRing) resealLinkTokens(ctx context.Context, tx *db.Tx) error {
	type sealedLink struct {
		ID          int64
		SiteID      model.SiteID
		SealedToken []byte
	}

	for after, last := int64(0), false; !last; {
		var rows []sealedLink
		err := tx.NewSelect().Table("shared_links").Column("id", "site_id", "sealed_token").
			Where("id > ?", after).Order("id").Limit(resealPage).Scan(ctx, &rows)
		if err != nil {
			return err
		}

		for _, row := range rows {
			after = row.ID
			resealed, err := r.reseal(row.SealedToken, linkBytes(row.SiteID))
			if err != nil || resealed == nil {
				continue
			}
			_, err = tx.ExecContext(ctx, "UPDATE shared_links SET sealed_token = ? WHERE id = ?", resealed, row.ID)
			if err != nil {
				return err
			}
		}

		last = len(rows) < resealPage
	}
	return nil
}
