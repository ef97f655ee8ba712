package batch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tallygate/tallygate/dataplane/batch"
	"github.com/tallygate/tallygate/tools/testkit"
)

// double is a commit that remembers what it stored and answers each item with twice its value.
type double struct {
	stored  []int // only the writer touches it until Stop
	batches []int
}

func (d *double) commit(_ context.Context, items []int) ([]int, error) {
	outs := make([]int, len(items))
	for i, item := range items {
		outs[i] = 2 * item
	}
	d.stored = append(d.stored, items...)
	d.batches = append(d.batches, len(items))
	return outs, nil
}

// awaitLen waits until n items wait for the writer.
func awaitLen(q *batch.Queue[int, int], n int) {
	for q.Len() < n {
		runtime.Gosched()
	}
}

func TestEachRequestGetsItsOwnOutcome(t *testing.T) {
	var d double
	const n = 1_000
	q := batch.New(d.commit, batch.Options{MaxItems: 7, MaxQueued: n})
	q.Start()

	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if got, err := q.Do(t.Context(), i, 1); err != nil || got != 2*i {
				t.Errorf("Do(%d) = %d, %v; want %d", i, got, err, 2*i)
			}
		})
	}

	wg.Wait()

	testkit.NoError(t, q.Stop(t.Context()))

	slices.Sort(d.stored)

	for i := range n {
		testkit.Require(t, d.stored[i], i, "the item in place %d", i)
	}

	if largest := slices.Max(d.batches); largest > 7 {
		t.Errorf("a batch of %d items; the limit is 7", largest)
	}
}

func TestWhatGathersDuringACommitIsOneBatch(t *testing.T) {
	var d double
	entered, leave := make(chan struct{}), make(chan struct{})
	q := batch.New(func(ctx context.Context, items []int) ([]int, error) {
		entered <- struct{}{}
		<-leave
		return d.commit(ctx, items)
	}, batch.Options{})

	q.Start()
	var wg sync.WaitGroup
	do := func(i int) { wg.Go(func() { _, _ = q.Do(t.Context(), i, 1) }) }
	do(0)
	<-entered

	for i := 1; i <= 20; i++ {
		do(i)
	}

	awaitLen(q, 20)
	leave <- struct{}{}
	<-entered
	leave <- struct{}{}
	wg.Wait()

	if want := []int{1, 20}; !slices.Equal(d.batches, want) {
		t.Errorf("batch sizes %v, want %v", d.batches, want)
	}

	_ = q.Stop(t.Context())
}

func TestFullQueueRefusesAtOnce(t *testing.T) {
	for name, options := range map[string]batch.Options{
		"items": {MaxItems: 2, MaxQueued: 2},
		"bytes": {MaxBytes: 2, MaxQueued: 2},
	} {
		t.Run(name, func(t *testing.T) {
			// Before Start nothing leaves the queue.
			q := batch.New((&double{}).commit, options)
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() { _, _ = q.Do(t.Context(), i, 1) })
			}

			awaitLen(q, 4)

			if _, err := q.Do(t.Context(), 9, 1); !errors.Is(err, batch.ErrFull) {
				t.Errorf("fifth item: %v, want ErrFull", err)
			}

			_ = q.Stop(t.Context())
			wg.Wait()
		})
	}
}

func TestStopStoresWhatWaitsAndRefusesTheRest(t *testing.T) {
	var d double
	q := batch.New(d.commit, batch.Options{})

	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			if _, err := q.Do(context.Background(), i, 1); err != nil {
				t.Errorf("item %d, accepted before Stop: %v", i, err)
			}
		})
	}

	awaitLen(q, 10)

	// Stop may be called twice.
	for range 2 {
		testkit.NoError(t, q.Stop(t.Context()))
	}

	wg.Wait()

	if len(d.stored) != 10 {
		t.Errorf("stored %d items, want 10", len(d.stored))
	}
	if _, err := q.Do(t.Context(), 1, 1); !errors.Is(err, batch.ErrClosed) {
		t.Errorf("after Stop: %v, want ErrClosed", err)
	}
}

func TestStopGivesUpOnAStuckCommit(t *testing.T) {
	stuck := make(chan struct{})
	q := batch.New(func(ctx context.Context, _ []int) ([]int, error) {
		close(stuck)
		<-ctx.Done()
		return nil, ctx.Err()
	}, batch.Options{})

	q.Start()
	answer := make(chan error, 1)
	go func() {
		_, err := q.Do(context.Background(), 1, 1)
		answer <- err
	}()
	<-stuck

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	testkit.ErrorIs(t, q.Stop(ctx), context.Canceled, "Stop")
	if err := <-answer; err == nil {
		t.Error("the waiting request got the outcome of a stored item")
	}
}

