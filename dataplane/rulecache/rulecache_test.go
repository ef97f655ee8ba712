package rulecache_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tallygate/tallygate/dataplane/rulecache"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// source is a fake database of texts, with the clock of the cache.
type source struct {
	mu     sync.Mutex
	values map[string]string // by key; the id is the length of the key
	err    error
	broken string // the key whose lookups fail
	now    time.Time
	loads  atomic.Int64
	during func() // runs between reading and returning
}

func (s *source) load(_ context.Context, key string) (int64, *string, error) {
	s.loads.Add(1)
	s.mu.Lock()
	value, ok := s.values[key]
	err, during := s.err, s.during
	if key == s.broken {
		err = errors.New("broken")
	}
	s.mu.Unlock()

	if during != nil {
		during()
	}

	switch {
	case err != nil:
		return 0, nil, err
	case !ok:
		return 0, nil, model.ErrNotFound
	}

	return int64(len(key)), &value, nil
}

func (s *source) set(key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[key] = value
}

func (s *source) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func newCache() (*source, *rulecache.Cache[string]) {
	s := &source{values: map[string]string{"a": "1", "bb": "2"}, now: time.Unix(1_000, 0)}
	c := rulecache.New(s.load, func() time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.now
	})

	c.Synced(true)
	return s, c
}

// expect checks the value of a key, and the number of lookups so far.
func expect(t *testing.T, s *source, c *rulecache.Cache[string], key, want string, loads int64) {
	t.Helper()

	got, err := c.Get(time.Time{}, key)
	testkit.NoError(t, err)

	text := "unknown"

	if got != nil {
		text = *got
	}
	if n := s.loads.Load(); text != want || n != loads {
		t.Errorf("%s is %s after %d lookups, want %s after %d", key, text, n, want, loads)
	}
}

func TestEntriesExpire(t *testing.T) {
	s, c := newCache()
	expect(t, s, c, "a", "1", 1)
	s.set("a", "new")
	s.pass(5*time.Minute - 1)
	expect(t, s, c, "a", "1", 1)
	s.pass(1)
	expect(t, s, c, "a", "new", 2)

	expect(t, s, c, "x", "unknown", 3)
	s.pass(2*time.Second - 1)
	expect(t, s, c, "x", "unknown", 3)
	s.set("x", "found")
	s.pass(1)
	expect(t, s, c, "x", "found", 4)
}

func TestChangesInvalidateAtOnce(t *testing.T) {
	s, c := newCache()
	expect(t, s, c, "a", "1", 1)
	expect(t, s, c, "bb", "2", 2)
	expect(t, s, c, "ccc", "unknown", 3)
	s.set("a", "new")
	s.set("ccc", "3")

	// The id of "a" is 1.
	c.Changed(1)
	expect(t, s, c, "a", "new", 4)
	expect(t, s, c, "bb", "2", 4)

	// The notification has no key, so that all unknown keys are looked up again.
	expect(t, s, c, "ccc", "3", 5)
}

func TestEntriesExpireEarlyWithoutNotifications(t *testing.T) {
	s, c := newCache()
	expect(t, s, c, "a", "1", 1)
	c.Synced(false)
	s.pass(500*time.Millisecond - 1)
	expect(t, s, c, "a", "1", 1)
	s.pass(1)
	expect(t, s, c, "a", "1", 2)

	// Changes may have been missed.
	c.Synced(true)
	expect(t, s, c, "a", "1", 3)
}

// TestChangeDuringALookup checks that a value read before a change is not cached after it.
func TestChangeDuringALookup(t *testing.T) {
	s, c := newCache()
	s.during = sync.OnceFunc(func() { s.set("a", "new"); c.Changed(1) })
	expect(t, s, c, "a", "1", 1)
	expect(t, s, c, "a", "new", 2)
	s.during = sync.OnceFunc(func() { s.set("x", "found"); c.Changed(1) })
	expect(t, s, c, "x", "unknown", 3)
	expect(t, s, c, "x", "found", 4)
}

