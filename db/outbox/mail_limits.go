package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// Limits of one account's storage and mails. The counters are columns of the account's row, which
// is locked by the transactions that count.

// The mails of one account and UTC day.
const (
	maxInvitationsADay = 100
	maxNoticesADay     = 1_000 // of quotas and failed deliveries, to all members together
)

// CountInvitation counts a mailed invitation of the account, whether or not it is sent. It returns
// the RateLimited error rate_limited if the day's invitations are used up.
func CountInvitation(ctx context.Context, tx *db.Tx, accountID model.AccountID, now model.Instant) error {
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
// the day's limit permits.
func countNotices(ctx context.Context, tx *db.Tx, accountID model.AccountID, n int, now model.Instant) (int, error) {
	sent, err := countMails(ctx, tx, accountID, "notices_mailed", n, now)
	if errors.Is(err, model.ErrNotFound) {
		// The account was deleted, and its members' mails are deleted with them.
		return n, nil
	}
	return max(0, n-max(0, sent-maxNoticesADay)), err
}

// countMails adds n to one of the account's two counters of the day and returns the sum. The
// counters restart at zero on another day, even on an earlier one after the clock was set back.
func countMails(
	ctx context.Context, tx *db.Tx, accountID model.AccountID, counter string, n int, now model.Instant,
) (int, error) {
	day, column := now.Day(), bun.Ident(counter)
	_, err := tx.ExecContext(
		ctx,
		"UPDATE accounts SET mail_day = ?, invitations_mailed = 0, notices_mailed = 0 WHERE id = ? AND mail_day <> ?",
		day, accountID, day,
	)
	if err != nil {
		return 0, err
	}

	var sum int
	err = tx.NewRaw("UPDATE accounts SET ? = ? + ? WHERE id = ? RETURNING ?", column, column, n, accountID, column).
		Scan(ctx, &sum)
	return sum, db.OrNotFound(err)
}

// alertRecipient returns the address and language of a channel's mails. It returns a class of
// failed attempts instead if the mail must not be sent. The limit of an address protects people who
// are no members.
func alertRecipient(
	ctx context.Context, tx *db.Tx, c *Leased, now model.Instant,
) (to recipient, class string, err error) {
	if c.Channel.UserID != 0 {
		found, err := memberOf(ctx, tx, c.Channel.AccountID, c.Channel.UserID)
		if err != nil || len(found) == 0 {
			return to, model.AttemptGone, err
		}
		return found[0], "", nil
	}
	if c.Fault != nil {
		// The attempt counts, so that the message does not block later ones.
		return to, model.AttemptInternal, nil
	}

	recent, err := countMailsTo(ctx, tx, model.MailAlert, c.URL, now)
	if err != nil || recent >= model.MaxAlertMails {
		return to, model.AttemptRateLimited, err
	}
	return recipient{c.URL, c.Channel.Language}, "", nil
}

// countMailsTo returns how many mails of a kind an address was sent in the last 24 hours, by all
// accounts.
func countMailsTo(ctx context.Context, tx *db.Tx, kind, address string, now model.Instant) (int64, error) {
	// The index has a condition on the kind, which PostgreSQL recognises without a parameter.
	q := tx.NewSelect().Table("mails").Where("kind IN ('alert', 'alert_confirm')").Where("kind = ?", kind).
		Where("recipient = ?", address).Where("created_at > ?", now.Add(-model.AlertDay))
	n, err := q.Count(ctx)
	return n, err
}
