package retention

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/idempotency"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/tables"
)

// Dropped counts what DropOldData removed.
type Dropped struct {
	Partitions int64 // whole months of a table, which were detached (PostgreSQL)
	Rows       int64 // single rows: all rows in SQLite, rows of the default partitions in PostgreSQL
}

const (
	// deleteChunk is how many rows one transaction deletes at most. Other writers run between two
	// transactions.
	deleteChunk = 1000

	// largeChunk is deleteChunk for tables of segments, because their rows have up to 256 KiB.
	largeChunk = 40

	// hugeChunk is deleteChunk for rows of 1 MiB.
	hugeChunk = 10

	unknownDays = 30        // names of unknown events
	usageMonths = 25        // two years and the current month
	auditMonths = 12        // of the audit log
	auditRows   = 1_000_000 // of the audit log of one account

	// RejectionDays is for how many days refused and ignored calls are counted: a year and the same
	// month of last year. Other counters by day are kept as long.
	RejectionDays = 400

	// FinishedRetention is for how long deliveries are kept that were made or given up, with their
	// attempts, and mails.
	FinishedRetention = 30 * 24 * time.Hour
)

// DropOldData removes all visits, page views, engagement and events older than the current month
// and the given number of whole months before it. PostgreSQL detaches the months' partitions, each
// with a short wait for its lock (see EnsurePartitions); DropDetached drops them. SQLite deletes
// rows in short transactions and reuses the freed pages; its file does not shrink.
//
// The months count from the newest stored row if that is older than now: the last months with rows
// are kept, whatever the clock says.
//
// Transactions are kept, so that a purchase or refund counts only once, however old it is. Counters
// and deliveries are left to DeleteOldRecords.
//
// After an error the next call continues.
func (s *Store) DropOldData(ctx context.Context, now model.Instant, months int) (Dropped, error) {
	var all Dropped
	newest, err := s.newestHit(ctx)
	if err != nil || newest == 0 {
		return all, err
	}

	before := keptFrom(now, newest, months)
	err = s.db.EachCell(ctx, func(in *db.Cell) error {
		dropped, err := cell{in}.dropOldData(ctx, now, before)
		all.Partitions, all.Rows = all.Partitions+dropped.Partitions, all.Rows+dropped.Rows
		return err
	})
	return all, err
}

// dropOldData is DropOldData for the months of a cell before the given one.
func (c cell) dropOldData(ctx context.Context, now model.Instant, before model.Month) (Dropped, error) {
	var all Dropped

	// Visits come last, so that no page view or event is left without its visit.
	for _, table := range partitionedTables {
		rows := oldRows{table: table.name, key: table.primaryKey, column: table.key, bound: table.bound(before)}

		if c.Common.IsPostgres() {
			rows.table = table.defaultPartition()

			n, err := c.detachPartitions(ctx, table, before, now)
			all.Partitions += n
			if err != nil {
				return all, err
			}
		}

		n, err := c.deleteInChunks(ctx, rows)
		all.Rows += n
		if err != nil {
			return all, err
		}
	}

	return all, nil
}

// keptFrom returns the first month that is kept, see DropOldData.
func keptFrom(now, newest model.Instant, months int) model.Month {
	return addMonths(min(now, newest).Month(), -months)
}

// KeptFrom returns the first month that DropOldData keeps; 0 if it has nothing to delete.
func (s *Store) KeptFrom(ctx context.Context, now model.Instant, months int) (model.Month, error) {
	newest, err := s.newestHit(ctx)
	if err != nil || newest == 0 {
		return 0, err
	}
	return keptFrom(now, newest, months), nil
}

// DeleteOldReports deletes the reports of months older than the current month and the given number
// of whole months before it. It returns the number of deleted rows.
func (s *Store) DeleteOldReports(ctx context.Context, now model.Instant, months int) (int64, error) {
	bound := int64(model.At(addMonths(now.Month(), -months).Start()).Day())

	// The ledger comes first: a report reads only segments of days that it has.
	all, err := s.deleteByAge(ctx, []oldRows{
		{table: "report_days", key: "site_id, day", column: "day", bound: bound},
		{table: "report_segments", key: "site_id, first_day, days, chunk", column: "first_day", bound: bound},
	})
	if err != nil {
		return all, err
	}
	n, err := s.deleteOldImports(ctx, bound)
	return all + n, err
}

