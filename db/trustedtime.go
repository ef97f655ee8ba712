package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/tallygate/tallygate/db/model"
)

// The time that deletions rely on. On PostgreSQL it is the server's clock, which all processes
// share; on SQLite it is the machine's. Either can be set wrongly, so TrustedNow compares it with
// the last time that it returned in any process, which is stored.

const (
	// clockStep is how far the clock may advance between two calls of TrustedNow, by any processes,
	// without counting as a jump. It is longer than the pause between two housekeeping tasks and
	// than a restart.
	clockStep = 10 * time.Minute

	// LongJump is the size from which a jump of the clock is reported as a fault. A shorter one is
	// probably a machine that was switched off.
	LongJump = 24 * time.Hour

	// settleShort and settleLong are how long the clock must run without another jump before it is
	// trusted again, after a short and after a long jump. settleShort is longer than
	// model.ConsumedRetention: no challenge or token is valid both before and after that pause.
	settleShort = model.ConsumedRetention + 10*time.Minute
	settleLong  = 24 * time.Hour

	// clockNoted is the age at which the stored time is written again.
	clockNoted = time.Minute

	clockSetting = "trusted_clock"
)

// Now returns the database's time: the clock of PostgreSQL's server, or this machine's on SQLite.
func (d *DB) Now(ctx context.Context) (model.Instant, error) {
	d.Clock.mu.Lock()
	now := d.Clock.now
	d.Clock.mu.Unlock()

	switch {
	case now != nil:
		return model.At(now()), nil
	case !d.IsPostgres():
		return model.At(time.Now()), nil
	}

	var at model.Instant
	err := d.Read.NewRaw("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").Scan(ctx, &at)
	if err != nil {
		return 0, fmt.Errorf("read the database's clock: %w", err)
	}

	return at, nil
}

// MaxClockDifference is how far a process's clock may be from the database's.
const MaxClockDifference = time.Minute

// CompareClock returns the database's time, and by how much a process's clock is ahead of it, or
// behind when negative. The duration of the query is not counted as a difference.
func (d *DB) CompareClock(
	ctx context.Context, clock func() time.Time,
) (now model.Instant, ahead time.Duration, err error) {
	before := clock()
	if now, err = d.Now(ctx); err != nil {
		return 0, 0, err
	}
	after := clock()

	// The database answered somewhere between the two readings.
	if at := now.Time(); at.Before(before) {
		ahead = before.Sub(at)
	} else if at.After(after) {
		ahead = after.Sub(at)
	}

	return now, ahead, nil
}

// ClockJump is the error of TrustedNow after the clock has jumped, until it has run for long enough
// since.
type ClockJump struct {
	From  model.Instant // the last trusted time
	Since model.Instant // when the jump was noticed, on the new time
	Until model.Instant // when the new time is trusted unless it jumps again
}

// Error implements error.
func (j *ClockJump) Error() string {
	return fmt.Sprintf("the database's clock jumped by %v to %s and is trusted from %s on", j.By().Round(time.Second),
		j.Since.Time().Format(time.RFC3339), j.Until.Time().Format(time.RFC3339))
}

// By returns the size of the jump, negative when the clock was set back.
func (j *ClockJump) By() time.Duration { return j.Since.Sub(j.From) }

// IsLong reports whether the clock jumped by more than LongJump, in either direction.
func (j *ClockJump) IsLong() bool { return j.By().Abs() > LongJump }

// TrustedNow returns the database's time for deletions, or a *ClockJump. A time is trusted when it
// follows the last trusted one by at most 10 minutes, or by this process's uptime since then. After
// a jump the clock must run for 70 minutes, after one of more than a day for 24 hours. A clock that
// is set back to the correct time is trusted at once. The state is stored, so that it holds for all
// processes and across restarts. The first time of an installation is trusted.
func (d *DB) TrustedNow(ctx context.Context) (model.Instant, error) {
	d.Clock.mu.Lock()
	uptime := d.Clock.uptime()
	d.Clock.mu.Unlock()

	at, err := d.Now(ctx)
	if err != nil {
		return 0, err
	}
	mark, err := readClockMark(ctx, d.Read)
	if err != nil {
		return 0, err
	}

	// A time just after the stored one is trusted without a write.
	now := reading{at, uptime}
	if age := at.Sub(mark.trusted); mark.since != 0 || age < 0 || age >= clockNoted {
		if mark, err = d.advanceClock(ctx, now); err != nil {
			return 0, err
		}
	}

	d.Clock.mu.Lock()
	defer d.Clock.mu.Unlock()

	if mark.since != 0 {
		d.Clock.seen = now
		return 0, mark.jump()
	}

	d.Clock.agreed = now
	return at, nil
}

