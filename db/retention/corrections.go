package retention

import (
	"context"
	"fmt"
	"time"

	"github.com/tallygate/tallygate/db/accounts"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/outbox"
)

// A process whose clock is ahead stores times in the future. CorrectSchedule and CorrectDates
// replace such times, so that nothing waits until they come.

const (
	// deliverySlack exceeds every pause between two attempts of a delivery: MaxRetryAfter and its
	// jitter.
	deliverySlack = model.MaxRetryAfter + time.Hour

	// mailSlack exceeds every pause between two attempts of a mail.
	mailSlack = 5 * time.Hour

	// claimSlack exceeds the duration of an attempt of a delivery or a mail, so that a correction
	// does not repeat an attempt in progress.
	claimSlack = 3 * time.Minute
)

// correction changes or deletes rows with a time too far in the future.
type correction struct {
	table, key string
	condition  string // selects the wrong rows; ?1 is limit
	limit      any
	set        string // ?0 is value; empty: the rows are deleted
	value      any
}

// CorrectSchedule makes pending deliveries and mails due in a few minutes if they are due later
// than any retry can be. It returns their number.
func (s *Store) CorrectSchedule(ctx context.Context, now model.Instant) (int64, error) {
	soon := now.Add(claimSlack)
	return s.correct(ctx, []correction{
		{
			"deliveries", "site_id, id", "state = 'pending' AND claimed_until = 0 AND next_attempt_at > ?1", now.Add(deliverySlack),
			"next_attempt_at = ?0", soon,
		},
		{
			"deliveries", "site_id, id", "state = 'pending' AND claimed_until > ?1", now.Add(outbox.LeaseSlack),
			"next_attempt_at = ?0, claimed_until = ?0", soon,
		},
		{"mails", "id", "state = 'pending' AND next_attempt_at > ?1", now.Add(mailSlack), "next_attempt_at = ?0", soon},
	})
}

// CorrectDates corrects other times that are impossible at the given time: the next day of a daily
// export, the expiry of mailed links and of sessions, the last use of API tokens, the times of
// sites' deletions, and the days of notices. It returns the number of changed rows.
func (s *Store) CorrectDates(ctx context.Context, now model.Instant) (int64, error) {
	today := now.Day()

	return s.correct(ctx, []correction{
		{"sites", "id", "daily_export_url IS NOT NULL AND daily_export_day > ?1", today + 1, "daily_export_day = ?0",
			today},

		// Secrets keep their lifetime from now on.
		{
			"password_resets", "token_hash", "expires_at > ?1", now.Add(model.ResetLifetime + time.Hour),
			"expires_at = ?0", now.Add(model.ResetLifetime),
		},
		{
			"invitations", "id", "expires_at > ?1", now.Add(model.InvitationLifetime + time.Hour),
			"expires_at = ?0", now.Add(model.InvitationLifetime),
		},
		{
			"sessions", "id_hash", "expires_at > ?1", now.Add(accounts.SessionIdle + 24*time.Hour),
			fmt.Sprintf("last_seen_at = ?0 - %d, expires_at = ?0",
				accounts.SessionIdle.Microseconds()), now.Add(accounts.SessionIdle),
		},

		{"api_tokens", "id", "last_used_at > ?1", now.Add(24 * time.Hour), "last_used_at = ?0", now},
		{"deleted_sites", "site_id", "deleted_at > ?1", now.Add(lateHits), "deleted_at = ?0", now},
		{"failure_notices", "site_id, day", "day > ?1", today + 1, "", nil},
	})
}

// correct applies corrections, a few rows in each transaction. It queries before it writes, because
// even a write of nothing makes SQLite's writers wait.
func (s *Store) correct(ctx context.Context, corrections []correction) (int64, error) {
	var all int64

	for _, c := range corrections {
		wrong := fmt.Sprintf("FROM %s WHERE %s", c.table, c.condition)

		// The condition is repeated: PostgreSQL checks the outer one again on a row whose lock it
		// has waited for.
		change := fmt.Sprintf("%s AND (%s) IN (SELECT %[2]s %[3]s ORDER BY %[2]s LIMIT %[4]d)", c.condition, c.key,
			wrong, deleteChunk)

		if c.set == "" {
			change = fmt.Sprintf("DELETE FROM %s WHERE %s", c.table, change)
		} else {
			change = fmt.Sprintf("UPDATE %s SET %s WHERE %s", c.table, c.set, change)
		}

		for {
			var any bool
			if err := s.db.Read.NewRaw("SELECT EXISTS (SELECT 1 "+wrong+")", c.value, c.limit).
				Scan(ctx, &any); err != nil {
				return all, fmt.Errorf("look for times in the future in %s: %w", c.table, err)
			}
			if !any {
				break
			}

			result, err := s.db.Write.ExecContext(ctx, change, c.value, c.limit)
			if err != nil {
				return all, fmt.Errorf("correct times in the future in %s: %w", c.table, err)
			}

			n, err := result.RowsAffected()
			if all += n; err != nil {
				return all, err
			}
		}
	}

	return all, nil
}
