package outbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/keys"
	"github.com/tallygate/tallygate/db/model"
)

// Messages to alert channels as the worker sees them. They have the states, leases and attempts of
// deliveries. Their rows are common to all cells, because the channels of an account have no site.

// DueChannel is a channel with due messages.
type DueChannel struct {
	ChannelID     int64
	NextAttemptAt model.Instant // of its longest due message
}

// heldChannels is a condition on a channel c: messages of suspended accounts, and of deleted sites that can
// be restored, wait. It is never NULL, so that NOT finds the channels of accounts, which have no site.
const heldChannels = `(c.account_id IN (SELECT id FROM accounts WHERE suspended_at > 0)
OR c.site_id IS NOT NULL AND c.site_id IN (SELECT id FROM sites WHERE deleted_at > 0))`

// DueChannels returns at most limit channels with due messages, longest due first. Channels that get mails
// are left out: see MailMessages.
func (s *Store) DueChannels(ctx context.Context, now model.Instant, limit int) (due []DueChannel, err error) {
	err = s.db.Read.NewRaw(`
SELECT m.channel_id, min(m.next_attempt_at) AS next_attempt_at
FROM alert_messages m JOIN alert_channels c ON c.id = m.channel_id
WHERE m.state = 'pending' AND m.next_attempt_at <= ? AND c.kind <> ? AND NOT `+heldChannels+`
GROUP BY m.channel_id ORDER BY 2, 1 LIMIT ?`, now, model.ChannelEmail, limit).Scan(ctx, &due)
	if err != nil {
		return nil, fmt.Errorf("look for due messages to channels: %w", err)
	}
	return due, nil
}

// messageBacklog is DeliveryBacklog for messages to channels.
func (s *Store) messageBacklog(ctx context.Context, now model.Instant) (backlog Backlog, err error) {
	err = s.db.Read.NewRaw(`
SELECT count(*) AS pending, coalesce(sum(CASE WHEN w.next_attempt_at <= ?0 THEN 1 ELSE 0 END), 0) AS due,
coalesce(min(CASE WHEN w.next_attempt_at <= ?0 THEN w.next_attempt_at END), 0) AS oldest
FROM (SELECT channel_id, next_attempt_at FROM alert_messages WHERE state = 'pending' ORDER BY next_attempt_at LIMIT ?1) w
JOIN alert_channels c ON c.id = w.channel_id WHERE NOT `+heldChannels, now, maxBacklog).Scan(ctx, &backlog)
	if err != nil {
		return Backlog{}, fmt.Errorf("count pending messages to channels: %w", err)
	}
	return backlog, nil
}

// leaseMessage is LeaseDelivery for a channel.
func (s *Store) leaseMessage(
	ctx context.Context, ids *model.NodeIDs, channelID int64, except []int64, now model.Instant, lease time.Duration,
) (*Leased, error) {
	for {
		var leased *Leased
		again := false
		err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
			var err error
			leased, again, err = s.leaseNextMessage(ctx, tx, channelID, except, now, lease)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("lease a message to channel %d: %w", channelID, err)
		}

		if leased != nil {
			leased.MessageID = ids.Of(model.NodeAlertMessage, leased.ID)
		}
		if !again {
			return leased, nil
		}
	}
}

