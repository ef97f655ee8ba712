package outbox

import (
	"context"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// AlertOnce stores an alert that does not last, with its messages, in the transaction of the fact
// that it reports. It stores nothing if no channel wants the event, or for a stopped site or a
// suspended account. The transaction must have locked the account.
func (s *Store) AlertOnce(ctx context.Context, tx *db.Tx, alert model.Alert, now model.Instant) error {
	channels, err := alertedChannels(ctx, tx, &alert)
	if err != nil || len(channels) == 0 {
		return err
	}

	if isLive, err := isLive(ctx, tx, &alert); err != nil || !isLive {
		return err
	}

	alert.BeganAt, alert.SeenAt, alert.EndedAt = now, now, now
	alert.Subject = model.Clean(alert.Subject, model.MaxAlertSubject)
	if _, err := tx.NewInsert().Model(&alert).Exec(ctx); err != nil {
		return db.Wrap(err, "store the alert %s of account %d", alert.Event, alert.AccountID)
	}

	return s.QueueAlert(ctx, tx, &alert, model.AlertOnce, now)
}

// isLive reports whether the account of an alert is not suspended, and its site is its own, and
// neither paused nor deleted.
func isLive(ctx context.Context, tx *db.Tx, alert *model.Alert) (bool, error) {
	account, err := tx.NewSelect().Table("accounts").Where("id = ?", alert.AccountID).Where("suspended_at = 0").Exists(ctx)
	if err != nil || !account || alert.SiteID == 0 {
		return account, err
	}
	return tx.NewSelect().Table("sites").Where("id = ?", alert.SiteID).Where("account_id = ?", alert.AccountID).
		Where("deleted_at = 0").Where("paused_at = 0").Exists(ctx)
}
