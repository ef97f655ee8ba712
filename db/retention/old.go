package retention

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tallygate/tallygate/db/model"
)

// Dropped counts what DropOldData removed.
type Dropped struct {
	Partitions int64 // whole months of a table, which were detached (PostgreSQL)
	Rows       int64 // single rows: all rows in SQLite, those of the default partitions in PostgreSQL
}

const (
	// deleteChunk is how many rows one transaction deletes at most. Other writers run between two
	// transactions.
	deleteChunk = 1000

	rejectionDays     = 400                 // a year and the same month of last year
	usageMonths       = 25                  // two years and the current month
	finishedRetention = 30 * 24 * time.Hour // deliveries that were made or given up, their attempts, and mails
)

// DropOldData removes all visits, page views and events older than the current month and the given
// number of whole months before it. PostgreSQL detaches the months' partitions, each with a short
// wait for its lock (see EnsurePartitions); DropDetached drops them. SQLite deletes rows in short
// transactions and reuses the freed pages; its file does not shrink.
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
	newest, err := s.newestHit(ctx, s.db.Read)
	if err != nil || newest == 0 {
		return all, err
	}

	before := addMonths(min(now, newest).Month(), -months)

	// Visits come last, so that no page view or event is left without its visit.
	for _, table := range partitionedTables {
		if s.db.IsPostgres() {
			n, err := s.detachPartitions(ctx, table, before, now)
			all.Partitions += n

			if err != nil {
				return all, err
			}
		}

		rows := oldRows{table: table.name, key: table.primaryKey, column: table.key, bound: table.bound(before)}

		if s.db.IsPostgres() {
			rows.table = table.defaultPartition()
		}

		n, err := s.deleteInChunks(ctx, rows)
		all.Rows += n

		if err != nil {
			return all, err
		}
	}

	return all, nil
}

// DeleteOldRecords deletes expired records that do not depend on the retention of visits:
// rejections after 400 days, usage of months more than two years ago with its notices, and
// deliveries and mails in a final state after 30 days. It returns the number of deleted rows.
func (s *Store) DeleteOldRecords(ctx context.Context, now model.Instant) (int64, error) {
	var all int64
	for _, rows := range []oldRows{
		{table: "rejections", key: "site_id, day, endpoint, code", column: "day",
			bound: int64(now.Day() - rejectionDays)},
		{table: "site_usage", key: "site_id, month", column: "month",
			bound: int64(addMonths(now.Month(), 1-usageMonths))},
		{table: "captcha_usage", key: "account_id, month", column: "month",
			bound: int64(addMonths(now.Month(), 1-usageMonths))},
		{
			table: "deliveries", key: "site_id, id", column: "id", bound: model.FirstTimeID(now.Add(-finishedRetention)),
			condition: "AND state <> '" + model.DeliveryPending + "'",
		},
		{
			table: "delivery_attempts", key: "site_id, delivery_id, n", column: "delivery_id", bound: model.FirstTimeID(now.Add(-finishedRetention)),
			condition: "AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.site_id = delivery_attempts.site_id AND d.id = delivery_attempts.delivery_id)",
		},
		{table: "failure_notices", key: "site_id, day", column: "day", bound: int64(now.Day() - 1)},
		{table: "webhook_notices", key: "site_id, day", column: "day", bound: int64(now.Day() - 1)},
	} {
		n, err := s.deleteInChunks(ctx, rows)
		all += n

		if err != nil {
			return all, err
		}
	}

	n, err := s.deleteOldMails(ctx, now)
	return all + n, err
}

// deleteOldMails deletes old mails and erasures in a final state, and quota notices of months whose
// usage is deleted. All of these tables are small.
func (s *Store) deleteOldMails(ctx context.Context, now model.Instant) (int64, error) {
	var all int64
	for _, statement := range []struct {
		text  string
		bound any
	}{
		{"DELETE FROM mails WHERE created_at < ? AND state <> 'pending'", now.Add(-finishedRetention)},
		{"DELETE FROM user_erasures WHERE finished_at > 0 AND finished_at < ?", now.Add(-finishedRetention)},
		{"DELETE FROM quota_notices WHERE month < ?", addMonths(now.Month(), 1-usageMonths)},
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

// oldRows selects the rows of a table whose column is less than the bound and that meet the
// condition.
type oldRows struct {
	table     string
	key       string // the primary key; it begins with the tenant, which is a site or an account
	column    string
	bound     int64
	condition string
}

// deleteInChunks deletes rows tenant by tenant, so that the primary key finds them, a few in each
// transaction.
func (s *Store) deleteInChunks(ctx context.Context, rows oldRows) (int64, error) {
	column, _, _ := strings.Cut(rows.key, ",")
	old := fmt.Sprintf("FROM %s WHERE %s = ? AND %s < ? %s", rows.table, column, rows.column, rows.condition)
	remove := fmt.Sprintf("DELETE FROM %s WHERE (%s) IN (SELECT %[2]s %s ORDER BY %[2]s LIMIT %[4]d)", rows.table,
		rows.key, old, deleteChunk)
	var all int64
	nextTenant := fmt.Sprintf("SELECT %[1]s FROM %[2]s WHERE %[1]s > ? ORDER BY %[1]s LIMIT 1", column, rows.table)

	for tenant := int64(-1); ; {
		var next []int64
		if err := s.db.Read.NewRaw(nextTenant, tenant).Scan(ctx, &next); err != nil {
			return all, fmt.Errorf("look for tenants in %s: %w", rows.table, err)
		}
		if len(next) == 0 {
			return all, nil
		}

		tenant = next[0]

		for {
			// Query first: even a delete of nothing makes SQLite's writers wait.
			var any bool
			if err := s.db.Read.NewRaw("SELECT EXISTS (SELECT 1 "+old+")", tenant, rows.bound).
				Scan(ctx, &any); err != nil {
				return all, fmt.Errorf("look for old rows of %s %d in %s: %w", column, tenant, rows.table, err)
			}
			if !any {
				break
			}

			result, err := s.db.Write.ExecContext(ctx, remove, tenant, rows.bound)
			if err != nil {
				return all, fmt.Errorf("delete old rows of %s %d from %s: %w", column, tenant, rows.table, err)
			}

			n, err := result.RowsAffected()
			if err != nil {
				return all, err
			}

			all += n
		}
	}
}

// DeleteConsumed deletes used challenges and tokens that expired long ago, a few in each transaction,
// and returns their number.
func (s *Store) DeleteConsumed(ctx context.Context, now model.Instant) (int64, error) {
	return s.deleteInChunks(ctx, oldRows{
		table: "captcha_spent", key: "account_id, issued_at, id", column: "issued_at", bound: int64(now.Add(-model.ConsumedRetention)),
	})
}