func TestRequestThatLeavesEarlyIsWithdrawn(t *testing.T) {
	var d double

	// The queue is not started yet.
	q := batch.New(d.commit, batch.Options{})
	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if got, err := q.Do(t.Context(), 1, 1); err != nil || got != 2 {
			t.Errorf("the request that stayed: %d, %v; want 2", got, err)
		}
	})

	awaitLen(q, 1)
	left := make(chan error)
	go func() {
		_, err := q.Do(ctx, 7, 1)
		left <- err
	}()

	awaitLen(q, 2)
	leave()

	testkit.ErrorIs(t, <-left, context.Canceled, "the request that left")
	if err := q.Stop(t.Context()); err != nil || !slices.Equal(d.stored, []int{1}) {
		t.Errorf("Stop = %v, stored %v; want only what was waited for", err, d.stored)
	}

	wg.Wait()
}

func TestRequestThatLeavesLateDoesNotCancelTheCommit(t *testing.T) {
	var d double
	entered, leave := make(chan struct{}), make(chan struct{})
	q := batch.New(func(ctx context.Context, items []int) ([]int, error) {
		close(entered)
		<-leave
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return d.commit(ctx, items)
	}, batch.Options{})

	q.Start()
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := q.Do(ctx, 1, 1)
		left <- err
	}()

	<-entered
	cancel()

	testkit.ErrorIs(t, <-left, context.Canceled, "Do")

	close(leave)

	if err := q.Stop(t.Context()); err != nil || len(d.stored) != 1 {
		t.Errorf("Stop = %v, stored %v; want the item stored all the same", err, d.stored)
	}
}

// TestBadItemsFailAlone is a property test: whatever items are bad, exactly they fail and all
// others are stored once. Of the bad items, every second one makes the commit panic.
func TestBadItemsFailAlone(t *testing.T) {
	errBad := errors.New("bad item")
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		n := 1 + random.IntN(40)
		bad := make(map[int]bool)
		for range random.IntN(4) {
			bad[random.IntN(n)] = true
		}

		var d double
		q := batch.New(func(ctx context.Context, items []int) ([]int, error) {
			if i := slices.IndexFunc(items, func(i int) bool { return bad[i] }); i >= 0 {
				if items[i]%2 == 0 {
					panic("bad item")
				}
				return nil, fmt.Errorf("commit: %w", errBad)
			}
			return d.commit(ctx, items)
		}, batch.Options{Isolate: func(err error) bool { return errors.Is(err, errBad) }})

		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				got, err := q.Do(context.Background(), i, 1)
				want := errBad

				if i%2 == 0 {
					want = batch.ErrPanic
				}
				if bad[i] != errors.Is(err, want) || bad[i] != (err != nil) || (err == nil && got != 2*i) {
					t.Errorf("round %d: Do(%d) = %d, %v; bad items %v", round, i, got, err, bad)
				}
			})
		}

		awaitLen(q, n)
		_ = q.Stop(t.Context())
		wg.Wait()

		if len(d.stored) != n-len(bad) {
			t.Fatalf("round %d: stored %d of %d items, %d bad", round, len(d.stored), n, len(bad))
		}
	}
}

// TestPanicIsAnError: it has the value and the place, and the writer goes on.
func TestPanicIsAnError(t *testing.T) {
	var d double
	q := batch.New(func(ctx context.Context, items []int) ([]int, error) {
		if items[0] == 0 {
			return []int{1 / items[0]}, nil
		}
		return d.commit(ctx, items)
	}, batch.Options{})

	q.Start()
	_, err := q.Do(t.Context(), 0, 1)
	if !errors.Is(err, batch.ErrPanic) || !strings.Contains(err.Error(), "divide by zero") || !strings.Contains(err.Error(), "batch_test.go") {
		t.Errorf("got %v, want a panic with its place", err)
	}
	if got, err := q.Do(t.Context(), 1, 1); err != nil || got != 2 {
		t.Errorf("afterwards: %d, %v; want 2", got, err)
	}

	_ = q.Stop(t.Context())
}

