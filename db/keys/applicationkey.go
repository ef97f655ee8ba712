package keys

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// The settings that a rotation reads and writes.
const (
	settingFingerprint = "secret_fingerprint" // of the key in use
	settingRotation    = "secret_rotation"    // JSON of keyHistory
)

// The uses of derived keys. A changed name makes stored data unreadable.
const (
	useWebhookSecrets = "webhook secrets"
	useStoredKeys     = "stored keys"
	useTOTP           = "totp secrets"
	useProviders      = "provider client secrets"
	useUserIDs        = "user id"
	useVisitorIDs     = "visitor id"
)

// heldKey is an application key that this process holds.
type heldKey struct {
	key         model.ApplicationKey
	fingerprint string
	secrets     cipher.AEAD // webhook secrets
	stored      cipher.AEAD // keys in keyHistory
	totp        cipher.AEAD // secrets of authenticator apps
	provider    cipher.AEAD // client secrets of accounts' providers
}

// keyHistory is an installation's record of earlier application keys.
type keyHistory struct {
	RotatedAt model.Instant `json:"rotatedAt,omitempty"` // time of the last rotation; 0: never
	Previous  string        `json:"previous,omitempty"`  // fingerprint of the key before the current one
	UserIDs   *storedKey    `json:"userIds,omitempty"`   // nil: derived from the current key
	Visitors  []storedKey   `json:"visitors,omitempty"`  // by Until, ascending
}

// storedKey is a key derived from an earlier application key and encrypted with the current one.
type storedKey struct {
	Until  model.Day `json:"until,omitempty"` // for visitor ids: the first day that uses another key
	Of     string    `json:"of"`              // fingerprint of the application key it was derived from
	Sealed []byte    `json:"sealed"`
}

// keyRing holds the keys of this process: the current key, then a previous key. It is empty before
// db.UseApplicationKey.
type keyRing []*heldKey

// keyRing derives what this process needs from each of its application keys.
func (s *Store) keyRing() (keyRing, error) {
	var ring keyRing
	for _, key := range s.db.ApplicationKeys() {
		held, err := holdKey(key)
		if err != nil {
			return nil, err
		}

		ring = append(ring, held)
	}

	return ring, nil
}

