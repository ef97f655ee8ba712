package graph

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

// TestTurnsGoRoundTheKeys: a key has a bounded number of turns, all keys together have, and a key with many callers keeps
// others waiting for one turn.
func TestTurnsGoRoundTheKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tt := &turns{most: 3, mostPerKey: 2, line: 100, linePerKey: 100, patience: time.Hour}
		var order []string
		working := map[string]int{}
		var callers sync.WaitGroup
		work := func(key string) {
			callers.Go(func() {
				end, err := tt.take(t.Context(), key)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, key)
				working[key]++
				if all := working["a"] + working["b"] + working["c"]; all > 3 || working[key] > 2 {
					t.Errorf("%v work at once", working)
				}
				time.Sleep(time.Second + time.Duration(len(order))) // no two end together
				working[key]--
				end()
				end() // once more does nothing
			})
			synctest.Wait() // in this order
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
		if tt.working != 0 || tt.waiting != 0 || len(tt.keys) != 0 {
			t.Errorf("%d work, %d wait, %d keys are known; want none", tt.working, tt.waiting, len(tt.keys))
		}
	})
}

// TestTurnsAreBounded: one caller too many is refused at once, and one that has waited too long or left does not keep its place.
func TestTurnsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tt := &turns{most: 1, mostPerKey: 1, line: 3, linePerKey: 2, patience: time.Second}
		end, err := tt.take(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		outcomes := make(chan string, 10)
		wait := func(ctx context.Context, key string) {
			go func() {
				_, err := tt.take(ctx, key)
				outcomes <- fmt.Sprint(key, " ", errors.Is(err, errBusy), errors.Is(err, context.Canceled), " ", time.Since(began))
			}()
			synctest.Wait()
		}
		leaving, leave := context.WithCancel(t.Context())
		wait(t.Context(), "a")
		wait(leaving, "a")
		wait(t.Context(), "a") // its key has two that wait
		wait(t.Context(), "b")
		wait(t.Context(), "c") // three wait
		time.Sleep(time.Second / 2)
		leave()
		time.Sleep(time.Hour)
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
		if tt.working != 0 || tt.waiting != 0 || len(tt.keys) != 0 {
			t.Errorf("%d work, %d wait, %d keys are known; want none", tt.working, tt.waiting, len(tt.keys))
		}
	})
}

// TestItemsOfInputs: the items of all lists count, at any depth.
func TestItemsOfInputs(t *testing.T) {
	for _, test := range []struct {
		input any
		want  int
	}{
		{nil, 0}, {"text", 0}, {map[string]any{"a": []any{1, 2}, "b": map[string]any{"c": []any{[]any{1}}}}, 4},
	} {
		if got := items(test.input); got != test.want {
			t.Errorf("%v has %d items, want %d", test.input, got, test.want)
		}
	}
}