// leaseNextMessage leases a due message to a channel, or returns nil. again reports that it ended a
// message instead.
func (s *Store) leaseNextMessage(
	ctx context.Context, tx *db.Tx, channelID int64, except []int64, now model.Instant, lease time.Duration,
) (_ *Leased, again bool, _ error) {
	var channel model.AlertChannel
	q := tx.NewSelect().Model(&channel).ModelTableExpr("alert_channels AS c").ColumnExpr("c.*").
		Where("c.id = ?", channelID).Where("NOT " + heldChannels)
	tx.Lock(q, "KEY SHARE")
	if err := q.Scan(ctx); err != nil {
		return nil, false, ignoreNotFound(err)
	}

	var due []model.AlertMessage
	q = tx.NewSelect().Model(&due).Where("channel_id = ? AND state = 'pending' AND next_attempt_at <= ?", channelID, now).
		OrderExpr("next_attempt_at, id").Limit(1)
	if len(except) > 0 {
		q.Where("id NOT IN ?", bun.Tuple(except))
	}
	tx.Lock(q, "UPDATE SKIP LOCKED")
	if err := q.Scan(ctx); err != nil || len(due) == 0 {
		return nil, false, err
	}

	m := &due[0]
	if died := m.LeasedUntil != 0; died &&
		(m.ResumeState != "" || m.ScheduledAttempts >= model.AttemptsOf(m.Delivery().Kind)) {
		return nil, true, failMessage(ctx, tx, &channel, m, m.Attempts, model.AttemptUnfinished, 0, now)
	}
	if postponed, err := postpone(ctx, tx, &channel, m, now); postponed || err != nil {
		return nil, postponed, err
	}

	leased := &Leased{Manual: m.ResumeState != "", Channel: &channel, Message: m}
	leased.URL, leased.Fault = s.keys.OpenChannel(keys.ChannelAddress, channelID, channel.Address)
	if leased.Fault == nil {
		leased.Secret, leased.Fault = s.keys.OpenChannel(keys.ChannelSecret, channelID, channel.Secret)
	}
	if leased.Fault != nil {
		// The attempt must not end as one without an address.
		leased.URL = "https://unreadable.invalid"
	}

	// The delivery keeps the counts from before the attempt, see failMessage.
	m.Attempts++
	if !leased.Manual {
		m.ScheduledAttempts++
	}
	m.LeasedUntil = now.Add(lease)
	m.NextAttemptAt = m.LeasedUntil
	leased.Delivery = *m.Delivery()

	if err := beginAttempt(ctx, tx, m, leased.Manual, model.AttemptUnfinished, now); err != nil {
		return nil, false, err
	}
	return leased, false, nil
}

// postpone makes a message that became due in quiet hours wait for their end. A message that waited for the end
// of a suspension can be due at any time. Tests and manual attempts do not wait.
func postpone(
	ctx context.Context, tx *db.Tx, channel *model.AlertChannel, m *model.AlertMessage, now model.Instant,
) (bool, error) {
	until := channel.Quiet.Until(now)
	if until <= now || m.Event == model.MessageTest || m.ResumeState != "" {
		return false, nil
	}
	_, err := tx.NewUpdate().Table("alert_messages").Set("next_attempt_at = ?, claimed_until = 0", until).
		Where("id = ?", m.ID).Exec(ctx)
	return err == nil, err
}

// ignoreNotFound returns nil for the error of a row that does not exist.
func ignoreNotFound(err error) error {
	if errors.Is(db.OrNotFound(err), model.ErrNotFound) {
		return nil
	}
	return err
}

// beginAttempt stores the counts of a message and its new attempt.
func beginAttempt(
	ctx context.Context, tx *db.Tx, m *model.AlertMessage, manual bool, class string, now model.Instant,
) error {
	_, err := tx.NewUpdate().Model(m).WherePK().
		Column("state", "tries", "attempts", "claimed_until", "fallback", "next_attempt_at", "mail_id").Exec(ctx)
	if err != nil {
		return err
	}

	attempt := model.AlertAttempt{MessageID: m.ID, N: m.Attempts, Manual: manual, At: now, Error: class}
	_, err = tx.NewInsert().Model(&attempt).Exec(ctx)
	return err
}

