package db

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/model"
)

// siteRows are the tables with rows of a site that do not go with the site's own row, each with its
// primary key. The large ones would keep a transaction open for minutes.
var siteRows = []struct{ table, key string }{
	{"pageviews", "site_id, at, id"},
	{"events", "site_id, at, id"},
	{"visits", "site_id, id"},
	{"transactions", "site_id, transaction_id"},
	{"delivery_attempts", "site_id, delivery_id, n"},
	{"deliveries", "site_id, id"},
	{"failure_notices", "site_id, day"},
	{"webhook_notices", "site_id, day"},
	{"user_erasures", "id"},
	{"quota_notices", "account_id, site_id, product, month, threshold"},
	{"rejections", "site_id, day, endpoint, code"},
	{"site_usage", "site_id, month"},
}

// accountRows are the tables with rows of an account that do not go with the account's own row.
// They come after it and in this order, which is that of those who write them: a mail is written
// with a lock on its user, a notice of the captcha with one on the month's usage. Of captcha_spent,
// which may be large, nothing is kept for longer than model.SpentRetention anyway: DeleteSpent deletes
// those rows like all others.
var accountRows = []string{"mails", "captcha_usage", "quota_notices"}

// lateHits is how long hits and counts may still arrive for a site that was deleted, from processes
// that have not heard.
const lateHits = time.Hour

// DeleteSite deletes a site of the account for good and returns what it was: from then on its key
// and secret are unknown. Hits and all that belongs to them are deleted by PurgeDeletedSites.
func (d *DB) DeleteSite(ctx context.Context, accountID, siteID int64, now model.Instant) (*model.Site, error) {
	var deleted model.Site
	err := d.changeSite(ctx, accountID, siteID, func(tx *Tx, site *model.Site) error {
		deleted = *site
		return deleteSite(ctx, tx, siteID, now)
	})
	if err != nil {
		return nil, err
	}

	return &deleted, nil
}

func deleteSite(ctx context.Context, tx *Tx, siteID int64, now model.Instant) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO deleted_sites (site_id, deleted_at) VALUES (?, ?)", siteID, now)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM sites WHERE id = ?", siteID)
	return err
}

// deleteSites deletes all sites of an account, which tx has locked, and announces it.
func deleteSites(ctx context.Context, tx *Tx, accountID int64, siteIDs []int64, now model.Instant) error {
	if err := tx.Notify(ctx, SiteChanges, siteIDs...); err != nil {
		return err
	}

	_, err := tx.ExecContext(ctx, "INSERT INTO deleted_sites (site_id, deleted_at) SELECT id, ? FROM sites WHERE account_id = ?", now, accountID)
	if err != nil {
		return err
	}

	_, err = tx.ExecContext(ctx, "DELETE FROM sites WHERE account_id = ?", accountID)
	return err
}

// ErrLastOperator keeps an installation from having accounts and no operator.
var ErrLastOperator = &model.Error{
	Kind: model.Conflict, Code: "last_operator", Message: "This is the installation's only operator, and there are other accounts.",
}

// DeleteAccount deletes the account of one of its users, with its users, sites and all that belongs
// to them; as with DeleteSite, hits follow. The user is as the caller has found them, with the
// password checked: when the password has changed since it is model.ErrNotFound, and for one who
// may not manage the account any more, model.ErrForbidden. The only operator's account stays while
// there are others: ErrLastOperator.
func (d *DB) DeleteAccount(ctx context.Context, by *model.User, now model.Instant) error {
	accountID := by.AccountID
	err := d.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		if err := tx.LockInstallation(ctx); err != nil {
			return err
		}

		// no site may be added after lockIDs
		if err := tx.LockRowFor(ctx, "UPDATE", "accounts", accountID); err != nil {
			return err
		}
		if err := d.mayDelete(ctx, tx, by); err != nil {
			return err
		}

		operates, err := tx.NewSelect().Model((*model.User)(nil)).Where("account_id = ?", accountID).Where("operator").Exists(ctx)
		if err != nil {
			return err
		}

		if operates {
			if err := needOtherOperator(ctx, tx, func(q *bun.SelectQuery) { q.Where("account_id <> ?", accountID) }); err != nil {
				return err
			}
		}

		sites, err := lockIDs(ctx, tx, "sites", accountID)
		if err != nil {
			return err
		}

		sitekeys, err := lockIDs(ctx, tx, "sitekeys", accountID)
		if err != nil {
			return err
		}

		if err := deleteSites(ctx, tx, accountID, sites, now); err != nil {
			return err
		}
		// The sitekeys are deleted with the account's row.
		if err := tx.Notify(ctx, SitekeyChanges, sitekeys...); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM accounts WHERE id = ?", accountID); err != nil {
			return err
		}

		for _, table := range accountRows {
			if _, err := tx.ExecContext(ctx, "DELETE FROM ? WHERE account_id = ?", bun.Ident(table), accountID); err != nil {
				return err
			}
		}

		return nil
	})
	if err != nil {
		return Wrap(err, "delete account %d", accountID)
	}

	return nil
}

