package outbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
)

// Messages to alert channels as the worker sees them. They have the states, leases and attempts of
// deliveries. Their rows are common to all cells, because the channels of an account have no site.

// isHeldChannel is a condition on a channel c: messages of suspended accounts, and of deleted sites
// that can be restored, wait. It is never NULL, so that NOT finds the channels of accounts, which
// have no site.
const isHeldChannel = `(c.account_id IN (SELECT id FROM accounts WHERE suspended_at > 0)
OR c.site_id IS NOT NULL AND c.site_id IN (SELECT id FROM sites WHERE deleted_at > 0))`

// heldChannels selects the channels with held messages, as heldSites does for sites.
const heldChannels = `SELECT c.id FROM sites s JOIN alert_channels c ON c.site_id = s.id WHERE s.deleted_at > 0
UNION ALL SELECT c.id FROM accounts a JOIN alert_channels c ON c.account_id = a.id WHERE a.suspended_at > 0`

// DueChannels returns at most limit channels with due messages, longest due first. The time stands
// for the ID of a message, since it changes with each attempt. Channels that get mails are left
// out: see MailMessages.
func (s *Store) DueChannels(ctx context.Context, now model.Instant, limit int) (due []DueDelivery, err error) {
	err = s.db.Read.NewRaw(`
SELECT 'alert' AS kind, m.channel_id, min(m.next_attempt_at) AS id, min(m.next_attempt_at) AS next_attempt_at
FROM alert_messages m JOIN alert_channels c ON c.id = m.channel_id
WHERE m.state = 'pending' AND m.next_attempt_at <= ? AND c.kind <> ? AND NOT `+isHeldChannel+`
GROUP BY m.channel_id ORDER BY 4, 2 LIMIT ?`, now, model.ChannelEmail, limit).Scan(ctx, &due)
	if err != nil {
		return nil, fmt.Errorf("look for due messages to channels: %w", err)
	}
	return due, nil
}

// channelSource is the lane of a channel.
type channelSource struct {
	line
	store  *Store
	onlyID int64 // of a message; 0: any
}

func (f *channelSource) next(ctx context.Context, except []int64, now model.Instant) (*Leased, error) {
	// The order of locks requires the channel before its messages.
	var channel model.AlertChannel
	locked := f.tx.NewSelect().Model(&channel).ModelTableExpr("alert_channels AS c").ColumnExpr("c.*").
		Where("c.id = ?", f.owner).Where("NOT " + isHeldChannel)
	f.tx.Lock(locked, "KEY SHARE")
	if err := db.OrNotFound(locked.Scan(ctx)); err != nil {
		return nil, ignoreMissing(err)
	}

	var due []model.AlertMessage
	q := f.due(f.tx, &due, f.owner, except, now)
	if f.onlyID != 0 {
		q.Where("id = ?", f.onlyID)
	}
	if err := q.Scan(ctx); err != nil || len(due) == 0 {
		return nil, err
	}
	return &Leased{Delivery: *due[0].Delivery(), Channel: &channel, Message: &due[0]}, nil
}

// prepare opens the channel's address. It makes a message that became due in quiet hours wait for
// their end: one that waited for the end of a suspension can be due at any time. Manual attempts do
// not wait.
func (f *channelSource) prepare(ctx context.Context, c *Leased, _ []int64, now model.Instant) (bool, error) {
	if until := c.afterQuiet(now); until > now && !c.Manual {
		_, err := f.settle(ctx, f.tx, f.owner, c.ID, 0, model.DeliveryPending, until)
		return false, err
	}

	if c.Channel.UserID != 0 {
		return true, nil // a user's own channel follows the user's address
	}

	c.URL, c.Fault = f.store.keys.Open(keys.ChannelAddress(f.owner), c.Channel.Address)
	if c.Fault == nil {
		c.Secret, c.Fault = f.store.keys.Open(keys.ChannelSecret(f.owner), c.Channel.Secret)
	}
	if c.Fault != nil {
		// The attempt must not end as one without an address.
		c.URL = "https://unreadable.invalid"
	}
	return true, nil
}

