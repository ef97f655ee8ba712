package jobs

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/dbtest"
	"github.com/tallygate/tallygate/jobs/redistest"
)

// held is a worker on a real Redis whose only task waits until it is released.
type held struct {
	*Jobs
	running  chan context.Context // of the task that began
	release  chan struct{}
	finished chan struct{}
}

func startHeld(t *testing.T) *held {
	t.Helper()

	j, err := New(Options{DB: dbtest.Open(t, dbtest.SQLiteURL(t)), RedisURL: redistest.New(t).URL(), Now: time.Now, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}

	h := &held{Jobs: j, running: make(chan context.Context, 1), release: make(chan struct{}), finished: make(chan struct{})}
	j.schedule = []periodic{{"test:held", 24 * time.Hour, func(_ *Jobs, ctx context.Context) error {
		h.running <- ctx
		<-h.release
		close(h.finished)
		return nil
	}}}
	if err := j.Start(); err != nil {
		t.Fatal(err)
	}

	return h
}

// TestStopDrainsRealRedis: Stop waits for the task under way, which is not disturbed.
func TestStopDrainsRealRedis(t *testing.T) {
	t.Parallel()

	h := startHeld(t)
	ctx := <-h.running
	stopped := make(chan error)
	go func() { stopped <- h.Stop(context.Background()) }()

	select {
	case err := <-stopped:
		t.Fatalf("Stop returned (%v) before the task did", err)
	case <-time.After(2 * time.Second):
		// longer than a worker with nothing to do takes to stop
	}

	if err := ctx.Err(); err != nil {
		t.Errorf("the task was told to end: %v", err)
	}

	close(h.release)

	if err := <-stopped; err != nil {
		t.Errorf("Stop: %v", err)
	}

	select {
	case <-h.finished:
	default:
		t.Error("Stop returned before the task did")
	}
}

// TestStopIsBoundedRealRedis: Stop waits no longer than its context, and may be called again to
// wait on.
func TestStopIsBoundedRealRedis(t *testing.T) {
	t.Parallel()

	h := startHeld(t)
	<-h.running
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()

	if err := h.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stop while a task runs: %v, want %v", err, context.DeadlineExceeded)
	}

	close(h.release)

	if err := h.Stop(context.Background()); err != nil {
		t.Errorf("Stop again: %v", err)
	}
}
