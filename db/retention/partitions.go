package retention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// partitioned is a table that PostgreSQL keeps in one part per UTC month. In SQLite it is one
// table.
type partitioned struct {
	name       string
	key        string // the column that the months cut
	primaryKey string
	with       string                    // storage options of each part
	bound      func(model.Month) int64   // the key's first value in a month
	at         func(int64) model.Instant // the time of a key
}

// A page is filled so far that the updates to come find room on it: a visit changes with each of
// its page views, a page view a few times while it is looked at, an event never. The scale factors
// keep autovacuum's work small and frequent: with the defaults it would come once in a busy table's
// life of a month, and then for long.
var partitionedTables = []partitioned{
	{"events", "at", "site_id, at, id", "fillfactor = 100, " + insertedOften, monthStart, instant},
	{"pageviews", "at", "site_id, at, id", "fillfactor = 90, " + insertedOften, monthStart, instant},
	{"visits", "id", "site_id, id", "fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, " + insertedOften, firstVisitID, model.TimeOfID},
}

const insertedOften = "autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_analyze_scale_factor = 0.05"

func monthStart(m model.Month) int64   { return int64(model.At(m.Start())) }
func instant(at int64) model.Instant   { return model.Instant(at) }
func firstVisitID(m model.Month) int64 { return model.FirstTimeID(model.At(m.Start())) }

// part is the name of a month's part, for instance pageviews_202611.
func (p partitioned) part(m model.Month) string { return fmt.Sprintf("%s_%06d", p.name, m) }

// rest is the name of the part that takes rows of months without a part. It guards against losing
// them.
func (p partitioned) rest() string { return p.name + "_default" }

const (
	monthsAhead = 2
	// monthsBehind is how old rows in the default part may be to get a part for their month.
	monthsBehind = 24

	// Making or dropping a part waits for every transaction that uses the table, and lets all later
	// ones wait behind it. So it waits briefly, again and again: ingestion stands still for
	// partLockWait at most each time.
	partLockWait     = 300 * time.Millisecond
	partLockAttempts = 6
	partLockPause    = time.Second
)

// EnsurePartitions makes the monthly parts of visits, page views and events in PostgreSQL for last
// month, the current month and the next two. It may run at any time, in any number of processes:
// what exists stays.
//
// Rows that already wait in the default part because their month had none are moved into the new
// part, in the transaction that makes it. Only then does ingestion stand still for longer, for as
// long as the move takes; it happens when nothing has made parts for two months. Months before the
// last one get a part, too, when the default part has rows of them.
//
// An error leaves nothing half done. Until the next call succeeds, the default part takes what has
// no other.
func (s *Store) EnsurePartitions(ctx context.Context, now model.Instant) error {
	if !s.db.IsPostgres() {
		return nil
	}

	for _, table := range partitionedTables {
		have, err := s.parts(ctx, table)
		if err != nil {
			return fmt.Errorf("list the parts of %s: %w", table.name, err)
		}

		months, err := s.monthsToPart(ctx, table, now.Month())
		if err != nil {
			return fmt.Errorf("look into %s: %w", table.rest(), err)
		}

		for _, month := range months {
			if have[month] {
				continue
			}
			if err := s.changeParts(ctx, func(tx *db.Tx) error { return makePart(ctx, tx, table, month) }); err != nil {
				return fmt.Errorf("make %s: %w", table.part(month), err)
			}
		}
	}

	return nil
}