// finishMessage is FinishAttempt for a message to a channel. A receiver that does not exist any more stops
// the channel; a delivered message resumes it.
func (s *Store) finishMessage(ctx context.Context, c *Leased, r AttemptResult, now model.Instant) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		// The order of locks requires the channel before its messages.
		if err := tx.LockRow(ctx, "alert_channels", c.Channel.ID); err != nil {
			return ignoreMissing(err)
		}

		_, err := tx.NewUpdate().Table("alert_attempts").
			Set("duration_ms = ?, status = ?, error = ?, answer = ?", r.Duration.Milliseconds(), r.Status, r.Error,
				model.Clean(r.Answer, model.MaxAnswer)).
			Where("message_id = ? AND n = ?", c.ID, c.Attempts).Exec(ctx)
		if err != nil {
			return err
		}

		if r.Error != "" {
			class := r.Error
			if c.Channel.Kind.IsGone(r.Status) {
				class = model.AttemptGone
			}
			if err := failMessage(ctx, tx, c.Channel, c.Message, c.Attempts, class, r.RetryAfter, now); err != nil {
				return err
			}
			if class == model.AttemptGone {
				return stopChannel(ctx, tx, c.Channel, model.ChannelGone, now)
			}
			return nil
		}

		// No condition on the lease: the receiver has the message.
		_, err = tx.NewUpdate().Table("alert_messages").
			Set("state = ?, claimed_until = 0, fallback = ''", model.DeliveryDelivered).Where("id = ?", c.ID).Exec(ctx)
		if err != nil || c.Channel.StoppedAt == 0 {
			return err
		}
		_, err = tx.NewUpdate().Table("alert_channels").Set("stopped_at = 0, stop_reason = ''").
			Where("id = ?", c.Channel.ID).Where("stop_reason = ?", model.ChannelGone).
			Where("address = ?", c.Channel.Address).Exec(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("record attempt %d of message %d: %w", c.Attempts, c.ID, err)
	}
	return nil
}

// failMessage records the failure of a message's given attempt, unless another attempt has begun since. The
// next attempt is outside of quiet hours.
func failMessage(
	ctx context.Context, tx *db.Tx, channel *model.AlertChannel, m *model.AlertMessage, attempt int32, class string,
	retryAfter time.Duration, now model.Instant,
) error {
	state, next := m.Delivery().AfterFailure(class, retryAfter, now)
	if state == model.DeliveryPending && m.Event != model.MessageTest {
		next = channel.Quiet.Until(next)
	}

	result, err := tx.NewUpdate().Table("alert_messages").
		Set("state = ?, next_attempt_at = ?, claimed_until = 0, fallback = ''", state, next).
		Where("id = ? AND tries = ? AND state = 'pending'", m.ID, attempt).Exec(ctx)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return err
	}
	return dropEnd(ctx, tx, m, state)
}

// stopChannel stops a channel and its pending messages, unless its address was changed since it was read.
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

// FailPendingMessages ends the messages of a channel that is stopped, or has another address from now on, also those
// with a mail that is not sent yet.
func FailPendingMessages(ctx context.Context, tx *db.Tx, channelID int64) error {
	mails, err := DeleteQueuedMails(ctx, tx, channelID)
	if err != nil {
		return err
	}

	q := tx.NewUpdate().Table("alert_messages").Set("state = ?, claimed_until = 0, fallback = ''", model.DeliveryFailed).
		Where("channel_id = ?", channelID)
	if len(mails) == 0 {
		q.Where("state = ?", model.DeliveryPending)
	} else {
		q.Where("(state = ? OR mail_id IN ?)", model.DeliveryPending, bun.Tuple(mails))
	}
	_, err = q.Exec(ctx)
	return err
}

// DeleteQueuedMails deletes the mails of a channel's messages that are not sent yet, and returns their ids.
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