// deleteOldImports deletes the rows of imports for days before a bound, and imports without later
// days.
func (s *Store) deleteOldImports(ctx context.Context, bound int64) (int64, error) {
	var imports []struct {
		SiteID      model.SiteID
		ID, LastDay int64
	}
	err := s.db.Read.NewSelect().Table("report_imports").Column("id", "site_id", "last_day").
		Where("first_day < ?", bound).Order("id").Scan(ctx, &imports)
	if err != nil {
		return 0, fmt.Errorf("look for old imports: %w", err)
	}

	var all int64
	for _, one := range imports {
		for _, rows := range []oldRows{
			{table: "import_figures", key: "site_id, import_id, dimension, day, n", column: "day"},
			{table: "import_segments", key: "site_id, import_id, first_day, days, chunk", column: "first_day"},
		} {
			old := fmt.Sprintf("FROM %s WHERE site_id = ? AND import_id = ? AND %s < ?", rows.table, rows.column)
			remove := fmt.Sprintf("DELETE FROM %s WHERE (%s) IN (SELECT %[2]s %[3]s LIMIT %[4]d)",
				rows.table, rows.key, old, chunkOf(rows.table))
			n, err := s.common().changeInChunks(ctx, old, remove, one.SiteID, one.ID, bound)
			if all += n; err != nil {
				return all, fmt.Errorf("delete old days of import %d: %w", one.ID, err)
			}
		}

		// The import comes last, so that an interrupted deletion continues.
		change, args := "UPDATE report_imports SET first_day = ? WHERE id = ?", []any{bound, one.ID}
		if one.LastDay < bound {
			change, args = "DELETE FROM report_imports WHERE id = ?", args[1:]
		}
		if _, err := s.db.Write.ExecContext(ctx, change, args...); err != nil {
			return all, fmt.Errorf("shorten import %d: %w", one.ID, err)
		}
	}
	return all, nil
}

// chunkOf returns how many rows of a table one transaction deletes at most.
func chunkOf(table string) int {
	switch table {
	case "report_segments", "import_segments":
		return largeChunk
	case "import_chunks":
		return hugeChunk
	}
	return deleteChunk
}

// DeleteOldRecords deletes expired records that do not depend on the retention of visits:
// rejections, usage of days and counts of captchas after 400 days, names of unknown events after 30
// days, usage of months more than two years ago with its notices, deliveries with their attempts,
// mails and erasures in a final state after 30 days, the days on which mails about webhooks were
// sent, entries of the audit log after 12 months, and idempotency keys after 24 hours. It returns
// the number of deleted rows. Its cost depends on the number of expired rows, not on the number of
// sites.
func (s *Store) DeleteOldRecords(ctx context.Context, now model.Instant) (int64, error) {
	countDay, month := int64(now.Day()-RejectionDays), int64(addMonths(now.Month(), 1-usageMonths))
	yesterday := int64(now.Day() - 1)

	all, err := s.deleteByAge(ctx, []oldRows{
		{table: "rejections", key: "site_id, day, endpoint, code", column: "day", bound: countDay},
		{table: "site_usage_days", key: "site_id, day", column: "day", bound: countDay},
		{table: "captcha_counts", key: "sitekey_id, day, name", column: "day", bound: countDay},
		{table: "unknown_events", key: "site_id, day, name", column: "day", bound: int64(now.Day() - unknownDays)},

		{table: "site_usage", key: "site_id, month", column: "month", bound: month},
		{table: "captcha_usage", key: "account_id, month", column: "month", bound: month},

		{table: "failure_notices", key: "site_id, day", column: "day", bound: yesterday},
		{table: "webhook_notices", key: "site_id, day", column: "day", bound: yesterday},

		{
			table: "audit_log", key: "account_id, id", column: "id",
			bound: model.FirstTimeID(model.At(now.Time().AddDate(0, -auditMonths, 0))),
		},
		{
			table: "idempotency_keys", key: "account_id, user_id, token_id, key_hash", column: "created_at",
			bound: int64(now.Add(-idempotency.Lifetime)),
		},
	})
	if err != nil {
		return all, err
	}

	err = s.db.EachCell(ctx, func(in *db.Cell) error {
		n, err := cell{in}.deleteOldDeliveries(ctx, now)
		all += n
		return err
	})
	if err != nil {
		return all, err
	}

	n, err := s.deleteOldMails(ctx, now)
	if all += n; err != nil {
		return all, err
	}

	n, err = s.BoundAuditLogs(ctx, auditRows)
	return all + n, err
}

