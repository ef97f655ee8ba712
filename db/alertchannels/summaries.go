package alertchannels

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// The weekly and monthly summaries that channels of sites get.

// Summary is a due summary of a channel.
type Summary struct {
	ChannelID int64
	SiteID    int64
	Kind      model.ReportMailKind // weekly or monthly
	Day       model.Day
	DueAt     model.Instant
}

// summaryColumns are the columns of each kind.
var summaryColumns = map[model.ReportMailKind]struct{ wanted, day, dueAt string }{
	model.ReportWeekly:  {"weekly", "weekly_day", "weekly_due_at"},
	model.ReportMonthly: {"monthly", "monthly_day", "monthly_due_at"},
}

// DueSummaries returns at most limit due summaries of a kind, longest due first. Channels that get no
// messages, and channels of deleted sites, are left out.
func (s *Store) DueSummaries(
	ctx context.Context, kind model.ReportMailKind, now model.Instant, limit int,
) (due []Summary, err error) {
	columns := summaryColumns[kind]
	err = s.db.Read.NewRaw(fmt.Sprintf(`
SELECT id AS channel_id, site_id, '%s' AS kind, %s AS day, %s AS due_at FROM alert_channels
WHERE %s AND %[3]s <= ? AND confirmed_at > 0 AND stopped_at = 0
AND EXISTS (SELECT 1 FROM sites JOIN accounts ON accounts.id = sites.account_id
  WHERE sites.id = site_id AND sites.deleted_at = 0 AND accounts.suspended_at = 0)
ORDER BY %[3]s, id LIMIT ?`, kind, columns.day, columns.dueAt, columns.wanted), now, limit).Scan(ctx, &due)
	if err != nil {
		return nil, fmt.Errorf("look for due summaries of channels: %w", err)
	}
	return due, nil
}

// FinishSummary sets when a summary is due next and, unless data is nil, queues its message, in one
// transaction. It reports false and does nothing if another process was first, or if the channel gets no such summary any
// more.
func (s *Store) FinishSummary(
	ctx context.Context, was Summary, day model.Day, dueAt model.Instant, data *model.AlertData, now model.Instant,
) (finished bool, err error) {
	columns := summaryColumns[was.Kind]
	err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		result, err := tx.NewUpdate().Table("alert_channels").
			Set("? = ?", bun.Ident(columns.day), day).Set("? = ?", bun.Ident(columns.dueAt), dueAt).
			Where("id = ?", was.ChannelID).Where("? = ?", bun.Ident(columns.dueAt), was.DueAt).
			Where("?", bun.Ident(columns.wanted)).Where("stopped_at = 0").Exec(ctx)
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
			ChannelID: channel.ID, Event: string(was.Kind), Phase: model.AlertOnce, Data: *data, State: model.DeliveryPending,
			CreatedAt: now, NextAttemptAt: channel.Quiet.Until(now),
		}
		_, err = tx.NewInsert().Model(&message).Exec(ctx)
		return err
	})
	return finished, db.Wrap(err, "finish a summary of channel %d", was.ChannelID)
}
