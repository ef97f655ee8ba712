package accounts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// signInMemory is how long failed sign-ins are remembered after the last attempt, also a good one.
const signInMemory = 24 * time.Hour

// The bound of the table of failures. An attempt makes up to four rows, of which an attacker can
// choose the keys: made-up addresses, and the networks that the attacker has.
const (
	maxSignInFailures  = 100_000 // rows
	signInFailuresStep = 1_000   // new rows of a process after which it looks at the bound
)

// SignInLimit is one counter of failed sign-ins and its rule. The first Free failures cost nothing;
// after them every further attempt must wait 1 s, 2 s, 4 s … but never longer than Cap.
//
// An attempt during the wait is refused before its password is checked, and does not lengthen the
// wait.
type SignInLimit struct {
	Key   []byte // keyed hash of what is counted: the database never learns the address
	Free  int
	Cap   time.Duration
	Clear bool // a correct password sets the counter to zero, instead of only taking its own attempt back
}

type signInFailures struct {
	bun.BaseModel `bun:"table:signin_failures"`

	Key      []byte        `bun:",pk"`
	Failures int32         `bun:",notnull"`
	LastAt   model.Instant `bun:",notnull"`
}

// wait is how long the next attempt has to wait from now.
func (l SignInLimit) wait(f signInFailures, now model.Instant) time.Duration {
	// a failure in the future counts as one of now
	passed := max(0, now.Sub(f.LastAt))
	n := int(f.Failures) - l.Free
	if n < 0 || passed >= signInMemory {
		return 0
	}

	delay := l.Cap

	// beyond that the shift would only overflow
	if n < 32 {
		delay = min(l.Cap, time.Second<<n)
	}

	return max(0, delay-passed)
}

