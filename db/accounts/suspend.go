package accounts

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/outbox"
)

// ErrOperatorsAccount prevents suspending the account of the only operator.
var ErrOperatorsAccount = &model.Error{
	Kind: model.Conflict, Code: "last_operator", Field: "accountId",
	Message: "The installation's only operator belongs to this account.",
}

// Suspend suspends an account, for a reason that its users see: its sites and sitekeys refuse
// calls, its deliveries wait, and its users can change nothing. Its owners get a mail. A repeated
// call changes only the reason, and sends no mail. Suspend returns the account. The caller must
// have checked that the user is an operator. It fails with ErrOperatorsAccount if all operators
// belong to the account.
func (s *Store) Suspend(ctx context.Context, accountID model.AccountID, reason string, now model.Instant) (*model.Account, error) {
	reason, err := model.ParseReason("reason", reason)
	if err != nil {
		return nil, err
	}

	return s.changeSuspension(ctx, accountID, true, reason, now)
}

// Resume ends the suspension of an account, if it is suspended, and mails its owners.
func (s *Store) Resume(ctx context.Context, accountID model.AccountID, now model.Instant) (*model.Account, error) {
	return s.changeSuspension(ctx, accountID, false, "", now)
}

// suspendOrResume sets the suspension of a locked account, and mails its owners if that is new.
func suspendOrResume(
	ctx context.Context, tx *db.Tx, account *model.Account, suspend bool, reason string, now model.Instant,
) error {
	if suspend {
		if err := mayBeSuspended(ctx, tx, account.ID); err != nil {
			return err
		}
	}

	was := account.SuspendedAt != 0
	account.SuspensionReason = reason
	switch {
	case suspend == was:
		return nil
	case suspend:
		account.SuspendedAt = now
		data := outbox.SuspendedMail{At: now, Reason: reason}
		return outbox.MailUsers(ctx, tx, account.ID, model.MailSuspended, data, now, model.RoleOwner)
	}

	account.SuspendedAt = 0
	return outbox.MailUsers(ctx, tx, account.ID, model.MailResumed, struct{}{}, now, model.RoleOwner)
}

// changeSuspension changes the suspension of an account in a transaction, and notifies the watchers
// of its sites and sitekeys.
func (s *Store) changeSuspension(
	ctx context.Context, accountID model.AccountID, suspend bool, reason string, now model.Instant,
) (*model.Account, error) {
	var account *model.Account
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		// mayBeSuspended needs this lock, so that an operator remains outside of the account.
		if err := tx.LockInstallation(ctx); err != nil {
			return err
		}
		if account, err = lockAccount(ctx, tx, accountID); err != nil {
			return err
		}

		before := suspensionValues(account)
		if err := suspendOrResume(ctx, tx, account, suspend, reason, now); err != nil {
			return err
		}

		_, err = tx.NewUpdate().Model(account).Column("suspended_at", "suspension_reason").WherePK().Exec(ctx)
		if err != nil {
			return err
		}

		err = audit.Write(ctx, tx, audit.Change{
			AccountID: accountID, ByOperator: true,
			Object: audit.Object{Kind: nodeid.Account, ID: int64(accountID), Name: account.Name},
			Before: before, After: suspensionValues(account),
		})
		if err != nil {
			return err
		}

		return notifyAll(ctx, tx, accountID)
	})
	if err != nil {
		return nil, db.Wrap(err, "change the suspension of account %d", accountID)
	}

	return account, nil
}

func suspensionValues(a *model.Account) audit.Values {
	return audit.Values{"suspended": a.SuspendedAt != 0, "suspensionReason": a.SuspensionReason}
}

// notifyAll notifies the watchers of all sites and sitekeys of an account. No other process adds
// any meanwhile, because tx has locked the account's row.
func notifyAll(ctx context.Context, tx *db.Tx, accountID model.AccountID) error {
	const query = "SELECT id FROM ? WHERE account_id = ? ORDER BY id"
	var sites []model.SiteID
	if err := tx.NewRaw(query, bun.Ident("sites"), accountID).Scan(ctx, &sites); err != nil {
		return err
	}
	if err := tx.NotifySites(ctx, sites...); err != nil {
		return err
	}

	var sitekeys []model.SitekeyID
	if err := tx.NewRaw(query, bun.Ident("sitekeys"), accountID).Scan(ctx, &sitekeys); err != nil {
		return err
	}
	return tx.NotifySitekeys(ctx, sitekeys...)
}

// mayBeSuspended fails if all operators belong to the account. tx must hold the installation's
// lock.
func mayBeSuspended(ctx context.Context, tx *db.Tx, accountID model.AccountID) error {
	others, err := tx.NewSelect().Table("users").Where("operator").
		Where("id NOT IN (SELECT user_id FROM memberships WHERE account_id = ?)", accountID).Exists(ctx)
	if err == nil && !others {
		err = ErrOperatorsAccount
	}

	return err
}
