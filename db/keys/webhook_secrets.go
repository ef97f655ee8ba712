package keys

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/tallygate/tallygate/db"
)

// OpenSecret decrypts a webhook secret with any of the held keys. It returns "" for no secret.
func (s *Store) OpenSecret(siteID int64, sealed []byte) (string, error) {
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
		if secret, err = open(k.secrets, sealed, siteBytes(siteID)); err == nil {
			return string(secret), nil
		}
	}

	return "", fmt.Errorf("the webhook secret of site %d was not stored with this application key: %w", siteID, err)
}

// SealSecret encrypts a webhook secret, bound to its site, with the key that the database uses. It
// returns nil for an empty secret.
func (s *Store) SealSecret(ctx context.Context, tx *db.Tx, siteID int64, secret string) ([]byte, error) {
	if secret == "" {
		return nil, nil
	}

	k, err := s.sealingKey(ctx, tx)
	if err != nil {
		return nil, err
	}

	return seal(k.secrets, []byte(secret), siteBytes(siteID)), nil
}

// siteBytes is the context that a site's secret is bound to.
func siteBytes(siteID int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(siteID)) }
