package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// QueueMail stores a mail for the worker to send. It returns an error for an unknown kind.
func (s *Store) QueueMail(ctx context.Context, mail model.Mail) error {
	if err := QueueMails(ctx, s.db.Write, []model.Mail{mail}); err != nil {
		return fmt.Errorf("queue a mail of account %d: %w", mail.AccountID, err)
	}
	return nil
}

// QueueMails is QueueMail for several mails, within a transaction.
func QueueMails(ctx context.Context, tx bun.IDB, mails []model.Mail) error {
	if len(mails) == 0 {
		return nil
	}

	for i := range mails {
		m := &mails[i]
		if _, ok := MailKinds[m.Kind]; !ok {
			return fmt.Errorf("there are no mails of kind %q", m.Kind)
		}
		if m.Data == "" {
			m.Data = model.NoMailData
		}

		m.ID, m.State, m.Attempts, m.NextAttemptAt = 0, model.MailPending, 0, m.CreatedAt
	}

	_, err := tx.NewInsert().Model(&mails).Exec(ctx)
	return err
}

// DueMails returns at most limit due mails, longest due first.
func (s *Store) DueMails(ctx context.Context, now model.Instant, limit int) ([]model.Mail, error) {
	var mails []model.Mail
	err := s.db.Read.NewSelect().Model(&mails).Where("state = 'pending' AND next_attempt_at <= ?", now).
		OrderExpr("next_attempt_at, id").Limit(int64(limit)).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for due mails: %w", err)
	}
	return mails, nil
}

// DueMailCount returns the number of due mails.
func (s *Store) DueMailCount(ctx context.Context, now model.Instant) (int64, error) {
	n, err := s.db.Read.NewSelect().Table("mails").Where("state = 'pending' AND next_attempt_at <= ?", now).Count(ctx)
	if err != nil {
		return 0, fmt.Errorf("count due mails: %w", err)
	}
	return n, nil
}

// LeaseMail begins the next attempt to send a mail and returns the mail; no other process can begin
// one until the lease ends. It returns nil if the mail is not due. It marks the mail as failed, and
// returns nil, if the worker of its last attempt died or if its link has expired.
func (s *Store) LeaseMail(ctx context.Context, id int64, now model.Instant, lease time.Duration) (*model.Mail, error) {
	var mail *model.Mail
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		mail = nil
		var due []model.Mail
		err := mailRows.due(tx, &due, 0, nil, now).Where("id = ?", id).Scan(ctx)
		if err != nil || len(due) == 0 {
			return err
		}

		m := &due[0]
		if m.Attempts >= model.MaxMailAttempts || m.LinkExpired(now) {
			_, err := mailRows.settle(ctx, tx, 0, id, 0, model.MailFailed, 0)
			return err
		}

		m.Attempts++
		m.NextAttemptAt = now.Add(lease)
		if err := mailRows.save(ctx, tx, m, 0, id); err != nil {
			return err
		}

		mail = m
		mail.Account, err = accountName(ctx, tx, m.AccountID)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("lease mail %d: %w", id, err)
	}

	return mail, nil
}

// accountName returns the name of an account; "" for the id 0 and for a deleted account.
func accountName(ctx context.Context, tx *db.Tx, accountID model.AccountID) (string, error) {
	if accountID == 0 {
		return "", nil
	}

	var names []string
	err := tx.NewSelect().Table("accounts").Column("name").Where("id = ?", accountID).Scan(ctx, &names)
	if err != nil || len(names) == 0 {
		return "", err
	}
	return names[0], nil
}

// FinishMail records the State of a leased mail and, if it is pending, its NextAttemptAt. It
// deletes the data of a mail in a final state. It ignores a late result, after another attempt has
// taken over the lease.
func (s *Store) FinishMail(ctx context.Context, m *model.Mail) error {
	_, err := mailRows.settle(ctx, s.db.Write, 0, m.ID, m.Attempts, m.State, m.NextAttemptAt)
	if err != nil {
		return fmt.Errorf("record mail %d: %w", m.ID, err)
	}

	return nil
}

