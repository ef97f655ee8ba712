package accounts

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
	"github.com/tallygate/tallygate/db/sites"
)

// accountRows are the tables that refer to an account without a foreign key that deletes their
// rows. DeleteAccount empties them after it deleted the account's row, in this order. It is the
// lock order of their writers: a mail is written under a lock on its user, a captcha quota notice
// under a lock on the month's usage, and an entry of the audit log, with the idempotency key of its
// call after it, under a lock on its object. The
// table of consumed challenges and tokens is not listed because it may be large: DeleteConsumed of
// package retention deletes its rows within model.ConsumedRetention.
var accountRows = []string{
	"identities", "mails", "captcha_usage", "quota_notices", "audit_log", "idempotency_keys", "account_moves",
}

// ErrLastOperator prevents removing the only operator while the installation has other accounts.
var ErrLastOperator = &model.Error{
	Kind: model.Conflict, Code: "last_operator",
	Message: "This is the installation's only operator, and there are other accounts.",
}

// DeleteAccount deletes the account that a user was reached through, with its sites and everything
// that belongs to them, and with the users that belong to no other account. Hits are deleted later,
// as with DeleteSite. The caller must have read the user and checked the password. It fails with
// model.ErrStale when the password has changed since, with model.ErrForbidden when the user no
// longer has the right to manage the account, and with ErrLastOperator if it would delete the only
// operator while there are other users.
func (s *Store) DeleteAccount(ctx context.Context, by *model.User, now model.Instant) error {
	accountID := by.AccountID
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.LockInstallation(ctx); err != nil {
			return err
		}

		if err := tx.LockMoveOf(ctx, accountID); err != nil {
			return err
		}

		// Lock the account so that no site can be added after lockIDs.
		if err := tx.LockRowFor(ctx, "UPDATE", "accounts", int64(accountID)); err != nil {
			return err
		}
		if err := mayDelete(ctx, tx, by); err != nil {
			return err
		}

		return deleteAccount(ctx, tx, accountID, now)
	})
	return db.Wrap(err, "delete account %d", accountID)
}

// mayDelete locks the account's users, and checks again that the user has the right to delete the
// account, and that the installation keeps an operator.
func mayDelete(ctx context.Context, tx *db.Tx, by *model.User) error {
	var locked []int64

	// In the order of ids, so that two transactions never wait for each other.
	users := tx.NewSelect().Model((*model.User)(nil)).Column("id").
		Where("id IN (SELECT user_id FROM "+db.AllMemberships+" AS m WHERE account_id = ?)", by.AccountID).Order("id")
	tx.Lock(users, "UPDATE")
	if err := users.Scan(ctx, &locked); err != nil {
		return err
	}

	if _, err := lockOwner(ctx, tx, by); err != nil {
		return err
	}

	operates, err := tx.NewSelect().Table("users").Where(onlyMembers, by.AccountID, by.AccountID).Where("operator").
		Exists(ctx)
	if err != nil || !operates {
		return err
	}

	return needOtherOperator(ctx, tx, "NOT ("+onlyMembers+")", by.AccountID, by.AccountID)
}

// onlyMembers is the condition of the users that belong to an account, given twice, and to no other
// one.
const onlyMembers = "users.id IN (SELECT user_id FROM " + db.AllMemberships + " AS m WHERE account_id = ?) AND " +
	"NOT EXISTS (SELECT 1 FROM " + db.AllMemberships + " AS other WHERE other.user_id = users.id AND other.account_id <> ?)"

// deleteAccount deletes an account with everything that belongs to it. The rows of the account and
// its users must be locked. It notifies the watchers of its sites and sitekeys.
func deleteAccount(ctx context.Context, tx *db.Tx, accountID model.AccountID, now model.Instant) error {
	siteIDs, err := lockIDs[model.SiteID](ctx, tx, "sites", accountID)
	if err != nil {
		return err
	}
	sitekeyIDs, err := lockIDs[model.SitekeyID](ctx, tx, "sitekeys", accountID)
	if err != nil {
		return err
	}

	if err := sites.DeleteAll(ctx, tx, accountID, siteIDs, now); err != nil {
		return err
	}

	// The sitekeys are deleted with the account's row.
	if err := tx.NotifySitekeys(ctx, sitekeyIDs...); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM users WHERE "+onlyMembers, accountID, accountID); err != nil {
		return err
	}
	cell, err := keepClaims(ctx, tx, accountID)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM accounts WHERE id = ?", accountID); err != nil {
		return err
	}
	if err := outbox.KeepPersonalMails(ctx, tx, accountID); err != nil {
		return err
	}

	if err := deleteMoved(ctx, tx, accountID); err != nil {
		return err
	}
	in, err := tx.EnterCell(ctx, cell)
	if err != nil {
		return err
	}
	for _, table := range accountRows {
		_, err := in.ExecContext(ctx, "DELETE FROM ? WHERE account_id = ?", bun.Ident(table), accountID)
		if err != nil {
			return err
		}
	}

	return nil
}

// keepClaims returns the cell of an account that is being deleted. It records the cell if another
// account has sitekeys that still claim challenges and tokens under the account's number.
func keepClaims(ctx context.Context, tx *db.Tx, accountID model.AccountID) (cell int64, err error) {
	if err := tx.NewSelect().Table("accounts").Column("cell").Where("id = ?", accountID).Scan(ctx, &cell); err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx, `
INSERT INTO claim_spaces (id, cell)
SELECT ?0, ?1 WHERE EXISTS (SELECT 1 FROM sitekeys WHERE claim_space = ?0 AND account_id <> ?0)`, accountID, cell)
	return cell, err
}

// deleteMoved deletes the usage in both cells of a move of the account.
func deleteMoved(ctx context.Context, tx *db.Tx, accountID model.AccountID) error {
	var cells []int64
	err := tx.NewSelect().Table("cells").Column("cells.id").
		Join("JOIN account_moves AS m ON cells.id IN (m.from_cell, m.to_cell)").Where("m.account_id = ?", accountID).
		Scan(ctx, &cells)
	if err != nil {
		return err
	}

	for _, cell := range cells {
		in, err := tx.EnterCell(ctx, cell)
		if err != nil {
			return err
		}
		if _, err := in.ExecContext(ctx, "DELETE FROM captcha_usage WHERE account_id = ?", accountID); err != nil {
			return err
		}
	}
	return nil
}

// lockIDs locks the account's rows in a table, and returns their ids.
func lockIDs[ID ~int64](ctx context.Context, tx *db.Tx, table string, accountID model.AccountID) (ids []ID, err error) {
	if err := tx.TakeTurn(ctx, table); err != nil {
		return nil, err
	}

	q := tx.NewSelect().Table(table).Column("id").Where("account_id = ?", accountID).Order("id")
	tx.Lock(q, "NO KEY UPDATE")
	err = q.Scan(ctx, &ids)
	return ids, err
}

// needOtherOperator fails if there are other users, whom a condition selects, but no operator among
// them.
func needOtherOperator(ctx context.Context, tx *db.Tx, others string, args ...any) error {
	all, err := tx.NewSelect().Table("users").Where(others, args...).Count(ctx)
	if err != nil || all == 0 {
		return err
	}

	operators, err := tx.NewSelect().Table("users").Where(others, args...).Where("operator").Count(ctx)
	if err == nil && operators == 0 {
		err = ErrLastOperator
	}
	return err
}
