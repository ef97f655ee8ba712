package flight_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tallygate/tallygate/dataplane/flight"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestEachCallerHasItsOwnDeadline checks that callers share one lookup, and that a caller that
// gives up does not cancel it for the others.
func TestEachCallerHasItsOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group flight.Group[int]
		loads := 0
		load := func(context.Context) (int, error) {
			loads++
			time.Sleep(3 * time.Second)
			return 7, nil
		}

		type outcome struct {
			value int
			err   error
			after time.Duration
		}

		began := time.Now()
		ask := func(deadline time.Time) <-chan outcome {
			answer := make(chan outcome, 1)
			go func() {
				value, err := group.Get(deadline, "key", time.Minute, load)
				answer <- outcome{value, err, time.Since(began)}
			}()
			synctest.Wait()
			return answer
		}

		impatient, patient, endless := ask(began.Add(time.Second)), ask(began.Add(4*time.Second)), ask(time.Time{})
		if got := <-impatient; !errors.Is(got.err, context.DeadlineExceeded) || got.after != time.Second {
			t.Errorf("the first one got %+v, want the deadline exceeded after 1s", got)
		}

		for _, answer := range []<-chan outcome{patient, endless} {
			testkit.Equal(t, <-answer, (outcome{7, nil, 3 * time.Second}), "another one")
		}

		testkit.Equal(t, loads, 1, "lookups")
	})
}

// TestTimeoutAndPanic checks that a lookup ends with its timeout, and that a panic fails its
// callers only.
func TestTimeoutAndPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group flight.Group[int]
		_, err := group.Get(time.Time{}, "slow", time.Second, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		testkit.ErrorIs(t, err, context.DeadlineExceeded, "got")

		_, err = group.Get(time.Time{}, "wrong", time.Second, func(context.Context) (int, error) { panic("wrong") })
		if err == nil || !strings.Contains(err.Error(), "panic: wrong") {
			t.Errorf("got %v, want the panic", err)
		}
	})
}
