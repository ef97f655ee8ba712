package sites

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
)

// Secrets of sites and sitekeys. A rotation can keep the replaced secret valid for some days, so
// that an owner's servers change to the new one without a gap. There is at most one old secret: the
// next rotation replaces it. The data plane compares its expiry with the time of each call.

// ReplaceServerSecret stores the hash of a new server secret (see model.HashToken) and the hint by
// which its owner recognises it, and returns the changed site. The previous secret remains valid
// until the time oldUntil; 0 revokes it at once. An older one is revoked.
func (s *Sites) ReplaceServerSecret(
	ctx context.Context, accountID model.AccountID, siteID model.SiteID, hash []byte, hint string, oldUntil model.Instant,
) (changed *model.Site, err error) {
	err = s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		before := serverSecretValues(site)
		oldHash, oldHint, until := site.ServerSecretHash, site.ServerSecretHint, oldUntil
		if oldHash == nil || oldUntil == 0 {
			oldHash, oldHint, until = nil, "", 0
		}

		site.ServerSecretHash, site.ServerSecretHint = hash, hint
		changed = site

		return setOldServerSecret(ctx, tx, site, oldHash, oldHint, until, before)
	})
	if err != nil {
		return nil, err
	}

	return changed, nil
}

// RevokeServerSecret deletes the server secret and the old one. No server can send events until a
// new one is set.
func (s *Sites) RevokeServerSecret(ctx context.Context, accountID model.AccountID, siteID model.SiteID) error {
	_, err := s.ReplaceServerSecret(ctx, accountID, siteID, nil, "", 0)
	return err
}

// RevokeOldServerSecret deletes the old server secret, if there is one.
func (s *Sites) RevokeOldServerSecret(ctx context.Context, accountID model.AccountID, siteID model.SiteID) error {
	return s.changeSite(ctx, accountID, siteID, func(tx *db.Tx, site *model.Site) error {
		return setOldServerSecret(ctx, tx, site, nil, "", 0, serverSecretValues(site))
	})
}

// setOldServerSecret stores the server secrets of a site, with a new old one. before are the values
// until now.
func setOldServerSecret(
	ctx context.Context, tx *db.Tx, site *model.Site, hash []byte, hint string, until model.Instant, before audit.Values,
) error {
	site.OldServerSecretHash, site.OldServerSecretHint, site.OldServerSecretUntil = hash, hint, until

	err := updateColumns(ctx, tx, site, "server_secret_hash", "server_secret_hint", "old_server_secret_hash",
		"old_server_secret_hint", "old_server_secret_until")
	if err != nil {
		return err
	}

	return auditSite(ctx, tx, site, before, serverSecretValues(site))
}

// serverSecretValues are the values of a site's server secrets in the audit log.
func serverSecretValues(site *model.Site) audit.Values {
	return secretValues("serverSecretHint", site.ServerSecretHint, "oldServerSecretHint", site.OldServerSecretHint,
		"oldServerSecretValidUntil", site.OldServerSecretUntil)
}

// secretValues names the hints of a secret and of an old one, and the time at which that expires.
func secretValues(
	name, hint, oldName, oldHint, untilName string, until model.Instant,
) audit.Values {
	values := audit.Values{name: orNil(hint)}
	if until != 0 {
		values[oldName], values[untilName] = oldHint, until.Time().Format(time.RFC3339)
	}
	return values
}

// RotateSitekeySecret replaces the sitekey's secret and returns the changed sitekey and the new
// secret. The previous secret remains valid until the time oldUntil; 0 revokes it at once. An older
// one is revoked.
func (s *Sitekeys) RotateSitekeySecret(
	ctx context.Context, accountID model.AccountID, id model.SitekeyID, oldUntil model.Instant,
) (changed *model.Sitekey, secret string, err error) {
	changed, err = s.changeSitekey(ctx, accountID, id, func(tx *db.Tx, key *model.Sitekey) error {
		before := sitekeySecretValues(key)
		oldHash, oldHint := key.SecretHash, key.SecretHint
		if oldUntil == 0 {
			oldHash, oldHint = nil, ""
		}

		secret = giveSecret(key)

		return setOldSitekeySecret(ctx, tx, key, oldHash, oldHint, oldUntil, before)
	})
	if err != nil {
		return nil, "", err
	}

	return changed, secret, nil
}

