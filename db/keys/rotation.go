package keys

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// Rotation is the result of RotateApplicationKey.
type Rotation struct {
	Resealed   int            // number of webhook secrets that were encrypted with the new key
	Unreadable []model.SiteID // unchanged sites: neither key decrypts their webhook secret
	Already    bool           // the database already used the new key

	ResealedTOTP    int            // number of TOTP secrets that were encrypted with the new key
	UnreadableUsers []model.UserID // unchanged users: neither key decrypts their TOTP secret
}

// RotateApplicationKey replaces the previous key with the current one, as given to
// UseApplicationKey, in one transaction. It encrypts webhook and TOTP secrets and the files of
// certificates again, keeps the key of user ids, keeps the key of visitor ids for the rest of the
// day, deletes the sign-in throttles, because the new key cannot find their rows, and replaces the
// fingerprint. It can be repeated. Then it encrypts only secrets that a process without the new key
// has stored since. It returns ErrOtherKey if the database uses neither key.
func (s *Store) RotateApplicationKey(ctx context.Context, now model.Instant) (Rotation, error) {
	ring := keyRing(s.db.ApplicationKeys())
	if len(ring) != 2 {
		return Rotation{}, errNoApplicationKey
	}

	var result Rotation
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		result = Rotation{}
		return ring.rotate(ctx, tx, now, &result)
	})
	if err != nil {
		return Rotation{}, fmt.Errorf("rotate the application key: %w", err)
	}

	return result, nil
}

// rotate is RotateApplicationKey within its transaction. It adds to the result.
func (r keyRing) rotate(ctx context.Context, tx *db.Tx, now model.Instant, result *Rotation) error {
	// Lock sites and TOTP secrets first, as their changes do. The second pass finds secrets that
	// were stored between the first pass and the lock.
	if err := r.resealAll(ctx, tx, result); err != nil {
		return err
	}
	if err := lockFingerprint(ctx, tx); err != nil {
		return err
	}
	if err := r.resealAll(ctx, tx, result); err != nil {
		return err
	}

	next := r[0].Fingerprint()
	fingerprint, history, err := readKeys(ctx, tx)
	if err != nil {
		return err
	}

	if fingerprint == next {
		result.Already = true
		return nil
	}

	if fingerprint != r[1].Fingerprint() {
		return ErrOtherKey
	}

	if err := r.keepDerivedKeys(&history, now); err != nil {
		return err
	}

	history.RotatedAt, history.Previous = now, fingerprint
	text, err := json.Marshal(history)
	if err != nil {
		return err
	}

	for name, value := range map[string]string{settingFingerprint: next, settingRotation: string(text)} {
		_, err := tx.ExecContext(ctx, "INSERT INTO settings (name, value) VALUES (?, ?) "+
			"ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value", name, value)
		if err != nil {
			return err
		}
	}

	_, err = tx.ExecContext(ctx, "DELETE FROM signin_failures")
	return err
}

// lockFingerprint locks the setting that names the key in use, see sealingKey.
func lockFingerprint(ctx context.Context, tx *db.Tx) error {
	var locked []string
	q := tx.NewSelect().Table("settings").Column("name").Where("name = ?", settingFingerprint)
	tx.Lock(q, "UPDATE")
	return q.Scan(ctx, &locked)
}

// rotationMargin is the time before midnight from which a rotation counts as a rotation of the next
// day: processes with a clock ahead can have derived visitor ids of that day already.
const rotationMargin = 5 * time.Minute

// keepDerivedKeys encrypts the derived keys that must outlive the previous application key.
func (r keyRing) keepDerivedKeys(history *keyHistory, now model.Instant) error {
	previous := r[1].Fingerprint()
	today, until := now.Day(), now.Add(rotationMargin).Day()+1

	kept := history.Visitors[:0]
	for _, stored := range history.Visitors {
		// A process with a clock behind can still derive yesterday's ids.
		if stored.Until >= today {
			kept = append(kept, stored)
		}
	}

	if len(kept) == 0 || kept[len(kept)-1].Until < until {
		kept = append(kept, storedKey{Until: until, Of: previous})
	}

	history.Visitors = kept
	if history.UserIDs == nil {
		history.UserIDs = &storedKey{Of: previous}
	}

	for i := range history.Visitors {
		if err := r.resealKey(&history.Visitors[i], useVisitorIDs); err != nil {
			return err
		}
	}

	return r.resealKey(history.UserIDs, useUserIDs)
}

// resealKey encrypts a stored key with the new application key.
func (r keyRing) resealKey(stored *storedKey, use string) error {
	key, err := r.keyInUse(r[1].Fingerprint(), stored, use)
	if err == nil {
		stored.Sealed = newAEAD(r[0], useStoredKeys).Seal(nil, nil, key, []byte(use))
	}
	return err
}