func TestErrorsAreNotCached(t *testing.T) {
	s, c := newCache()
	s.err = errors.New("unavailable")
	if got, err := c.Get(time.Time{}, "a"); err == nil || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
	s.err = nil
	expect(t, s, c, "a", "1", 2)
}

// TestKnownKeysOutliveTheDatabase checks that entries serve for ten minutes while neither
// notifications nor lookups work, with one attempt a second, unless they are known to have changed.
func TestKnownKeysOutliveTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newCache()
		expect(t, s, c, "a", "1", 1)
		expect(t, s, c, "bb", "2", 2)
		c.Changed(2)

		fails := func(key string) {
			t.Helper()
			if got, err := c.Get(time.Time{}, key); err == nil {
				t.Errorf("%s is %v without an error", key, got)
			}
		}
		serves := func(loads int64) {
			t.Helper()
			before := s.loads.Load()
			got, err := c.Get(time.Time{}, "a")
			synctest.Wait()
			if n := s.loads.Load() - before; err != nil || *got != "1" || n != loads {
				t.Errorf("got %v, error %v after %d lookups, want 1 after %d", got, err, n, loads)
			}
		}

		s.err = errors.New("unavailable")
		s.pass(5 * time.Minute)
		fails("a") // notifications arrive, so the database is there

		c.Synced(false)
		serves(1)
		s.pass(time.Second - 1)
		serves(0)
		s.pass(1)
		serves(1)
		serves(0)
		fails("bb")
		fails("never seen")

		s.pass(4*time.Minute + 58*time.Second)
		serves(1)
		s.pass(time.Second)
		fails("a")

		// The database is back, with another value.
		s.err = nil
		s.set("a", "new")
		c.Synced(true)
		loads := s.loads.Load()
		expect(t, s, c, "a", "new", loads+1)
	})
}

// TestSlowDatabaseIsNotAwaited checks that lookups that hang hold up all entries for one second in
// all, and not until the request's deadline, and that requests see the database soon after it
// answers.
func TestSlowDatabaseIsNotAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const outage = time.Minute
		var hang atomic.Bool
		var loads atomic.Int64
		var value atomic.Value
		value.Store("old ")
		c := rulecache.New(func(ctx context.Context, key string) (int64, *string, error) {
			loads.Add(1)
			if hang.Load() {
				<-ctx.Done()
				return 0, nil, ctx.Err()
			}
			of := value.Load().(string) + key
			return 1, &of, nil
		}, time.Now)

		get := func(key, want string) (took time.Duration) {
			t.Helper()
			began := time.Now()
			if got, err := c.Get(began.Add(5*time.Second), key); err != nil || got == nil || *got != want {
				t.Fatalf("got %v, %v, want %s", got, err, want)
			}
			return time.Since(began)
		}

		get("a", "old a")
		get("b", "old b")
		hang.Store(true)
		time.Sleep(time.Second) // of the test's clock

		if took := get("a", "old a"); took != time.Second {
			t.Errorf("the first request took %v, want a second", took)
		}
		loads.Store(0)
		for began := time.Now(); time.Since(began) < outage; time.Sleep(10 * time.Millisecond) {
			if took := get("a", "old a") + get("b", "old b"); took != 0 {
				t.Errorf("later requests took %v", took)
			}
		}
		if n, want := loads.Load(), 2*int64(outage/time.Second); n < want/3 || n > want {
			t.Errorf("%d lookups of two keys in %v, want at most one of each a second", n, outage)
		}

		hang.Store(false)
		value.Store("new ")
		time.Sleep(2 * time.Second)
		_, err := c.Get(time.Time{}, "a") // begins a lookup
		synctest.Wait()
		if took := get("a", "new a") + get("b", "new b"); err != nil || took != 0 {
			t.Errorf("after the outage: error %v, requests took %v", err, took)
		}
	})
}