func TestOtherErrorsFailTheWholeBatchOnce(t *testing.T) {
	errAway := errors.New("database away")
	calls := 0
	q := batch.New(func(context.Context, []int) ([]int, error) { calls++; return nil, errAway },
		batch.Options{Isolate: func(error) bool { return false }})

	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			if _, err := q.Do(context.Background(), i, 1); !errors.Is(err, errAway) {
				t.Errorf("Do(%d): %v, want %v", i, err, errAway)
			}
		})
	}

	awaitLen(q, 5)
	_ = q.Stop(t.Context())
	wg.Wait()

	testkit.Equal(t, calls, 1, "commits")
}

// slow is a commit that takes its time, in a synctest's clock, and ends with its context as a
// database does.
type slow struct {
	double
	takes func() time.Duration
}

func (s *slow) commit(ctx context.Context, items []int) ([]int, error) {
	select {
	case <-time.After(s.takes()):
		return s.double.commit(ctx, items)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestLateItemsAreNotStored: an item whose request could end during its own commit, because an
// earlier commit was slow, is rejected and not stored.
func TestLateItemsAreNotStored(t *testing.T) {
	const (
		timeout = 2 * time.Second
		first   = 1500 * time.Millisecond // the commit that the others wait for
		enough  = first + timeout/10
	)
	for _, test := range []struct {
		name    string
		patient time.Duration // of its context, from when it was queued; 0 without end
		before  time.Duration // the deadline, from when it was queued; 0 for none
		want    error
	}{
		{"without a deadline", 0, 0, nil},
		{"with just enough time", enough, 0, nil},
		{"with a microsecond too little", enough - time.Microsecond, 0, batch.ErrLate},
		{"with a deadline within the commit", first + time.Millisecond, 0, batch.ErrLate},
		{"ended before its turn", first - time.Second, 0, context.DeadlineExceeded},
		{"just before the deadline", 0, enough, nil},
		{"a microsecond too late for the deadline", 0, enough - time.Microsecond, batch.ErrLate},
		{"with a context that ends before the deadline", enough - time.Microsecond, enough, batch.ErrLate},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				takes := first
				s := slow{takes: func() time.Duration { return takes }}
				q := batch.New(s.commit, batch.Options{Timeout: timeout})
				q.Start()
				var wg sync.WaitGroup
				wg.Go(func() {
					if _, err := q.Do(t.Context(), 1, 1); err != nil {
						t.Errorf("the first item: %v", err)
					}
				})

				synctest.Wait()
				takes = timeout / 20
				ctx, cancel := context.WithCancel(context.Background())

				if test.patient > 0 {
					ctx, cancel = context.WithTimeout(context.Background(), test.patient)
				}
				defer cancel()

				stored := []int{1}

				if test.want == nil {
					stored = append(stored, 2)
				}

				var deadline time.Time

				if test.before > 0 {
					deadline = time.Now().Add(test.before)
				}
				if got, err := q.DoBefore(ctx, deadline, 2, 1); !errors.Is(err, test.want) || err == nil && got != 4 {
					t.Errorf("Do = %d, %v; want %v", got, err, test.want)
				}

				wg.Wait()

				if err := q.Stop(t.Context()); err != nil || !slices.Equal(s.stored, stored) {
					t.Errorf("Stop = %v, stored %v; want %v", err, s.stored, stored)
				}
			})
		})
	}
}

