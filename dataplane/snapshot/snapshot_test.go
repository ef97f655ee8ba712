package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tallygate/tallygate/dataplane/snapshot"
	"github.com/tallygate/tallygate/db/model"
)

// source is a database of texts, with a clock that the cache reads too.
type source struct {
	mu     sync.Mutex
	values map[string]string // by name; the id is the length of the name
	err    error
	now    time.Time
	loads  atomic.Int64
	during func() // runs between reading and returning
}

func (s *source) load(_ context.Context, name string) (int64, *string, error) {
	s.loads.Add(1)
	s.mu.Lock()
	value, ok := s.values[name]
	err, during := s.err, s.during
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

	return int64(len(name)), &value, nil
}

func (s *source) set(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[name] = value
}

func (s *source) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func newCache() (*source, *snapshot.Cache[string]) {
	s := &source{values: map[string]string{"a": "1", "bb": "2"}, now: time.Unix(1_000, 0)}
	c := snapshot.New(s.load, func() time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.now
	})

	c.Synced(true)
	return s, c
}

// expect checks what a name stands for, and how often it took the database so far.
func expect(t *testing.T, s *source, c *snapshot.Cache[string], name, want string, loads int64) {
	t.Helper()

	got, err := c.Get(time.Time{}, name)
	if err != nil {
		t.Fatal(err)
	}

	text := "nobody"

	if got != nil {
		text = *got
	}
	if n := s.loads.Load(); text != want || n != loads {
		t.Errorf("%s is %s after %d look-ups, want %s after %d", name, text, n, want, loads)
	}
}

func TestSnapshotsAreKeptForAWhile(t *testing.T) {
	s, c := newCache()
	expect(t, s, c, "a", "1", 1)
	s.set("a", "new")
	s.pass(10*time.Second - 1)
	expect(t, s, c, "a", "1", 1)
	s.pass(1)
	expect(t, s, c, "a", "new", 2)

	expect(t, s, c, "x", "nobody", 3)
	s.pass(2*time.Second - 1)
	expect(t, s, c, "x", "nobody", 3)
	s.set("x", "somebody")
	s.pass(1)
	expect(t, s, c, "x", "somebody", 4)
}

func TestNoticesAreHeardAtOnce(t *testing.T) {
	s, c := newCache()
	expect(t, s, c, "a", "1", 1)
	expect(t, s, c, "bb", "2", 2)
	expect(t, s, c, "ccc", "nobody", 3)
	s.set("a", "new")
	s.set("ccc", "3")

	// a
	c.Changed(1)
	expect(t, s, c, "a", "new", 4)
	expect(t, s, c, "bb", "2", 4)

	// whose name it is now, the notice does not tell
	expect(t, s, c, "ccc", "3", 5)
}

func TestWithoutNoticesNothingIsTrustedForLong(t *testing.T) {
	s, c := newCache()
	expect(t, s, c, "a", "1", 1)
	c.Synced(false)
	s.pass(500*time.Millisecond - 1)
	expect(t, s, c, "a", "1", 1)
	s.pass(1)
	expect(t, s, c, "a", "1", 2)

	// whatever was missed is forgotten
	c.Synced(true)
	expect(t, s, c, "a", "1", 3)
}

// TestChangeDuringALookUp: what was read before a change is not kept after it.
func TestChangeDuringALookUp(t *testing.T) {
	s, c := newCache()
	s.during = sync.OnceFunc(func() { s.set("a", "new"); c.Changed(1) })
	expect(t, s, c, "a", "1", 1)
	expect(t, s, c, "a", "new", 2)
	s.during = sync.OnceFunc(func() { s.set("x", "somebody"); c.Changed(1) })
	expect(t, s, c, "x", "nobody", 3)
	expect(t, s, c, "x", "somebody", 4)
}

func TestErrorsAreNotKept(t *testing.T) {
	s, c := newCache()
	s.err = errors.New("away")
	if got, err := c.Get(time.Time{}, "a"); err == nil || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
	s.err = nil
	expect(t, s, c, "a", "1", 2)
}

// TestOneLookUpForAll: the first one's deadline fails no other.
func TestOneLookUpForAll(t *testing.T) {
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

	if n := s.loads.Load(); n != 1 {
		t.Errorf("%d look-ups, want 1", n)
	}
}

func TestMadeUpNamesPushNobodyOut(t *testing.T) {
	s, c := newCache()
	expect(t, s, c, "a", "1", 1)

	for i := range 60_000 {
		if got, err := c.Get(time.Time{}, fmt.Sprint("made up ", i)); got != nil || err != nil {
			t.Fatal(got, err)
		}
	}

	expect(t, s, c, "a", "1", 60_001)
}

// TestStrangersTakeFewPlaces: while look-ups of unknown names hang, those that are known are
// renewed, and further unknown ones hear that they have to wait.
func TestStrangersTakeFewPlaces(t *testing.T) {
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
		if err := <-errs; !errors.Is(err, snapshot.ErrStrangers) {
			t.Errorf("one too many: %v, want ErrStrangers", err)
		}
	}

	s.pass(time.Minute)
	renewed := make(chan error)
	go func() { _, err := c.Get(time.Time{}, "a"); renewed <- err }()

	// the known one has its place
	<-entered
	close(release)

	if err := <-renewed; err != nil {
		t.Error(err)
	}

	for range 3 {
		if err := <-errs; err != nil {
			t.Errorf("one of the few: %v", err)
		}
	}
}

// TestStrangersWaitBriefly: a look-up that gets no turn is refused after a second, and one that
// gets it is not.
func TestStrangersWaitBriefly(t *testing.T) {
	const places, wait = 3, time.Second
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := snapshot.New(func(context.Context, string) (int64, *string, error) {
			<-release
			return 0, nil, model.ErrNotFound
		}, time.Now)

		answers := make(chan error, places+1)
		ask := func(name string) { _, err := c.Get(time.Time{}, name); answers <- err }

		for i := range places {
			go ask(fmt.Sprint(i))
		}

		synctest.Wait()

		began := time.Now()
		ask("refused")

		if err, waited := <-answers, time.Since(began); !errors.Is(err, snapshot.ErrStrangers) || waited != wait {
			t.Errorf("without a turn: %v after %v; want %v after %v", err, waited, snapshot.ErrStrangers, wait)
		}

		go ask("in time")

		// of the bubble's clock
		time.Sleep(wait - time.Millisecond)
		close(release)

		for range places + 1 {
			if err := <-answers; err != nil {
				t.Errorf("with a turn: %v", err)
			}
		}
	})
}
