package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/model"
)

// signInMemory is how long failed sign-ins are remembered after the last attempt, also a good one.
const signInMemory = 24 * time.Hour

// SignInLimit is one counter of failed sign-ins and its rule. The first Free failures cost nothing; after them every
// further attempt must wait 1 s, 2 s, 4 s … but never longer than Cap.
//
// An attempt during the wait is refused before its password is looked at, and changes nothing: nobody can prolong a wait.
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
	n := int(f.Failures) - l.Free
	if n < 0 {
		return 0
	}
	delay := l.Cap
	if n < 32 { // beyond that the shift would only overflow
		delay = min(l.Cap, time.Second<<n)
	}
	passed := max(0, now.Sub(f.LastAt)) // the clock may step back
	return max(0, delay-passed)
}

// BeginSignIn asks for an attempt to sign in. It returns how long the caller has to wait instead, or zero: then the
// attempt already counts as failed on every limit, so that parallel guesses cannot slip through. SignInSucceeded or
// CancelSignIn take that back.
func (d *DB) BeginSignIn(ctx context.Context, now model.Instant, limits ...SignInLimit) (wait time.Duration, err error) {
	limits = inKeyOrder(limits)
	err = d.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
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
	if err != nil {
		return 0, fmt.Errorf("count a sign-in attempt: %w", err)
	}
	return wait, nil
}

// errWait takes back the rows that an attempt made, so that one that has to wait leaves nothing: else whoever is refused
// could fill the table with made-up addresses.
var errWait = errors.New("wait")

// lockSignInFailures returns the limits' rows in the limits' order, made when they are missing, locked until the
// transaction ends.
func lockSignInFailures(ctx context.Context, tx bun.Tx, now model.Instant, limits []SignInLimit) ([]signInFailures, error) {
	rows := make([]signInFailures, len(limits))
	for i, l := range limits {
		rows[i] = signInFailures{Key: l.Key, LastAt: now}
		// One statement that makes or locks the row: between two of them a success could delete it. The update changes nothing.
		err := tx.NewInsert().Model(&rows[i]).On("CONFLICT (key) DO UPDATE").Set("key = EXCLUDED.key").Returning("*").Scan(ctx)
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// SignInSucceeded settles an attempt whose password was correct.
func (d *DB) SignInSucceeded(ctx context.Context, limits ...SignInLimit) error {
	err := d.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
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
func (d *DB) CancelSignIn(ctx context.Context, limits ...SignInLimit) error {
	err := d.inTx(ctx, func(ctx context.Context, tx bun.Tx) error {
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

func takeBack(ctx context.Context, tx bun.Tx, key []byte) error {
	_, err := tx.NewUpdate().Model((*signInFailures)(nil)).Set("failures = failures - 1").
		Where("key = ?", key).Where("failures > 0").Exec(ctx)
	return err
}

// DeleteOldSignInFailures removes the counters nobody needs any more, for housekeeping, and returns how many.
func (d *DB) DeleteOldSignInFailures(ctx context.Context, now model.Instant) (int64, error) {
	res, err := d.write.NewDelete().Model((*signInFailures)(nil)).Where("last_at <= ?", now.Add(-signInMemory)).Exec(ctx)
	if err != nil {
		return 0, fmt.Errorf("delete old sign-in failures: %w", err)
	}
	return res.RowsAffected()
}

// inKeyOrder sorts, so that two attempts that share a network lock their rows in the same order.
func inKeyOrder(limits []SignInLimit) []SignInLimit {
	return slices.SortedFunc(slices.Values(limits), func(a, b SignInLimit) int { return bytes.Compare(a.Key, b.Key) })
}