// TestPause: items that a pause of the database holds up are stored after it if they still have
// time, unless an attempt may have stored them.
func TestPause(t *testing.T) {
	const patience, timeout = 5 * time.Second, 2500 * time.Millisecond
	errUnknown := errors.New("the commit's outcome is not known")
	for _, test := range []struct {
		name       string
		pause      time.Duration
		uncertain  bool // the first attempt
		first      error
		stored     []int // of item 1, which begins the pause, 2 after a millisecond, and 3 after a second
		attempts   int   // of the first batch
		answeredBy time.Duration
	}{
		{"shorter than an attempt", 2200 * time.Millisecond, false, nil, []int{1, 2, 3}, 1, 2200 * time.Millisecond},
		{"longer than an attempt", 2800 * time.Millisecond, false, nil, []int{1, 2, 3}, 2, 2800 * time.Millisecond},
		{"almost until the deadline", 4500 * time.Millisecond, false, nil, []int{1, 2, 3}, 2, 4500 * time.Millisecond},
		{"longer than the first deadline", 5500 * time.Millisecond, false, context.DeadlineExceeded, []int{3}, 2, 4875 * time.Millisecond},
		{"with an attempt that may be stored", 2800 * time.Millisecond, true, errUnknown, []int{2, 3}, 1, timeout},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				observer := batch.NewObserver("hits", func() int { return 0 })
				testkit.Equal(t, observer.PauseWarning(), "", "without a pause")
				var d double
				attempts := 0
				q := batch.New(func(ctx context.Context, items []int) ([]int, error) {
					if items[0] == 1 {
						attempts++
					}
					select {
					case <-time.After(time.Until(began.Add(test.pause))):
						return d.commit(ctx, items)
					case <-ctx.Done():
						if test.uncertain && items[0] == 1 {
							return nil, errUnknown
						}
						return nil, ctx.Err()
					}
				}, batch.Options{Timeout: timeout, Observer: observer, RolledBack: func(err error) bool { return !errors.Is(err, errUnknown) }})
				q.Start()

				var wg sync.WaitGroup
				do := func(item int, want error) {
					wg.Go(func() {
						if _, err := q.DoBefore(t.Context(), time.Now().Add(patience), item, 1); want != nil && !errors.Is(err, want) ||
							want == nil && err != nil && slices.Contains(test.stored, item) {
							t.Errorf("item %d: %v, want %v", item, err, want)
						}
						if item == 1 && time.Since(began) != test.answeredBy {
							t.Errorf("answered after %v, want %v", time.Since(began), test.answeredBy)
						}
					})
				}
				do(1, test.first)
				time.Sleep(time.Millisecond)
				do(2, nil)
				time.Sleep(time.Second)
				do(3, nil)
				wg.Wait()

				err := q.Stop(t.Context())
				if warning := observer.PauseWarning(); !strings.HasPrefix(warning, "the database took 2") {
					t.Errorf("after the pause: %q", warning)
				}
				time.Sleep(11 * time.Minute)
				testkit.Equal(t, observer.PauseWarning(), "", "long after the pause")

				slices.Sort(d.stored)
				if err != nil || !slices.Equal(d.stored, test.stored) || attempts != test.attempts {
					t.Errorf("Stop = %v, stored %v in %d attempts, want %v in %d", err, d.stored, attempts, test.stored, test.attempts)
				}
			})
		})
	}
}

// TestHurriedItems: an item that has little time left does not shorten the attempt of an item that
// waits next to it.
func TestHurriedItems(t *testing.T) {
	const timeout = 2 * time.Second
	for _, test := range []struct {
		name   string
		takes  time.Duration // a commit
		stored []int
	}{
		{"quick commits", 100 * time.Millisecond, []int{1, 3, 2}},
		{"slow commits", 1500 * time.Millisecond, []int{1, 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				takes := time.Second
				s := slow{takes: func() time.Duration { return takes }}
				q := batch.New(s.commit, batch.Options{Timeout: timeout})
				q.Start()

				var wg sync.WaitGroup
				do := func(item int, patience time.Duration) {
					wg.Go(func() {
						began := time.Now()
						_, err := q.DoBefore(t.Context(), began.Add(patience), item, 1)
						if stored := slices.Contains(test.stored, item); stored != (err == nil) || time.Since(began) > patience {
							t.Errorf("item %d: %v after %v", item, err, time.Since(began))
						}
					})
				}
				do(1, 10*time.Second)
				synctest.Wait()
				takes = test.takes
				do(2, 2*time.Second)
				synctest.Wait()
				do(3, 10*time.Second)
				wg.Wait()

				if err := q.Stop(t.Context()); err != nil || !slices.Equal(s.stored, test.stored) {
					t.Errorf("Stop = %v, stored %v, want %v", err, s.stored, test.stored)
				}
			})
		})
	}
}