// BoundAuditLogs deletes the oldest entries of each account's audit log that has more than most. It
// returns the number of deleted rows. Without a bound, one account could fill the disk with
// changes.
func (s *Store) BoundAuditLogs(ctx context.Context, most int64) (int64, error) {
	var full []int64
	err := s.db.Read.NewSelect().Table("audit_log").Column("account_id").Group("account_id").
		Having("count(*) > ?", most).Order("account_id").Scan(ctx, &full)
	if err != nil {
		return 0, fmt.Errorf("count the entries of audit logs: %w", err)
	}

	var all int64
	for _, accountID := range full {
		var oldest int64
		err := s.db.Read.NewSelect().Table("audit_log").Column("id").Where("account_id = ?", accountID).
			Order("id DESC").Offset(most-1).Limit(1).Scan(ctx, &oldest)
		if err != nil {
			return all, fmt.Errorf("look for the oldest entry of the audit log of account %d: %w", accountID, err)
		}

		const old = "FROM audit_log WHERE account_id = ? AND id < ?"
		remove := fmt.Sprintf("DELETE FROM audit_log WHERE (account_id, id) IN (SELECT account_id, id %s ORDER BY id LIMIT %d)",
			old, deleteChunk)

		n, err := s.common().changeInChunks(ctx, old, remove, accountID, oldest)
		all += n
		if err != nil {
			return all, fmt.Errorf("delete old entries of the audit log of account %d: %w", accountID, err)
		}
	}

	return all, nil
}

// deleteByAge deletes the rows of each selection, in order, a few in each transaction, and returns
// their number. Each table has an index that begins with the selection's column.
func (s *Store) deleteByAge(ctx context.Context, selections []oldRows) (int64, error) {
	var all int64
	for _, rows := range selections {
		old := fmt.Sprintf("FROM %s WHERE %s < ?", rows.table, rows.column)
		remove := fmt.Sprintf("DELETE FROM %s WHERE (%s) IN (SELECT %[2]s %[3]s ORDER BY %[4]s LIMIT %[5]d)",
			rows.table, rows.key, old, rows.column, chunkOf(rows.table))

		err := s.db.EachCellOf(ctx, rows.table, func(in *db.Cell) error {
			n, err := cell{in}.changeInChunks(ctx, old, remove, rows.bound)
			all += n
			return err
		})
		if err != nil {
			return all, fmt.Errorf("delete old rows from %s: %w", rows.table, err)
		}
	}

	return all, nil
}

// deleteOldDeliveries deletes finished deliveries that were created more than FinishedRetention
// ago, each with its attempts, and returns the number of rows. An attempt that a late worker stores
// for a deleted delivery goes with its site.
func (c cell) deleteOldDeliveries(ctx context.Context, now model.Instant) (int64, error) {
	bound := model.FirstTimeID(now.Add(-FinishedRetention))

	var all int64
	for {
		var old []struct {
			SiteID model.SiteID
			ID     int64
		}
		err := c.Read.NewSelect().Table("deliveries").Column("site_id", "id").Where("state <> ?", model.DeliveryPending).
			Where("id < ?", bound).Order("id").Limit(deleteChunk).Scan(ctx, &old)
		if err != nil {
			return all, fmt.Errorf("look for old deliveries: %w", err)
		}
		if len(old) == 0 {
			return all, nil
		}

		keys := make([]string, len(old))
		for i, delivery := range old {
			keys[i] = fmt.Sprintf("(%d, %d)", delivery.SiteID, delivery.ID)
		}

		var n int64
		err = c.InTx(ctx, func(ctx context.Context, tx *db.CellTx) error {
			n = 0
			for _, statement := range []string{
				// A delivery that was sent again since the read is pending: it stays with its
				// attempts.
				"DELETE FROM deliveries WHERE (site_id, id) IN (?) AND state <> 'pending'",
				"DELETE FROM delivery_attempts WHERE (site_id, delivery_id) IN (?) AND NOT EXISTS " +
					"(SELECT 1 FROM deliveries d WHERE d.site_id = delivery_attempts.site_id AND d.id = delivery_attempts.delivery_id)",
			} {
				result, err := tx.ExecContext(ctx, statement, bun.Safe(strings.Join(keys, ", ")))
				if err != nil {
					return err
				}

				deleted, err := result.RowsAffected()
				if n += deleted; err != nil {
					return err
				}
			}

			return nil
		})
		all += n
		if err != nil {
			return all, fmt.Errorf("delete old deliveries: %w", err)
		}
	}
}

