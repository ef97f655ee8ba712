package sites

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// Every change of a sitekey notifies the watchers (see WatchSitekeys), so that every process
// rejects an old secret or binding within seconds. A sitekey of another account is
// model.ErrNotFound.

// CreateSitekey creates a sitekey for the account, bound to the domains (normalised, see
// model.ParseDomain; without any it is not bound). It returns the sitekey with its secret, which is
// not stored and cannot be read again. It fails with the Conflict too_many_sitekeys beyond
// model.MaxSitekeys.
func (s *Sitekeys) CreateSitekey(
	ctx context.Context, accountID model.AccountID, name string, domains []string, now model.Instant,
) (*model.Sitekey, string, error) {
	return s.CreateSitekeyAs(ctx, accountID, model.NewSitekey(), name, domains, now)
}

// CreateSitekeyAs is CreateSitekey with a public text that the sitekey had in another installation.
// It fails with the Conflict sitekey_taken if this installation has it.
func (s *Sitekeys) CreateSitekeyAs(
	ctx context.Context, accountID model.AccountID, sitekey, name string, domains []string, now model.Instant,
) (*model.Sitekey, string, error) {
	key := model.Sitekey{AccountID: accountID, Sitekey: sitekey, CreatedAt: now}
	if !model.IsSitekey(sitekey) {
		return nil, "", model.InvalidField("sitekey", "invalid_sitekey",
			"A sitekey is svck_ and 24 letters and digits.")
	}
	if err := describeSitekey(&key, &name, &domains); err != nil {
		return nil, "", err
	}

	secret := giveSecret(&key)

	err := s.inTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockAccount(ctx, accountID); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(&key).Exec(ctx); err != nil {
			return err
		}
		if err := atMost(ctx, tx, "sitekeys", accountID, model.MaxSitekeys, "too_many_sitekeys"); err != nil {
			return err
		}

		if err := auditSitekey(ctx, tx, &key, nil, sitekeyValues(&key)); err != nil {
			return err
		}

		return tx.NotifySitekeys(ctx, key.ID)
	})
	if db.IsUnique(err) {
		// Secrets are random, so the public text is the duplicate.
		return nil, "", &model.Error{Kind: model.Conflict, Code: "sitekey_taken", Field: "sitekey", Cause: err,
			Message: "Another account has this sitekey."}
	}
	if err != nil {
		return nil, "", db.Wrap(err, "create sitekey of account %d", accountID)
	}

	return &key, secret, nil
}

// SitekeyUpdate holds what to change. A nil field is left unchanged.
type SitekeyUpdate struct {
	Name    *string
	Domains *[]string // the whole list, normalised; at most model.MaxSitekeyDomains
}

// UpdateSitekey changes all that u holds or, when some of it is refused, nothing. It reports every
// wrong field, as joined errors, and returns the changed sitekey.
func (s *Sitekeys) UpdateSitekey(ctx context.Context, accountID model.AccountID, id model.SitekeyID, u SitekeyUpdate) (*model.Sitekey, error) {
	return s.changeSitekey(ctx, accountID, id, func(tx *db.Tx, key *model.Sitekey) error {
		before := sitekeyValues(key)
		if err := describeSitekey(key, u.Name, u.Domains); err != nil {
			return err
		}
		if _, err := tx.NewUpdate().Model(key).WherePK().Column("name", "domains").Exec(ctx); err != nil {
			return err
		}
		return auditSitekey(ctx, tx, key, before, sitekeyValues(key))
	})
}

// DeleteSitekey deletes a sitekey with its counts. Its tokens become invalid. A count that is
// flushed later expires with the others of its day.
func (s *Sitekeys) DeleteSitekey(ctx context.Context, accountID model.AccountID, id model.SitekeyID) error {
	_, err := s.changeSitekey(ctx, accountID, id, func(tx *db.Tx, key *model.Sitekey) error {
		if _, err := tx.NewDelete().Model(key).WherePK().Exec(ctx); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM captcha_counts WHERE sitekey_id = ?", id); err != nil {
			return err
		}
		return auditSitekey(ctx, tx, key, sitekeyValues(key), nil)
	})
	return err
}

// changeSitekey runs a change in a transaction that locks the sitekey's row, and notifies the
// watchers.
func (s *Sitekeys) changeSitekey(
	ctx context.Context, accountID model.AccountID, id model.SitekeyID, change func(tx *db.Tx, key *model.Sitekey) error,
) (*model.Sitekey, error) {
	var key model.Sitekey
	err := s.inTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		q := tx.NewSelect().Model(&key).Where("id = ?", id).Where("account_id = ?", accountID)

		tx.Lock(q, "NO KEY UPDATE")
		if err := q.Scan(ctx); err != nil {
			return db.OrNotFound(err)
		}
		if err := change(tx, &key); err != nil {
			return err
		}

		return tx.NotifySitekeys(ctx, id)
	})
	if err != nil {
		return nil, db.Wrap(err, "change sitekey %d", id)
	}

	return &key, nil
}

