package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// partitioned is a table that PostgreSQL divides into one partition per UTC month. SQLite does not
// divide it.
type partitioned struct {
	name       string
	key        string                    // the column that determines the month
	primaryKey string                    // page views have it on SQLite only; PostgreSQL deletes their rows in this order
	with       string                    // storage options of each partition
	bound      func(model.Month) int64   // the key's first value in a month
	at         func(int64) model.Instant // the time of a key
}

// The fill factors leave room on a page for later updates: a visit changes with each of its page
// views and grows by 4 bytes, engagement changes a few times while a page is in view, a page view
// and an event never. PostgreSQL removes a visit's earlier version before it writes the next, so
// that a twentieth of the page is enough: with a fifth, 8 percent more bytes are on disk. The scale
// factors make autovacuum's runs small and frequent: with the defaults it would run once in a busy
// partition's month, and then for long.
var partitionedTables = []partitioned{
	{"events", "at", "site_id, at, id", "fillfactor = 100, " + insertedOften, monthStart, instant},
	{"pageviews", "at", "site_id, at, id", "fillfactor = 100, " + insertedOften, monthStart, instant},
	{"engagement", "day", "site_id, day, id", "fillfactor = 90, " + updatedOften, monthDay, dayStart},
	{"visits", "day", "site_id, day, visitor, n", "fillfactor = 95, " + updatedOften, monthDay, dayStart},
}

const (
	insertedOften = "autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_analyze_scale_factor = 0.05"
	updatedOften  = "autovacuum_vacuum_scale_factor = 0.05, " + insertedOften
)

func monthStart(m model.Month) int64   { return int64(model.At(m.Start())) }
func instant(at int64) model.Instant   { return model.Instant(at) }
func monthDay(m model.Month) int64     { return int64(model.At(m.Start()).Day()) }
func dayStart(day int64) model.Instant { return model.Day(day).Start() }

// partition returns the name of a month's partition, for instance pageviews_202611.
func (p partitioned) partition(m model.Month) string { return fmt.Sprintf("%s_%06d", p.name, m) }

// defaultPartition returns the name of the partition that takes rows of months without a partition,
// so that they are not lost.
func (p partitioned) defaultPartition() string { return p.name + "_default" }

const (
	// monthsAhead is for how many coming months there are partitions.
	monthsAhead = 2

	// monthsBehind is how many months ago rows in the default partition can be for their month to
	// get a partition.
	monthsBehind = 24

	// mostMonthsBehind is how many months ago EnsurePartitionsSince begins at most. It equals the
	// longest limited retention.
	mostMonthsBehind = 120

	// Creating or dropping a partition waits for every transaction that uses the table, and blocks
	// all later ones while it waits. So each wait is short and repeated: ingestion is blocked for
	// at most partitionLockWait each time.
	partitionLockWait     = 300 * time.Millisecond
	partitionLockAttempts = 6
	partitionLockPause    = time.Second
)

// EnsurePartitions creates the monthly partitions of visits, page views, engagement and events in
// PostgreSQL, in each cell, for last month, the current month and the next two. It can run at any
// time, in any number of processes: existing partitions stay. On SQLite it does nothing.
//
// Rows of the default partition are moved into the new partition of their month, in the transaction
// that creates it. Only then are readers and ingestion blocked for longer, while the rows move; it
// happens when no partition was created for two months. Earlier months get a partition, too, if the
// default partition has rows of them.
//
// An error leaves nothing half done. Until the next call succeeds, the default partition takes rows
// without a partition.
func (s *Store) EnsurePartitions(ctx context.Context, now model.Instant) error {
	return s.EnsurePartitionsSince(ctx, now, now)
}

// EnsurePartitionsSince is EnsurePartitions that creates the partitions since an earlier month,
// too, up to ten years before, for rows that are about to be stored.
func (s *Store) EnsurePartitionsSince(ctx context.Context, since, now model.Instant) error {
	if !s.db.IsPostgres() {
		return nil
	}

	first := max(since.Month(), addMonths(now.Month(), -mostMonthsBehind))
	return s.db.EachCell(ctx, func(in *db.Cell) error { return cell{in}.ensurePartitions(ctx, first, now.Month()) })
}

// ensurePartitions is EnsurePartitionsSince for one cell.
func (c cell) ensurePartitions(ctx context.Context, first, current model.Month) error {
	for _, table := range partitionedTables {
		have, err := c.partitions(ctx, table)
		if err != nil {
			return fmt.Errorf("list the partitions of %s: %w", table.name, err)
		}

		months, err := c.monthsToPartition(ctx, table, first, current)
		if err != nil {
			return fmt.Errorf("look into %s: %w", table.defaultPartition(), err)
		}

		for _, month := range months {
			if have[month] {
				continue
			}

			err := c.changePartitions(ctx, func(tx *db.CellTx) error { return createPartition(ctx, tx, table, month) })
			if err != nil {
				return fmt.Errorf("create %s: %w", table.partition(month), err)
			}
		}
	}

	return nil
}

// monthsToPartition returns the months that must have a partition.
func (c cell) monthsToPartition(
	ctx context.Context, table partitioned, first, current model.Month,
) ([]model.Month, error) {
	month, last := min(first, addMonths(current, -1)), addMonths(current, monthsAhead)

	// Find the oldest row of the default partition that belongs to an earlier month. Normally it
	// has no such row.
	var stray []int64
	err := c.Read.NewRaw("SELECT ?0 FROM ?1 WHERE ?0 >= ?2 AND ?0 < ?3 ORDER BY ?0 LIMIT 1", bun.Ident(table.key),
		bun.Ident(table.defaultPartition()), table.bound(addMonths(current, -monthsBehind)), table.bound(month)).
		Scan(ctx, &stray)
	if err != nil {
		return nil, err
	}

	if len(stray) > 0 {
		for stray[0] < table.bound(month) {
			month = addMonths(month, -1)
		}
	}

	var months []model.Month
	for ; month <= last; month = month.Next() {
		months = append(months, month)
	}

	return months, nil
}

