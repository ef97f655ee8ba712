package retention

import (
	"context"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// A process with a clock ahead stores times in the future. CorrectSchedule and CorrectDates replace
// such times, so that nothing waits until they come.

const (
	// deliverySlack exceeds every pause between two attempts of a delivery: MaxRetryPause with its
	// jitter, and MaxRetryAfter.
	deliverySlack = max(model.MaxRetryPause, model.MaxRetryAfter) + 2*time.Hour

	// mailSlack exceeds every pause between two attempts of a mail.
	mailSlack = 5 * time.Hour

	// leaseSlack exceeds the duration of an attempt of a delivery or a mail, so that a correction
	// does not repeat an attempt in progress.
	leaseSlack = 3 * time.Minute
)

// correction changes rows with a time too far in the future.
type correction struct {
	table, key string
	condition  string // selects the wrong rows; ?1 is limit
	limit      any
	set        string // ?0 is value
	value      any
}

// CorrectSchedule makes pending deliveries, messages to channels and mails due in a few minutes if
// they are due later than any retry can be. It returns their number.
func (s *Store) CorrectSchedule(ctx context.Context, now model.Instant) (int64, error) {
	soon := now.Add(leaseSlack)
	return s.correct(ctx, []correction{
		// Deliveries that wait, and then deliveries with an attempt in progress: their lease must
		// not outlast the wrong clock either.
		{
			table: "deliveries", key: "site_id, id",
			condition: "state = 'pending' AND claimed_until = 0 AND next_attempt_at > ?1", limit: now.Add(deliverySlack),
			set: "next_attempt_at = ?0", value: soon,
		},
		{
			table: "deliveries", key: "site_id, id",
			condition: "state = 'pending' AND claimed_until > ?1", limit: now.Add(outbox.LeaseSlack),
			set: "next_attempt_at = ?0, claimed_until = ?0", value: soon,
		},
		{
			table: "alert_messages", key: "id",
			condition: "state = 'pending' AND next_attempt_at > ?1", limit: now.Add(deliverySlack + 24*time.Hour), // quiet hours
			set: "next_attempt_at = ?0, claimed_until = 0", value: soon,
		},
		{
			table: "mails", key: "id",
			condition: "state = 'pending' AND next_attempt_at > ?1", limit: now.Add(mailSlack),
			set: "next_attempt_at = ?0", value: soon,
		},
	})
}

// CorrectDates corrects the next day of daily exports and the times of sites' deletions if they are
// impossible at the given time: exports would stop, and rows would stay, until these times come. It
// returns the number of changed rows.
func (s *Store) CorrectDates(ctx context.Context, now model.Instant) (int64, error) {
	today := now.Day()

	return s.correct(ctx, []correction{
		{
			table: "sites", key: "id",
			condition: "daily_export_url IS NOT NULL AND daily_export_day > ?1", limit: today + 1,
			set: "daily_export_day = ?0", value: today,
		},
		{
			table: "deleted_sites", key: "site_id",
			condition: "deleted_at > ?1", limit: now.Add(lateHits),
			set: "deleted_at = ?0", value: now,
		},
	})
}

// correct applies corrections, a few rows in each transaction, and returns the number of changed
// rows.
func (s *Store) correct(ctx context.Context, corrections []correction) (int64, error) {
	var all int64
	for _, c := range corrections {
		wrong := fmt.Sprintf("FROM %s WHERE %s", c.table, c.condition)

		// The condition is repeated: after a wait for a row's lock, PostgreSQL checks only the
		// outer condition again.
		rows := fmt.Sprintf("%s AND (%s) IN (SELECT %[2]s %[3]s ORDER BY %[2]s LIMIT %[4]d)", c.condition, c.key,
			wrong, deleteChunk)

		change := fmt.Sprintf("UPDATE %s SET %s WHERE %s", c.table, c.set, rows)
		err := s.db.EachCellOf(ctx, c.table, func(in *db.Cell) error {
			n, err := cell{in}.changeInChunks(ctx, wrong, change, c.value, c.limit)
			all += n
			return err
		})
		if err != nil {
			return all, fmt.Errorf("correct times in the future in %s: %w", c.table, err)
		}
	}

	return all, nil
}

// changeInChunks repeats a statement that changes a few rows, until the clause "FROM … WHERE …"
// selects no row, and returns the number of changed rows. Both have the same arguments. It queries
// before it writes, because even a write that changes no row makes SQLite's writers wait.
func (c cell) changeInChunks(ctx context.Context, from, change string, args ...any) (int64, error) {
	var all int64
	for {
		var more bool
		if err := c.Read.NewRaw("SELECT EXISTS (SELECT 1 "+from+")", args...).Scan(ctx, &more); err != nil {
			return all, err
		}
		if !more {
			return all, nil
		}

		result, err := c.Write.ExecContext(ctx, change, args...)
		if err != nil {
			return all, err
		}

		n, err := result.RowsAffected()
		if all += n; err != nil {
			return all, err
		}
	}
}