// BeginSignIn asks for an attempt to sign in. It returns how long the caller has to wait instead,
// or zero: then the attempt already counts as failed on every limit, so that parallel guesses
// cannot slip through. SignInSucceeded or CancelSignIn take that back.
//
// An attempt that must wait is refused by a plain read: it writes nothing and does not wait for
// other writers.
func (s *Store) BeginSignIn(ctx context.Context, now model.Instant, limits ...SignInLimit) (wait time.Duration, err error) {
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

// signInWait reads how long an attempt must wait, and how many of the limits have no row yet.
func (s *Store) signInWait(ctx context.Context, now model.Instant, limits []SignInLimit) (wait time.Duration, missing int, err error) {
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

	// The clock was set back. Without this write the wait would begin again at each look until the
	// wrong time has come. It is one write for each row and step of the clock.
	if ahead {
		err = s.pullSignInFailures(ctx, now, keys)
	}

	return wait, len(limits) - len(rows), err
}

// pullSignInFailures makes failures in the future failures of now. The keys are in order.
func (s *Store) pullSignInFailures(ctx context.Context, now model.Instant, keys [][]byte) error {
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

// countSignIn counts an attempt on every limit, or returns how long it must wait after all:
// attempts that were read together count one after another.
func (s *Store) countSignIn(ctx context.Context, now model.Instant, limits []SignInLimit) (wait time.Duration, err error) {
	err = s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		rows, err := lockSignInFailures(ctx, tx, now, limits)
		if err != nil {
			return err
		}

		wait = 0
		for i, l := range limits {
			if now.Sub(rows[i].LastAt) >= signInMemory {
				rows[i].Failures = 0
			}

			wait = max(wait, l.wait(rows[i], now))
		}

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

// errWait rolls back the rows that an attempt made, so that a refused attempt leaves nothing.
var errWait = errors.New("wait")

// lockSignInFailures returns the limits' rows in the limits' order, made when they are missing,
// locked until the transaction ends.
func lockSignInFailures(ctx context.Context, tx *db.Tx, now model.Instant, limits []SignInLimit) ([]signInFailures, error) {
	rows := make([]signInFailures, len(limits))
	for i, l := range limits {
		rows[i] = signInFailures{Key: l.Key, LastAt: now}

		// One statement that makes or locks the row: between two of them a success could delete it.
		// The update changes nothing.
		err := tx.NewInsert().Model(&rows[i]).On("CONFLICT (key) DO UPDATE").Set("key = EXCLUDED.key").Returning("*").Scan(ctx)
		if err != nil {
			return nil, err
		}
	}

	return rows, nil
}

// boundSignInFailures counts new rows, and after each signInFailuresStep of them drops what is over
// the bound.
func (s *Store) boundSignInFailures(ctx context.Context, made int) error {
	if s.newSignInFailures.Add(int64(made)) < signInFailuresStep {
		return nil
	}
	s.newSignInFailures.Store(0)
	_, err := s.dropSignInFailures(ctx)
	return err
}

// dropSignInFailures drops the rows over maxSignInFailures: those with the fewest failures first,
// and the oldest of these. So made-up addresses and fresh networks, which have one failure, push
// out each other. To push out the counter of an address with n failures, an attacker needs 100,000
// other counters with n failures each, and gains a few guesses.
func (s *Store) dropSignInFailures(ctx context.Context) (int64, error) {
	rows, err := s.db.Read.NewSelect().Model((*signInFailures)(nil)).Count(ctx)
	if err != nil || rows <= maxSignInFailures {
		return 0, err
	}

	light := s.db.Write.NewSelect().Model((*signInFailures)(nil)).Column("key").OrderExpr("failures, last_at").
		Limit(int64(rows - maxSignInFailures))

	if s.db.IsPostgres() {
		// Rows of attempts in progress stay.
		light.For("UPDATE SKIP LOCKED")
	}

	res, err := s.db.Write.NewDelete().Model((*signInFailures)(nil)).Where("key IN (?)", light).Exec(ctx)
	if err != nil {
		return 0, err
	}

	return res.RowsAffected()
}

// SignInSucceeded settles an attempt whose password was correct.
func (s *Store) SignInSucceeded(ctx context.Context, limits ...SignInLimit) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		for _, l := range inKeyOrder(limits) {
			if !l.Clear {
				if err := takeBack(ctx, tx, l.Key); err != nil {
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
		return fmt.Errorf("settle a sign-in: %w", err)
	}

	return nil
}

// CancelSignIn takes back an attempt whose password was never checked.
func (s *Store) CancelSignIn(ctx context.Context, limits ...SignInLimit) error {
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		for _, l := range inKeyOrder(limits) {
			if err := takeBack(ctx, tx, l.Key); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("take back a sign-in attempt: %w", err)
	}

	return nil
}

func takeBack(ctx context.Context, tx *db.Tx, key []byte) error {
	_, err := tx.NewUpdate().Model((*signInFailures)(nil)).Set("failures = failures - 1").
		Where("key = ?", key).Where("failures > 0").Exec(ctx)
	return err
}

// DeleteOldSignInFailures removes, for housekeeping, the counters that no longer throttle anything
// and those over the bound of the table, and returns how many. Failures in the future become
// failures of now, so that they end as well.
func (s *Store) DeleteOldSignInFailures(ctx context.Context, now model.Instant) (int64, error) {
	var old int64
	err := s.db.InTx(ctx, func(ctx context.Context, tx *db.Tx) error {
		res, err := tx.NewDelete().Model((*signInFailures)(nil)).Where("last_at <= ?", now.Add(-signInMemory)).Exec(ctx)
		if err != nil {
			return err
		}
		if old, err = res.RowsAffected(); err != nil {
			return err
		}

		_, err = tx.NewUpdate().Model((*signInFailures)(nil)).Set("last_at = ?", now).Where("last_at > ?", now).Exec(ctx)
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

// inKeyOrder sorts, so that two attempts that share a network lock their rows in the same order.
func inKeyOrder(limits []SignInLimit) []SignInLimit {
	return slices.SortedFunc(slices.Values(limits), func(a, b SignInLimit) int { return bytes.Compare(a.Key, b.Key) })
}
