package retention

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// On PostgreSQL an old month is deleted in two steps. First its partition is detached, renamed and
// recorded in detached_partitions, so that no query reads it. After DetachedRetention it is
// dropped; until then Reattach restores it.

// DetachedRetention is how long a detached partition is kept.
const DetachedRetention = 24 * time.Hour

// detached returns the name of a month's partition after it was detached.
func (p partitioned) detached(m model.Month) string { return "detached_" + p.partition(m) }

// detachedPartition is the record of a partition that is detached and not dropped yet.
type detachedPartition struct {
	bun.BaseModel `bun:"table:detached_partitions"`

	TableName  string
	Month      model.Month
	DetachedAt model.Instant
}

// detachPartitions detaches the table's months before the given one, and returns their number.
func (c cell) detachPartitions(
	ctx context.Context, table partitioned, before model.Month, now model.Instant,
) (int64, error) {
	have, err := c.partitions(ctx, table)
	if err != nil {
		return 0, fmt.Errorf("list the partitions of %s: %w", table.name, err)
	}

	var detached int64
	for _, month := range newestFirst(have) {
		if month >= before {
			continue
		}

		err := c.changePartitions(ctx, func(tx *db.CellTx) error { return detachPartition(ctx, tx, table, month, now) })
		if err != nil {
			return detached, fmt.Errorf("detach %s: %w", table.partition(month), err)
		}

		detached++
	}

	return detached, nil
}

// detachPartition detaches a month's partition, unless another process has done so.
func detachPartition(ctx context.Context, tx *db.CellTx, table partitioned, month model.Month, now model.Instant) error {
	have, err := isAttached(ctx, tx, table, month)
	if err != nil || !have {
		return err
	}

	partition, kept := bun.Ident(table.partition(month)), bun.Ident(table.detached(month))
	if _, err := tx.ExecContext(ctx, "ALTER TABLE ? DETACH PARTITION ?", bun.Ident(table.name), partition); err != nil {
		return err
	}

	// A month can be detached twice: late rows create a new partition after the first one was
	// detached.
	recorded, err := tx.NewSelect().Model((*detachedPartition)(nil)).
		Where("table_name = ? AND month = ?", table.name, month).Exists(ctx)
	if err != nil {
		return err
	}

	if recorded {
		if err := mergeInto(ctx, tx, kept, partition); err != nil {
			return err
		}

		_, err := tx.NewUpdate().Model((*detachedPartition)(nil)).Set("detached_at = ?", now).
			Where("table_name = ? AND month = ?", table.name, month).Exec(ctx)

		return err
	}

	if _, err := tx.ExecContext(ctx, "ALTER TABLE ? RENAME TO ?", partition, kept); err != nil {
		return err
	}

	_, err = tx.NewInsert().Model(&detachedPartition{TableName: table.name, Month: month, DetachedAt: now}).Exec(ctx)
	return err
}

// mergeInto copies the rows of the second table that the first one lacks, and drops the second.
func mergeInto(ctx context.Context, tx *db.CellTx, into, from bun.Ident) error {
	if _, err := tx.ExecContext(ctx, "INSERT INTO ? SELECT * FROM ? ON CONFLICT DO NOTHING", into, from); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "DROP TABLE ?", from)
	return err
}

// DropDetached drops the partitions that were detached at least DetachedRetention before now, and
// returns their number. On SQLite it does nothing.
func (s *Store) DropDetached(ctx context.Context, now model.Instant) (int64, error) {
	var dropped int64
	err := s.db.EachCell(ctx, func(in *db.Cell) error {
		n, err := cell{in}.dropDetached(ctx, now)
		dropped += n
		return err
	})
	return dropped, err
}

// dropDetached is DropDetached for one cell.
func (c cell) dropDetached(ctx context.Context, now model.Instant) (int64, error) {
	var dropped int64
	for _, table := range c.partitionedTables() {
		months, err := c.detachedMonths(ctx, table, now.Add(-DetachedRetention))
		if err != nil {
			return dropped, err
		}

		for _, month := range months {
			err := c.changePartitions(ctx, func(tx *db.CellTx) error {
				// Another process may have dropped it. Then the name could mean another cell's
				// table.
				recorded, err := forgetDetached(ctx, tx, table, month)
				if err != nil || !recorded {
					return err
				}

				_, err = tx.ExecContext(ctx, "DROP TABLE IF EXISTS ?", bun.Ident(table.detached(month)))
				return err
			})
			if err != nil {
				return dropped, fmt.Errorf("drop %s: %w", table.detached(month), err)
			}

			dropped++
		}
	}

	return dropped, nil
}

