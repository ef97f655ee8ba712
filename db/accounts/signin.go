package accounts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// signInMemory is how long failed sign-ins are remembered after the last attempt, successful or
// not.
const signInMemory = 24 * time.Hour

// The bound of the table of failures. An attempt inserts up to four rows, and an attacker can
// choose their keys: made-up addresses, and the networks that the attacker controls.
const (
	maxSignInFailures  = 100_000 // rows
	signInFailuresStep = 1_000   // rows that a process inserts between two checks of the bound
)

// SignInLimit is one counter of failed sign-ins and its rule. The first Free failures cause no
// wait. After them every attempt must wait 1 s, 2 s, 4 s … up to Cap.
//
// An attempt during the wait is refused before its password is checked, and does not extend the
// wait.
type SignInLimit struct {
	Key   []byte // keyed hash: the email address or network itself is not stored
	Free  int
	Cap   time.Duration
	Clear bool // a correct password sets the counter to zero, instead of only removing its own attempt
}

// signInFailures is a stored counter of failed attempts.
type signInFailures struct {
	bun.BaseModel `bun:"table:signin_failures"`

	Key      []byte        `bun:",pk"`
	Failures int32         `bun:",notnull"`
	LastAt   model.Instant `bun:",notnull"`
}

// wait returns how long the next attempt must wait from now, or 0.
func (l SignInLimit) wait(f signInFailures, now model.Instant) time.Duration {
	// Count a failure in the future as a failure now: another process may have a clock ahead.
	passed := max(0, now.Sub(f.LastAt))
	n := int(f.Failures) - l.Free
	if n < 0 || passed >= signInMemory {
		return 0
	}

	// A shift by more than 31 would overflow.
	delay := l.Cap
	if n < 32 {
		delay = min(l.Cap, time.Second<<n)
	}

	return max(0, delay-passed)
}

// SignIns counts attempts to sign in, and others that are throttled.
type SignIns struct {
	db *db.DB

	newSignInFailures atomic.Int64 // rows inserted by this process since it last checked the table's bound
}

// Begin starts an attempt to sign in. It returns how long the caller must wait, or zero for an
// attempt that may go on. Such an attempt is counted as failed on every limit at once, so that
// parallel guesses are all counted. Succeeded or Cancel remove it from the count.
//
// An attempt that must wait is refused by a plain read: it writes nothing and does not wait for
// other writers.
func (s *SignIns) Begin(
	ctx context.Context, now model.Instant, limits ...SignInLimit,
) (wait time.Duration, err error) {
	if len(limits) == 0 {
		return 0, nil
	}

	limits = inKeyOrder(limits)

	wait, missing, err := s.signInWait(ctx, now, limits)
	if err == nil && wait == 0 {
		wait, err = s.countSignIn(ctx, now, limits)
	}
	if err == nil && wait == 0 {
		err = s.boundSignInFailures(ctx, missing)
	}
	if err != nil {
		return 0, fmt.Errorf("count a sign-in attempt: %w", err)
	}

	return wait, nil
}

// signInWait returns how long an attempt must wait, and how many of the limits have no row yet.
func (s *SignIns) signInWait(
	ctx context.Context, now model.Instant, limits []SignInLimit,
) (wait time.Duration, missing int, err error) {
	keys := make([][]byte, len(limits))
	for i, l := range limits {
		keys[i] = l.Key
	}

	var rows []signInFailures
	if err := s.db.Read.NewSelect().Model(&rows).Where("key IN ?", bun.Tuple(keys)).Scan(ctx); err != nil {
		return 0, 0, err
	}

	ahead := false
	for _, row := range rows {
		i := slices.IndexFunc(limits, func(l SignInLimit) bool { return bytes.Equal(l.Key, row.Key) })
		wait = max(wait, limits[i].wait(row, now))
		ahead = ahead || row.LastAt > now
	}

	// The clock was set back. Without this write the wait would start again at each attempt until
	// the clock has reached the stored time. It costs one write for each row and step of the clock.
	if ahead {
		err = s.clampSignInFailures(ctx, now, keys)
	}

	return wait, len(limits) - len(rows), err
}

// clampSignInFailures sets the times of failures in the future to now. keys must be sorted.
func (s *SignIns) clampSignInFailures(ctx context.Context, now model.Instant, keys [][]byte) error {
	return s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		for _, key := range keys {
			_, err := tx.NewUpdate().Model((*signInFailures)(nil)).Set("last_at = ?", now).
				Where("key = ?", key).Where("last_at > ?", now).Exec(ctx)
			if err != nil {
				return err
			}
		}

		return nil
	})
}

// countSignIn counts an attempt on every limit, or returns how long it must wait. Attempts that
// were read at the same time are counted one after another.
func (s *SignIns) countSignIn(
	ctx context.Context, now model.Instant, limits []SignInLimit,
) (wait time.Duration, err error) {
	err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		rows, err := lockSignInFailures(ctx, tx, now, limits)
		if err != nil {
			return err
		}

		// The transaction runs again after a conflict.
		wait = 0
		for i, l := range limits {
			if now.Sub(rows[i].LastAt) >= signInMemory {
				rows[i].Failures = 0
			}

			wait = max(wait, l.wait(rows[i], now))
		}

		// A refused attempt does not count: errWait rolls the transaction back.
		if wait > 0 {
			return errWait
		}

		for _, row := range rows {
			row.Failures++
			row.LastAt = now
			if _, err := tx.NewUpdate().Model(&row).WherePK().Exec(ctx); err != nil {
				return err
			}
		}

		return nil
	})
	if errors.Is(err, errWait) {
		err = nil
	}

	return wait, err
}

