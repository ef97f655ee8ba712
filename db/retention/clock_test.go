package retention_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestNowIsTheDatabasesTime checks that the time is the server's or, with SQLite, this machine's,
// unless a test sets a clock. Both run on one machine here.
func TestNowIsTheDatabasesTime(t *testing.T) {
	dbtest.Parallel(t, func(t *testing.T, d *db.DB) {
		before := model.At(time.Now())
		now, err := d.Now(t.Context())

		after := model.At(time.Now())
		if err != nil || now < before || now > after {
			t.Errorf("%v, error %v; want a time from %v to %v", now.Time(), err, before.Time(), after.Time())
		}
		if trusted, err := d.TrustedNow(t.Context()); err != nil || trusted < now {
			t.Errorf("trusted %v, error %v; want %v or later", trusted.Time(), err, now.Time())
		}
	})
}

// steppedClock is a clock that can jump, in addition to the real passage of time.
type steppedClock struct {
	start  time.Time
	passed time.Duration
	ahead  time.Duration

	// The values of passed at which the state is expected to change.
	changes []time.Duration
}

func (c *steppedClock) Now() time.Time { return c.start.Add(c.passed + c.ahead) }

// open opens the database again, as a process that starts now.
func (c *steppedClock) open(t *testing.T, databaseURL string) *db.DB {
	d := dbtest.Open(t, databaseURL)
	began := c.passed
	dbtest.SetClocks(d, c.Now, func() time.Duration { return c.passed - began })
	return d
}

// check calls TrustedNow and returns the jump that it reports, or nil if it trusts the clock.
func (c *steppedClock) check(t *testing.T, d *db.DB) *db.ClockJump {
	t.Helper()
	now, err := d.TrustedNow(t.Context())
	if jump, ok := errors.AsType[*db.ClockJump](err); ok {
		return jump
	}
	if err != nil || now != model.At(c.Now()) {
		t.Fatalf("trusted %v, error %v; want %v", now.Time(), err, c.Now())
	}

	return nil
}

// run advances the clock and returns how long the clock was not trusted. It checks every nine
// minutes, as a clock may advance by ten without a jump, and each minute around expected changes.
func (c *steppedClock) run(t *testing.T, d *db.DB, d2 time.Duration) (held time.Duration) {
	t.Helper()
	for end := c.passed + d2; c.passed < end; {
		step := min(c.step(), end-c.passed)
		c.passed += step
		if c.check(t, d) != nil {
			held += step
		}
	}

	return held
}

// step returns the time until the next check.
func (c *steppedClock) step() time.Duration {
	const around = 4 * time.Minute
	step := 9 * time.Minute
	for _, change := range c.changes {
		switch first := change - around; {
		case c.passed < first:
			step = min(step, first-c.passed)
		case c.passed < change+around:
			step = min(step, time.Minute)
		}
	}

	return step
}

// TestClockJumps checks that the clock is not trusted for 70 minutes after a jump, or for 24 hours
// after a jump of more than a day.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		ahead   time.Duration
		off     time.Duration // for how long no process runs, too
		restart bool
		want    time.Duration
	}{
		{name: "nine minutes", ahead: 9 * time.Minute},
		{name: "fifty-five minutes", ahead: 55 * time.Minute, want: 70 * time.Minute},
		{name: "fifty-five minutes, across restarts", ahead: 55 * time.Minute, restart: true, want: 70 * time.Minute},
		{name: "fourteen months", ahead: 425 * 24 * time.Hour, want: 24 * time.Hour},
		{name: "fourteen months, across restarts", ahead: 425 * 24 * time.Hour, restart: true, want: 24 * time.Hour},
		{name: "back by a year", ahead: -365 * 24 * time.Hour, want: 24 * time.Hour},
		{name: "back by an hour", ahead: -time.Hour, want: 58 * time.Minute}, // until it reaches the last trusted time
		{name: "off for a month", off: 30 * 24 * time.Hour, restart: true, want: 24 * time.Hour},
		{name: "off for a night", off: 8 * time.Hour, restart: true, want: 70 * time.Minute},
		{name: "no task for three hours", off: 3 * time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			dbtest.EachURL(t, func(t *testing.T, databaseURL string) {
				clock := &steppedClock{start: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
				d := clock.open(t, databaseURL)
				testkit.Require(t, clock.run(t, d, 30*time.Minute), 0, "a new installation's clock was not trusted for")

				clock.ahead += test.ahead
				clock.passed += test.off

				clock.changes = []time.Duration{clock.passed, clock.passed + test.want}
				var held time.Duration
				for end := clock.passed + test.want + 3*time.Hour; clock.passed < end; {
					if test.restart {
						d = clock.open(t, databaseURL)
					}

					held += clock.run(t, d, 90*time.Minute)
				}

				testkit.Equal(t, held.Truncate(2*time.Minute), test.want, "not trusted for %v", held)
			})
		})
	}
}

// TestClockIsCorrected checks that a corrected clock is trusted at once by a process that knows how
// long it was wrong, and after 70 minutes by a process that does not. After another jump the wait
// restarts.
func TestClockIsCorrected(t *testing.T) {
	dbtest.ParallelURL(t, func(t *testing.T, databaseURL string) {
		clock := &steppedClock{start: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
		d := clock.open(t, databaseURL)
		clock.run(t, d, time.Minute)

		clock.ahead = 425 * 24 * time.Hour
		if held := clock.run(t, d, 20*time.Hour); held != 20*time.Hour {
			t.Fatalf("14 months ahead: not trusted for %v of 20 hours", held)
		}

		clock.ahead += 2 * time.Hour
		if held := clock.run(t, d, 20*time.Hour); held != 20*time.Hour {
			t.Errorf("2 hours more: not trusted for %v of 20 hours", held)
		}

		clock.ahead = 0
		testkit.Equal(t, clock.run(t, d, time.Hour), 0, "put right: not trusted for")

		clock.ahead = 3 * time.Hour
		clock.run(t, d, 30*time.Minute)

		clock.ahead = 0
		clock.changes = []time.Duration{clock.passed, clock.passed + 70*time.Minute}
		if held := clock.run(t, clock.open(t, databaseURL), 2*time.Hour); held != 70*time.Minute {
			t.Errorf("put right while the process was restarted: not trusted for %v, want 70 minutes", held)
		}
	})
}
