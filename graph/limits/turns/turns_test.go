package turns

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
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

				// Let no two end at the same time.
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
			t.Errorf("%d work, %d wait, %d keys are known; want none", q.working, q.waiting, len(q.keys))
		}
	})
}

// TestTurnsAreBounded: a caller beyond the queue is refused immediately; one that has waited too
// long or was cancelled leaves the queue.
func TestTurnsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &Queue{Most: 1, MostPerKey: 1, Line: 3, LinePerKey: 2, Patience: time.Second}
		end, err := q.Take(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}

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

		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}

		end()

		if q.working != 0 || q.waiting != 0 || len(q.keys) != 0 {
			t.Errorf("%d work, %d wait, %d keys are known; want none", q.working, q.waiting, len(q.keys))
		}
	})
}