func (f *channelSource) failed(ctx context.Context, c *Leased, state, _ string, _ model.Instant) error {
	return dropEnd(ctx, f.tx, c.Message, state)
}

// afterQuiet returns the time at, or the end of the channel's quiet hours that contain it. Tests
// ignore them.
func (c *Leased) afterQuiet(at model.Instant) model.Instant {
	if c.Channel == nil || c.Kind == model.DeliveryTest {
		return at
	}
	return c.Channel.Quiet.Until(at)
}

// class returns why an attempt failed, or "".
func (c *Leased) class(r AttemptResult) string {
	if r.Error != "" && c.Channel != nil && c.Channel.Kind.IsGone(r.Status) {
		return model.AttemptGone
	}
	return r.Error
}

// finish records an attempt. A receiver that does not exist any more stops the channel; a delivered
// message resumes it.
func (f *channelSource) finish(ctx context.Context, c *Leased, r AttemptResult, now model.Instant) error {
	// The order of locks requires the channel before its messages.
	if err := f.tx.LockRow(ctx, "alert_channels", f.owner); err != nil {
		return ignoreMissing(err)
	}
	if err := finish(ctx, f, c, r, now); err != nil {
		return err
	}

	if c.class(r) == model.AttemptGone {
		return stopChannel(ctx, f.tx, c.Channel, model.ChannelGone, now)
	}
	if r.Error != "" || c.Channel.StoppedAt == 0 {
		return nil
	}
	_, err := f.tx.NewUpdate().Table("alert_channels").Set("stopped_at = 0, stop_reason = ''").
		Where("id = ?", f.owner).Where("stop_reason = ?", model.ChannelGone).
		Where("address = ?", c.Channel.Address).Exec(ctx)
	return err
}

// RedeliverMessage makes a message due for one manual attempt, whatever its state, as Redeliver
// does for a delivery. The caller has locked the channel.
func RedeliverMessage(
	ctx context.Context, tx *db.Tx, channelID, id int64, now model.Instant,
) (*model.AlertMessage, error) {
	var m model.AlertMessage
	q := tx.NewSelect().Model(&m).Where(messageRows.is(channelID, id))
	tx.Lock(q, "UPDATE")
	if err := q.Scan(ctx); err != nil {
		return nil, db.OrNotFound(err)
	}

	mailed, err := IsMailPending(ctx, tx, m.MailID)
	if err == nil && mailed {
		err = inProgress("alertMessageId", "message")
	}
	if err == nil {
		err = mayRedeliver(m.Delivery(), "alertMessageId", "message", now)
	}
	if err == nil {
		err = messageRows.resume(ctx, tx, channelID, []int64{id}, now)
	}

	m.State, m.NextAttemptAt, m.MailID = model.DeliveryPending, now, 0
	return &m, err
}

// IsMailPending reports whether a message has a mail that is not sent yet. 0 is no mail.
func IsMailPending(ctx context.Context, tx *db.Tx, mailID int64) (bool, error) {
	if mailID == 0 {
		return false, nil
	}
	return tx.NewSelect().Table("mails").Where("id = ?", mailID).Where("state = ?", model.MailPending).Exists(ctx)
}

// stopChannel stops a channel and its pending messages, unless its address was changed since it was
// read.
func stopChannel(
	ctx context.Context, tx *db.Tx, channel *model.AlertChannel, reason string, now model.Instant,
) error {
	result, err := tx.NewUpdate().Table("alert_channels").Set("stopped_at = ?, stop_reason = ?", now, reason).
		Where("id = ?", channel.ID).Where("address = ?", channel.Address).Where("stopped_at = 0").Exec(ctx)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return err
	}
	return FailPendingMessages(ctx, tx, channel.ID)
}

