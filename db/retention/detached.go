package retention

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// PostgreSQL's old months are deleted in two steps: the partition is detached, renamed and recorded
// in detached_partitions, so that nothing reads it any more, and dropped DetachedRetention later.
// Until then Reattach brings it back.

// DetachedRetention is how long a detached partition is kept.
const DetachedRetention = 24 * time.Hour

// detached is the name of a month's partition after it was detached.
func (p partitioned) detached(m model.Month) string { return "detached_" + p.part(m) }

type detachedPartition struct {
	bun.BaseModel `bun:"table:detached_partitions"`

	TableName  string
	Month      model.Month
	DetachedAt model.Instant
}

// detachParts detaches the table's months before the given one, and returns how many there were.
func (s *Store) detachParts(ctx context.Context, table partitioned, before model.Month, now model.Instant) (int64, error) {
	have, err := s.parts(ctx, table)
	if err != nil {
		return 0, fmt.Errorf("list the parts of %s: %w", table.name, err)
	}

	var detached int64
	for _, month := range newestFirst(have) {
		if month >= before {
			continue
		}

		err := s.changeParts(ctx, func(tx *db.Tx) error { return detachPart(ctx, tx, table, month, now) })
		if err != nil {
			return detached, fmt.Errorf("detach %s: %w", table.part(month), err)
		}

		detached++
	}

	return detached, nil
}

// detachPart detaches a month's partition, unless another process has done so.
func detachPart(ctx context.Context, tx *db.Tx, table partitioned, month model.Month, now model.Instant) error {
	have, err := isAttached(ctx, tx, table, month)
	if err != nil || !have {
		return err
	}

	part, kept := bun.Ident(table.part(month)), bun.Ident(table.detached(month))
	if _, err := tx.ExecContext(ctx, "ALTER TABLE ? DETACH PARTITION ?", bun.Ident(table.name), part); err != nil {
		return err
	}

	// A month can come twice: rows that arrived late made a new partition after the first one was
	// detached.
	recorded, err := tx.NewSelect().Model((*detachedPartition)(nil)).Where("table_name = ? AND month = ?", table.name, month).Exists(ctx)
	if err != nil {
		return err
	}

	if recorded {
		for _, statement := range []string{"INSERT INTO ? SELECT * FROM ? ON CONFLICT DO NOTHING", "DROP TABLE ?1"} {
			if _, err := tx.ExecContext(ctx, statement, kept, part); err != nil {
				return err
			}
		}

		_, err := tx.NewUpdate().Model((*detachedPartition)(nil)).Set("detached_at = ?", now).
			Where("table_name = ? AND month = ?", table.name, month).Exec(ctx)

		return err
	}

	if _, err := tx.ExecContext(ctx, "ALTER TABLE ? RENAME TO ?", part, kept); err != nil {
		return err
	}

	_, err = tx.NewInsert().Model(&detachedPartition{TableName: table.name, Month: month, DetachedAt: now}).Exec(ctx)
	return err
}

// DropDetached drops the partitions that were detached at least DetachedRetention before now, and
// returns how many there were. On SQLite there are none.
func (s *Store) DropDetached(ctx context.Context, now model.Instant) (int64, error) {
	var dropped int64
	for _, table := range s.partitionedTables() {
		months, err := s.detachedMonths(ctx, table, now.Add(-DetachedRetention))
		if err != nil {
			return dropped, err
		}

		for _, month := range months {
			err := s.changeParts(ctx, func(tx *db.Tx) error {
				if _, err := tx.ExecContext(ctx, "DROP TABLE IF EXISTS ?", bun.Ident(table.detached(month))); err != nil {
					return err
				}
				return forgetDetached(ctx, tx, table, month)
			})
			if err != nil {
				return dropped, fmt.Errorf("drop %s: %w", table.detached(month), err)
			}

			dropped++
		}
	}

	return dropped, nil
}

