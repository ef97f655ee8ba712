package jobs

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
)

// fakeTimekeeper reports a jump in every second call of TrustedNow.
type fakeTimekeeper struct {
	now   model.Instant
	calls atomic.Int64
}

// CompareClock implements timekeeper.
func (f *fakeTimekeeper) CompareClock(context.Context, func() time.Time) (model.Instant, time.Duration, error) {
	return f.now, 0, nil
}

// TrustedNow implements timekeeper.
func (f *fakeTimekeeper) TrustedNow(context.Context) (model.Instant, error) {
	if f.calls.Add(1)%2 == 0 {
		return 0, &db.ClockJump{From: f.now - 1, Since: f.now, Until: f.now + 1}
	}
	return f.now, nil
}

// TestCertainOfManyTasks: tasks that ask at the same time, while the clock is trusted and distrusted
// in turn, get the database's time or an error, never another time. The worker's clock also writes
// its warning without a panic.
func TestCertainOfManyTasks(t *testing.T) {
	t.Parallel()

	const tasks, calls = 8, 20_000
	now := model.At(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
	c := &clock{db: &fakeTimekeeper{now: now}, now: time.Now, log: slog.New(slog.DiscardHandler)}

	var running sync.WaitGroup
	for range tasks {
		running.Go(func() {
			for range calls {
				if got, err := c.Certain(t.Context()); err == nil && got != now || err != nil && got != 0 {
					t.Errorf("Certain returned %d, %v; want %d or an error", got, err, now)
					return
				}
			}
		})
	}

	running.Wait()
}

// TestCertainWithoutTime: a database that returns the time 0, and no error, is not believed.
func TestCertainWithoutTime(t *testing.T) {
	t.Parallel()

	c := &clock{db: &fakeTimekeeper{}, now: time.Now, log: slog.New(slog.DiscardHandler)}
	if got, err := c.Certain(t.Context()); err == nil {
		t.Errorf("Certain returned %d and no error", got)
	}
}
