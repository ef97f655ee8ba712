package accounts

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/sites"
)

// accountRows are the tables with rows of an account that do not go with the account's own row.
// They come after it and in this order, which is that of those who write them: a mail is written
// with a lock on its user, a notice of the captcha with one on the month's usage. Of captcha_spent,
// which may be large, nothing is kept for longer than model.SpentRetention anyway: DeleteSpent deletes
// those rows like all others.
var accountRows = []string{"mails", "captcha_usage", "quota_notices"}

// ErrLastOperator keeps an installation from having accounts and no operator.
var ErrLastOperator = &model.Error{
	Kind: model.Conflict, Code: "last_operator", Message: "This is the installation's only operator, and there are other accounts.",
}

// DeleteAccount deletes the account of one of its users, with its users, sites and all that belongs
// to them; as with DeleteSite, hits follow. The user is as the caller has found them, with the
// password checked: when the password has changed since it is model.ErrStale, and for one who
// may not manage the account any more, model.ErrForbidden. The only operator's account stays while
// there are others: ErrLastOperator.
func (s *Store) DeleteAccount(ctx context.Context, by *model.User, now model.Instant) error {
	accountID := by.AccountID
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockInstallation(ctx); err != nil {
			return err
		}

		// no site may be added after lockIDs
		if err := tx.LockRowFor(ctx, "UPDATE", "accounts", accountID); err != nil {
			return err
		}
		if err := s.mayDelete(ctx, tx, by); err != nil {
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

		siteIDs, err := lockIDs(ctx, tx, "sites", accountID)
		if err != nil {
			return err
		}

		sitekeyIDs, err := lockIDs(ctx, tx, "sitekeys", accountID)
		if err != nil {
			return err
		}

		if err := sites.DeleteAll(ctx, tx, accountID, siteIDs, now); err != nil {
			return err
		}
		// The sitekeys are deleted with the account's row.
		if err := tx.Notify(ctx, db.SitekeyChanges, sitekeyIDs...); err != nil {
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
		return db.Wrap(err, "delete account %d", accountID)
	}

	return nil
}

// mayDelete looks once more, now that nobody can change the account's members, whether the user may
// delete the account.
func (s *Store) mayDelete(ctx context.Context, tx *db.Tx, by *model.User) error {
	user, err := lockUnchanged(ctx, tx, by.ID, by.PasswordHash)
	switch {
	case err != nil:
		return err
	case !user.May(model.MayManage, nil):
		return model.ErrForbidden
	}

	return nil
}

// lockIDs locks the rows that an account has in a table, and returns their ids.
func lockIDs(ctx context.Context, tx *db.Tx, table string, accountID int64) (ids []int64, err error) {
	q := tx.NewSelect().Table(table).Column("id").Where("account_id = ?", accountID).Order("id")
	tx.Lock(q, "NO KEY UPDATE")
	err = q.Scan(ctx, &ids)
	return ids, err
}

// needOtherOperator fails unless an operator is among the other users, or there are no other users.
func needOtherOperator(ctx context.Context, tx *db.Tx, others func(*bun.SelectQuery)) error {
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