// DetachedMonths returns the months of which a detached partition can still be brought back, the
// oldest one first.
func (s *Store) DetachedMonths(ctx context.Context) ([]model.Month, error) {
	all := make(map[model.Month]bool)

	for _, table := range s.partitionedTables() {
		months, err := s.detachedMonths(ctx, table, maxInstant)
		if err != nil {
			return nil, err
		}

		for _, month := range months {
			all[month] = true
		}
	}

	return slices.Sorted(maps.Keys(all)), nil
}

const maxInstant = model.Instant(1<<63 - 1)

// detachedMonths returns the months of a table that were detached at a time or before it.
func (s *Store) detachedMonths(ctx context.Context, table partitioned, by model.Instant) (months []model.Month, err error) {
	err = s.db.Read.NewSelect().Model((*detachedPartition)(nil)).Column("month").
		Where("table_name = ? AND detached_at <= ?", table.name, by).Order("month").Scan(ctx, &months)
	if err != nil {
		return nil, fmt.Errorf("list the detached partitions of %s: %w", table.name, err)
	}
	return months, nil
}

// partitionedTables returns the tables that have partitions in this database.
func (s *Store) partitionedTables() []partitioned {
	if !s.db.IsPostgres() {
		return nil
	}
	return partitionedTables
}

// Reattach brings the detached partitions of a month back and returns how many there were. Rows of
// sites that were deleted meanwhile stay deleted. It waits for the tables' locks as
// EnsurePartitions does, and ingestion of that month's rows alone, of which there are none as a
// rule, stands still while the rows are looked through.
func (s *Store) Reattach(ctx context.Context, month model.Month) (int, error) {
	n := 0
	for _, table := range s.partitionedTables() {
		months, err := s.detachedMonths(ctx, table, maxInstant)
		if err != nil {
			return n, err
		}
		if !slices.Contains(months, month) {
			continue
		}
		if err := s.changeParts(ctx, func(tx *db.Tx) error { return reattach(ctx, tx, table, month) }); err != nil {
			return n, fmt.Errorf("attach %s again: %w", table.detached(month), err)
		}

		n++
	}

	return n, nil
}

func reattach(ctx context.Context, tx *db.Tx, table partitioned, month model.Month) error {
	part, kept := bun.Ident(table.part(month)), bun.Ident(table.detached(month))
	if _, err := tx.ExecContext(ctx, "DELETE FROM ? WHERE site_id NOT IN (SELECT id FROM sites)", kept); err != nil {
		return err
	}

	have, err := isAttached(ctx, tx, table, month)
	if err != nil {
		return err
	}

	// rows that arrived late made a new one
	if have {
		for _, statement := range []string{"INSERT INTO ? SELECT * FROM ? ON CONFLICT DO NOTHING", "DROP TABLE ?1"} {
			if _, err := tx.ExecContext(ctx, statement, part, kept); err != nil {
				return err
			}
		}

		return forgetDetached(ctx, tx, table, month)
	}

	if _, err := tx.ExecContext(ctx, "ALTER TABLE ? RENAME TO ?", kept, part); err != nil {
		return err
	}
	if err := attachPart(ctx, tx, table, month); err != nil {
		return err
	}

	return forgetDetached(ctx, tx, table, month)
}

func forgetDetached(ctx context.Context, tx *db.Tx, table partitioned, month model.Month) error {
	_, err := tx.NewDelete().Model((*detachedPartition)(nil)).Where("table_name = ? AND month = ?", table.name, month).Exec(ctx)
	return err
}

func isAttached(ctx context.Context, tx *db.Tx, table partitioned, month model.Month) (bool, error) {
	return tx.NewSelect().TableExpr("pg_inherits").
		Where("inhparent = ?::regclass", table.name).Where("inhrelid = to_regclass(?)", table.part(month)).Exists(ctx)
}

func newestFirst(months map[model.Month]bool) []model.Month {
	return slices.SortedFunc(maps.Keys(months), func(a, b model.Month) int { return int(b - a) })
}