// monthsToPart lists the months that must have a part.
func (s *Store) monthsToPart(ctx context.Context, table partitioned, current model.Month) ([]model.Month, error) {
	month, last := addMonths(current, -1), addMonths(current, monthsAhead)

	// the oldest row of the default part that belongs into a month before; normally there is none
	var stray []int64
	err := s.db.Read.NewRaw("SELECT ?0 FROM ?1 WHERE ?0 >= ?2 AND ?0 < ?3 ORDER BY ?0 LIMIT 1", bun.Ident(table.key),
		bun.Ident(table.rest()), table.bound(addMonths(current, -monthsBehind)), table.bound(month)).Scan(ctx, &stray)
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

// parts returns the months for which the table has a part.
func (s *Store) parts(ctx context.Context, table partitioned) (map[model.Month]bool, error) {
	var names []string
	err := s.db.Read.NewSelect().TableExpr("pg_inherits AS i").Join("JOIN pg_class AS c ON c.oid = i.inhrelid").
		ColumnExpr("c.relname").Where("i.inhparent = ?::regclass", table.name).OrderExpr("c.relname").Scan(ctx, &names)
	if err != nil {
		return nil, err
	}

	months := make(map[model.Month]bool, len(names))
	for _, name := range names {
		var month model.Month
		if n, _ := fmt.Sscanf(name, table.name+"_%06d", &month); n == 1 && name == table.part(month) {
			months[month] = true
		}
	}

	return months, nil
}

// makePart makes a month's part. It is made beside the table and attached afterwards, because that
// lets the table's other parts be read and written meanwhile; only the default part is locked,
// which must not get a row of that month now.
func makePart(ctx context.Context, tx *db.Tx, table partitioned, month model.Month) error {
	have, err := isAttached(ctx, tx, table, month)

	// another process was faster
	if err != nil || have {
		return err
	}
	if _, err := tx.ExecContext(ctx, "LOCK TABLE ? IN ACCESS EXCLUSIVE MODE", bun.Ident(table.rest())); err != nil {
		return err
	}

	_, err = tx.ExecContext(ctx, "CREATE TABLE ? (LIKE ? INCLUDING ALL) WITH (?)", bun.Ident(table.part(month)), bun.Ident(table.name),
		bun.Safe(table.with))
	if err != nil {
		return err
	}

	return attachPart(ctx, tx, table, month)
}

// attachPart makes a table the partition of a month, with the month's rows of the default
// partition.
func attachPart(ctx context.Context, tx *db.Tx, table partitioned, month model.Month) error {
	from, to := table.bound(month), table.bound(month.Next())
	part, rest := bun.Ident(table.part(month)), bun.Ident(table.rest())
	for _, statement := range []struct {
		text string
		args []any
	}{
		{"LOCK TABLE ? IN ACCESS EXCLUSIVE MODE", []any{rest}},
		{
			"WITH moved AS (DELETE FROM ?0 WHERE ?1 >= ?2 AND ?1 < ?3 RETURNING *) INSERT INTO ?4 SELECT * FROM moved ON CONFLICT DO NOTHING",
			[]any{rest, bun.Ident(table.key), from, to, part},
		},
		{"ALTER TABLE ? ATTACH PARTITION ? FOR VALUES FROM (?) TO (?)", []any{bun.Ident(table.name), part, from, to}},
	} {
		if _, err := tx.ExecContext(ctx, statement.text, statement.args...); err != nil {
			return err
		}
	}

	return nil
}

// changeParts runs a change of one table's parts in a transaction of its own, so that it never
// holds a lock of one table while it waits for another's. It is repeated while others keep the
// table busy.
func (s *Store) changeParts(ctx context.Context, change func(tx *db.Tx) error) error {
	var err error
	for attempt := range partLockAttempts {
		if attempt > 0 {
			select {
			case <-ctx.Done():
				return errors.Join(ctx.Err(), err)
			case <-time.After(partLockPause):
			}
		}

		err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
			// The wait for one's turn blocks nobody, so it has no limit.
			if err := tx.LockKey(ctx, db.PartitionLock); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = ?", partLockWait.Milliseconds()); err != nil {
				return err
			}

			return change(tx)
		})
		if err == nil || !db.IsRetryable(err) && !isLockTimeout(err) {
			return err
		}
	}

	return err
}

// isLockTimeout reports that lock_timeout ended a wait.
func isLockTimeout(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "55P03"
}

// addMonths is the month n months after m, or before it when n is negative.
func addMonths(m model.Month, n int) model.Month { return model.At(m.Start().AddDate(0, n, 0)).Month() }
