// Package alerts stores alerts, which last from a beginning to an end, and the channels that get
// them, and reads the figures that decide about alerts. An alert's row and its messages are written
// in one transaction.
//
// It reads figures of sites with a channel that wants them, and a bounded amount for each of them.
package alerts

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// Store reads and changes alerts. It is safe for concurrent use.
type Store struct {
	db     *db.DB
	outbox *outbox.Store
}

// New returns the store of a database's alerts.
func New(d *db.DB) *Store { return &Store{db: d, outbox: outbox.New(d)} }

// Begin stores an alert that begins at now, with its messages. It reports false, and changes
// nothing, if such an alert lasts already, or if its site or sitekey is no longer live in its
// account: deleted, paused, transferred or of a suspended account. Of concurrent calls one returns
// true.
func (s *Store) Begin(ctx context.Context, alert model.Alert, now model.Instant) (began bool, err error) {
	alert.BeganAt, alert.SeenAt, alert.EndedAt = now, now, 0
	alert.Subject = model.Clean(alert.Subject, model.MaxAlertSubject)

	err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		began = false
		if err := lockLive(ctx, tx, &alert); errors.Is(err, model.ErrNotFound) {
			return nil
		} else if err != nil {
			return err
		}

		// A concurrent transaction that has inserted the same alert is waited for.
		var ids []int64
		row := alert
		err := tx.NewInsert().Model(&row).On("CONFLICT DO NOTHING").Returning("id").Scan(ctx, &ids)
		if err != nil || len(ids) == 0 {
			return err
		}

		began, row.ID = true, ids[0]
		return s.outbox.QueueAlert(ctx, tx, &row, model.AlertBegun, now)
	})
	return began && err == nil, db.Wrap(err, "begin the alert %s of site %d", alert.Event, alert.SiteID)
}

// lockLive keeps an alert's account, site and sitekey as they are until the transaction ends. It
// returns model.ErrNotFound if one of them is not live.
func lockLive(ctx context.Context, tx *db.Tx, alert *model.Alert) error {
	if alert.AccountID == 0 {
		return nil
	}

	// SHARE waits for a suspension, transfer or pause that has not been committed.
	if err := tx.TakeTurn(ctx, "accounts"); err != nil {
		return err
	}
	for _, row := range []struct {
		table, owner, live string
		id                 int64
	}{
		{"accounts", "id", "suspended_at = 0", int64(alert.AccountID)},
		{"sites", "account_id", "deleted_at = 0 AND paused_at = 0", int64(alert.SiteID)},
		{"sitekeys", "account_id", "1 = 1", int64(alert.SitekeyID)},
	} {
		if row.id == 0 {
			continue
		}

		var found int64
		q := tx.NewSelect().Table(row.table).Column("id").Where("id = ?", row.id).
			Where("? = ?", bun.Ident(row.owner), alert.AccountID).Where(row.live)
		tx.Lock(q, "SHARE")
		if err := q.Scan(ctx, &found); err != nil {
			return db.OrNotFound(err)
		}
	}
	return nil
}

// See stores that the rules of open alerts hold at now.
func (s *Store) See(ctx context.Context, ids []int64, now model.Instant) error {
	if len(ids) == 0 {
		return nil
	}

	slices.Sort(ids)
	_, err := s.db.Write.NewUpdate().Table("alerts").Set("seen_at = ?", now).Where("id IN ?", bun.Tuple(ids)).
		Where("ended_at = 0").Exec(ctx)
	if err != nil {
		return fmt.Errorf("note that %d alerts last: %w", len(ids), err)
	}
	return nil
}

// End ends an open alert at now, with its messages. It reports false for an alert that has ended or
// was deleted.
func (s *Store) End(ctx context.Context, id int64, now model.Instant) (ended bool, err error) {
	err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		ended = false
		if err := lockAccountOf(ctx, tx, id); err != nil {
			return err
		}

		var alert model.Alert
		q := tx.NewSelect().Model(&alert).Where("id = ?", id).Where("ended_at = 0")
		tx.Lock(q, "UPDATE")
		if err := q.Scan(ctx); errors.Is(db.OrNotFound(err), model.ErrNotFound) {
			return nil
		} else if err != nil {
			return err
		}

		// A clock that was set back ends no alert before its beginning.
		ended, alert.EndedAt = true, max(alert.BeganAt, now)
		if _, err := tx.NewUpdate().Model(&alert).WherePK().Column("ended_at").Exec(ctx); err != nil {
			return err
		}

		return s.outbox.QueueAlert(ctx, tx, &alert, model.AlertEnded, now)
	})
	return ended && err == nil, db.Wrap(err, "end the alert %d", id)
}