// mayDelete looks once more, now that nobody can change the account's members, whether the user may
// delete the account.
func (d *DB) mayDelete(ctx context.Context, tx *Tx, by *model.User) error {
	user, err := lockUser(ctx, tx, "id", by.ID)
	switch {
	case err != nil:
		return err
	case user.PasswordHash != by.PasswordHash:
		return model.ErrNotFound
	case !user.May(model.MayManage, nil):
		return model.ErrForbidden
	}

	return nil
}

// lockIDs locks the rows that an account has in a table, and returns their ids.
func lockIDs(ctx context.Context, tx *Tx, table string, accountID int64) (ids []int64, err error) {
	q := tx.NewSelect().Table(table).Column("id").Where("account_id = ?", accountID).Order("id")
	tx.Lock(q, "NO KEY UPDATE")
	err = q.Scan(ctx, &ids)
	return ids, err
}

// needOtherOperator fails unless an operator is among the other users, or there are no other users.
func needOtherOperator(ctx context.Context, tx *Tx, others func(*bun.SelectQuery)) error {
	count := func(operators bool) (int64, error) {
		q := tx.NewSelect().Model((*model.User)(nil))
		others(q)
		if operators {
			q.Where("operator")
		}
		return q.Count(ctx)
	}

	all, err := count(false)
	if err != nil || all == 0 {
		return err
	}

	operators, err := count(true)
	if err == nil && operators == 0 {
		err = ErrLastOperator
	}

	return err
}

// PurgeDeletedSites deletes the rows that deleted sites have left, in short transactions, until ctx
// ends, and returns how many. A site is looked after for an hour after its deletion, because hits
// may have been on their way.
func (d *DB) PurgeDeletedSites(ctx context.Context, now model.Instant) (int64, error) {
	var deleted []struct {
		SiteID    int64
		DeletedAt model.Instant
	}
	if err := d.Read.NewSelect().Table("deleted_sites").Column("site_id", "deleted_at").Order("site_id").Scan(ctx, &deleted); err != nil {
		return 0, fmt.Errorf("list deleted sites: %w", err)
	}

	var all int64
	for sites := range slices.Chunk(deleted, purgePage) {
		var ids, late []int64
		for _, site := range sites {
			ids = append(ids, site.SiteID)

			if now.Sub(site.DeletedAt) >= lateHits {
				late = append(late, site.SiteID)
			}
		}

		n, err := d.PurgeSites(ctx, ids)
		all += n

		if err != nil {
			return all, err
		}
		if len(late) == 0 {
			continue
		}
		if _, err := d.Write.ExecContext(ctx, "DELETE FROM deleted_sites WHERE site_id IN ?", bun.Tuple(late)); err != nil {
			return all, fmt.Errorf("forget %d deleted sites: %w", len(late), err)
		}
	}

	return all, nil
}

// purgePage is how many sites one statement looks for the rows of.
const purgePage = 500

// PurgeSites is PurgeDeletedSites for some of them, which it does not forget.
func (d *DB) PurgeSites(ctx context.Context, siteIDs []int64) (int64, error) {
	var all int64

	for ids := range slices.Chunk(siteIDs, purgePage) {
		for _, rows := range siteRows {
			left, err := d.sitesWithRows(ctx, rows.table, ids)
			if err != nil {
				return all, err
			}

			for _, id := range left {
				n, err := d.purgeSite(ctx, rows.table, rows.key, id)
				all += n

				if err != nil {
					return all, err
				}
			}
		}
	}

	return all, nil
}

// sitesWithRows returns those of the deleted sites that have rows in a table. They are asked for
// first, all at once, because deleting nothing would make SQLite's writers wait, too.
func (d *DB) sitesWithRows(ctx context.Context, table string, siteIDs []int64) (left []int64, err error) {
	// One look into the table's key for each site: a LIMIT keeps PostgreSQL from joining, which
	// would read the table.
	err = d.Read.NewSelect().Table("deleted_sites").Column("site_id").Where("site_id IN ?", bun.Tuple(siteIDs)).
		Where("(SELECT 1 FROM ? AS r WHERE r.site_id = deleted_sites.site_id LIMIT 1) IS NOT NULL", bun.Ident(table)).Order("site_id").Scan(ctx, &left)
	if err != nil {
		return nil, fmt.Errorf("look for rows of %d deleted sites in %s: %w", len(siteIDs), table, err)
	}
	return left, nil
}

// purgeSite deletes the rows of a deleted site in a table.
func (d *DB) purgeSite(ctx context.Context, table, key string, siteID int64) (int64, error) {
	statement := fmt.Sprintf("DELETE FROM %s WHERE (%s) IN (SELECT %[2]s FROM %[1]s WHERE site_id = ? ORDER BY %[2]s LIMIT %[3]d)",
		table, key, deleteChunk)
	for all := int64(0); ; {
		result, err := d.Write.ExecContext(ctx, statement, siteID)
		if err != nil {
			return all, fmt.Errorf("delete rows of site %d from %s: %w", siteID, table, err)
		}

		n, err := result.RowsAffected()
		if err != nil {
			return all, err
		}
		if all += n; n < deleteChunk {
			return all, nil
		}
	}
}
