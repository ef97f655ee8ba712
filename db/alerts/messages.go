package alerts

import (
	"context"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/audit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/nodeid"
	"github.com/tallygate/tallygate/db/outbox"
)

// Messages as members read them, and their requests to test a channel and to send a message again.

// testWindow is the time in which tests are counted.
const testWindow = time.Hour

// withMail are the columns of messages. The state of a message that a mail carries is the mail's.
const withMail = `m.id, m.channel_id, m.alert_id, m.event, m.phase, m.data, m.attempts, m.tries, m.claimed_until, m.fallback,
m.created_at, m.mail_id, coalesce(mails.next_attempt_at, m.next_attempt_at) AS next_attempt_at,
CASE mails.state WHEN 'pending' THEN 'pending' WHEN 'sent' THEN 'delivered' WHEN 'failed' THEN 'failed'
WHEN 'skipped' THEN 'failed' ELSE m.state END AS state`

// Messages returns a page of each channel's messages, in the list's order. It runs one statement.
// The caller must have loaded the channels, which checks the right to see them.
func (s *Channels) Messages(
	ctx context.Context, channelIDs []int64, page db.Page,
) (map[int64][]*model.AlertMessage, error) {
	of, err := messageList.Pages(ctx, s.db.Read, channelIDs, page)
	return of, db.Wrap(err, "list messages of %d channels", len(channelIDs))
}

var messageList = outbox.List[model.AlertMessage, int64]{
	Columns: withMail, From: "alert_messages m LEFT JOIN mails ON mails.id = m.mail_id",
	Owner: "m.channel_id", ID: "m.id",
	OwnerOf: func(m *model.AlertMessage) int64 { return m.ChannelID },
}

// Message returns a message to a channel of the account, or model.ErrNotFound.
func (s *Channels) Message(ctx context.Context, accountID model.AccountID, id int64) (*model.AlertMessage, error) {
	var message model.AlertMessage
	err := s.db.Read.NewRaw("SELECT "+withMail+` FROM alert_messages m LEFT JOIN mails ON mails.id = m.mail_id
WHERE m.id = ? AND m.channel_id IN (SELECT id FROM alert_channels WHERE account_id = ? AND `+ofLiveSite+")",
		id, accountID).Scan(ctx, &message)
	if err != nil {
		return nil, db.OrNotFound(err)
	}
	return &message, nil
}

// Test queues a test message to a channel of the account. It ignores quiet hours, and has one
// attempt. It fails with channel_unconfirmed, with channel_stopped for a channel that its recipient
// has stopped, and with the Conflict delivery_in_progress or too_many_tests as a test of a webhook
// does.
func (s *Channels) Test(ctx context.Context, accountID model.AccountID, id int64, now model.Instant) (*model.AlertMessage, error) {
	var message model.AlertMessage
	_, err := s.with(ctx, accountID, id, func(ctx context.Context, tx *db.Tx, channel *model.AlertChannel) error {
		if err := mayReceive(channel, "alertChannelId"); err != nil {
			return err
		}
		if err := mayTest(ctx, tx, id, now); err != nil {
			return err
		}

		message = model.AlertMessage{
			ChannelID: id, Event: model.MessageTest, Phase: model.AlertOnce, State: model.DeliveryPending, CreatedAt: now,
			NextAttemptAt: now,
		}
		if channel.SiteID != 0 {
			message.Data.SiteID = channel.SiteID
			err := tx.NewSelect().Table("sites").Column("domain").Where("id = ?", channel.SiteID).Scan(ctx, &message.Data.Site)
			if err != nil {
				return err
			}
		}
		err := tx.NewSelect().Table("accounts").Column("name").Where("id = ?", accountID).Scan(ctx, &message.Data.Account)
		if err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(&message).Exec(ctx); err != nil {
			return err
		}
		return auditMessage(ctx, tx, accountID, &message)
	})
	if err != nil {
		return nil, err
	}
	return &message, nil
}

// mayReceive fails for a channel that must not get messages. A channel with a removed receiver may
// be tested.
func mayReceive(channel *model.AlertChannel, field string) error {
	switch {
	case channel.ConfirmedAt == 0:
		return model.InvalidField(field, "channel_unconfirmed", "The recipient has not confirmed this channel.")
	case channel.StopReason == model.ChannelRecipient:
		return model.InvalidField(field, "channel_stopped", "The recipient has stopped this channel.")
	}
	return nil
}

// mayTest returns an error while a test of the channel is pending, and after too many tests in an
// hour.
func mayTest(ctx context.Context, tx *db.Tx, channelID int64, now model.Instant) error {
	var recent []model.AlertMessage
	err := tx.NewSelect().Model(&recent).Column("state", "created_at", "mail_id").Where("channel_id = ?", channelID).
		Where("event = ?", model.MessageTest).OrderExpr("id DESC").Limit(model.MaxTestsPerHour).Scan(ctx)
	if err != nil || len(recent) == 0 {
		return err
	}

	mailed, err := outbox.IsMailPending(ctx, tx, recent[0].MailID)
	if err != nil {
		return err
	}
	if mailed || recent[0].State == model.DeliveryPending {
		return &model.Error{Kind: model.Conflict, Code: "delivery_in_progress", Field: "alertChannelId",
			Message: "A test of this channel is being sent right now."}
	}

	if len(recent) == model.MaxTestsPerHour && recent[len(recent)-1].CreatedAt > now.Add(-testWindow) {
		return &model.Error{Kind: model.Conflict, Code: "too_many_tests", Field: "alertChannelId",
			Message: fmt.Sprintf("A channel has at most %d tests an hour. Try again later.", model.MaxTestsPerHour)}
	}
	return nil
}

// Redeliver schedules one manual attempt of a message at once, whatever its state, as the
// redelivery of a delivery does.
func (s *Channels) Redeliver(
	ctx context.Context, accountID model.AccountID, channelID, id int64, now model.Instant,
) (*model.AlertMessage, error) {
	var message *model.AlertMessage
	_, err := s.with(ctx, accountID, channelID, func(ctx context.Context, tx *db.Tx, channel *model.AlertChannel) error {
		err := mayReceive(channel, "alertMessageId")
		if err == nil {
			message, err = outbox.RedeliverMessage(ctx, tx, channelID, id, now)
		}
		if err != nil {
			return err
		}
		return auditMessage(ctx, tx, accountID, message)
	})
	if err != nil {
		return nil, err
	}
	return message, nil
}

// auditMessage records that a caller requested a message.
func auditMessage(ctx context.Context, tx *db.Tx, accountID model.AccountID, m *model.AlertMessage) error {
	return audit.Write(ctx, tx, audit.Change{
		AccountID: accountID, Object: audit.Object{Kind: nodeid.AlertMessage, ID: m.ID, Name: m.Event},
		After: audit.Values{"event": m.Event},
	})
}
