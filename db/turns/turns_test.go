package turns

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tallygate/tallygate/tools/testkit"
)

// TestTurnsGoRoundTheKeys: turns are bounded per key and in total, and a key with many callers
// delays others by one turn.
func TestTurnsGoRoundTheKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &Queue{Most: 3, MostPerKey: 2, Line: 100, LinePerKey: 100, Patience: time.Hour}

		// mu guards order and working.
		var mu sync.Mutex
		var order []string
		working := map[string]int{}
		var callers sync.WaitGroup
		work := func(key string) {
			callers.Go(func() {
				end, err := q.Take(t.Context(), key)
				if err != nil {
					t.Error(err)
					return
				}

				mu.Lock()
				order = append(order, key)

				working[key]++
				if all := working["a"] + working["b"] + working["c"]; all > 3 || working[key] > 2 {
					t.Errorf("%v work at once", working)
				}

				// Each turn ends at a time of its own.
				took := time.Second + time.Duration(len(order))
				mu.Unlock()
				time.Sleep(took)
				mu.Lock()
				working[key]--
				mu.Unlock()
				end()

				// A second call does nothing.
				end()
			})

			// Queue the callers in this order.
			synctest.Wait()
		}
		for range 6 {
			work("a")
		}

		for range 3 {
			work("b")
		}

		work("c")
		callers.Wait()

		if got, want := strings.Join(order, " "), "a a b c a b a b a a"; got != want {
			t.Errorf("the turns went to %s, want %s", got, want)
		}
		if q.working != 0 || q.waiting != 0 || len(q.keys) != 0 {
			t.Errorf("%d work, %d wait, %d keys are known; want 0", q.working, q.waiting, len(q.keys))
		}
	})
}

// TestTurnsAreBounded checks that a caller beyond the queue is refused immediately, and that a
// caller leaves the queue after a timeout or cancellation.
func TestTurnsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &Queue{Most: 1, MostPerKey: 1, Line: 3, LinePerKey: 2, Patience: time.Second}
		end, err := q.Take(t.Context(), "a")
		testkit.NoError(t, err)

		began := time.Now()
		outcomes := make(chan string, 10)
		var callers sync.WaitGroup
		wait := func(ctx context.Context, key string) {
			callers.Go(func() {
				_, err := q.Take(ctx, key)
				outcomes <- fmt.Sprint(key, " ", errors.Is(err, ErrBusy), errors.Is(err, context.Canceled), " ", time.Since(began))
			})
			synctest.Wait()
		}

		leaving, leave := context.WithCancel(t.Context())
		wait(t.Context(), "a")
		wait(leaving, "a")

		// Two callers of this key wait.
		wait(t.Context(), "a")
		wait(t.Context(), "b")

		// Three callers wait in total.
		wait(t.Context(), "c")
		time.Sleep(time.Second / 2)
		leave()
		callers.Wait()
		close(outcomes)
		want := []string{"a true false 0s", "c true false 0s", "a false true 500ms", "a true false 1s", "b true false 1s"}
		got := slices.Collect(func(yield func(string) bool) {
			for outcome := range outcomes {
				yield(outcome)
			}
		})

		slices.Sort(got)
		slices.Sort(want)

		testkit.EqualSlices(t, got, want, "got")

		end()

		if q.working != 0 || q.waiting != 0 || len(q.keys) != 0 {
			t.Errorf("%d work, %d wait, %d keys are known; want 0", q.working, q.waiting, len(q.keys))
		}
	})
}

// TestNewKeysGoFirst checks that with a memory the next turn goes to a key without a recent turn,
// however many callers of other keys wait. A key with repeated calls is remembered, and cannot keep
// others waiting.
func TestNewKeysGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &Queue{Most: 1, MostPerKey: 1, Line: 100, LinePerKey: 100, Patience: time.Hour, Memory: time.Minute}
		var order []string
		var callers sync.WaitGroup
		work := func(key string, times int) {
			callers.Go(func() {
				for range times {
					end, err := q.Take(t.Context(), key)
					if err != nil {
						t.Error(err)
						return
					}
					order = append(order, key)
					time.Sleep(time.Second)
					end()
				}
			})
			synctest.Wait()
		}
		for range 3 {
			work("many", 1)
		}

		// Each of them asks again as soon as it was answered.
		work("a", 3)
		work("b", 3)
		callers.Wait()
		if got, want := strings.Join(order, " "), "many a b many a b many a b"; got != want {
			t.Errorf("the turns went to %s, want %s", got, want)
		}

		time.Sleep(2 * time.Minute)
		work("c", 1)
		callers.Wait()
		testkit.Equal(t, len(q.keys), 1, "keys are remembered")
	})
}

// TestYield checks that a long turn gives way to callers of other keys, also beyond the bounds of
// the queue, but not to callers of its own key. It ends with its context.
func TestYield(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &Queue{Most: 1, MostPerKey: 1, Line: 1, LinePerKey: 1, Patience: time.Minute, Memory: time.Minute}
		long, err := q.Begin(t.Context(), "long")
		testkit.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = q.Begin(ctx, "long") }()
		synctest.Wait()
		if err := long.Yield(t.Context()); err != nil || q.working != 1 {
			t.Fatalf("error %v, %d work; want the same turn", err, q.working)
		}
		cancel()
		synctest.Wait()

		began := time.Now()
		done := make(chan error)
		short := func() {
			end, err := q.Take(t.Context(), "short")
			if err == nil {
				time.Sleep(time.Second)
				end()
			}
			done <- err
		}
		go short()
		synctest.Wait()
		go func() { done <- long.Yield(t.Context()) }()
		if err := errors.Join(<-done, <-done); err != nil || time.Since(began) != time.Second {
			t.Fatalf("error %v after %v; want the turn back after a second", err, time.Since(began))
		}

		// The context ends while the other one works.
		ending, stop := context.WithTimeout(t.Context(), time.Second/2)
		defer stop()
		go short()
		synctest.Wait()
		if err := long.Yield(ending); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the context's", err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		long.End()
		if q.working != 0 || q.waiting != 0 {
			t.Errorf("%d work, %d wait; want 0", q.working, q.waiting)
		}
	})
}

// TestYieldStaysFirst checks that a turn that gives way comes before the callers of its own key
// that wait, however short the turns of the others are.
func TestYieldStaysFirst(t *testing.T) {
	for range 2_000 {
		q := &Queue{Most: 1, MostPerKey: 1, Line: 2, LinePerKey: 1, Patience: time.Minute, Memory: time.Minute}
		long, err := q.Begin(t.Context(), "long")
		testkit.NoError(t, err)

		var yielded, wrong atomic.Bool
		var waiting sync.WaitGroup
		for _, key := range []string{"long", "short"} {
			waiting.Go(func() {
				end, err := q.Take(t.Context(), key)
				if err != nil {
					t.Error(err)
					return
				}
				if key == "long" && !yielded.Load() {
					wrong.Store(true)
				}
				end()
			})
		}
		for q.Waiting() < 2 {
			runtime.Gosched()
		}

		testkit.NoError(t, long.Yield(t.Context()))
		yielded.Store(true)
		long.End()
		waiting.Wait()
		if wrong.Load() {
			t.Fatal("a caller of the same key had a turn before the one that gave way")
		}
	}
}
