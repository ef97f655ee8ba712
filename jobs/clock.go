package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// warnEvery is the least time between two log lines about the clocks.
const warnEvery = time.Minute

var (
	// errUncertain means that nothing may be deleted now.
	errUncertain = errors.New("the time is not certain")
	// errNoTime means that the database returned no time.
	errNoTime = errors.New("the database's time is 1970 or earlier")
)

// clock is the database's clock, which all workers share for all decisions. It is only compared
// with the clock of this process. A difference means that one of the two is wrong. Then nothing is
// deleted.
type clock struct {
	db  *db.DB
	now func() time.Time // this process's clock
	log *slog.Logger

	mu     sync.Mutex
	state  clockState
	logged time.Time // time of the last log line, monotonic
}

// clockState is the result of the last comparisons. Its methods do not see later comparisons.
type clockState struct {
	difference time.Duration // this process's clock less the database's
	jump       *db.ClockJump // nil: the database's clock is trusted
}

// Now returns the database's time, and stores its difference from this process's clock.
func (c *clock) Now(ctx context.Context) (model.Instant, error) {
	now, _, err := c.compare(ctx)
	return now, err
}

// compare is Now, and returns the difference in addition.
func (c *clock) compare(ctx context.Context) (model.Instant, time.Duration, error) {
	now, difference, err := c.db.CompareClock(ctx, c.now)
	if err != nil {
		return 0, 0, err
	}

	c.mu.Lock()
	c.state.difference = difference
	c.mu.Unlock()

	return now, difference, nil
}

// Estimate returns this process's time, corrected by the last known difference.
func (c *clock) Estimate() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now().Add(-c.state.difference)
}

// Certain returns the database's time for what cannot be undone. It returns errUncertain, which is
// logged already, if the two clocks differ by more than a minute or the database's has jumped.
func (c *clock) Certain(ctx context.Context) (model.Instant, error) {
	_, difference, err := c.compare(ctx)
	if err != nil {
		return 0, err
	}

	now, err := c.db.TrustedNow(ctx)
	jump, jumped := errors.AsType[*db.ClockJump](err)
	if err != nil && !jumped {
		return 0, err
	}

	c.mu.Lock()
	c.state.jump = jump
	c.mu.Unlock()

	// Another goroutine may have stored a newer comparison. It does not apply to this time.
	own := clockState{difference, jump}
	if warning := own.warning(); warning != "" {
		c.logWarning(ctx, own.level(), warning)
		return 0, errUncertain
	}

	// Everything would have expired long before any other time.
	if now <= 0 {
		return 0, errNoTime
	}

	return now, nil
}

// Warning returns why nothing is deleted now, for an operator, or "".
func (c *clock) Warning() string { return c.current().warning() }

func (c *clock) current() clockState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// warning returns why nothing is deleted, or "".
func (s clockState) warning() string {
	var warnings []string

	if s.difference.Abs() > db.MaxClockDifference {
		warnings = append(warnings, fmt.Sprintf("worker clock differs from the database's by %.0f s", s.difference.Seconds()))
	}
	if s.jump != nil {
		warnings = append(warnings, s.jump.Error())
	}
	if len(warnings) == 0 {
		return ""
	}

	return strings.Join(warnings, "; ") + "; nothing is deleted"
}

// level returns the warning's log level. It is an error, except for a short jump: that may be a
// machine that was suspended.
func (s clockState) level() slog.Level {
	if s.difference.Abs() <= db.MaxClockDifference && s.jump != nil && !s.jump.IsLong() {
		return slog.LevelWarn
	}
	return slog.LevelError
}

// logWarning logs a warning, at most one a minute.
func (c *clock) logWarning(ctx context.Context, level slog.Level, warning string) {
	c.mu.Lock()
	due := c.logged.IsZero() || time.Since(c.logged) >= warnEvery
	if due {
		c.logged = time.Now()
	}
	c.mu.Unlock()

	if due {
		c.log.Log(ctx, level, warning)
	}
}