// MailMessages queues the mails of due messages to e-mail addresses, and returns their number. A message
// to an address that got model.MaxAlertMails in 24 hours fails. The error of one message does not keep it from
// the others.
func (s *Store) MailMessages(ctx context.Context, now model.Instant) (mailed int, failed error) {
	var due []struct{ ID, AccountID, ChannelID int64 }
	err := s.db.Read.NewRaw(`
SELECT m.id, c.account_id, m.channel_id FROM alert_messages m JOIN alert_channels c ON c.id = m.channel_id
WHERE m.state = 'pending' AND m.next_attempt_at <= ? AND c.kind = ? AND NOT `+heldChannels+`
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
func (s *Store) mailMessage(ctx context.Context, tx *db.Tx, accountID, channelID, id int64, now model.Instant) error {
	// The order of locks requires the account first, and then the channel.
	if err := tx.LockRow(ctx, "accounts", accountID); err != nil {
		return ignoreMissing(err)
	}
	var channel model.AlertChannel
	locked := tx.NewSelect().Model(&channel).ModelTableExpr("alert_channels AS c").ColumnExpr("c.*").
		Where("c.id = ?", channelID).Where("c.account_id = ?", accountID).Where("NOT " + heldChannels)
	tx.Lock(locked, "KEY SHARE")
	if err := locked.Scan(ctx); err != nil {
		return ignoreNotFound(err)
	}

	var due []model.AlertMessage
	q := tx.NewSelect().Model(&due).Where("id = ? AND state = 'pending' AND next_attempt_at <= ?", id, now)
	tx.Lock(q, "UPDATE SKIP LOCKED")
	if err := q.Scan(ctx); err != nil || len(due) == 0 {
		return err
	}

	m := &due[0]
	if postponed, err := postpone(ctx, tx, &channel, m, now); postponed || err != nil {
		return err
	}
	manual := m.ResumeState != ""
	m.Attempts++
	if !manual {
		m.ScheduledAttempts++
	}
	m.LeasedUntil, m.ResumeState, m.State, m.MailID = 0, "", model.DeliveryFailed, 0

	class, err := s.queueAlertMail(ctx, tx, &channel, m, now)
	if err != nil {
		return err
	}
	if class == "" {
		m.State = model.DeliveryDelivered
	}
	return beginAttempt(ctx, tx, m, manual, class, now)
}

func ignoreMissing(err error) error {
	if errors.Is(err, model.ErrNotFound) {
		return nil
	}
	return err
}

// queueAlertMail queues the mail of a message and sets the message's MailID. It returns a class of failed
// attempts instead if the mail must not be sent.
func (s *Store) queueAlertMail(
	ctx context.Context, tx *db.Tx, channel *model.AlertChannel, m *model.AlertMessage, now model.Instant,
) (class string, err error) {
	if !channel.Receives() {
		return model.AttemptGone, nil
	}
	to, class, err := s.alertRecipient(ctx, tx, channel, now)
	if class != "" || err != nil {
		return class, err
	}
	if n, err := countNotices(ctx, tx, channel.AccountID, 1, now); err != nil || n == 0 {
		return model.AttemptRateLimited, err
	}

	mail, err := alertMail(channel, m, to, now)
	if err != nil {
		return "", err
	}
	mails := []model.Mail{mail}
	if err := QueueMails(ctx, tx, mails); err != nil {
		return "", err
	}
	m.MailID = mails[0].ID
	return "", nil
}

// alertMail returns the mail of a message.
func alertMail(
	channel *model.AlertChannel, m *model.AlertMessage, to recipient, now model.Instant,
) (model.Mail, error) {
	kind := model.MailAlert
	if channel.UserID != 0 {
		kind = model.MailOwnAlert
	}
	data, err := json.Marshal(model.AlertMail{
		AlertData: m.Data, ChannelID: channel.ID, ConfirmedAt: channel.ConfirmedAt, Channel: channel.Name,
		Event: m.Event, Phase: m.Phase,
	})
	return model.Mail{
		AccountID: channel.AccountID, Recipient: to.Email, Language: to.Language, Kind: kind, Data: string(data), CreatedAt: now,
	}, err
}

// QueueAlertConfirm queues the mail that asks the recipient of a new channel to confirm it. It returns the
// RateLimited error rate_limited if the address, or the account, got too many.
func QueueAlertConfirm(
	ctx context.Context, tx *db.Tx, channel *model.AlertChannel, address string, data model.AlertConfirmMail,
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

// DeleteUnsentConfirm deletes the unsent mail that asks the recipient of a channel to confirm it, and not the mails about
// other channels of the account.
func DeleteUnsentConfirm(ctx context.Context, tx *db.Tx, channel *model.AlertChannel) error {
	var unsent []model.Mail
	err := tx.NewSelect().Model(&unsent).Column("id", "data").Where("account_id = ?", channel.AccountID).
		Where("kind = ?", model.MailAlertConfirm).Where("state = ?", model.MailPending).Order("id").Scan(ctx)
	if err != nil {
		return err
	}

	for _, mail := range unsent {
		var data model.AlertConfirmMail
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