// DetachedMonths returns the months with detached partitions to restore, oldest first.
func (s *Store) DetachedMonths(ctx context.Context) ([]model.Month, error) {
	all := make(map[model.Month]bool)

	err := s.db.EachCell(ctx, func(in *db.Cell) error {
		for _, table := range (cell{in}).partitionedTables() {
			months, err := cell{in}.detachedMonths(ctx, table, maxInstant)
			if err != nil {
				return err
			}

			for _, month := range months {
				all[month] = true
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	return slices.Sorted(maps.Keys(all)), nil
}

// maxInstant is the last time that an Instant can hold.
const maxInstant = model.Instant(math.MaxInt64)

// detachedMonths returns the months of a table that were detached at or before the given time.
func (c cell) detachedMonths(
	ctx context.Context, table partitioned, by model.Instant,
) (months []model.Month, err error) {
	err = c.Read.NewSelect().Model((*detachedPartition)(nil)).Column("month").
		Where("table_name = ? AND detached_at <= ?", table.name, by).Order("month").Scan(ctx, &months)
	if err != nil {
		return nil, fmt.Errorf("list the detached partitions of %s: %w", table.name, err)
	}
	return months, nil
}

// partitionedTables returns the tables that have partitions in the database.
func (c cell) partitionedTables() []partitioned {
	if !c.Common.IsPostgres() {
		return nil
	}
	return partitionedTables
}

// Reattach restores the detached partitions of a month and returns their number. Rows of sites that
// were deleted since stay deleted. It waits for the tables' locks as EnsurePartitions does.
// Ingestion of that month's rows, which is rare, waits while the rows are scanned.
func (s *Store) Reattach(ctx context.Context, month model.Month) (int, error) {
	n := 0
	err := s.db.EachCell(ctx, func(in *db.Cell) error {
		attached, err := cell{in}.reattach(ctx, month)
		n += attached
		return err
	})
	return n, err
}

// reattach is Reattach for one cell.
func (c cell) reattach(ctx context.Context, month model.Month) (int, error) {
	n := 0
	for _, table := range c.partitionedTables() {
		months, err := c.detachedMonths(ctx, table, maxInstant)
		if err != nil {
			return n, err
		}
		if !slices.Contains(months, month) {
			continue
		}

		err = c.changePartitions(ctx, func(tx *db.CellTx) error { return reattachPartition(ctx, tx, table, month) })
		if err != nil {
			return n, fmt.Errorf("attach %s again: %w", table.detached(month), err)
		}

		n++
	}

	return n, nil
}

// reattachPartition makes a detached partition one of the table's again, without rows of deleted
// sites and of sites that are in another cell now.
func reattachPartition(ctx context.Context, tx *db.CellTx, table partitioned, month model.Month) error {
	partition, kept := bun.Ident(table.partition(month)), bun.Ident(table.detached(month))

	// Citus sends a DELETE that asks a reference table to a node that may not have the other table.
	var gone []int64
	err := tx.NewRaw("SELECT DISTINCT site_id FROM ? WHERE site_id NOT IN (SELECT id FROM sites WHERE cell = ?)", kept,
		tx.CellID).Scan(ctx, &gone)
	if err != nil {
		return err
	}
	if len(gone) > 0 {
		if _, err := tx.ExecContext(ctx, "DELETE FROM ? WHERE site_id IN (?)", kept, bun.List(gone)); err != nil {
			return err
		}
	}

	have, err := isAttached(ctx, tx, table, month)
	if err != nil {
		return err
	}

	// Late rows created a new partition: merge the two.
	if have {
		if err := mergeInto(ctx, tx, partition, kept); err != nil {
			return err
		}
		_, err := forgetDetached(ctx, tx, table, month)
		return err
	}

	if _, err := tx.ExecContext(ctx, "ALTER TABLE ? RENAME TO ?", kept, partition); err != nil {
		return err
	}
	if err := attachPartition(ctx, tx, table, month); err != nil {
		return err
	}

	_, err = forgetDetached(ctx, tx, table, month)
	return err
}

// forgetDetached deletes the record of a detached partition, and reports whether there was one.
func forgetDetached(ctx context.Context, tx *db.CellTx, table partitioned, month model.Month) (bool, error) {
	return db.Changed(tx.NewDelete().Model((*detachedPartition)(nil)).
		Where("table_name = ? AND month = ?", table.name, month).Exec(ctx))
}

// isAttached reports whether the table has a partition of the month.
func isAttached(ctx context.Context, tx *db.CellTx, table partitioned, month model.Month) (bool, error) {
	return tx.NewSelect().TableExpr("pg_inherits").
		Where("inhparent = ?::regclass", table.name).Where("inhrelid = to_regclass(?)", table.partition(month)).
		Exists(ctx)
}

// newestFirst returns the months in descending order.
func newestFirst(months map[model.Month]bool) []model.Month {
	return slices.SortedFunc(maps.Keys(months), func(a, b model.Month) int { return int(b - a) })
}