// partitions returns the months for which the table has a partition.
func (c cell) partitions(ctx context.Context, table partitioned) (map[model.Month]bool, error) {
	var names []string
	err := c.Read.NewSelect().TableExpr("pg_inherits AS i").Join("JOIN pg_class AS c ON c.oid = i.inhrelid").
		ColumnExpr("c.relname").Where("i.inhparent = ?::regclass", table.name).OrderExpr("c.relname").Scan(ctx, &names)
	if err != nil {
		return nil, err
	}

	months := make(map[model.Month]bool, len(names))
	for _, name := range names {
		var month model.Month
		if n, _ := fmt.Sscanf(name, table.name+"_%06d", &month); n == 1 && name == table.partition(month) {
			months[month] = true
		}
	}

	return months, nil
}

// createPartition creates a month's partition. It is created next to the table and attached
// afterwards, because that keeps the table's other partitions readable and writable.
func createPartition(ctx context.Context, tx *db.CellTx, table partitioned, month model.Month) error {
	have, err := isAttached(ctx, tx, table, month)

	// Another process may have created it.
	if err != nil || have {
		return err
	}

	_, err = tx.ExecContext(ctx, "CREATE TABLE ? (LIKE ? INCLUDING ALL) WITH (?)",
		bun.Ident(table.partition(month)), bun.Ident(table.name), bun.Safe(table.with))
	if err != nil {
		return err
	}

	// Citus moves a cell with logical replication, which needs an identity for rows deleted
	// meanwhile.
	if table.name == "pageviews" {
		if _, err := tx.ExecContext(ctx, "ALTER TABLE ? REPLICA IDENTITY FULL", bun.Ident(table.partition(month))); err != nil {
			return err
		}
	}

	return attachPartition(ctx, tx, table, month)
}

// attachPartition attaches a table as the partition of a month, with the month's rows of the
// default partition. The default partition is locked, because it must not receive a row of that
// month meanwhile.
func attachPartition(ctx context.Context, tx *db.CellTx, table partitioned, month model.Month) error {
	from, to := table.bound(month), table.bound(month.Next())
	partition, other := bun.Ident(table.partition(month)), bun.Ident(table.defaultPartition())

	// A reader that was planned before and waits for the default partition would look for the moved
	// rows there, and nowhere else. So readers must wait before they are planned. Snapshots that
	// began before hold the table, see db.HoldPartitions.
	moves, err := hasRows(ctx, tx, table, from, to)
	if err != nil {
		return err
	}
	if moves {
		if err := lockTable(ctx, tx, bun.Ident(table.name)); err != nil {
			return err
		}
	}

	if err := lockTable(ctx, tx, other); err != nil {
		return err
	}

	moved, err := tx.ExecContext(ctx, "WITH moved AS (DELETE FROM ?0 WHERE ?1 >= ?2 AND ?1 < ?3 RETURNING *) "+
		"INSERT INTO ?4 SELECT * FROM moved ON CONFLICT DO NOTHING", other, bun.Ident(table.key), from, to, partition)
	if err != nil {
		return err
	}
	if n, err := moved.RowsAffected(); err != nil || n > 0 && !moves {
		return cmp.Or(err, errRowsCame)
	}

	_, err = tx.ExecContext(ctx, "ALTER TABLE ? ATTACH PARTITION ? FOR VALUES FROM (?) TO (?)",
		bun.Ident(table.name), partition, from, to)
	return err
}

// errRowsCame means that the default partition received rows before it was locked.
var errRowsCame = errors.New("the default partition received rows of the month")

// hasRows reports whether the default partition has rows with a key from from to before to.
func hasRows(ctx context.Context, tx *db.CellTx, table partitioned, from, to int64) (has bool, err error) {
	err = tx.NewRaw("SELECT EXISTS (SELECT 1 FROM ?0 WHERE ?1 >= ?2 AND ?1 < ?3)", bun.Ident(table.defaultPartition()),
		bun.Ident(table.key), from, to).Scan(ctx, &has)
	return has, err
}

func lockTable(ctx context.Context, tx *db.CellTx, table bun.Ident) error {
	_, err := tx.ExecContext(ctx, "LOCK TABLE ? IN ACCESS EXCLUSIVE MODE", table)
	return err
}

// changePartitions runs a change of one table's partitions in a transaction of its own, so that it
// never holds a lock of one table while it waits for another's. It repeats the change while other
// transactions keep the table locked.
func (c cell) changePartitions(ctx context.Context, change func(tx *db.CellTx) error) error {
	var err error
	for attempt := range partitionLockAttempts {
		if attempt > 0 {
			select {
			case <-ctx.Done():
				return errors.Join(ctx.Err(), err)
			case <-time.After(partitionLockPause):
			}
		}

		err = c.InTx(ctx, func(ctx context.Context, tx *db.CellTx) error {
			// Waiting for this lock blocks no other transaction, so it has no limit.
			if err := tx.LockKey(ctx, db.PartitionLock); err != nil {
				return err
			}

			_, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = ?", partitionLockWait.Milliseconds())
			if err != nil {
				return err
			}

			return change(tx)
		})
		if err == nil || !db.IsRetryable(err) && !db.IsLockTimeout(err) && !errors.Is(err, errRowsCame) {
			return err
		}
	}

	return err
}

// addMonths returns the month n months after m, or before it if n is negative.
func addMonths(m model.Month, n int) model.Month { return model.At(m.Start().AddDate(0, n, 0)).Month() }