func holdKey(key model.ApplicationKey) (*heldKey, error) {
	secrets, err := newAEAD(key.Derive(useWebhookSecrets))
	if err != nil {
		return nil, err
	}

	stored, err := newAEAD(key.Derive(useStoredKeys))
	if err != nil {
		return nil, err
	}

	totp, err := newAEAD(key.Derive(useTOTP))
	if err != nil {
		return nil, err
	}

	provider, err := newAEAD(key.Derive(useProviders))
	if err != nil {
		return nil, err
	}

	return &heldKey{
		key: key, fingerprint: key.Fingerprint(), secrets: secrets, stored: stored, totp: totp, provider: provider,
	}, nil
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

var (
	errNoApplicationKey = errors.New("no application key is set")

	// ErrOtherKey means that the database uses an application key that this process does not hold.
	ErrOtherKey = errors.New("the database uses another application key")
)

// KeyState is the database's record of its application keys, as fingerprints.
type KeyState struct {
	Current   string
	Previous  string        // empty: the key was never rotated
	RotatedAt model.Instant // 0: never
}

// ClaimApplicationKey records the given key as the installation's if no key is recorded, and
// returns the recorded state. If several processes call it at once, the first key is recorded.
func (s *Store) ClaimApplicationKey(ctx context.Context, key model.ApplicationKey) (KeyState, error) {
	if _, err := s.db.Setting(ctx, settingFingerprint, key.Fingerprint()); err != nil {
		return KeyState{}, err
	}
	return s.ApplicationKeyState(ctx)
}

// ApplicationKeyState returns the database's record of its application keys.
func (s *Store) ApplicationKeyState(ctx context.Context) (KeyState, error) {
	current, history, err := readKeys(ctx, s.db.Read)
	return KeyState{Current: current, Previous: history.Previous, RotatedAt: history.RotatedAt}, err
}

// readKeys returns the fingerprint of the key in use and the history. The fingerprint is empty if
// no process has recorded a key.
func readKeys(ctx context.Context, from bun.IDB) (current string, history keyHistory, err error) {
	var rows []struct{ Name, Value string }
	err = from.NewSelect().Table("settings").Column("name", "value").
		Where("name IN (?)", bun.List([]string{settingFingerprint, settingRotation})).Scan(ctx, &rows)
	if err != nil {
		return "", history, fmt.Errorf("read the state of the application key: %w", err)
	}

	for _, row := range rows {
		if row.Name == settingFingerprint {
			current = row.Value
			continue
		}

		if err := json.Unmarshal([]byte(row.Value), &history); err != nil {
			return "", history, fmt.Errorf("read the setting %s: %w", settingRotation, err)
		}
	}

	return current, history, nil
}

// held returns the key with this fingerprint. An empty fingerprint means the first key. It returns
// ErrOtherKey if this process does not hold the key.
func (r keyRing) held(fingerprint string) (*heldKey, error) {
	if len(r) == 0 {
		return nil, errNoApplicationKey
	}
	if fingerprint == "" {
		return r[0], nil
	}

	for _, k := range r {
		if k.fingerprint == fingerprint {
			return k, nil
		}
	}

	return nil, ErrOtherKey
}

// sealingKey returns the key that the database uses now, for encryption in a transaction. On
// PostgreSQL it locks the setting's row against RotateApplicationKey, so that no transaction
// encrypts with a key that is replaced at the same time.
func (s *Store) sealingKey(ctx context.Context, tx *db.Tx) (*heldKey, error) {
	var fingerprints []string
	q := tx.NewSelect().Table("settings").Column("value").Where("name = ?", settingFingerprint)

	tx.Lock(q, "SHARE")
	if err := q.Scan(ctx, &fingerprints); err != nil {
		return nil, err
	}

	ring, err := s.keyRing()
	if err != nil {
		return nil, err
	}

	return ring.held(strings.Join(fingerprints, ""))
}

// UserIDKey returns the key that hashes pseudonymous user ids. It survives a rotation of the
// application key: otherwise a user's id would change, and a request to erase a user would miss
// their older rows.
func (s *Store) UserIDKey(ctx context.Context) ([]byte, error) {
	ring, current, history, err := s.readRing(ctx)
	if err != nil {
		return nil, err
	}
	return ring.keyInUse(current, history.UserIDs, useUserIDs)
}

// VisitorKey returns the key that, with the day's salt, derives the visitor ids of a day. A
// rotation of the application key takes effect on the following UTC day, so that no visitor is
// counted twice on the day of the rotation.
func (s *Store) VisitorKey(ctx context.Context, day model.Day) ([]byte, error) {
	ring, current, history, err := s.readRing(ctx)
	if err != nil {
		return nil, err
	}

	for i := range history.Visitors {
		if day < history.Visitors[i].Until {
			return ring.keyInUse(current, &history.Visitors[i], useVisitorIDs)
		}
	}

	return ring.keyInUse(current, nil, useVisitorIDs)
}

// readRing returns the keys of this process, the fingerprint of the key that the database uses, and
// the history.
func (s *Store) readRing(ctx context.Context) (ring keyRing, current string, history keyHistory, err error) {
	if ring, err = s.keyRing(); err != nil {
		return nil, "", history, err
	}
	current, history, err = readKeys(ctx, s.db.Read)
	return ring, current, history, err
}

// keyInUse returns the stored derived key. Without a stored key it derives one from the current
// application key.
func (r keyRing) keyInUse(current string, stored *storedKey, use string) ([]byte, error) {
	if stored == nil {
		k, err := r.held(current)
		if err != nil {
			return nil, err
		}

		return k.key.Derive(use), nil
	}

	// A process that was not restarted yet holds the earlier key itself, and cannot decrypt with
	// the new key.
	if k, err := r.held(stored.Of); err == nil {
		return k.key.Derive(use), nil
	}

	k, err := r.held(current)
	if err != nil {
		return nil, err
	}

	return open(k.stored, stored.Sealed, []byte(use))
}

// seal encrypts plain, bound to a context, and returns the nonce followed by the ciphertext.
func seal(with cipher.AEAD, plain, context []byte) []byte {
	nonce := make([]byte, with.NonceSize())
	// rand.Read never fails.
	rand.Read(nonce)
	return with.Seal(nonce, nonce, plain, context)
}

// open decrypts what seal returned for the same context.
func open(with cipher.AEAD, sealed, context []byte) ([]byte, error) {
	size := with.NonceSize()
	if len(sealed) < size {
		return nil, errors.New("cut off")
	}
	return with.Open(nil, sealed[:size], sealed[size:], context)
}