// FailPendingMessages ends the messages of a channel that is stopped, or has another address from
// now on, also those with a mail that is not sent yet.
func FailPendingMessages(ctx context.Context, tx *db.Tx, channelID int64) error {
	mails, err := DeleteQueuedMails(ctx, tx, channelID)
	if err != nil {
		return err
	}

	q := messageRows.end(tx, model.DeliveryFailed, 0).Where("channel_id = ?", channelID)
	if len(mails) == 0 {
		q.Where("state = ?", model.DeliveryPending)
	} else {
		q.Where("(state = ? OR mail_id IN ?)", model.DeliveryPending, bun.Tuple(mails))
	}
	_, err = q.Exec(ctx)
	return err
}

// DeleteQueuedMails deletes the mails of a channel's messages that are not sent yet, and returns
// their ids.
func DeleteQueuedMails(ctx context.Context, tx *db.Tx, channelID int64) (ids []int64, err error) {
	q := tx.NewSelect().Model((*model.Mail)(nil)).Column("id").Where("state = ?", model.MailPending).
		Where("id IN (SELECT mail_id FROM alert_messages WHERE channel_id = ? AND mail_id IS NOT NULL)", channelID).Order("id")
	tx.Lock(q, "UPDATE")
	if err := q.Scan(ctx, &ids); err != nil || len(ids) == 0 {
		return nil, err
	}
	_, err = tx.NewDelete().Model((*model.Mail)(nil)).Where("id IN ?", bun.Tuple(ids)).Exec(ctx)
	return ids, err
}

// mailedAtOnce is how many messages one call of MailMessages turns into mails.
const mailedAtOnce = 200

// MailMessages queues the mails of due messages to e-mail addresses, and returns their number. A
// message to an address that got model.MaxAlertMails in 24 hours fails. The error of one message
// does not keep it from the others.
func (s *Store) MailMessages(ctx context.Context, now model.Instant) (mailed int, failed error) {
	var due []struct {
		AccountID     model.AccountID
		ID, ChannelID int64
	}
	err := s.db.Read.NewRaw(`
SELECT m.id, c.account_id, m.channel_id FROM alert_messages m JOIN alert_channels c ON c.id = m.channel_id
WHERE m.state = 'pending' AND m.next_attempt_at <= ? AND c.kind = ? AND NOT `+isHeldChannel+`
ORDER BY m.next_attempt_at, m.id LIMIT ?`, now, model.ChannelEmail, mailedAtOnce).Scan(ctx, &due)
	if err != nil {
		return 0, fmt.Errorf("look for due messages to e-mail addresses: %w", err)
	}

	for _, m := range due {
		err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
			return s.mailMessage(ctx, tx, m.AccountID, m.ChannelID, m.ID, now)
		})
		if err == nil {
			mailed++
			continue
		}
		if failed = errors.Join(failed, fmt.Errorf("mail message %d: %w", m.ID, err)); ctx.Err() != nil {
			break
		}
	}
	return mailed, failed
}

// mailMessage queues the mail of one message, unless another process was first.
func (s *Store) mailMessage(ctx context.Context, tx *db.Tx, accountID model.AccountID, channelID, id int64, now model.Instant) error {
	// The order of locks requires the account first, and then the channel. The user of an own
	// channel is locked after it: each transaction that deletes such a channel has locked the
	// account.
	if err := tx.LockAccount(ctx, accountID); err != nil {
		return ignoreMissing(err)
	}

	from := &channelSource{line: line{messageRows, tx, channelID}, store: s, onlyID: id}
	c, _, err := take(ctx, from, nil, now)
	if c == nil || err != nil {
		return err
	}
	if c.Channel.AccountID != accountID {
		return nil // its site was transferred to an account that is not locked
	}

	// The mail has attempts of its own, so that this one is final.
	c.LeasedUntil = 0
	class, mailID, err := queueAlertMail(ctx, tx, c, now)
	if err != nil {
		return err
	}
	if err := begin(ctx, from, c, class, now); err != nil {
		return err
	}

	state := model.DeliveryDelivered
	if class != "" {
		state = model.DeliveryFailed
	}
	_, err = from.end(tx, state, 0).Set("mail_id = nullif(?, 0)", mailID).Where(from.is(channelID, id)).Exec(ctx)
	return err
}

