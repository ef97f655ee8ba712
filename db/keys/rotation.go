package keys

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/uptrace/bun"

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
	ring, err := s.keyRing()
	if err != nil {
		return Rotation{}, err
	}
	if len(ring) != 2 {
		return Rotation{}, errNoApplicationKey
	}

	var result Rotation
	err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
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

	next := r[0]
	fingerprint, history, err := readKeys(ctx, tx)
	if err != nil {
		return err
	}

	if fingerprint == next.fingerprint {
		result.Already = true
		return nil
	}

	if fingerprint != r[1].fingerprint {
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

	for name, value := range map[string]string{settingFingerprint: next.fingerprint, settingRotation: string(text)} {
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
	previous := r[1]
	today, until := now.Day(), now.Add(rotationMargin).Day()+1

	kept := history.Visitors[:0]
	for _, stored := range history.Visitors {
		// A process with a clock behind can still derive yesterday's ids.
		if stored.Until >= today {
			kept = append(kept, stored)
		}
	}

	if len(kept) == 0 || kept[len(kept)-1].Until < until {
		kept = append(kept, storedKey{Until: until, Of: previous.fingerprint})
	}

	history.Visitors = kept
	if history.UserIDs == nil {
		history.UserIDs = &storedKey{Of: previous.fingerprint}
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
	key, err := r.keyInUse(r[1].fingerprint, stored, use)
	if err == nil {
		stored.Sealed = seal(r[0].stored, key, []byte(use))
	}
	return err
}

// resealAll encrypts all stored secrets with the new key.
func (r keyRing) resealAll(ctx context.Context, tx *db.Tx, result *Rotation) error {
	if err := r.resealSecrets(ctx, tx, result); err != nil {
		return err
	}
	if err := r.resealImportTokens(ctx, tx); err != nil {
		return err
	}
	if err := r.resealLinkTokens(ctx, tx); err != nil {
		return err
	}
	if err := r.resealChannels(ctx, tx); err != nil {
		return err
	}
	if err := r.resealCertificates(ctx, tx); err != nil {
		return err
	}
	if err := r.resealTOTP(ctx, tx, result); err != nil {
		return err
	}
	return r.resealProviders(ctx, tx)
}

// resealPage is how many rows are read at a time.
const resealPage = 500

// resealSecrets encrypts with the new key the webhook secrets that it has not encrypted yet, site
// by site in the order of ids.
func (r keyRing) resealSecrets(ctx context.Context, tx *db.Tx, result *Rotation) error {
	result.Unreadable = nil

	for after, last := model.SiteID(0), false; !last; {
		var sites []model.Site
		err := tx.NewSelect().Model(&sites).Column("id", "conversion_webhook_secret", "old_webhook_secret").
			Where("(conversion_webhook_secret IS NOT NULL OR old_webhook_secret IS NOT NULL)").Where("id > ?", after).
			Order("id").Limit(resealPage).Scan(ctx)
		if err != nil {
			return err
		}

		for i := range sites {
			if err := r.resealSite(ctx, tx, &sites[i], result); err != nil {
				return err
			}

			after = sites[i].ID
		}

		last = len(sites) < resealPage
	}

	return nil
}

// resealSite encrypts one site's webhook secret, and the old secret that signs in addition, with
// the new key, unless they already are.
func (r keyRing) resealSite(ctx context.Context, tx *db.Tx, site *model.Site, result *Rotation) error {
	unreadable := false

	for _, column := range []struct {
		name   string
		sealed []byte
	}{
		{"conversion_webhook_secret", site.ConversionWebhookSecret},
		{"old_webhook_secret", site.OldWebhookSecret},
	} {
		if column.sealed == nil {
			continue
		}

		resealed, err := r.reseal(column.sealed, rowBytes(site.ID))
		if err != nil {
			unreadable = true
			continue
		}
		if resealed == nil {
			continue
		}

		// The condition skips a secret that the owner changed since it was read.
		_, err = tx.NewUpdate().Model((*model.Site)(nil)).Set("? = ?", bun.Ident(column.name), resealed).
			Where("id = ?", site.ID).Where("? = ?", bun.Ident(column.name), column.sealed).Exec(ctx)
		if err != nil {
			return err
		}

		result.Resealed++
	}

	if unreadable {
		result.Unreadable = append(result.Unreadable, site.ID)
	}

	return nil
}

// reseal decrypts a secret with the previous key and encrypts it with the new key. It returns nil
// for a secret under the new key, and an error if neither key opens it.
func (r keyRing) reseal(sealed, context []byte) ([]byte, error) {
	if _, err := open(r[0].secrets, sealed, context); err == nil {
		return nil, nil
	}

	secret, err := open(r[1].secrets, sealed, context)
	if err != nil {
		return nil, err
	}

	return seal(r[0].secrets, secret, context), nil
}
