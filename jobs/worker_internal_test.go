package jobs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs/queue"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/redistest"
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

// blocked is a worker on a real Redis. Its only task blocks until it is released.
type blocked struct {
	*Worker
	running  chan context.Context // of the task that began
	release  chan struct{}
	finished chan struct{}
}

func startBlocked(t *testing.T) *blocked {
	t.Helper()

	b := &blocked{running: make(chan context.Context, 1), release: make(chan struct{}), finished: make(chan struct{})}
	task := queue.Periodic{Name: "test:blocked", Every: 24 * time.Hour, Run: func(ctx context.Context) error {
		b.running <- ctx
		<-b.release
		close(b.finished)
		return nil
	}}

	var err error
	b.Worker, err = newWorker(settings{
		Options: Options{
			DB: dbtest.Open(t, dbtest.SQLiteURL(t)), RedisURL: redistest.New(t).URL(),
			Now: time.Now, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		},
		schedule: []queue.Periodic{task},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}

	return b
}

// TestStopDrainsRealRedis: Stop waits for the task in progress, and does not cancel it.
func TestStopDrainsRealRedis(t *testing.T) {
	t.Parallel()

	b := startBlocked(t)
	ctx := <-b.running
	stopped := make(chan error)
	go func() { stopped <- b.Stop(context.Background()) }()

	select {
	case err := <-stopped:
		t.Fatalf("Stop returned (%v) before the task did", err)
	case <-time.After(2 * time.Second):
		// An idle worker stops faster than this.
	}

	if err := ctx.Err(); err != nil {
		t.Errorf("the task was canceled: %v", err)
	}

	close(b.release)

	if err := <-stopped; err != nil {
		t.Errorf("Stop: %v", err)
	}

	select {
	case <-b.finished:
	default:
		t.Error("Stop returned before the task did")
	}
}

// TestStopIsBoundedRealRedis: Stop waits no longer than its context allows, and waits again when it
// is called again.
func TestStopIsBoundedRealRedis(t *testing.T) {
	t.Parallel()

	b := startBlocked(t)
	<-b.running
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()

	if err := b.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stop while a task runs: %v, want %v", err, context.DeadlineExceeded)
	}

	close(b.release)

	if err := b.Stop(context.Background()); err != nil {
		t.Errorf("Stop again: %v", err)
	}
}

// TestPeriodicTaskRunsOnceAtATime: a task of a later period does nothing while the earlier one runs
// in this process, and runs again after it.
func TestPeriodicTaskRunsOnceAtATime(t *testing.T) {
	t.Parallel()

	var runs atomic.Int64
	began, end := make(chan struct{}), make(chan struct{})
	handle := oneAtATime(func(context.Context) error {
		if runs.Add(1) == 1 {
			close(began)
			<-end
		}
		return errNoTime
	})

	ended := make(chan error, 1)
	go func() { ended <- handle(t.Context(), nil) }()
	<-began

	if err := handle(t.Context(), nil); err != nil || runs.Load() != 1 {
		t.Errorf("during the first run: %v, %d runs; want no second one", err, runs.Load())
	}

	close(end)
	if err := <-ended; !errors.Is(err, errNoTime) {
		t.Errorf("the first run returned %v", err)
	}
	if err := handle(t.Context(), nil); !errors.Is(err, errNoTime) || runs.Load() != 2 {
		t.Errorf("after it: %v, %d runs; want a second one", err, runs.Load())
	}
}