// lockAccountOf keeps the account of an alert until the transaction ends. Messages refer to its
// rows, and the order of locks requires the account before them.
func lockAccountOf(ctx context.Context, tx *db.Tx, id int64) error {
	var accounts []int64
	err := tx.NewSelect().Table("alerts").Column("account_id").Where("id = ?", id).Where("account_id IS NOT NULL").
		Scan(ctx, &accounts)
	if err != nil || len(accounts) == 0 {
		return err
	}

	err = tx.LockRowFor(ctx, "KEY SHARE", "accounts", accounts[0])
	if errors.Is(err, model.ErrNotFound) {
		// The alert was deleted with it.
		return nil
	}
	return err
}

// isInstallations is a condition on alerts of the installation, in the order of the index of open
// ones.
const isInstallations = "coalesce(account_id, 0) = 0 AND coalesce(site_id, 0) = 0 AND coalesce(sitekey_id, 0) = 0"

// OpenOfInstallation returns the open alerts of the installation.
func (s *Store) OpenOfInstallation(ctx context.Context) ([]*model.Alert, error) {
	var open []*model.Alert
	err := s.db.Read.NewSelect().Model(&open).Where(isInstallations).Where("ended_at = 0").Order("id").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the installation's alerts: %w", err)
	}
	return open, nil
}

// OpenOfAccounts returns the open alerts of accounts, with those of their sites and sitekeys.
func (s *Store) OpenOfAccounts(ctx context.Context, accountIDs []model.AccountID) ([]*model.Alert, error) {
	if len(accountIDs) == 0 {
		return nil, nil
	}

	var open []*model.Alert
	err := s.db.Read.NewSelect().Model(&open).Where("coalesce(account_id, 0) IN ?", bun.Tuple(accountIDs)).
		Where("ended_at = 0").Order("id").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the alerts of %d accounts: %w", len(accountIDs), err)
	}
	return open, nil
}

// endPage is how many alerts EndOrphans ends with one statement.
const endPage = 500

// EndOrphans ends, without a message, the open alerts that no rule is evaluated for any more: of
// paused and deleted sites, and of accounts that are suspended or have no channel left that wants
// events. A message would say that the traffic is usual again. It returns their number.
func (s *Store) EndOrphans(ctx context.Context, now model.Instant) (all int64, err error) {
	for {
		var ids []int64
		err := s.db.Read.NewRaw(`
SELECT a.id FROM alerts a
LEFT JOIN sites s ON s.id = a.site_id LEFT JOIN accounts c ON c.id = a.account_id
WHERE a.ended_at = 0 AND (s.deleted_at > 0 OR s.paused_at > 0 OR c.suspended_at > 0
  OR a.account_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM alert_channels l WHERE l.account_id = a.account_id AND l.events <> '[]'))
LIMIT ?`, endPage).Scan(ctx, &ids)
		if err != nil {
			return all, fmt.Errorf("look for alerts without a rule: %w", err)
		}

		n, err := s.endSilently(ctx, ids, now)
		if all += n; err != nil || len(ids) < endPage {
			return all, err
		}
	}
}

// EndUnwanted ends open alerts without a message, because no channel wants them any more.
func (s *Store) EndUnwanted(ctx context.Context, ids []int64, now model.Instant) (int64, error) {
	return s.endSilently(ctx, ids, now)
}

func (s *Store) endSilently(ctx context.Context, ids []int64, now model.Instant) (int64, error) {
	if len(ids) == 0 {
		return 0, nil
	}

	result, err := s.db.Write.NewUpdate().Table("alerts").
		Set("ended_at = CASE WHEN began_at > ?0 THEN began_at ELSE ?0 END", now).
		Where("id IN ?", bun.Tuple(ids)).Where("ended_at = 0").Exec(ctx)
	if err != nil {
		return 0, fmt.Errorf("end %d alerts: %w", len(ids), err)
	}
	return result.RowsAffected()
}
