package queue

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/tallygate/tallygate/tools/redistest"
	"github.com/tallygate/tallygate/tools/testkit"
)

// onCommand is a hook of a Redis client that calls a function before each command.
type onCommand func()

// DialHook implements redis.Hook.
func (onCommand) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (onCommand) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook.
func (f onCommand) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		f()
		return next(ctx, command)
	}
}

// TestNotifierUnderSteadyLoadRealRedis: tasks that arrive while others are enqueued are counted
// again from 0, so that a payload gets its share while the load lasts. A task without Parallel is
// enqueued.
func TestNotifierUnderSteadyLoadRealRedis(t *testing.T) {
	t.Parallel()

	servers, err := parseURL(redistest.New(t).URL())
	testkit.NoError(t, err)

	client := connect(servers, &monitor{log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = client.Close() })

	n := newNotifier()
	next := 0
	add := func(parallel int) Task {
		next++
		return Task{Type: "test", Queue: Default, Payload: 1, ID: fmt.Sprint(next), Parallel: parallel}
	}

	// A task arrives with each command, up to a bound that ends the test in any case.
	client.AddHook(onCommand(func() {
		if next < 500 {
			n.Notify(add(2))
		}
	}))

	tasks, inspector := asynq.NewClientFromRedisClient(client), asynq.NewInspectorFromRedisClient(client)
	pending := func() int {
		info, err := inspector.GetQueueInfo(Default)
		testkit.NoError(t, err)
		return info.Pending
	}

	testkit.NoError(t, n.enqueueAll(t.Context(), tasks, add(0)))
	if got := pending(); got != 1 || len(n.tasks) == 0 {
		t.Errorf("%d tasks are enqueued and %d wait, want 1 and those that arrived", got, len(n.tasks))
	}

	// At least three wait now.
	for len(n.tasks) < 3 {
		n.Notify(add(2))
	}

	for round := range 3 {
		testkit.NoError(t, n.enqueueAll(t.Context(), tasks, add(2)))
		if got, want := pending(), 3+2*round; got != want {
			t.Errorf("round %d: %d tasks are enqueued, want %d", round, got, want)
		}
	}
}
