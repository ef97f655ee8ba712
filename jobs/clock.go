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

// All that workers decide by time, they decide by the database's clock, which they share. This
// process's own clock is only compared with it: a difference means that one of the two is wrong,
// and then nothing is deleted.

// clockWatch is what this process knows of its clock and the database's.
type clockWatch struct {
	mu         sync.Mutex
	difference time.Duration // this process's clock less the database's
	jump       *db.ClockJump // nil: the database's clock is trusted
	logged     time.Time     // when a fault was logged last, on the clock of the uptime
}

// dbNow returns the database's time, and notes how far this process's clock is from it.
func (j *Jobs) dbNow(ctx context.Context) (model.Instant, error) {
	now, difference, err := j.db.CompareClock(ctx, j.now)
	if err != nil {
		return 0, err
	}

	j.clock.mu.Lock()
	j.clock.difference = difference
	j.clock.mu.Unlock()

	return now, nil
}

// dbTime is this process's clock, corrected by its last known difference.
func (j *Jobs) dbTime() time.Time {
	j.clock.mu.Lock()
	defer j.clock.mu.Unlock()
	return j.now().Add(-j.clock.difference)
}

// errClock says that nothing may be deleted at present.
var errClock = errors.New("the time is not certain")

// certainNow returns the database's time for what cannot be undone. It fails with errClock, which
// is logged already, while this process's clock and the database's differ or the database's has
// jumped.
func (j *Jobs) certainNow(ctx context.Context) (model.Instant, error) {
	if _, err := j.dbNow(ctx); err != nil {
		return 0, err
	}

	now, err := j.retention.TrustedNow(ctx)
	jump, jumped := errors.AsType[*db.ClockJump](err)
	if err != nil && !jumped {
		return 0, err
	}

	j.clock.mu.Lock()
	j.clock.jump = jump
	j.clock.mu.Unlock()

	if warning := j.ClockWarning(); warning != "" {
		j.logClock(ctx, warning)
		return 0, errClock
	}

	return now, nil
}

// whenCertain runs a task with certainNow. While that fails, the task is left to its next period.
func whenCertain(task func(*Jobs, context.Context, model.Instant) error) func(*Jobs, context.Context) error {
	return func(j *Jobs, ctx context.Context) error {
		now, err := j.certainNow(ctx)
		if errors.Is(err, errClock) {
			return nil
		}
		if err != nil {
			return err
		}

		return task(j, ctx, now)
	}
}

// watchClock compares the clocks, so that a fault shows before a task meets it.
func (j *Jobs) watchClock() {
	ctx, cancel := context.WithTimeout(j.ctx, enqueueTimeout)
	defer cancel()
	if _, err := j.certainNow(ctx); err != nil && !errors.Is(err, errClock) && j.ctx.Err() == nil {
		j.quiet.Error("compare the clocks: ", err)
	}
}

// ClockWarning returns why nothing is deleted at present, for an operator; empty when all is well.
func (j *Jobs) ClockWarning() string {
	j.clock.mu.Lock()
	defer j.clock.mu.Unlock()

	var warnings []string

	if j.clock.difference.Abs() > db.MaxClockDifference {
		warnings = append(warnings, fmt.Sprintf("worker clock differs from the database's by %.0f s", j.clock.difference.Seconds()))
	}
	if j.clock.jump != nil {
		warnings = append(warnings, j.clock.jump.Error())
	}
	if len(warnings) == 0 {
		return ""
	}

	return strings.Join(warnings, "; ") + "; nothing is deleted"
}

// logClock logs a warning once a minute: as an error, unless it is a short jump, which may be a
// machine that was off.
func (j *Jobs) logClock(ctx context.Context, warning string) {
	j.clock.mu.Lock()
	due := j.clock.logged.IsZero() || time.Since(j.clock.logged) >= quietEvery
	if due {
		j.clock.logged = time.Now()
	}

	level := slog.LevelError

	if j.clock.difference.Abs() <= db.MaxClockDifference && !j.clock.jump.IsLong() {
		level = slog.LevelWarn
	}

	j.clock.mu.Unlock()

	if due {
		j.log.Log(ctx, level, warning)
	}
}

// writeClock writes the clocks' state as metrics.
func (j *Jobs) writeClock(b *strings.Builder) {
	j.clock.mu.Lock()
	difference, jump := j.clock.difference, j.clock.jump
	j.clock.mu.Unlock()

	head(b, "tallygate_clock_difference_seconds", "gauge", "This process's clock less the database's; over 60 in either direction nothing is deleted.")
	fmt.Fprintf(b, "tallygate_clock_difference_seconds %g\n", difference.Seconds())
	jumped := 0.0

	if jump != nil {
		jumped = jump.By().Seconds()
	}

	head(b, "tallygate_clock_jump_seconds", "gauge", "By how much the database's clock jumped, while it is not trusted for that.")
	fmt.Fprintf(b, "tallygate_clock_jump_seconds %g\n", jumped)
	held := 0

	if j.ClockWarning() != "" {
		held = 1
	}

	head(b, "tallygate_deletions_held", "gauge", "1 while nothing is deleted because the time is not certain.")
	fmt.Fprintf(b, "tallygate_deletions_held %d\n", held)
}