// TestDeadline: an item waits until its deadline, or until its context ends if that is earlier, and
// then is not stored. All waits last equally long, though the timers are reused.
func TestDeadline(t *testing.T) {
	const patience = 5 * time.Second
	synctest.Test(t, func(t *testing.T) {
		takes := time.Second
		s := slow{takes: func() time.Duration { return takes }}
		q := batch.New(s.commit, batch.Options{})
		q.Start()

		wait := func(ctx context.Context, item int) (time.Duration, error) {
			begin := time.Now()
			_, err := q.DoBefore(ctx, begin.Add(patience), item, 1)
			return time.Since(begin), err
		}
		for item := range 3 {
			if waited, err := wait(t.Context(), item); err != nil || waited != takes {
				t.Fatalf("item %d of a quick commit: %v after %v", item, err, waited)
			}
		}

		takes = time.Hour

		// The bad item fails the batch of the others.
		go q.Do(context.Background(), 3, 1)
		synctest.Wait()

		for item := 4; item < 7; item++ {
			if waited, err := wait(t.Context(), item); !errors.Is(err, context.DeadlineExceeded) || waited != patience {
				t.Errorf("item %d: %v after %v, want the deadline exceeded after %v", item, err, waited, patience)
			}
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()

		if waited, err := wait(ctx, 7); !errors.Is(err, context.DeadlineExceeded) || waited != time.Second {
			t.Errorf("an item with a context of a second: %v after %v", err, waited)
		}

		takes = 0

		if err := q.Stop(context.Background()); err != nil || !slices.Equal(s.stored, []int{0, 1, 2, 3}) {
			t.Errorf("Stop = %v, stored %v; want what was waited for and what the writer had", err, s.stored)
		}
	})
}

// TestAttemptsShareOneTimeout: looking for a bad item takes no longer than one commit may, so that
// what is stored on the way is answered in time.
func TestAttemptsShareOneTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errBad := errors.New("bad item")
		s := slow{takes: func() time.Duration { return 600 * time.Millisecond }}
		q := batch.New(func(ctx context.Context, items []int) ([]int, error) {
			outs, err := s.commit(ctx, items)
			if len(items) > 1 && err == nil {
				s.stored = s.stored[:len(s.stored)-len(items)]
				return nil, errBad
			}
			return outs, err
		}, batch.Options{Timeout: 2 * time.Second, Isolate: func(err error) bool { return errors.Is(err, errBad) }})

		began := time.Now()
		var wg sync.WaitGroup

		// 4 and 2 fail as bad, then one is stored and the next runs out of time
		for i := range 4 {
			wg.Go(func() {
				want := context.DeadlineExceeded
				if i == 0 {
					want = nil
				}
				if _, err := q.Do(t.Context(), i, 1); !errors.Is(err, want) || time.Since(began) != 2*time.Second {
					t.Errorf("Do(%d) = %v after %v; want %v after 2s", i, err, time.Since(began), want)
				}
			})

			// The items arrive in this order.
			synctest.Wait()
		}

		q.Start()
		wg.Wait()

		if err := q.Stop(t.Context()); err != nil || !slices.Equal(s.stored, []int{0}) {
			t.Errorf("Stop = %v, stored %v; want the first", err, s.stored)
		}
	})
}

// TestRefusedIsNeverStored is a property test: whatever commits take and whenever requests come and
// end, an item is stored if and only if its request gets its outcome, and gets it before its
// deadline.
func TestRefusedIsNeverStored(t *testing.T) {
	const timeout = 2 * time.Second
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			upTo := func(random *rand.Rand, d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }

			// Each goroutine has a source of its own.
			requests, commits := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
			pace := 1 + upTo(requests, 3*time.Second)
			s := slow{takes: func() time.Duration { return 1 + upTo(commits, pace) }}
			options := batch.Options{MaxItems: 5, MaxQueued: 3, Timeout: timeout, RolledBack: func(error) bool { return true }}

			// The deadline, where not the context ends the request.
			var within time.Duration

			if seed%2 == 1 {
				within = timeout + timeout/10 + upTo(requests, 6*time.Second)
			}

			q := batch.New(s.commit, options)
			q.Start()
			var mu sync.Mutex
			var answered []int

			var wg sync.WaitGroup
			for i := range 60 {
				time.Sleep(upTo(requests, 400*time.Millisecond))
				patience := upTo(requests, 8*time.Second)
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()

					began := time.Now()
					var deadline time.Time

					if within > 0 {
						ctx, patience, deadline = context.WithoutCancel(ctx), within, began.Add(within)
					}

					_, err := q.DoBefore(ctx, deadline, i, 1)

					if waited := time.Since(began); waited > patience {
						t.Errorf("seed %d: an answer after %v, the request gave up after %v", seed, waited, patience)
					}

					if err == nil {
						mu.Lock()
						answered = append(answered, i)
						mu.Unlock()
					}
				})
			}

			wg.Wait()

			testkit.NoError(t, q.Stop(t.Context()))

			slices.Sort(answered)
			slices.Sort(s.stored)

			if !slices.Equal(answered, s.stored) {
				t.Errorf("seed %d: stored %v, answered %v", seed, s.stored, answered)
			}
		})
	}
}

func BenchmarkDo(b *testing.B) {
	var d double
	q := batch.New(func(ctx context.Context, items []int) ([]int, error) {
		d.stored = d.stored[:0]
		return d.commit(ctx, items)
	}, batch.Options{})

	q.Start()
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := q.Do(context.Background(), 1, 1); err != nil {
				b.Error(err)
			}
		}
	})

	_ = q.Stop(context.Background())
}
