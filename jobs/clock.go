package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/db/retention"
)

// warnEvery is the least time between two log lines about the clocks.
const warnEvery = time.Minute

// errUncertain means that nothing may be deleted now.
var errUncertain = errors.New("the time is not certain")

// timekeeper is the database as a clock.
type timekeeper interface {
	// CompareClock returns the database's time, and how far a local clock is ahead of it.
	CompareClock(ctx context.Context, local func() time.Time) (model.Instant, time.Duration, error)
	// TrustedNow returns the database's time, or a *db.ClockJump if it jumped.
	TrustedNow(context.Context) (model.Instant, error)
}

// databaseClock is the timekeeper of a database.
type databaseClock struct {
	db        *db.DB
	retention *retention.Store
}

// CompareClock implements timekeeper.
func (c databaseClock) CompareClock(
	ctx context.Context, local func() time.Time,
) (model.Instant, time.Duration, error) {
	return c.db.CompareClock(ctx, local)
}

// TrustedNow implements timekeeper.
func (c databaseClock) TrustedNow(ctx context.Context) (model.Instant, error) {
	return c.retention.TrustedNow(ctx)
}

// clock is the database's clock, which all workers share: they decide everything by it. The clock
// of this process is only compared with it. A difference means that one of the two is wrong, and
// then nothing is deleted.
type clock struct {
	db  timekeeper
	now func() time.Time // this process's clock
	log *slog.Logger

	mu         sync.Mutex
	difference time.Duration // this process's clock less the database's
	jump       *db.ClockJump // nil: the database's clock is trusted
	logged     time.Time     // time of the last log line, monotonic
}

// Now returns the database's time, and stores its difference from this process's clock.
func (c *clock) Now(ctx context.Context) (model.Instant, error) {
	now, difference, err := c.db.CompareClock(ctx, c.now)
	if err != nil {
		return 0, err
	}

	c.mu.Lock()
	c.difference = difference
	c.mu.Unlock()

	return now, nil
}

// Estimate returns this process's time, corrected by the last known difference.
func (c *clock) Estimate() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now().Add(-c.difference)
}

// Certain returns the database's time for what cannot be undone. It returns errUncertain, which is
// logged already, if the two clocks differ by more than a minute or the database's has jumped.
func (c *clock) Certain(ctx context.Context) (model.Instant, error) {
	if _, err := c.Now(ctx); err != nil {
		return 0, err
	}

	now, err := c.db.TrustedNow(ctx)
	jump, jumped := errors.AsType[*db.ClockJump](err)
	if err != nil && !jumped {
		return 0, err
	}

	c.mu.Lock()
	c.jump = jump
	c.mu.Unlock()

	if warning := c.Warning(); warning != "" {
		c.logWarning(ctx, warning)
		return 0, errUncertain
	}

	return now, nil
}

// Warning returns why nothing is deleted now, for an operator, or "".
func (c *clock) Warning() string {
	c.mu.Lock()
	defer c.mu.Unlock()

	var warnings []string

	if c.difference.Abs() > db.MaxClockDifference {
		warnings = append(warnings, fmt.Sprintf("worker clock differs from the database's by %.0f s", c.difference.Seconds()))
	}
	if c.jump != nil {
		warnings = append(warnings, c.jump.Error())
	}
	if len(warnings) == 0 {
		return ""
	}

	return strings.Join(warnings, "; ") + "; nothing is deleted"
}

// logWarning logs a warning once a minute. It is an error, except for a short jump: that may be a
// machine that was suspended.
func (c *clock) logWarning(ctx context.Context, warning string) {
	c.mu.Lock()
	due := c.logged.IsZero() || time.Since(c.logged) >= warnEvery
	if due {
		c.logged = time.Now()
	}

	level := slog.LevelError

	if c.difference.Abs() <= db.MaxClockDifference && !c.jump.IsLong() {
		level = slog.LevelWarn
	}

	c.mu.Unlock()

	if due {
		c.log.Log(ctx, level, warning)
	}
}

// measure registers the state of the clocks as metrics.
func (c *clock) measure(r prometheus.Registerer) {
	c.mu.Lock()
	difference, jump := c.difference, c.jump
	c.mu.Unlock()

	metrics := promauto.With(r)
	metrics.NewGauge(prometheus.GaugeOpts{
		Name: "tallygate_clock_difference_seconds",
		Help: "This process's clock less the database's; over 60 in either direction nothing is deleted.",
	}).Set(difference.Seconds())

	jumped := metrics.NewGauge(prometheus.GaugeOpts{
		Name: "tallygate_clock_jump_seconds",
		Help: "By how much the database's clock jumped, while it is not trusted for that.",
	})

	if jump != nil {
		jumped.Set(jump.By().Seconds())
	}

	held := metrics.NewGauge(prometheus.GaugeOpts{
		Name: "tallygate_deletions_held",
		Help: "1 while nothing is deleted because the time is not certain.",
	})

	if c.Warning() != "" {
		held.Set(1)
	}
}
