package sites

import (
	"cmp"
	"context"
	"slices"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
)

// A transfer changes the account of a site or sitekey. Everything that has the site's number
// follows by itself, also hits in flight, whose transactions do not read the account.

// TransferSite moves a site from one account to another, and returns it. The caller must have
// checked that the user is an owner of both. Its limits are those of RestoreSite, in the new
// account. The site keeps its plan. Notices of its quota go with it, so that each is mailed once.
// Own alert channels end for users who do not belong to the new account.
func (s *Sites) TransferSite(
	ctx context.Context, siteID model.SiteID, from, to model.AccountID, anyNumber bool,
) (moved *model.Site, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := lockBoth(ctx, tx, from, to); err != nil {
			return err
		}

		if err := tx.TakeTurn(ctx, "sites"); err != nil {
			return err
		}

		moved = &model.Site{}
		q := tx.NewSelect().Model(moved).Where("id = ?", siteID).Where("account_id = ?", from).Where("deleted_at = 0")
		tx.Lock(q, "NO KEY UPDATE")
		if err := q.Scan(ctx); err != nil {
			return db.OrNotFound(err)
		}

		err := auditTransfer(ctx, tx, audit.Change{Object: siteObject(moved)}, from, to)
		if err != nil || from == to {
			return err
		}

		moved.AccountID = to
		if err := updateColumns(ctx, tx, moved, "account_id"); err != nil {
			return orDomainTaken(err, "siteId")
		}
		if err := maySiteJoin(ctx, tx, moved, anyNumber); err != nil {
			return err
		}
		if err := moveAccountRows(ctx, tx, siteID, from, to); err != nil {
			return err
		}

		return tx.NotifySites(ctx, siteID)
	})
	if err != nil {
		return nil, db.Wrap(err, "transfer site %d", siteID)
	}

	return moved, nil
}

// moveAccountRows changes the rows of a site that depend on its account. Mails that are written
// already go to the users whom they are about.
func moveAccountRows(ctx context.Context, tx *db.Tx, siteID model.SiteID, from, to model.AccountID) error {
	// A notice may have been written for the new account while another transfer was in progress.
	_, err := tx.ExecContext(ctx, `
INSERT INTO quota_notices (account_id, site_id, product, month, threshold, created_at, mailed_at, quota)
SELECT ?, site_id, product, month, threshold, created_at, mailed_at, quota FROM quota_notices
WHERE account_id = ? AND site_id = ?
ON CONFLICT DO NOTHING`, to, from, siteID)
	if err != nil {
		return err
	}

	_, err = tx.ExecContext(ctx, "DELETE FROM quota_notices WHERE account_id = ? AND site_id = ?", from, siteID)
	if err != nil {
		return err
	}

	// The addresses of channels belong to the account that entered them, and its alerts are its
	// own.
	for _, table := range []string{"alert_channels WHERE user_id IS NULL AND", "alerts WHERE"} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" site_id = ?", siteID); err != nil {
			return err
		}
	}

	// Members of both accounts keep what they have chosen.
	const others = " WHERE site_id = ? AND user_id NOT IN (SELECT user_id FROM memberships WHERE account_id = ?)"
	for _, table := range []string{"alert_channels", "report_views", "hidden_notices"} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+others, siteID, to); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, "UPDATE alert_channels SET account_id = ? WHERE site_id = ?", to, siteID)
	return err
}

// TransferSitekey moves a sitekey from one account to another, and returns it. The caller must have
// checked that the user is an owner of both. Consumed challenges and tokens stay where they are,
// see model.Sitekey.Claims, so that none counts twice. It fails with the Conflict too_many_sitekeys
// beyond model.MaxSitekeys.
func (s *Sitekeys) TransferSitekey(ctx context.Context, id model.SitekeyID, from, to model.AccountID) (moved *model.Sitekey, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := lockBoth(ctx, tx, from, to); err != nil {
			return err
		}

		moved = &model.Sitekey{}
		q := tx.NewSelect().Model(moved).Where("id = ?", id).Where("account_id = ?", from)
		tx.Lock(q, "NO KEY UPDATE")
		if err := q.Scan(ctx); err != nil {
			return db.OrNotFound(err)
		}

		object := audit.Object{Kind: nodeid.Sitekey, ID: int64(moved.ID), Name: moved.Name}
		err := auditTransfer(ctx, tx, audit.Change{Object: object}, from, to)
		if err != nil || from == to {
			return err
		}

		moved.ClaimSpace, moved.AccountID = cmp.Or(moved.ClaimSpace, from), to
		if _, err := tx.NewUpdate().Model(moved).WherePK().Column("account_id", "claim_space").Exec(ctx); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM alerts WHERE sitekey_id = ?", id); err != nil {
			return err
		}
		if err := atMost(ctx, tx, "sitekeys", to, model.MaxSitekeys, "too_many_sitekeys"); err != nil {
			return err
		}

		return tx.NotifySitekeys(ctx, id)
	})
	if err != nil {
		return nil, db.Wrap(err, "transfer sitekey %d", id)
	}

	return moved, nil
}

// auditTransfer records a transfer in the logs of both accounts, by the accounts' names.
func auditTransfer(ctx context.Context, tx *db.Tx, change audit.Change, from, to model.AccountID) error {
	names := make(map[model.AccountID]string)
	for _, id := range []model.AccountID{from, to} {
		var name string
		if err := tx.NewSelect().Table("accounts").Column("name").Where("id = ?", id).Scan(ctx, &name); err != nil {
			return err
		}
		names[id] = name
	}

	change.Before, change.After = audit.Values{"account": names[from]}, audit.Values{"account": names[to]}

	for id := range names {
		change.AccountID = id
		if err := audit.Write(ctx, tx, change); err != nil {
			return err
		}
	}

	return nil
}

// lockBoth locks the rows of two accounts, in the same order for all transfers.
func lockBoth(ctx context.Context, tx *db.Tx, from, to model.AccountID) error {
	ids := []model.AccountID{from, to}
	slices.Sort(ids)

	for _, id := range slices.Compact(ids) {
		if err := tx.LockAccount(ctx, id); err != nil {
			return err
		}
	}

	return nil
}