// TestFailingKeyKeepsNoOtherStale checks that a key whose lookups fail leaves others up to date,
// while no notifications arrive.
func TestFailingKeyKeepsNoOtherStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newCache()
		c.Synced(false)
		expect(t, s, c, "a", "1", 1)
		expect(t, s, c, "bb", "2", 2)
		s.mu.Lock()
		s.broken = "a"
		s.mu.Unlock()

		// The failing key is always the first one that is asked for.
		get := func(key string) string {
			t.Helper()
			got, err := c.Get(time.Time{}, key)
			synctest.Wait()
			testkit.NoError(t, err)
			return *got
		}
		stale := 0
		for n := range 10 {
			value := fmt.Sprint("new ", n)
			s.set("bb", value)
			s.pass(2 * time.Second)
			get("a")
			get("bb")
			if get("bb") != value {
				stale++
			}
		}
		if stale > 0 {
			t.Errorf("the other key was stale %d of 10 times", stale)
		}
	})
}

// TestOneLookupForAll checks that concurrent requests share a lookup, and that the deadline of the
// first does not fail the others.
func TestOneLookupForAll(t *testing.T) {
	s, c := newCache()
	entered, release := make(chan struct{}), make(chan struct{})
	s.during = func() { close(entered); <-release }

	if _, err := c.Get(time.Now().Add(time.Millisecond), "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the first one got %v, want the deadline exceeded", err)
	}

	<-entered
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if got, err := c.Get(time.Time{}, "a"); err != nil || got == nil || *got != "1" {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}

	close(release)
	wg.Wait()

	testkit.Equal(t, s.loads.Load(), 1, "lookups")
}

func TestUnknownKeysEvictNoEntry(t *testing.T) {
	s, c := newCache()
	expect(t, s, c, "a", "1", 1)

	for i := range 60_000 {
		if got, err := c.Get(time.Time{}, fmt.Sprint("made up ", i)); got != nil || err != nil {
			t.Fatal(got, err)
		}
	}

	expect(t, s, c, "a", "1", 60_001)
}

// TestUnknownKeysAreLimited checks that entries are refreshed while lookups of unknown keys hang,
// and that further unknown keys are refused.
func TestUnknownKeysAreLimited(t *testing.T) {
	s, c := newCache()
	expect(t, s, c, "a", "1", 1)
	entered, release := make(chan struct{}, 100), make(chan struct{})
	s.mu.Lock()
	s.during = func() { entered <- struct{}{}; <-release }
	s.mu.Unlock()

	errs := make(chan error, 10)
	for i := range cap(errs) {
		go func() {
			_, err := c.Get(time.Time{}, fmt.Sprint("made up ", i))
			errs <- err
		}()
	}

	for range 3 {
		<-entered
	}

	for range cap(errs) - 3 {
		testkit.ErrorIs(t, <-errs, rulecache.ErrUnknownKeys, "beyond the limit")
	}

	s.pass(time.Hour)
	renewed := make(chan error)
	go func() { _, err := c.Get(time.Time{}, "a"); renewed <- err }()

	// The known key is looked up at once.
	<-entered
	close(release)

	if err := <-renewed; err != nil {
		t.Error(err)
	}

	for range 3 {
		testkit.Succeeds(t, <-errs, "within the limit")
	}
}

// TestUnknownKeysWaitBriefly checks that a lookup that cannot start within a second is refused, and
// that one that starts in time is not.
func TestUnknownKeysWaitBriefly(t *testing.T) {
	const limit, wait = 3, time.Second
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := rulecache.New(func(context.Context, string) (int64, *string, error) {
			<-release
			return 0, nil, model.ErrNotFound
		}, time.Now)

		answers := make(chan error, limit+1)
		ask := func(key string) { _, err := c.Get(time.Time{}, key); answers <- err }

		for i := range limit {
			go ask(fmt.Sprint(i))
		}

		synctest.Wait()

		began := time.Now()
		ask("refused")

		if err, waited := <-answers, time.Since(began); !errors.Is(err, rulecache.ErrUnknownKeys) || waited != wait {
			t.Errorf("late: %v after %v; want %v after %v", err, waited, rulecache.ErrUnknownKeys, wait)
		}

		go ask("in time")

		// This sleep is of the test's fake clock.
		time.Sleep(wait - time.Millisecond)
		close(release)

		for range limit + 1 {
			testkit.Succeeds(t, <-answers, "in time")
		}
	})
}