// DeleteUnsentLink deletes an unsent mail with a revoked link.
func DeleteUnsentLink(ctx context.Context, tx *db.Tx, kind string, accountID model.AccountID, recipient string) error {
	_, err := tx.NewDelete().Model((*model.Mail)(nil)).Where("account_id = ?", accountID).
		Where("recipient = ?", recipient).
		Where("kind = ?", kind).Where("state = ?", model.MailPending).Exec(ctx)
	return err
}

// recipient is a user as the receiver of a mail.
type recipient struct {
	Email    string
	Language model.Language
}

var everyRole = []model.Role{model.RoleOwner, model.RoleMember, model.RoleViewer}

// MailUsers queues one mail for each user of the account with one of the roles, except guests.
func MailUsers(
	ctx context.Context, tx *db.Tx, accountID model.AccountID, kind string, data any, now model.Instant, roles ...model.Role,
) error {
	recipients, err := lockRecipients(ctx, tx, accountID, roles)
	if err != nil {
		return err
	}
	return mailTo(ctx, tx, recipients, accountID, kind, data, now)
}

// lockRecipients returns the users of an account with these roles. It locks them until tx ends, so
// that a transaction that deletes them afterwards finds their mails. Its callers hold a notice, a
// delivery or a site already, against the order of locks: they can be chosen as a deadlock's victim
// and run again.
func lockRecipients(
	ctx context.Context, tx *db.Tx, accountID model.AccountID, roles []model.Role,
) (recipients []recipient, err error) {
	q := tx.NewSelect().Table("users").Column("users.email", "users.language").
		Join("JOIN memberships ON memberships.user_id = users.id").
		Where("memberships.account_id = ?", accountID).Where("memberships.role IN ?", bun.Tuple(roles)).Order("users.id")

	tx.Lock(q, "KEY SHARE")
	err = q.Scan(ctx, &recipients)
	return recipients, err
}

// mailTo queues a mail to each of the recipients.
func mailTo(
	ctx context.Context, tx *db.Tx, recipients []recipient, accountID model.AccountID, kind string, data any, now model.Instant,
) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}

	mails := make([]model.Mail, len(recipients))
	for i, to := range recipients {
		mails[i] = model.Mail{AccountID: accountID, Recipient: to.Email, Language: to.Language, Kind: kind,
			Data: string(text), CreatedAt: now}
	}

	return QueueMails(ctx, tx, mails)
}

// MailNotice queues one mail for each user of the account, except guests. It is for mails that an
// account can cause in large numbers: beyond 1,000 a day it drops them.
func MailNotice(ctx context.Context, tx *db.Tx, accountID model.AccountID, kind string, data any, now model.Instant) error {
	// The order of locks requires the account before its users.
	if err := tx.LockAccount(ctx, accountID); err != nil && !errors.Is(err, model.ErrNotFound) {
		return err
	}

	recipients, err := lockRecipients(ctx, tx, accountID, everyRole)
	if err != nil {
		return err
	}
	n, err := countNotices(ctx, tx, accountID, len(recipients), now)
	if err != nil {
		return err
	}
	return mailTo(ctx, tx, recipients[:n], accountID, kind, data, now)
}

// MailMember queues a mail to one user or guest of the account, with the limit of MailNotice. It
// does nothing if the user was removed.
func MailMember(
	ctx context.Context, tx *db.Tx, accountID model.AccountID, userID model.UserID, kind, data string, now model.Instant,
) error {
	// The order of locks requires the account before its users.
	if err := tx.LockAccount(ctx, accountID); err != nil {
		return err
	}

	recipients, err := memberOf(ctx, tx, accountID, userID)
	if err != nil || len(recipients) == 0 {
		return err
	}

	n, err := countNotices(ctx, tx, accountID, 1, now)
	if err != nil || n == 0 {
		return err
	}

	return QueueMails(ctx, tx, []model.Mail{
		{
			AccountID: accountID, Recipient: recipients[0].Email, Language: recipients[0].Language,
			Kind: kind, Data: data, CreatedAt: now,
		},
	})
}

// memberOf returns a user or guest of the account, and locks the user; none if the user was
// removed.
func memberOf(ctx context.Context, tx *db.Tx, accountID model.AccountID, userID model.UserID) (found []recipient, err error) {
	q := tx.NewSelect().Table("users").Column("email", "language").Where("id = ?", userID).
		Where("id IN (SELECT user_id FROM "+db.AllMemberships+" AS m WHERE account_id = ?)", accountID)
	tx.Lock(q, "KEY SHARE")
	err = q.Scan(ctx, &found)
	return found, err
}