// describeSitekey checks name and domains and sets those that are not nil.
func describeSitekey(key *model.Sitekey, name *string, domains *[]string) error {
	var nameErr, domainsErr error
	if name != nil {
		key.Name, nameErr = model.ParseName("name", *name)
	}

	if domains != nil {
		key.Domains = slices.Compact(slices.Sorted(slices.Values(*domains)))
		if key.Domains == nil {
			// Store an empty list, not NULL.
			key.Domains = []string{}
		}

		if len(key.Domains) > model.MaxSitekeyDomains {
			domainsErr = &model.Error{Kind: model.Conflict, Code: "too_many_domains", Field: "domains",
				Message: fmt.Sprintf("A sitekey is bound to at most %d domains.", model.MaxSitekeyDomains)}
		}
	}

	return errors.Join(nameErr, domainsErr)
}

// SitekeyByID returns a sitekey of the account, or model.ErrNotFound.
func (s *Sitekeys) SitekeyByID(ctx context.Context, accountID model.AccountID, id model.SitekeyID) (*model.Sitekey, error) {
	return findSitekey(ctx, s.reader(), func(q *bun.SelectQuery) {
		q.Where("account_id = ?", accountID).Where("id = ?", id)
	})
}

// SitekeyByKey returns the sitekey with this public text, or model.ErrNotFound.
func (s *Lookup) SitekeyByKey(ctx context.Context, sitekey string) (*model.Sitekey, error) {
	return findSitekey(ctx, s.db.DataRead, func(q *bun.SelectQuery) {
		q.Where("sitekey = ?", sitekey)
		withAccount(q)
	})
}

// SitekeyBySecret returns the sitekey whose secret or old secret has this hash (see
// model.HashToken), or model.ErrNotFound. The caller must check until when the old one is valid.
func (s *Lookup) SitekeyBySecret(ctx context.Context, hash []byte) (*model.Sitekey, error) {
	return findSitekey(ctx, s.db.DataRead, func(q *bun.SelectQuery) {
		q.Where("secret_hash = ? OR old_secret_hash = ?", hash, hash)
		withAccount(q)
	})
}

// ProbeSitekeys reads one sitekey, if there is any, by the statement of the data plane. It returns
// an error while no challenge could be issued.
func (s *Lookup) ProbeSitekeys(ctx context.Context) error {
	_, err := findSitekey(ctx, s.db.DataRead, func(q *bun.SelectQuery) {
		withAccount(q)
		q.OrderExpr("?TableAlias.id").Limit(1)
	})
	if errors.Is(err, model.ErrNotFound) {
		return nil
	}
	return err
}

// withAccount reads what the data plane needs of the sitekey's account, too.
func withAccount(q *bun.SelectQuery) {
	q.ColumnExpr("?TableColumns").ColumnExpr("a.suspended_at > 0 AS suspended").ColumnExpr("a.cell").
		ColumnExpr(`CASE ?TableAlias.claim_space WHEN 0 THEN a.cell ELSE coalesce(
  (SELECT cell FROM accounts WHERE id = ?TableAlias.claim_space),
  (SELECT cell FROM claim_spaces WHERE id = ?TableAlias.claim_space), a.cell) END AS claim_cell`).
		Join("JOIN accounts AS a ON a.id = ?TableAlias.account_id")
}

// findSitekey returns the sitekey that meets the condition, or model.ErrNotFound.
func findSitekey(ctx context.Context, pool bun.IDB, where func(*bun.SelectQuery)) (*model.Sitekey, error) {
	var key model.Sitekey
	q := pool.NewSelect().Model(&key)
	where(q)

	if err := q.Scan(ctx); err != nil {
		return nil, db.OrNotFound(err)
	}
	return &key, nil
}

// Sitekeys returns at most limit sitekeys of the account in the order of their ids, starting after
// the id after (0 for the first page).
func (s *Sitekeys) Sitekeys(ctx context.Context, accountID model.AccountID, after model.SitekeyID, limit int64) ([]*model.Sitekey, error) {
	var keys []*model.Sitekey
	err := s.reader().NewSelect().Model(&keys).Where("account_id = ?", accountID).Where("id > ?", after).
		Order("id").Limit(limit).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("list sitekeys of account %d: %w", accountID, err)
	}
	return keys, nil
}
