package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/model"
)

// This file bounds the storage and the mails of one account. The counters are columns of the
// account's row, which the transactions that count have locked.

// CreateOwnersSite is CreateSite for an owner who is not the operator: the account has at most
// model.DefaultSiteLimit sites on the plan of the new one, or as many as the operator permits (see
// SetSiteLimit). Sites that the operator has put on another plan do not count. One more is the
// Conflict too_many_sites.
func (d *DB) CreateOwnersSite(ctx context.Context, site model.Site) (*model.Site, error) {
	return d.createSite(ctx, site, checkSiteLimit)
}

func checkSiteLimit(ctx context.Context, tx *Tx, site *model.Site) error {
	var row struct{ Used, Limit int64 }
	err := tx.NewRaw(`SELECT (SELECT count(*) FROM sites WHERE account_id = ? AND plan = ?) AS used, coalesce(site_limit, ?) AS "limit" FROM accounts WHERE id = ?`,
		site.AccountID, site.Plan, model.DefaultSiteLimit, site.AccountID).Scan(ctx, &row)
	if err == nil && row.Used > row.Limit {
		err = &model.Error{Kind: model.Conflict, Code: "too_many_sites", Message: fmt.Sprintf(
			"This account has at most %d sites on the plan %s. Delete one first, or ask the operator for more.", row.Limit, site.Plan)}
	}

	return err
}

// SetSiteLimit sets how many sites an account may have on the plan of new sites, 1 to
// model.MaxSites. Sites beyond it stay.
func (d *DB) SetSiteLimit(ctx context.Context, accountID, limit int64) error {
	if limit < 1 || limit > model.MaxSites {
		return model.InvalidField("sites", "invalid_volume", fmt.Sprintf("Use a number from 1 to %d.", model.MaxSites))
	}

	res, err := d.Write.ExecContext(ctx, "UPDATE accounts SET site_limit = ? WHERE id = ?", limit, accountID)
	if err != nil {
		return fmt.Errorf("set the site limit of account %d: %w", accountID, err)
	}

	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		err = model.ErrNotFound
	}

	return err
}

// The mails of one account and UTC day.
const (
	maxInvitationsADay = 100
	maxNoticesADay     = 1_000 // of quotas and failed deliveries, to all members together
)

// countInvitation counts a mailed invitation of the account, whatever becomes of it. It is the
// RateLimited rate_limited when the day's are used up.
func countInvitation(ctx context.Context, tx *Tx, accountID int64, now model.Instant) error {
	sent, err := countMails(ctx, tx, accountID, "invitations_mailed", 1, now)
	if err == nil && sent > maxInvitationsADay {
		tomorrow := (now.Day() + 1).Start()
		err = &model.Error{
			Kind: model.RateLimited, Code: "rate_limited", RetryAfter: tomorrow.Sub(now).Round(time.Second),
			Message: fmt.Sprintf("An account sends at most %d invitations a day (UTC).", maxInvitationsADay),
		}
	}

	return err
}

// countNotices counts n mails with a notice to members of the account, and returns how many of them
// may be sent.
func countNotices(ctx context.Context, tx *Tx, accountID int64, n int, now model.Instant) (int, error) {
	sent, err := countMails(ctx, tx, accountID, "notices_mailed", n, now)
	if errors.Is(err, model.ErrNotFound) {
		// the account was deleted; its mails go with its members
		return n, nil
	}
	return max(0, n-max(0, sent-maxNoticesADay)), err
}

// countMails adds n to one of the account's two counters of the day and returns it. Another day,
// also an earlier one after the clock was set back, begins at zero.
func countMails(ctx context.Context, tx *Tx, accountID int64, counter string, n int, now model.Instant) (int, error) {
	day, column := now.Day(), bun.Ident(counter)
	_, err := tx.ExecContext(ctx, "UPDATE accounts SET mail_day = ?, invitations_mailed = 0, notices_mailed = 0 WHERE id = ? AND mail_day <> ?", day, accountID, day)
	if err != nil {
		return 0, err
	}

	var sum int
	err = tx.NewRaw("UPDATE accounts SET ? = ? + ? WHERE id = ? RETURNING ?", column, column, n, accountID, column).Scan(ctx, &sum)
	return sum, OrNotFound(err)
}
