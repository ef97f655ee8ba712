package reports

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

// TestCacheSharesLoads checks that callers that wait get the value of the load in progress, also if
// it is not kept, and that after its failure another caller loads.
func TestCacheSharesLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache[string, int](10)
		var loads atomic.Int64
		fail := errors.New("failed")
		release := make(chan struct{})
		get := func(ctx context.Context) (int, error) {
			return c.get(ctx, "key", 0, func() (cached[int], error) {
				n := loads.Add(1)
				<-release
				if n == 1 {
					return cached[int]{}, fail
				}
				return cached[int]{value: 7, keep: time.Second, bytes: 11}, nil
			}, nil)
		}

		var failed, ok atomic.Int64
		for range 20 {
			go func() {
				switch value, err := get(t.Context()); {
				case errors.Is(err, fail):
					failed.Add(1)
				case err == nil && value == 7:
					ok.Add(1)
				}
			}()
		}
		synctest.Wait() // one of them loads
		impatient, cancel := context.WithCancel(t.Context())
		go func() {
			if _, err := get(impatient); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want canceled", err)
			}
		}()
		synctest.Wait()
		cancel()
		for range 2 {
			synctest.Wait()
			release <- struct{}{}
		}
		synctest.Wait()

		if loads.Load() != 2 || failed.Load() != 1 || ok.Load() != 19 {
			t.Errorf("%d loads, %d failed, %d got the value; want 2, 1 and 19", loads.Load(), failed.Load(), ok.Load())
		}
		if c.kept.Len() != 0 || c.bytes != 0 || len(c.loading) != 0 {
			t.Errorf("%d values of %d bytes are kept, %d loads are left", c.kept.Len(), c.bytes, len(c.loading))
		}
	})
}

// TestCacheIsBounded checks the bytes of the kept values against their sum.
func TestCacheIsBounded(t *testing.T) {
	c := newCache[int, int](100)
	load := func(key int, bytes int64, at model.Instant) bool {
		loaded := false
		_, err := c.get(t.Context(), key, at, func() (cached[int], error) {
			loaded = true
			return cached[int]{key, at, time.Second, bytes}, nil
		}, nil)
		testkit.NoError(t, err)
		return loaded
	}

	for i, test := range []struct {
		key   int
		bytes int64
		after time.Duration
		load  bool
		kept  int64
	}{
		{1, 40, 0, true, 40},
		{1, 40, 999 * time.Millisecond, false, 40},
		{2, 50, 0, true, 90},
		{1, 30, time.Second, true, 80},  // expired, and in its own place
		{3, 50, time.Second, true, 80},  // in the place of 2
		{2, 10, time.Second, true, 90},  // again
		{4, 101, time.Second, true, 90}, // too large
		{4, 101, time.Second, true, 90},
		{5, 100, time.Second, true, 100},
		{1, 1, -time.Hour, true, 1}, // the clock was set back
	} {
		if got := load(test.key, test.bytes, model.Instant(0).Add(test.after)); got != test.load || c.bytes != test.kept {
			t.Errorf("step %d: loaded %v, %d bytes kept; want %v, %d", i, got, c.bytes, test.load, test.kept)
		}
	}
}

// TestCacheSurvivesAPanic checks that a load that panics leaves no caller waiting.
func TestCacheSurvivesAPanic(t *testing.T) {
	c := newCache[int, int](100)
	func() {
		defer func() { _ = recover() }()
		_, _ = c.get(t.Context(), 1, 0, func() (cached[int], error) { panic("load") }, nil)
	}()
	value, err := c.get(t.Context(), 1, 0, func() (cached[int], error) { return cached[int]{value: 7}, nil }, nil)
	if value != 7 || err != nil {
		t.Errorf("got %d, error %v", value, err)
	}
}
