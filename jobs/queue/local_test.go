package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tallygate/tallygate/tools/testkit"
)

// newTestLocal returns a local queue with one handler, in a test of package synctest. It starts
// with l.start, and stops with the test.
func newTestLocal(t *testing.T, handle func(ctx context.Context, payload string) error) *local {
	t.Helper()

	l := newLocal(slog.New(slog.DiscardHandler), map[string]Handler{
		"test": func(ctx context.Context, payload []byte) error { return handle(ctx, string(payload)) },
	})
	t.Cleanup(l.stop)
	return l
}

// testTask returns a task of its own payload.
func testTask(queue string, id int) Task {
	return Task{Type: "test", Queue: queue, Payload: id, ID: fmt.Sprint(id)}
}

// pause lets time pass, and waits until all goroutines of the test are blocked. The wait also
// orders what they did before what the test does next, for the race detector.
func pause(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

var errTest = errors.New("the task fails")

// TestLocalOrder: tasks that wait for the start or for a worker run oldest first, in turns from
// each queue.
func TestLocalOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran []string
		block := make(chan struct{})
		l := newTestLocal(t, func(_ context.Context, payload string) error {
			<-block
			ran = append(ran, payload)
			return nil
		})
		l.workers = 1

		for _, id := range []int{13, 11, 12, 14} {
			l.submit(testTask(Deliveries, id))
		}
		for _, id := range []int{3, 1} {
			l.submit(testTask(Default, id))
		}
		if got := l.states(Deliveries); got["active"] != 0 || got["pending"] != 4 {
			t.Errorf("before the start: %v, want 4 pending", got)
		}

		l.start()
		synctest.Wait()
		if got := l.states(Deliveries); got["active"] != 1 || got["pending"] != 3 {
			t.Errorf("with one worker: %v, want 1 active and 3 pending", got)
		}

		close(block)
		synctest.Wait()
		if want := []string{"13", "3", "11", "1", "12", "14"}; !slices.Equal(ran, want) {
			t.Errorf("ran %v, want %v", ran, want)
		}
	})
}

// TestLocalDedup: a task is dropped while one with its ID waits, runs or is retried, while as many
// of its payload wait as can run at once, and if the queue is full.
func TestLocalDedup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan error)
		l := newTestLocal(t, func(context.Context, string) error { return <-release })
		l.workers = 1
		l.start()

		submit := func(when string, task Task, want bool) {
			t.Helper()
			testkit.Equal(t, l.submit(task), want, "%s: accepted", when)
		}

		submit("first", testTask(Default, 1), true)
		synctest.Wait()
		submit("while it runs", testTask(Default, 1), false)

		release <- errTest
		synctest.Wait()
		submit("while it is retried", testTask(Default, 1), false)

		pause(retryDelay(1))
		release <- nil
		synctest.Wait()
		submit("after it", testTask(Default, 1), true)
		synctest.Wait()

		for id := range 3 {
			submit("of the same payload", Task{Type: "test", Queue: Default, ID: fmt.Sprint("same", id), Parallel: 2}, id < 2)
		}

		for id := 10; l.queues[Default].size() < maxLocal; id++ {
			submit("while there is room", testTask(Default, id), true)
		}
		submit("in a full queue", testTask(Default, -1), false)
		submit("in the other queue", testTask(Deliveries, -1), true)

		close(release)
	})
}

// TestLocalRetries: a task that fails or panics is retried three times with growing pauses, and
// then forgotten.
func TestLocalRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var runs []time.Duration
		l := newTestLocal(t, func(context.Context, string) error {
			if runs = append(runs, time.Since(began)); len(runs) == 2 {
				panic("test")
			}
			return errTest
		})
		l.start()
		l.submit(testTask(Default, 1))

		pause(time.Hour)
		if want := []time.Duration{0, 15 * time.Second, 45 * time.Second, 105 * time.Second}; !slices.Equal(runs, want) {
			t.Errorf("runs after %v, want %v", runs, want)
		}
		if !l.submit(testTask(Default, 1)) {
			t.Error("the task is not forgotten after its last retry")
		}
	})
}

// TestLocalPeriodic: a periodic task runs once in each period of the clock. A run that lasts into
// the next period is followed by the next period's run, and a new period replaces a retry.
func TestLocalPeriodic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var runs []time.Duration
		takes, fails := time.Duration(0), error(nil)
		l := newTestLocal(t, func(context.Context, string) error {
			runs = append(runs, time.Since(began))
			time.Sleep(takes)
			return fails
		})
		l.start()

		tasks := []Periodic{{Name: "test", Every: time.Minute}}
		next := func(takesNext time.Duration, failsNext error, rounds int, want ...time.Duration) {
			t.Helper()

			takes, fails, runs = takesNext, failsNext, nil
			for range rounds {
				l.submitPeriodic(tasks, time.Now())
				pause(5 * time.Second)
			}
			testkit.EqualSlices(t, runs, want, "runs after")
		}

		next(0, nil, 12, 0)
		next(62*time.Second, nil, 24, time.Minute, 125*time.Second)
		pause(10 * time.Second)

		// Retries follow 15 s, 45 s and 105 s after the first run. The third one is replaced.
		next(0, errTest, 10, 190*time.Second, 205*time.Second, 235*time.Second)
		next(0, nil, 12, 240*time.Second)
	})
}