// errWait rolls back the rows that a refused attempt inserted.
var errWait = errors.New("wait")

// lockSignInFailures inserts the missing rows of the limits, locks all of them until the
// transaction ends, and returns them in the order of the limits.
func lockSignInFailures(
	ctx context.Context, tx *db.Tx, now model.Instant, limits []SignInLimit,
) ([]signInFailures, error) {
	rows := make([]signInFailures, len(limits))
	for i, l := range limits {
		rows[i] = signInFailures{Key: l.Key, LastAt: now}

		// Insert or lock the row with one statement: between two of them a success could delete the
		// row. The update changes nothing.
		err := tx.NewInsert().Model(&rows[i]).On("CONFLICT (key) DO UPDATE").Set("key = EXCLUDED.key").Returning("*").
			Scan(ctx)
		if err != nil {
			return nil, err
		}
	}

	return rows, nil
}

// boundSignInFailures counts inserted rows, and enforces the bound of the table after each
// signInFailuresStep of them.
func (s *SignIns) boundSignInFailures(ctx context.Context, made int) error {
	if s.newSignInFailures.Add(int64(made)) < signInFailuresStep {
		return nil
	}
	s.newSignInFailures.Store(0)
	_, err := s.dropSignInFailures(ctx)
	return err
}

// dropSignInFailures deletes the rows over maxSignInFailures, first the oldest with the fewest
// failures. So made-up addresses and unused networks, which have one failure, displace each other.
// To displace the counter of an address with n failures, an attacker needs 100,000 other counters
// with n failures each, and gains a few guesses.
func (s *SignIns) dropSignInFailures(ctx context.Context) (int64, error) {
	rows, err := s.db.Read.NewSelect().Model((*signInFailures)(nil)).Count(ctx)
	if err != nil || rows <= maxSignInFailures {
		return 0, err
	}

	lightest := s.db.Write.NewSelect().Model((*signInFailures)(nil)).Column("key").OrderExpr("failures, last_at").
		Limit(int64(rows - maxSignInFailures))
	if s.db.IsPostgres() {
		// Skip rows of attempts in progress.
		lightest.For("UPDATE SKIP LOCKED")
	}

	res, err := s.db.Write.NewDelete().Model((*signInFailures)(nil)).Where("key IN (?)", lightest).Exec(ctx)
	if err != nil {
		return 0, err
	}

	return res.RowsAffected()
}

// Succeeded removes an attempt with a correct password from the counters, or resets the counters
// with Clear.
func (s *SignIns) Succeeded(ctx context.Context, limits ...SignInLimit) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		for _, l := range inKeyOrder(limits) {
			if !l.Clear {
				if err := uncount(ctx, tx, l.Key); err != nil {
					return err
				}

				continue
			}

			if _, err := tx.NewDelete().Model((*signInFailures)(nil)).Where("key = ?", l.Key).Exec(ctx); err != nil {
				return err
			}
		}

		return nil
	})
	if err != nil {
		return fmt.Errorf("record a successful sign-in: %w", err)
	}

	return nil
}

// Cancel removes an attempt from the counters, because its password was never checked.
func (s *SignIns) Cancel(ctx context.Context, limits ...SignInLimit) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		for _, l := range inKeyOrder(limits) {
			if err := uncount(ctx, tx, l.Key); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cancel a sign-in attempt: %w", err)
	}

	return nil
}

// uncount removes one attempt from a counter.
func uncount(ctx context.Context, tx *db.Tx, key []byte) error {
	_, err := tx.NewUpdate().Model((*signInFailures)(nil)).Set("failures = failures - 1").
		Where("key = ?", key).Where("failures > 0").Exec(ctx)
	return err
}

// DeleteOld deletes the counters that no longer throttle any attempt and the counters over the
// bound of the table, and returns their number. It sets the times of failures in the future to now,
// so that they expire as well. Housekeeping calls it.
func (s *SignIns) DeleteOld(ctx context.Context, now model.Instant) (int64, error) {
	var old int64
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		res, err := tx.NewDelete().Model((*signInFailures)(nil)).Where("last_at <= ?", now.Add(-signInMemory)).
			Exec(ctx)
		if err != nil {
			return err
		}
		if old, err = res.RowsAffected(); err != nil {
			return err
		}

		_, err = tx.NewUpdate().Model((*signInFailures)(nil)).Set("last_at = ?", now).Where("last_at > ?", now).
			Exec(ctx)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("delete old sign-in failures: %w", err)
	}

	dropped, err := s.dropSignInFailures(ctx)
	if err != nil {
		return old, fmt.Errorf("bound the sign-in failures: %w", err)
	}

	return old + dropped, nil
}

// inKeyOrder sorts limits by key, so that two attempts from one network lock their rows in the same
// order.
func inKeyOrder(limits []SignInLimit) []SignInLimit {
	return slices.SortedFunc(slices.Values(limits), func(a, b SignInLimit) int { return bytes.Compare(a.Key, b.Key) })
}
