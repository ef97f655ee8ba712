package jobs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/migrations"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/jobs/queue"
	"github.com/tallygate/tallygate/tools/dbtest"
	"github.com/tallygate/tallygate/tools/redistest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// newClock returns a worker's clock that shows a time, on a new database with another one.
func newClock(t *testing.T, now time.Time, database func() time.Time) *clock {
	t.Helper()
	d := dbtest.Open(t, dbtest.SQLiteURL(t))
	testkit.NoError(t, migrations.Apply(t.Context(), d))
	dbtest.SetClocks(d, database, func() time.Duration { return 0 })
	return &clock{db: d, now: func() time.Time { return now }, log: slog.New(slog.DiscardHandler)}
}

// TestCertainOfManyTasks: tasks that ask at the same time, while the database's clock jumps there
// and back, get the time before the jump or an error, never another time. The worker's clock also
// writes its warning without a panic.
func TestCertainOfManyTasks(t *testing.T) {
	t.Parallel()

	const tasks, calls = 8, 100
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	var readings atomic.Int64
	c := newClock(t, now, func() time.Time { return now.Add(time.Duration(readings.Add(1)/7%2) * 55 * time.Minute) })

	// The time before the first jump is trusted.
	if _, err := c.Certain(t.Context()); err != nil {
		t.Fatal(err)
	}

	var running sync.WaitGroup
	var certain, uncertain atomic.Int64
	for range tasks {
		running.Go(func() {
			for range calls {
				got, err := c.Certain(t.Context())
				switch {
				case err == nil && got == model.At(now):
					certain.Add(1)
				case errors.Is(err, errUncertain) && got == 0:
					uncertain.Add(1)
				default:
					t.Errorf("Certain returned %d, %v; want %d or an error", got, err, model.At(now))
					return
				}
			}
		})
	}

	running.Wait()
	if certain.Load() == 0 || uncertain.Load() == 0 {
		t.Errorf("%d certain and %d uncertain times: this test compares nothing", certain.Load(), uncertain.Load())
	}
}

// TestCertainWithoutTime: a database that returns the time 0, and no error, is not believed.
func TestCertainWithoutTime(t *testing.T) {
	t.Parallel()

	epoch := time.Unix(0, 0)
	c := newClock(t, epoch, func() time.Time { return epoch })
	if got, err := c.Certain(t.Context()); !errors.Is(err, errNoTime) {
		t.Errorf("Certain returned %d, %v; want %v", got, err, errNoTime)
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
	testkit.NoError(t, err)
	testkit.NoError(t, b.Start())

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

	testkit.Succeeds(t, ctx.Err(), "the task was canceled")

	close(b.release)

	testkit.Succeeds(t, <-stopped, "Stop")

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

	testkit.Succeeds(t, b.Stop(context.Background()), "Stop again")
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
	testkit.ErrorIs(t, <-ended, errNoTime, "the first run returned")
	if err := handle(t.Context(), nil); !errors.Is(err, errNoTime) || runs.Load() != 2 {
		t.Errorf("after it: %v, %d runs; want a second one", err, runs.Load())
	}
}
