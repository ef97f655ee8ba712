package keys

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// Secret is where a secret is stored. Its encrypted value is bound to that place, so that the value
// of another row or of another kind does not decrypt.
type Secret struct {
	name       string // for errors
	use        string // of the derived key
	context    []byte
	isOptional bool // the empty secret is stored as NULL
}

// WebhookSecret is the secret that signs the webhooks of a site. A secret that was replaced is
// bound to the same place.
func WebhookSecret(siteID model.SiteID) Secret {
	return inRow("webhook secret of site", useWebhookSecrets, "", int64(siteID)).optional()
}

// ImportToken is the token of an API from which a site imports.
func ImportToken(siteID model.SiteID) Secret {
	return inRow("import token of site", useWebhookSecrets, "import", int64(siteID)).optional()
}

// LinkToken is the token of a shared link of a site.
func LinkToken(siteID model.SiteID) Secret {
	return inRow("link token of site", useWebhookSecrets, "link", int64(siteID))
}

// ChannelAddress is the address of an alert channel.
func ChannelAddress(channelID int64) Secret {
	return inRow("address of channel", useWebhookSecrets, "channel address", channelID).optional()
}

// ChannelSecret is the secret that signs the calls of an alert channel.
func ChannelSecret(channelID int64) Secret {
	return inRow("secret of channel", useWebhookSecrets, "channel secret", channelID).optional()
}

// CertificateFile is a file of the ACME library.
func CertificateFile(name string) Secret {
	return Secret{name: "file " + name + " of the certificates", use: useWebhookSecrets, context: []byte("certificate " + name)}
}

// TOTPSecret is the secret of a user's authenticator app.
func TOTPSecret(userID model.UserID) Secret {
	return inRow("TOTP secret of user", useTOTP, "", int64(userID))
}

// ClientSecret is the client secret of an account's provider.
func ClientSecret(accountID model.AccountID) Secret {
	return inRow("client secret of account", useProviders, "", int64(accountID))
}

// inRow returns a secret that is bound to the number of a row. The prefix distinguishes the secrets
// of one use.
func inRow(name, use, prefix string, row int64) Secret {
	return Secret{
		name: fmt.Sprintf("%s %d", name, row), use: use,
		context: binary.BigEndian.AppendUint64([]byte(prefix), uint64(row)),
	}
}

func (s Secret) optional() Secret {
	s.isOptional = true
	return s
}

// Open decrypts a secret with any of the held keys.
func (s *Store) Open(secret Secret, sealed []byte) (string, error) {
	if secret.isOptional && len(sealed) == 0 {
		return "", nil
	}

	err := errNoApplicationKey
	for _, key := range s.db.ApplicationKeys() {
		var plain []byte
		if plain, err = secret.open(key, sealed); err == nil {
			return string(plain), nil
		}
	}
	return "", fmt.Errorf("the %s was not stored with this application key: %w", secret.name, err)
}

// Seal encrypts a secret with the key that the database uses. The caller has locked the row.
func (s *Store) Seal(ctx context.Context, tx *db.Tx, secret Secret, plain string) ([]byte, error) {
	if secret.isOptional && plain == "" {
		return nil, nil
	}

	key, err := s.sealingKey(ctx, tx)
	if err != nil {
		return nil, err
	}
	return secret.seal(key, []byte(plain)), nil
}

func (s Secret) open(key model.ApplicationKey, sealed []byte) ([]byte, error) {
	return newAEAD(key, s.use).Open(nil, nil, sealed, s.context)
}

func (s Secret) seal(key model.ApplicationKey, plain []byte) []byte {
	return newAEAD(key, s.use).Seal(nil, nil, plain, s.context)
}

// newAEAD returns the cipher of one use of a key. It writes a random nonce before the ciphertext.
func newAEAD(key model.ApplicationKey, use string) cipher.AEAD {
	block, err := aes.NewCipher(key.Derive(use))
	if err != nil {
		// Only a key of another size fails.
		panic(err)
	}

	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		// Only a cipher other than AES fails.
		panic(err)
	}
	return aead
}