// RevokeOldSitekeySecret deletes the sitekey's old secret, if there is one, and returns the changed
// sitekey.
func (s *Sitekeys) RevokeOldSitekeySecret(ctx context.Context, accountID model.AccountID, id model.SitekeyID) (*model.Sitekey, error) {
	return s.changeSitekey(ctx, accountID, id, func(tx *db.Tx, key *model.Sitekey) error {
		return setOldSitekeySecret(ctx, tx, key, nil, "", 0, sitekeySecretValues(key))
	})
}

// giveSecret sets a new secret and returns it.
func giveSecret(key *model.Sitekey) string {
	secret := model.NewSecret(model.CaptchaSecretPrefix)
	key.SecretHash, key.SecretHint = model.HashToken(secret), model.SecretHint(secret)
	return secret
}

// setOldSitekeySecret stores the secrets of a sitekey, with a new old one. before are the values
// until now.
func setOldSitekeySecret(
	ctx context.Context, tx *db.Tx, key *model.Sitekey, hash []byte, hint string, until model.Instant,
	before audit.Values,
) error {
	key.OldSecretHash, key.OldSecretHint, key.OldSecretUntil = hash, hint, until

	_, err := tx.NewUpdate().Model(key).WherePK().
		Column("secret_hash", "secret_hint", "old_secret_hash", "old_secret_hint", "old_secret_until").Exec(ctx)
	if err != nil {
		return err
	}

	return auditSitekey(ctx, tx, key, before, sitekeySecretValues(key))
}

// sitekeySecretValues are the values of a sitekey's secrets in the audit log.
func sitekeySecretValues(key *model.Sitekey) audit.Values {
	return secretValues("secretHint", key.SecretHint, "oldSecretHint", key.OldSecretHint, "oldSecretValidUntil",
		key.OldSecretUntil)
}

// replaceWebhookSecret sets the secret that signs calls of webhooks, or removes it. The previous
// one signs in addition for model.WebhookOverlap, because a receiver verifies with one of them. The
// caller stores the site.
func (s *Sites) replaceWebhookSecret(
	ctx context.Context, tx *db.Tx, site *model.Site, secret string, now model.Instant,
) error {
	// A secret that cannot be opened cannot sign, so it is replaced without an overlap.
	previous, _ := s.keys.Open(keys.WebhookSecret(site.ID), site.ConversionWebhookSecret)

	switch {
	case secret == previous:
		// An overlap with another secret continues.
	case secret == "" || previous == "":
		site.OldWebhookSecret, site.OldWebhookSecretUntil = nil, 0
	default:
		site.OldWebhookSecret, site.OldWebhookSecretUntil = site.ConversionWebhookSecret, now.Add(model.WebhookOverlap)
	}

	sealed, err := s.keys.Seal(ctx, tx, keys.WebhookSecret(site.ID), secret)
	site.ConversionWebhookSecret = sealed

	return err
}

// DeleteExpiredSecrets deletes old secrets of sites and sitekeys that have expired, and returns
// their number. No process accepts them or signs with them any more, so nothing is notified.
func (s *Sites) DeleteExpiredSecrets(ctx context.Context, now model.Instant) (int64, error) {
	var all int64
	for _, old := range []struct {
		table, until string
		columns      []string
	}{
		{"sites", "old_server_secret_until", []string{"old_server_secret_hash", "old_server_secret_hint"}},
		{"sites", "old_webhook_secret_until", []string{"old_webhook_secret"}},
		{"sitekeys", "old_secret_until", []string{"old_secret_hash", "old_secret_hint"}},
	} {
		// Look first: even a write of nothing makes SQLite's writers wait.
		some, err := s.reader().NewSelect().Table(old.table).Where("? <= ?", bun.Ident(old.until), now).Exists(ctx)
		if err != nil {
			return all, fmt.Errorf("look for expired secrets of %s: %w", old.table, err)
		}
		if !some {
			continue
		}

		q := s.writer().NewUpdate().Table(old.table).Set("? = NULL", bun.Ident(old.until)).
			Where("? <= ?", bun.Ident(old.until), now)
		for _, column := range old.columns {
			q.Set("? = NULL", bun.Ident(column))
		}

		result, err := q.Exec(ctx)
		if err != nil {
			return all, fmt.Errorf("delete expired secrets of %s: %w", old.table, err)
		}

		n, err := result.RowsAffected()
		if all += n; err != nil {
			return all, err
		}
	}

	return all, nil
}
