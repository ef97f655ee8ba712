package cells

import (
	"context"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/watch"
)

// ErrSlotsSQLite is returned for a change of slots on SQLite.
var ErrSlotsSQLite = errors.New("SQLite has one writer; slots need PostgreSQL")

// usageRow is a row of site_usage. The leases are those of a new row: the next batch makes others.
type usageRow struct {
	bun.BaseModel `bun:"table:site_usage"`

	SiteID  int64       `bun:",notnull"`
	Month   model.Month `bun:",notnull"`
	Slot    int16       `bun:",notnull"`
	Used    int64       `bun:",notnull"`
	Reports int64       `bun:",notnull"`
	Reached int16       `bun:",notnull"`
	Noted   int16       `bun:",notnull"`
}

// SetSlots divides the usage of a site into slots, 1 to model.MaxUsageSlots, so that as many writers can
// store its hits at once. It takes milliseconds, during which the site's hits wait. It fails with
// db.ErrSiteMoving near the end of a move to another cell.
//
// It is one transaction, which locks the cell's usage table until the batches in progress have ended. A
// batch, an erasure or another transaction that waits meanwhile reads the new number of slots and the new
// rows after its wait. The rows are deleted and inserted again, so that none of before can be locked.
func (s *Store) SetSlots(ctx context.Context, siteID int64, slots int) error {
	if !s.db.IsPostgres() {
		return ErrSlotsSQLite
	}
	if slots < 1 || slots > model.MaxUsageSlots {
		return fmt.Errorf("a site has 1 to %d slots", model.MaxUsageSlots)
	}

	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		// It excludes the steps of a move, and other changes of the slots.
		if err := tx.LockCellOf(ctx, siteID); err != nil {
			return err
		}
		var site model.Site
		if err := tx.NewSelect().Model(&site).Where("id = ?", siteID).Scan(ctx); err != nil {
			return db.OrNotFound(err)
		}
		switch {
		case site.CellClosed:
			return db.ErrSiteMoving
		case int(site.UsageSlots) == slots:
			return nil
		}

		if _, err := tx.ExecContext(ctx, "UPDATE sites SET usage_slots = ? WHERE id = ?", slots, siteID); err != nil {
			return err
		}

		in, err := tx.EnterCell(ctx, site.Cell)
		if err != nil {
			return err
		}
		if err := divideUsage(ctx, in, siteID, slots); err != nil {
			return err
		}
		return tx.Notify(ctx, watch.Sites, siteID)
	})
	return db.Wrap(err, "set the slots of site %d", siteID)
}

// divideUsage replaces the usage rows of a site by those of a number of slots.
func divideUsage(ctx context.Context, tx *db.CellTx, siteID int64, slots int) error {
	if _, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = ?", usageLockWait.Milliseconds()); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "LOCK TABLE site_usage IN EXCLUSIVE MODE"); err != nil {
		return err
	}

	var before []usageRow
	err := tx.NewSelect().Model(&before).Where("site_id = ?", siteID).Order("month", "slot").Scan(ctx)
	if err != nil || len(before) == 0 {
		return err
	}
	if _, err := tx.NewDelete().Model((*usageRow)(nil)).Where("site_id = ?", siteID).Exec(ctx); err != nil {
		return err
	}

	var after []usageRow
	for len(before) > 0 {
		sum, n := before[0], 1
		for ; n < len(before) && before[n].Month == sum.Month; n++ {
			sum.Used += before[n].Used
			sum.Reports += before[n].Reports
			sum.Reached = max(sum.Reached, before[n].Reached)
			sum.Noted = max(sum.Noted, before[n].Noted)
		}
		after = append(after, divide(sum, slots)...)
		before = before[n:]
	}

	_, err = tx.NewInsert().Model(&after).Exec(ctx)
	return err
}

// divide returns the rows of a month's slots with equal shares of its counts. The first one has the
// thresholds of the quota.
func divide(sum usageRow, slots int) []usageRow {
	rows := make([]usageRow, slots)
	for i := range rows {
		rows[i] = usageRow{
			SiteID: sum.SiteID, Month: sum.Month, Slot: int16(i),
			Used: share(sum.Used, slots, i), Reports: share(sum.Reports, slots, i),
		}
	}
	rows[0].Reached, rows[0].Noted = sum.Reached, sum.Noted
	return rows
}

// share returns the i-th of n almost equal shares of a count.
func share(count int64, n, i int) int64 {
	part := count / int64(n)
	if int64(i) < count%int64(n) {
		part++
	}
	return part
}
