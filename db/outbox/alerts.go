package outbox

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// QueueAlert writes one message about an alert for each channel that wants it. The transaction is the
// one that changes the alert's own row, so that no alert is lost or reported twice. The phase is begun,
// ended or once:
//
//   - begun and once: each channel of the account, and of the alert's site, that wants the event gets
//     a message. In its quiet hours the message waits for their end.
//   - ended: each channel that got the beginning gets the end. If the beginning still waits, the one
//     message reports both.
//
// It does not check whether the alert is open. It returns the messages that are due now.
func (s *Store) QueueAlert(
	ctx context.Context, tx *db.Tx, alert *model.Alert, phase model.AlertPhase, now model.Instant,
) ([]model.AlertMessage, error) {
	var messages []model.AlertMessage
	var err error
	if phase == model.AlertEnded {
		messages, err = endAlert(ctx, tx, alert, now)
	} else {
		messages, err = beginAlert(ctx, tx, alert, phase, now)
	}
	if err != nil || len(messages) == 0 {
		return nil, db.Wrap(err, "queue messages of alert %d", alert.ID)
	}

	if _, err := tx.NewInsert().Model(&messages).Exec(ctx); err != nil {
		return nil, fmt.Errorf("queue messages of alert %d: %w", alert.ID, err)
	}
	return slices.DeleteFunc(messages, func(m model.AlertMessage) bool { return m.NextAttemptAt > now }), nil
}

// beginAlert returns the messages about an alert's beginning.
func beginAlert(
	ctx context.Context, tx *db.Tx, alert *model.Alert, phase model.AlertPhase, now model.Instant,
) ([]model.AlertMessage, error) {
	channels, err := alertedChannels(ctx, tx, alert)
	if err != nil || len(channels) == 0 {
		return nil, err
	}

	data, err := alertData(ctx, tx, alert)
	if err != nil {
		return nil, err
	}

	var messages []model.AlertMessage
	for _, channel := range channels {
		free, err := hasRoom(ctx, tx, channel.ID, now)
		if err != nil {
			return nil, err
		}
		if free {
			messages = append(messages, newAlertMessage(&channel, alert, phase, data, now))
		}
	}
	return messages, nil
}

// endAlert returns the messages about an alert's end. It changes messages that wait for the end of quiet
// hours, and have not been attempted, so that they report both.
func endAlert(ctx context.Context, tx *db.Tx, alert *model.Alert, now model.Instant) ([]model.AlertMessage, error) {
	var begun []model.AlertMessage
	q := tx.NewSelect().Model(&begun).Where("alert_id = ?", alert.ID).Where("phase = ?", model.AlertBegun).Order("id")
	tx.Lock(q, "UPDATE")
	if err := q.Scan(ctx); err != nil || len(begun) == 0 {
		return nil, err
	}

	ids := make([]int64, len(begun))
	for i := range begun {
		ids[i] = begun[i].ChannelID
	}
	var channels []model.AlertChannel
	if err := tx.NewSelect().Model(&channels).Where("id IN ?", bun.Tuple(ids)).Scan(ctx); err != nil {
		return nil, err
	}

	data, err := alertData(ctx, tx, alert)
	if err != nil {
		return nil, err
	}

	var messages []model.AlertMessage
	for _, m := range begun {
		if m.State == model.DeliveryPending && m.Attempts == 0 && m.NextAttemptAt > now {
			m.Phase, m.Data = model.AlertBoth, data
			if _, err := tx.NewUpdate().Model(&m).WherePK().Column("phase", "data").Exec(ctx); err != nil {
				return nil, err
			}
			continue
		}

		of := slices.IndexFunc(channels, func(c model.AlertChannel) bool { return c.ID == m.ChannelID })
		if of >= 0 && channels[of].Receives() {
			messages = append(messages, newAlertMessage(&channels[of], alert, model.AlertEnded, data, now))
		}
	}
	return messages, nil
}

// newAlertMessage returns a message that is due when the channel's quiet hours end.
func newAlertMessage(
	channel *model.AlertChannel, alert *model.Alert, phase model.AlertPhase, data model.AlertData, now model.Instant,
) model.AlertMessage {
	return model.AlertMessage{
		ChannelID: channel.ID, AlertID: alert.ID, Event: string(alert.Event), Phase: phase, Data: data,
		State: model.DeliveryPending, CreatedAt: now, NextAttemptAt: channel.Quiet.Until(now),
	}
}

// alertedChannels returns the channels that get messages about an alert's beginning.
func alertedChannels(ctx context.Context, tx *db.Tx, alert *model.Alert) ([]model.AlertChannel, error) {
	var channels []model.AlertChannel
	q := tx.NewSelect().Model(&channels).Where("confirmed_at > 0").Where("stopped_at = 0").Order("id")

	if alert.Event.OfInstallation() {
		// Operators can lose their role after they made a channel.
		q.Where("site_id IS NULL").Where("created_by IN (SELECT id FROM users WHERE operator)")
	} else {
		q.Where("account_id = ?", alert.AccountID).Where("(site_id IS NULL OR site_id = ?)", alert.SiteID)
	}
	if err := q.Scan(ctx); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(channels, func(c model.AlertChannel) bool { return !c.Wants(alert.Event) }), nil
}

// hasRoom reports whether a channel may get another message, see model.MaxChannelMessages.
func hasRoom(ctx context.Context, tx *db.Tx, channelID int64, now model.Instant) (bool, error) {
	// A channel has few more messages, because only ends of alerts are not counted.
	var recent []int64
	err := tx.NewSelect().Table("alert_messages").Column("created_at").Where("channel_id = ?", channelID).
		OrderExpr("id DESC").Limit(model.MaxChannelMessages).Scan(ctx, &recent)
	if err != nil || len(recent) < model.MaxChannelMessages {
		return err == nil, err
	}
	return model.Instant(recent[len(recent)-1]) <= now.Add(-model.AlertDay), nil
}

// alertData returns what messages report about an alert. The names are empty for deleted objects.
func alertData(ctx context.Context, tx *db.Tx, alert *model.Alert) (model.AlertData, error) {
	data := model.AlertData{
		Subject: model.Clean(alert.Subject, model.MaxAlertSubject), BeganAt: alert.BeganAt, EndedAt: alert.EndedAt,
		Figures: alert.Details, SitekeyID: alert.SitekeyID,
	}
	data.SiteID = alert.SiteID

	for _, of := range []struct {
		table, column string
		id            int64
		to            *string
	}{
		{"accounts", "name", alert.AccountID, &data.Account},
		{"sites", "domain", alert.SiteID, &data.Site},
		{"sitekeys", "name", alert.SitekeyID, &data.Sitekey},
	} {
		var names []string
		if of.id == 0 {
			continue
		}
		err := tx.NewSelect().Table(of.table).Column(of.column).Where("id = ?", of.id).Scan(ctx, &names)
		if err != nil {
			return data, err
		}
		if len(names) > 0 {
			*of.to = names[0]
		}
	}
	return data, nil
}