// alertRetention is how long an alert is kept after its end.
const alertRetention = 90 * 24 * time.Hour

// deleteOldMails deletes old mails and erasures in a final state, old messages to channels, alerts
// that are over, quota notices of months without usage, and claim spaces of deleted sitekeys. All
// of these tables are small.
func (s *Store) deleteOldMails(ctx context.Context, now model.Instant) (int64, error) {
	var all int64
	for _, statement := range []struct {
		text  string
		bound any
	}{
		{"DELETE FROM mails WHERE created_at < ? AND state <> 'pending'", now.Add(-FinishedRetention)},
		{"DELETE FROM alert_messages WHERE created_at < ?", now.Add(-FinishedRetention)},
		{"DELETE FROM alerts WHERE ended_at > 0 AND ended_at < ?", now.Add(-alertRetention)},
		{"DELETE FROM user_erasures WHERE finished_at > 0 AND finished_at < ?", now.Add(-FinishedRetention)},
		{"DELETE FROM quota_notices WHERE month < ?", addMonths(now.Month(), 1-usageMonths)},
		{"DELETE FROM claim_spaces WHERE id > ? AND id NOT IN (SELECT claim_space FROM sitekeys)", 0},
	} {
		result, err := s.db.Write.ExecContext(ctx, statement.text, statement.bound)
		if err != nil {
			return all, fmt.Errorf("delete old mails and notices: %w", err)
		}

		n, err := result.RowsAffected()
		if all += n; err != nil {
			return all, err
		}
	}

	return all, nil
}

// oldRows selects the rows of a table with a column less than the bound.
type oldRows struct {
	table  string
	key    string // the primary key; it begins with the tenant, which is a site or an account
	column string
	bound  int64
}

// deleteInChunks deletes rows tenant by tenant, so that the primary key finds them, a few in each
// transaction.
func (c cell) deleteInChunks(ctx context.Context, rows oldRows) (int64, error) {
	column, _, _ := strings.Cut(rows.key, ",")
	nextTenant := fmt.Sprintf("SELECT %[1]s FROM %[2]s WHERE %[1]s > ? ORDER BY %[1]s LIMIT 1", column, rows.table)
	old := fmt.Sprintf("FROM %s WHERE %s = ? AND %s < ?", rows.table, column, rows.column)
	remove := fmt.Sprintf("DELETE FROM %s WHERE (%s) IN (SELECT %[2]s %s ORDER BY %[2]s LIMIT %[4]d)", rows.table,
		rows.key, old, chunkOf(rows.table))

	var all int64
	for tenant := int64(-1); ; {
		var next []int64
		if err := c.Read.NewRaw(nextTenant, tenant).Scan(ctx, &next); err != nil {
			return all, fmt.Errorf("look for tenants in %s: %w", rows.table, err)
		}
		if len(next) == 0 {
			return all, nil
		}

		tenant = next[0]
		n, err := c.changeInChunks(ctx, old, remove, tenant, rows.bound)
		all += n
		if err != nil {
			return all, fmt.Errorf("delete old rows of %s %d from %s: %w", column, tenant, rows.table, err)
		}
	}
}

// DeleteConsumed deletes consumed challenges and tokens that were issued more than
// model.ConsumedRetention ago, a few in each transaction, and returns their number.
func (s *Store) DeleteConsumed(ctx context.Context, now model.Instant) (all int64, err error) {
	err = s.db.EachCell(ctx, func(in *db.Cell) error {
		n, err := cell{in}.deleteInChunks(ctx, oldRows{
			table: tables.Consumed.Name, key: tables.Consumed.Columns.List(""), column: "issued_at",
			bound: int64(now.Add(-model.ConsumedRetention)),
		})
		all += n
		return err
	})
	return all, err
}