// ignoreMissing returns nil for the error of a row that does not exist.
func ignoreMissing(err error) error {
	if errors.Is(err, model.ErrNotFound) {
		return nil
	}
	return err
}

// queueAlertMail queues the mail of a message and returns its id. It returns a class of failed
// attempts instead if the mail must not be sent.
func queueAlertMail(
	ctx context.Context, tx *db.Tx, c *Leased, now model.Instant,
) (class string, id int64, err error) {
	if !c.Channel.Receives() {
		return model.AttemptGone, 0, nil
	}
	to, class, err := alertRecipient(ctx, tx, c, now)
	if class != "" || err != nil {
		return class, 0, err
	}
	if n, err := countNotices(ctx, tx, c.Channel.AccountID, 1, now); err != nil || n == 0 {
		return model.AttemptRateLimited, 0, err
	}

	mail, err := alertMail(c.Channel, c.Message, to, now)
	if err != nil {
		return "", 0, err
	}
	mails := []model.Mail{mail}
	err = QueueMails(ctx, tx, mails)
	return "", mails[0].ID, err
}

// alertMail returns the mail of a message.
func alertMail(
	channel *model.AlertChannel, m *model.AlertMessage, to recipient, now model.Instant,
) (model.Mail, error) {
	kind := model.MailAlert
	if channel.UserID != 0 {
		kind = model.MailOwnAlert
	}
	data, err := json.Marshal(AlertMail{
		AlertData: m.Data, ChannelID: channel.ID, ConfirmedAt: channel.ConfirmedAt, Channel: channel.Name,
		Event: m.Event, Phase: m.Phase,
	})
	return model.Mail{
		AccountID: channel.AccountID, Recipient: to.Email, Language: to.Language, Kind: kind, Data: string(data), CreatedAt: now,
	}, err
}

// QueueAlertConfirm queues the mail that asks the recipient of a new channel to confirm it. It
// returns the RateLimited error rate_limited if the address, or the account, got too many.
func QueueAlertConfirm(
	ctx context.Context, tx *db.Tx, channel *model.AlertChannel, address string, data AlertConfirmMail,
	now model.Instant,
) error {
	if err := CountInvitation(ctx, tx, channel.AccountID, now); err != nil {
		return err
	}
	recent, err := countMailsTo(ctx, tx, model.MailAlertConfirm, address, now)
	if err != nil {
		return err
	}
	if recent >= model.MaxAlertConfirmMails {
		return &model.Error{
			Kind: model.RateLimited, Code: "rate_limited", RetryAfter: model.AlertDay,
			Message: fmt.Sprintf("An address gets at most %d requests to confirm a day.", model.MaxAlertConfirmMails),
		}
	}

	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return QueueMails(ctx, tx, []model.Mail{{
		AccountID: channel.AccountID, Recipient: address, Language: channel.Language, Kind: model.MailAlertConfirm,
		Data: string(text), CreatedAt: now,
	}})
}

// DeleteUnsentConfirm deletes the unsent mail that asks the recipient of a channel to confirm it,
// and not the mails about other channels of the account.
func DeleteUnsentConfirm(ctx context.Context, tx *db.Tx, channel *model.AlertChannel) error {
	var unsent []model.Mail
	err := tx.NewSelect().Model(&unsent).Column("id", "data").Where("account_id = ?", channel.AccountID).
		Where("kind = ?", model.MailAlertConfirm).Where("state = ?", model.MailPending).Order("id").Scan(ctx)
	if err != nil {
		return err
	}

	for _, mail := range unsent {
		var data AlertConfirmMail
		if err := json.Unmarshal([]byte(mail.Data), &data); err != nil {
			return err
		}

		// The channel has only the hash of the link's secret.
		_, token, _ := strings.Cut(data.URL, "#")
		if !bytes.Equal(model.HashToken(token), channel.ConfirmHash) {
			continue
		}
		_, err := tx.NewDelete().Model((*model.Mail)(nil)).Where("id = ?", mail.ID).Where("state = ?", model.MailPending).Exec(ctx)
		if err != nil {
			return err
		}
	}
	return nil
}
