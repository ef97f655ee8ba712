package keys

import (
	"context"
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
type keyRing []model.ApplicationKey

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
func (r keyRing) held(fingerprint string) (model.ApplicationKey, error) {
	if len(r) == 0 {
		return nil, errNoApplicationKey
	}
	if fingerprint == "" {
		return r[0], nil
	}

	for _, key := range r {
		if key.Fingerprint() == fingerprint {
			return key, nil
		}
	}

	return nil, ErrOtherKey
}

// sealingKey returns the key that the database uses now, for encryption in a transaction. On
// PostgreSQL it locks the setting's row against RotateApplicationKey, so that no transaction
// encrypts with a key that is replaced at the same time.
func (s *Store) sealingKey(ctx context.Context, tx *db.Tx) (model.ApplicationKey, error) {
	var fingerprints []string
	q := tx.NewSelect().Table("settings").Column("value").Where("name = ?", settingFingerprint)

	tx.Lock(q, "SHARE")
	if err := q.Scan(ctx, &fingerprints); err != nil {
		return nil, err
	}

	return keyRing(s.db.ApplicationKeys()).held(strings.Join(fingerprints, ""))
}

// UserIDKey returns the key that hashes pseudonymous user ids. It survives a rotation of the
// application key: otherwise a user's id would change, and a request to erase a user would miss
// their older rows.
func (s *Store) UserIDKey(ctx context.Context) ([]byte, error) {
	current, history, err := readKeys(ctx, s.db.Read)
	if err != nil {
		return nil, err
	}
	return keyRing(s.db.ApplicationKeys()).keyInUse(current, history.UserIDs, useUserIDs)
}

// VisitorKey returns the key that, with the day's salt, derives the visitor ids of a day. A
// rotation of the application key takes effect on the following UTC day, so that no visitor is
// counted twice on the day of the rotation.
func (s *Store) VisitorKey(ctx context.Context, day model.Day) ([]byte, error) {
	current, history, err := readKeys(ctx, s.db.Read)
	if err != nil {
		return nil, err
	}

	var stored *storedKey
	for i := range history.Visitors {
		if day < history.Visitors[i].Until {
			stored = &history.Visitors[i]
			break
		}
	}
	return keyRing(s.db.ApplicationKeys()).keyInUse(current, stored, useVisitorIDs)
}

// keyInUse returns the stored derived key. Without a stored key it derives one from the current
// application key.
func (r keyRing) keyInUse(current string, stored *storedKey, use string) ([]byte, error) {
	// A process that was not restarted yet holds the earlier key itself, and cannot decrypt with
	// the new key.
	if stored != nil {
		if key, err := r.held(stored.Of); err == nil {
			return key.Derive(use), nil
		}
	}

	key, err := r.held(current)
	if err != nil {
		return nil, err
	}
	if stored == nil {
		return key.Derive(use), nil
	}
	return newAEAD(key, useStoredKeys).Open(nil, nil, stored.Sealed, []byte(use))
}
