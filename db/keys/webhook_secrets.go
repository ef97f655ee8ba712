package keys

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// OpenSecret decrypts a webhook secret with any of the held keys. It returns "" for no secret.
func (s *Store) OpenSecret(siteID model.SiteID, sealed []byte) (string, error) {
	if len(sealed) == 0 {
		return "", nil
	}

	ring, err := s.keyRing()
	if err != nil {
		return "", err
	}

	err = errNoApplicationKey
	for _, k := range ring {
		var secret []byte
		if secret, err = open(k.secrets, sealed, rowBytes(siteID)); err == nil {
			return string(secret), nil
		}
	}

	return "", fmt.Errorf("the webhook secret of site %d was not stored with this application key: %w", siteID, err)
}

// SealSecret encrypts a webhook secret, bound to its site, with the key that the database uses. It
// returns nil for an empty secret.
func (s *Store) SealSecret(ctx context.Context, tx *db.Tx, siteID model.SiteID, secret string) ([]byte, error) {
	if secret == "" {
		return nil, nil
	}

	k, err := s.sealingKey(ctx, tx)
	if err != nil {
		return nil, err
	}

	return seal(k.secrets, []byte(secret), rowBytes(siteID)), nil
}

// rowBytes is the context that a secret of a site, a user or an account is bound to.
func rowBytes[ID ~int64](id ID) []byte { return binary.BigEndian.AppendUint64(nil, uint64(id)) }