// TestLocalStop: a stop drops what waits, lets running tasks end, and cancels those that take
// longer than drainTimeout. It leaves a task that ignores that.
func TestLocalStop(t *testing.T) {
	for _, test := range []struct {
		name      string
		takes     time.Duration
		obeys     bool
		want      time.Duration
		completed bool
	}{
		{"short", 10 * time.Second, true, 10 * time.Second, true},
		{"long", time.Minute, true, drainTimeout, false},
		{"deaf", time.Minute, false, drainTimeout + cancelTimeout, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ran atomic.Int64
				var completed atomic.Bool
				l := newTestLocal(t, func(ctx context.Context, _ string) error {
					ran.Add(1)
					if !test.obeys {
						ctx = context.WithoutCancel(ctx)
					}
					select {
					case <-ctx.Done():
					case <-time.After(test.takes):
						completed.Store(true)
					}
					return errTest
				})
				l.workers = 1
				l.start()
				l.submit(testTask(Default, 1))
				l.submit(testTask(Default, 2))
				synctest.Wait()

				began := time.Now()
				l.stop()
				took := time.Since(began)
				if completed := completed.Load(); took != test.want || completed != test.completed {
					t.Errorf("stopped after %v, completed %v; want %v, %v", took, completed, test.want, test.completed)
				}
				if l.submit(testTask(Default, 3)) {
					t.Error("a stopped queue accepts a task")
				}

				pause(time.Hour)
				testkit.Equal(t, ran.Load(), 1, "runs")
			})
		})
	}
}

// FuzzLocal submits random tasks that take random times and fail at random. Each accepted task must
// run until it succeeds or has failed four times, never twice at once, and never more tasks at once
// than the queue has workers. Everything but the timestamps follows from the seed.
func FuzzLocal(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, uint8(seed))
	}

	f.Fuzz(func(t *testing.T, seed uint64, workers uint8) {
		synctest.Test(t, func(t *testing.T) { runRandomTasks(t, rand.New(rand.NewPCG(seed, 0)), 1+int(workers%8)) })
	})
}

// randomTask is the state of a task of FuzzLocal.
type randomTask struct {
	takes    time.Duration
	failures int // after which the task succeeds
	runs     int
	running  bool
	accepted bool // and neither succeeded nor failed for the last time
}

// runRandomTasks is one case of FuzzLocal.
func runRandomTasks(t *testing.T, random *rand.Rand, workers int) {
	t.Helper()

	tasks := make([]*randomTask, 40)
	for id := range tasks {
		tasks[id] = &randomTask{
			takes: time.Duration(random.IntN(30_000)) * time.Millisecond, failures: max(0, random.IntN(10)-4),
		}
	}

	// Steps alternate with the tasks' sleeps in the bubble, and mu orders them.
	mu, atOnce := make(chan struct{}, 1), 0
	l := newTestLocal(t, func(_ context.Context, payload string) error {
		var id int
		if _, err := fmt.Sscan(payload, &id); err != nil {
			t.Error(err)
		}
		task := tasks[id]

		mu <- struct{}{}
		if atOnce++; task.running || atOnce > workers {
			t.Errorf("task %d runs; running already: %v; %d tasks at once, want at most %d", id, task.running, atOnce, workers)
		}
		task.running = true
		task.runs++
		<-mu

		time.Sleep(task.takes)

		mu <- struct{}{}
		defer func() { <-mu }()
		atOnce--
		task.running = false
		failed := task.runs%(task.failures+1) != 0
		if !failed || task.runs%(taskRetries+1) == 0 {
			task.accepted = false
		}
		if failed {
			return errTest
		}
		return nil
	})
	l.workers = workers
	l.start()

	for range 200 {
		id := random.IntN(len(tasks))
		mu <- struct{}{}
		task := tasks[id]
		if l.submit(testTask(queues[id%len(queues)], id)) {
			task.accepted, task.runs = true, 0
		}
		<-mu
		if random.IntN(4) == 0 {
			time.Sleep(time.Duration(random.IntN(40_000)) * time.Millisecond)
		}
	}

	// The queue runs dry without another call.
	pause(time.Hour)
	for id, task := range tasks {
		if task.accepted || task.running {
			t.Errorf("task %d was accepted and did not end: %d runs", id, task.runs)
		}
	}
	for _, name := range queues {
		if q := l.queues[name]; len(l.tasks)+q.size()+len(q.same)+l.busy != 0 {
			t.Errorf("%d tasks are left, %v; %d workers", len(l.tasks), l.states(name), l.busy)
		}
	}
}