// advanceClock compares a time with the stored state, and stores the new state. It holds no lock
// between its statements: a process that is paused in it delays no other one.
func (d *DB) advanceClock(ctx context.Context, now reading) (clockMark, error) {
	d.Clock.mu.Lock()
	agreed, seen := d.Clock.agreed.leadsTo(now), d.Clock.seen.leadsTo(now)
	d.Clock.mu.Unlock()

	for {
		stored, err := readClockMark(ctx, d.Write)
		if err != nil {
			return clockMark{}, err
		}

		mark := stored.advance(now.at, agreed, seen)
		replaced, err := d.replaceClockMark(ctx, stored, mark)
		if err != nil {
			return clockMark{}, fmt.Errorf("store the trusted time: %w", err)
		}
		if replaced {
			return mark, nil
		}
	}
}

// replaceClockMark stores a state if the stored one is still the given one, which is zero if none
// is stored. It reports whether it was. It is one statement: its lock never outlasts it.
func (d *DB) replaceClockMark(ctx context.Context, stored, mark clockMark) (replaced bool, _ error) {
	err := Retry(IsRetryable, func() error {
		result, err := d.Write.ExecContext(ctx, "INSERT INTO settings (name, value) VALUES (?, ?) "+
			"ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE settings.value = ?",
			clockSetting, mark.String(), stored.String())
		if err != nil {
			return err
		}

		rows, err := result.RowsAffected()
		replaced = rows == 1
		return err
	})

	return replaced, err
}

// LastTrusted returns when TrustedNow last stored a time that it trusted, in any process; 0 if
// never. trusted is false since a jump until the clock is trusted again.
func (d *DB) LastTrusted(ctx context.Context) (at model.Instant, trusted bool, err error) {
	mark, err := readClockMark(ctx, d.Read)
	return mark.trusted, mark.since == 0, err
}

// clockMark is the stored state of TrustedNow.
type clockMark struct {
	trusted model.Instant // the last trusted time; 0: none yet
	since   model.Instant // when a jump was noticed, on the new time; 0: the clock is trusted
	seen    model.Instant // the last time after the jump
}

// advance returns the state after a reading of the clock. agreed reports whether the process's
// uptime explains the reading after its last trusted one; seen reports the same for its last one
// since the jump.
func (m clockMark) advance(now model.Instant, agreed, seen bool) clockMark {
	switch {
	case m == (clockMark{}) || agreed || follows(m.trusted, now):
		return clockMark{trusted: now}
	case m.since == 0 || !seen && !follows(m.seen, now):
		return clockMark{trusted: m.trusted, since: now, seen: now}
	case now >= m.jump().Until:
		return clockMark{trusted: now}
	}

	return clockMark{trusted: m.trusted, since: m.since, seen: now}
}

// jump returns the jump after which the clock is not trusted yet.
func (m clockMark) jump() *ClockJump {
	jump := &ClockJump{From: m.trusted, Since: m.since}
	jump.Until = m.since.Add(settleShort)
	if jump.IsLong() {
		jump.Until = m.since.Add(settleLong)
	}
	return jump
}

// follows reports whether the time now may follow last in any process without a jump.
func follows(last, now model.Instant) bool {
	passed := now.Sub(last)
	return last != 0 && passed >= -clockSlack && passed <= clockStep
}

// String returns the stored form of the state.
func (m clockMark) String() string { return fmt.Sprintf("%d %d %d", m.trusted, m.since, m.seen) }

// readClockMark reads the stored state. It returns the zero state if there is none.
func readClockMark(ctx context.Context, idb bun.IDB) (m clockMark, err error) {
	var stored string
	err = idb.NewSelect().Table("settings").Column("value").Where("name = ?", clockSetting).Scan(ctx, &stored)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return m, nil
	case err != nil:
		return m, fmt.Errorf("read the last trusted time: %w", err)
	}

	if _, err := fmt.Sscanf(stored, "%d %d %d", &m.trusted, &m.since, &m.seen); err != nil {
		return m, fmt.Errorf("the setting %s is %q: %w", clockSetting, stored, err)
	}

	return m, nil
}
