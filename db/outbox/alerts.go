package outbox

import (
	"context"
	"fmt"
	"slices"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// QueueAlert writes one message about an alert for each channel that wants it. The transaction is
// the one that changes the alert's own row, so that no alert is lost or reported twice. The phase
// is begun, ended or once:
//
//   - begun and once: each channel of the account, and of the alert's site, that wants the event gets
//     a message. In its quiet hours the message waits for their end.
//   - ended: each channel that got the beginning gets the end. If the beginning still waits, also for
//     another attempt, the one message reports both. If it has failed for good, there is no end.
//
// It does not check whether the alert is open.
func (s *Store) QueueAlert(
	ctx context.Context, tx *db.Tx, alert *model.Alert, phase model.AlertPhase, now model.Instant,
) error {
	var messages []model.AlertMessage
	var err error
	if phase == model.AlertEnded {
		messages, err = endAlert(ctx, tx, alert, now)
	} else {
		messages, err = beginAlert(ctx, tx, alert, phase, now)
	}
	if err != nil || len(messages) == 0 {
		return db.Wrap(err, "queue messages of alert %d", alert.ID)
	}

	if _, err := tx.NewInsert().Model(&messages).Exec(ctx); err != nil {
		return fmt.Errorf("queue messages of alert %d: %w", alert.ID, err)
	}
	return nil
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
		} else if err := dropMessage(ctx, tx, newAlertMessage(&channel, alert, phase, data, now), now); err != nil {
			return nil, err
		}
	}
	return messages, nil
}

// dropMessage stores a message beyond the limit as failed, so that members see the limit: at most
// one for each channel in model.DroppedEvery. Its next attempt is at 0.
func dropMessage(ctx context.Context, tx *db.Tx, m model.AlertMessage, now model.Instant) error {
	recent, err := tx.NewSelect().Table("alert_messages").Where("channel_id = ?", m.ChannelID).
		Where("next_attempt_at = 0").Where("created_at > ?", now.Add(-model.DroppedEvery)).Exists(ctx)
	if err != nil || recent {
		return err
	}

	m.State, m.Attempts, m.ScheduledAttempts, m.NextAttemptAt = model.DeliveryFailed, 1, 1, 0
	if _, err := tx.NewInsert().Model(&m).Exec(ctx); err != nil {
		return err
	}
	return messageRows.addAttempt(ctx, tx, m.ChannelID, m.Delivery(), false, model.AttemptRateLimited, now)
}

// endAlert returns the messages about an alert's end. It changes beginnings that wait, for the end
// of quiet hours or for another attempt, so that they report both.
func endAlert(ctx context.Context, tx *db.Tx, alert *model.Alert, now model.Instant) ([]model.AlertMessage, error) {
	// The order of locks requires the channels first.
	var channels []model.AlertChannel
	q := tx.NewSelect().Model(&channels).Order("id").
		Where("id IN (SELECT channel_id FROM alert_messages WHERE alert_id = ?)", alert.ID)
	tx.Lock(q, "KEY SHARE")
	if err := q.Scan(ctx); err != nil || len(channels) == 0 {
		return nil, err
	}

	var begun []model.AlertMessage
	q = tx.NewSelect().Model(&begun).Where("alert_id = ?", alert.ID).Where("phase = ?", model.AlertBegun).Order("id")
	tx.Lock(q, "UPDATE")
	if err := q.Scan(ctx); err != nil || len(begun) == 0 {
		return nil, err
	}

	data, err := alertData(ctx, tx, alert)
	if err != nil {
		return nil, err
	}

	var messages []model.AlertMessage
	for _, m := range begun {
		isDelivered := m.State == model.DeliveryDelivered || m.ResumeState == model.DeliveryDelivered
		isLeased := m.State == model.DeliveryPending && m.LeasedUntil != 0
		if m.State == model.DeliveryPending && !isDelivered && !isLeased {
			if err := reportBoth(ctx, tx, &m, data); err != nil {
				return nil, err
			}
			continue
		}

		of := slices.IndexFunc(channels, func(c model.AlertChannel) bool { return c.ID == m.ChannelID })
		if of < 0 || !channels[of].Receives() || !isDelivered && !isLeased {
			continue
		}
		ended := newAlertMessage(&channels[of], alert, model.AlertEnded, data, now)
		if isLeased {
			// If the attempt fails, dropEnd deletes this message before it is due.
			ended.NextAttemptAt = max(ended.NextAttemptAt, channels[of].Quiet.Until(m.LeasedUntil))
		}
		messages = append(messages, ended)
	}
	return messages, nil
}

// reportBoth makes the message about an alert's beginning report its end as well.
func reportBoth(ctx context.Context, tx *db.Tx, m *model.AlertMessage, data model.AlertData) error {
	m.Phase, m.Data = model.AlertBoth, data
	_, err := tx.NewUpdate().Model(m).WherePK().Column("phase", "data").Exec(ctx)
	return err
}

// dropEnd deletes the message about an alert's end that was written during a failed attempt of its
// beginning. If another attempt follows, it reports both.
func dropEnd(ctx context.Context, tx *db.Tx, begun *model.AlertMessage, state string) error {
	if begun.Phase != model.AlertBegun || begun.AlertID == 0 || state == model.DeliveryDelivered {
		return nil
	}

	var ended []model.AlertMessage
	q := tx.NewSelect().Model(&ended).Where("alert_id = ?", begun.AlertID).Where("channel_id = ?", begun.ChannelID).
		Where("phase = ?", model.AlertEnded).Where("state = ?", model.DeliveryPending).Where("tries = 0").Order("id")
	tx.Lock(q, "UPDATE")
	if err := q.Scan(ctx); err != nil || len(ended) == 0 {
		return err
	}

	if state == model.DeliveryPending {
		if err := reportBoth(ctx, tx, begun, ended[0].Data); err != nil {
			return err
		}
	}
	_, err := tx.NewDelete().Table("alert_messages").Where("id = ?", ended[0].ID).Exec(ctx)
	return err
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
		// Operators can lose their role after they changed a channel.
		q.Where("site_id IS NULL").Where("operator_id IN (SELECT id FROM users WHERE operator)")
	} else {
		q.Where("account_id = ?", alert.AccountID).Where("(site_id IS NULL OR site_id = ?)", alert.SiteID)
	}
	tx.Lock(q, "KEY SHARE")
	if err := q.Scan(ctx); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(channels, func(c model.AlertChannel) bool { return !c.Wants(alert.Event) }), nil
}

// hasRoom reports whether a channel may get a message about another alert, see
// model.MaxChannelMessages.
func hasRoom(ctx context.Context, tx *db.Tx, channelID int64, now model.Instant) (bool, error) {
	// Dropped messages do not count, and neither do tests, summaries and the ends of alerts.
	var recent []int64
	err := tx.NewSelect().Table("alert_messages").Column("created_at").Where("channel_id = ?", channelID).
		Where("next_attempt_at > 0").Where("alert_id IS NOT NULL").Where("phase <> ?", model.AlertEnded).OrderExpr("id DESC").Limit(model.MaxChannelMessages).Scan(ctx, &recent)
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
		{"accounts", "name", int64(alert.AccountID), &data.Account},
		{"sites", "domain", int64(alert.SiteID), &data.Site},
		{"sitekeys", "name", int64(alert.SitekeyID), &data.Sitekey},
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