// queueFailureMail mails a site's owners that a delivery has finally failed, at most once a day.
func queueFailureMail(ctx context.Context, tx *db.Tx, delivery *model.Delivery, class string, now model.Instant) error {
	result, err := tx.ExecContext(ctx,
		"INSERT INTO failure_notices (site_id, day) VALUES (?, ?) ON CONFLICT DO NOTHING", delivery.SiteID, now.Day())
	if err != nil {
		return err
	}
	if first, err := result.RowsAffected(); err != nil || first == 0 {
		return err
	}

	var site model.Site
	if err := tx.NewSelect().Model(&site).Where("id = ?", delivery.SiteID).Scan(ctx); err != nil {
		if errors.Is(db.OrNotFound(err), model.ErrNotFound) {
			return nil
		}

		return err
	}

	return MailNotice(ctx, tx, site.AccountID, model.MailDeliveryFailed, DeliveryFailedMail{
		MailSite: model.MailSite{Site: site.Domain, SiteID: site.ID}, Kind: delivery.Kind, Event: delivery.Event,
		Attempts: delivery.ScheduledAttempts, Error: class,
	}, now)
}

// personalMails are the kinds of mails to a user that do not belong to one of the user's accounts.
// They are stored with the default account.
var personalMails = []string{
	model.MailPasswordReset, model.MailPasswordChanged, model.MailSecondFactor, model.MailRecoveryCode,
	model.MailOperatorLink, model.MailEmailRequested,
}

// KeepPersonalMails moves the personal mails of users who no longer belong to the account to their
// default account. So a user cannot revoke a notice about the own password by leaving the account.
func KeepPersonalMails(ctx context.Context, tx *db.Tx, accountID model.AccountID) error {
	const memberships = "FROM " + db.AllMemberships + " AS memberships JOIN users ON users.id = memberships.user_id WHERE users.email = mails.recipient"
	_, err := tx.ExecContext(ctx, "UPDATE mails SET account_id = "+
		"(SELECT memberships.account_id "+memberships+" ORDER BY memberships.created_at, memberships.account_id LIMIT 1) "+
		"WHERE account_id = ? AND kind IN ? AND EXISTS (SELECT 1 "+memberships+") "+
		"AND NOT EXISTS (SELECT 1 "+memberships+" AND memberships.account_id = ?)",
		accountID, bun.Tuple(personalMails), accountID)
	return err
}

// DeleteMailsTo deletes the account's mails to an address that no longer belongs to it. Mails of
// alert channels stay: their recipients need not be members, and their number counts for the limits
// of an address.
func DeleteMailsTo(ctx context.Context, tx *db.Tx, accountID model.AccountID, email string) error {
	_, err := tx.NewDelete().Model((*model.Mail)(nil)).Where("account_id = ?", accountID).
		Where("recipient = ?", email).Where("kind NOT IN ?", bun.Tuple([]string{model.MailAlert, model.MailAlertConfirm})).Exec(ctx)
	return err
}

// MailState is the state of the mail server according to the stored mails. A time is 0 without such
// a mail.
type MailState struct {
	LastSent   model.Instant // when the newest sent mail was queued
	LastFailed model.Instant // when the newest mail was queued that was given up
	Retrying   int64         // mails with a failed attempt that are sent again
}

// MailState reads the state of the mails of the last 30 days. Older mails are deleted.
func (s *Store) MailState(ctx context.Context) (MailState, error) {
	var state MailState
	err := s.db.Read.NewRaw(`
SELECT coalesce((SELECT created_at FROM mails WHERE state = ? ORDER BY id DESC LIMIT 1), 0) AS last_sent,
  coalesce((SELECT created_at FROM mails WHERE state = ? ORDER BY id DESC LIMIT 1), 0) AS last_failed,
  (SELECT count(*) FROM mails WHERE state = 'pending' AND attempts > 0) AS retrying`,
		model.MailSent, model.MailFailed).Scan(ctx, &state)
	if err != nil {
		return state, fmt.Errorf("read the state of mails: %w", err)
	}
	return state, nil
}
