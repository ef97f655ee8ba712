package alerts

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// Planned messages of the channels of sites: summaries of weeks and months, and the messages of
// fixed thresholds. A kind is the event of its messages.

// Kinds are the kinds of planned messages.
var Kinds = []string{model.MessageWeekly, model.MessageMonthly, model.MessageSpike, model.MessageDrop}

// Planned is a planned message of a channel that is due.
type Planned struct {
	ChannelID int64
	SiteID    model.SiteID
	Kind      string
	Threshold int64 // visitors
	DueAt     model.Instant
}

// plannedColumns are SQL of each kind: a condition on channels that want it, its threshold, and the
// time at which it is due.
var plannedColumns = map[string]struct{ wanted, threshold, dueAt string }{
	model.MessageWeekly:  {"weekly", "0", "weekly_due_at"},
	model.MessageMonthly: {"monthly", "0", "monthly_due_at"},
	model.MessageSpike:   {"spike_above IS NOT NULL", "spike_above", "spike_due_at"},
	model.MessageDrop:    {"drop_below IS NOT NULL", "drop_below", "drop_due_at"},
}

const (
	spikeCheck = 5 * time.Minute // pause between two checks for a spike
	dueHour    = 6               // of the site's time zone, at which messages about finished days are due
)

// SpikePause is the pause after a message about a spike.
const SpikePause = 12 * time.Hour

// DueAfter returns when a message of a kind is due next after the time at.
func DueAfter(kind string, at model.Instant, zone *time.Location) model.Instant {
	if kind == model.MessageSpike {
		return at.Add(spikeCheck)
	}

	for day := localDay(at, zone); ; day++ {
		if due := dueOn(day, zone); startsOn(kind, day) && due > at {
			return due
		}
	}
}

// Period returns the first and the last day of the last period that was over and due at a time, as
// days of the site's time zone, and when the message after it is due. So only the last of several
// missed periods is reported. A message that was planned in an earlier time zone of the site can be
// due before dueHour of its day.
func Period(kind string, dueAt, at model.Instant, zone *time.Location) (from, to model.Day, next model.Instant) {
	day, planned := localDay(at, zone), localDay(dueAt, zone)
	for !startsOn(kind, day) || dueOn(day, zone) > at && day != planned {
		day--
	}
	next = DueAfter(kind, max(at, dueOn(day, zone)), zone)

	switch kind {
	case model.MessageWeekly:
		return day - 7, day - 1, next
	case model.MessageMonthly:
		return model.At(day.Start().Time().AddDate(0, -1, 0)).Day(), day - 1, next
	}
	return day - 1, day - 1, next
}

// localDay returns the day of a time zone that contains the time, counted like UTC days.
func localDay(at model.Instant, zone *time.Location) model.Day {
	y, m, d := at.Time().In(zone).Date()
	return model.At(time.Date(y, m, d, 0, 0, 0, 0, time.UTC)).Day()
}

// startsOn reports whether a period of the kind begins on the day, so that the previous period is
// over.
func startsOn(kind string, day model.Day) bool {
	switch date := day.Start().Time(); kind {
	case model.MessageWeekly:
		return date.Weekday() == time.Monday
	case model.MessageMonthly:
		return date.Day() == 1
	}
	return true
}

// dueOn returns when messages about the days before are due: dueHour of the day, or the time that
// stands for it where the zone skips that hour.
func dueOn(day model.Day, zone *time.Location) model.Instant {
	y, m, d := day.Start().Time().Date()
	return model.At(time.Date(y, m, d, dueHour, 0, 0, 0, zone))
}

// schedule sets when the planned messages are due that a channel wants since its change. The others
// keep their time. A channel that its owner resumes gets nothing about the time in which it was
// stopped.
func schedule(channel, was *model.AlertChannel, site *model.Site, now model.Instant) error {
	if site == nil {
		return nil
	}
	zone, err := site.Zone()
	if err != nil {
		return err
	}

	resumed := was.StoppedAt != 0 && channel.StoppedAt == 0
	for _, plan := range []struct {
		kind        string
		wanted, was bool
		dueAt       *model.Instant
	}{
		{model.MessageWeekly, channel.Weekly, was.Weekly, &channel.WeeklyDueAt},
		{model.MessageMonthly, channel.Monthly, was.Monthly, &channel.MonthlyDueAt},
		{model.MessageSpike, channel.SpikeAbove != nil, was.SpikeAbove != nil, &channel.SpikeDueAt},
		{model.MessageDrop, channel.DropBelow != nil, was.DropBelow != nil, &channel.DropDueAt},
	} {
		if plan.wanted && (!plan.was || resumed) {
			*plan.dueAt = DueAfter(plan.kind, now, zone)
		}
	}
	return nil
}

// Due returns at most limit due messages of a kind, longest due first. Channels that get no
// messages, and channels of deleted sites and suspended accounts, are left out.
func (s *Channels) Due(ctx context.Context, kind string, now model.Instant, limit int) (due []Planned, err error) {
	columns := plannedColumns[kind]
	err = s.db.Read.NewRaw(fmt.Sprintf(`
SELECT id AS channel_id, site_id, '%s' AS kind, %s AS threshold, %s AS due_at FROM alert_channels
WHERE %s AND %[3]s <= ? AND confirmed_at > 0 AND stopped_at = 0
AND EXISTS (SELECT 1 FROM sites JOIN accounts ON accounts.id = sites.account_id
  WHERE sites.id = site_id AND sites.deleted_at = 0 AND accounts.suspended_at = 0)
ORDER BY %[3]s, id LIMIT ?`, kind, columns.threshold, columns.dueAt, columns.wanted), now, limit).Scan(ctx, &due)
	if err != nil {
		return nil, fmt.Errorf("look for due messages of channels: %w", err)
	}
	return due, nil
}

// Finish sets when a planned message is due next and, unless data is nil, queues it, in one
// transaction. It reports false and does nothing if another process was first, or if the channel
// does not want the message any more.
func (s *Channels) Finish(
	ctx context.Context, was Planned, dueAt model.Instant, data *model.AlertData, now model.Instant,
) (finished bool, err error) {
	columns := plannedColumns[was.Kind]
	err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		result, err := tx.NewUpdate().Table("alert_channels").Set("? = ?", bun.Ident(columns.dueAt), dueAt).
			Where("id = ?", was.ChannelID).Where("? = ?", bun.Ident(columns.dueAt), was.DueAt).
			Where(columns.wanted).Where("stopped_at = 0").Exec(ctx)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if finished = n > 0; err != nil || !finished || data == nil {
			return err
		}

		var channel model.AlertChannel
		if err := tx.NewSelect().Model(&channel).Where("id = ?", was.ChannelID).Scan(ctx); err != nil {
			return err
		}
		message := model.AlertMessage{
			ChannelID: channel.ID, Event: was.Kind, Phase: model.AlertOnce, Data: *data, State: model.DeliveryPending,
			CreatedAt: now, NextAttemptAt: channel.Quiet.Until(now),
		}
		_, err = tx.NewInsert().Model(&message).Exec(ctx)
		return err
	})
	return finished, db.Wrap(err, "finish a planned message of channel %d", was.ChannelID)
}
