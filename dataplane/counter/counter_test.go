package counter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tallygate/tallygate/dataplane/counter"
	"github.com/tallygate/tallygate/db/ingest"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

var errAway = errors.New("the database is away")

// memory is a store that adds up, and fails while away is set.
type memory struct {
	mu     sync.Mutex
	away   error
	stored map[ingest.RejectionKey]int64
	calls  int
}

func (m *memory) store(_ context.Context, counts map[ingest.RejectionKey]int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()

	m.calls++
	if m.away != nil {
		return m.away
	}
	if m.stored == nil {
		m.stored = make(map[ingest.RejectionKey]int64)
	}

	for key, n := range counts {
		m.stored[key] += n
	}

	return nil
}

func (m *memory) setAway(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = err
}

// attempts is how often store was called.
func (m *memory) attempts() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

func (m *memory) want(t *testing.T, want map[ingest.RejectionKey]int64) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	testkit.EqualMaps(t, m.stored, want, "stored")
}

func key(site model.SiteID, code string) ingest.RejectionKey {
	return ingest.RejectionKey{SiteID: site, Day: 20777, Endpoint: "collect", Code: code}
}

func TestFlushesEverySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m memory
		c := counter.New(m.store, counter.Options{})
		c.Start()
		c.Start()
		c.Add(key(1, "bad_json"))
		c.Add(key(1, "bad_json"))
		c.Add(key(2, "bot"))
		m.want(t, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		m.want(t, map[ingest.RejectionKey]int64{key(1, "bad_json"): 2, key(2, "bot"): 1})
		time.Sleep(10 * time.Second)
		synctest.Wait()

		if n := m.attempts(); n != 1 {
			t.Errorf("store was called %d times; nothing to store is no call", n)
		}
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestStopFlushes(t *testing.T) {
	for _, started := range []bool{true, false} {
		t.Run(fmt.Sprintf("started %v", started), func(t *testing.T) {
			var m memory
			c := counter.New(m.store, counter.Options{})

			if started {
				c.Start()
			}

			c.Add(key(1, "bot"))

			if err := c.Stop(t.Context()); err != nil {
				t.Error(err)
			}

			m.want(t, map[ingest.RejectionKey]int64{key(1, "bot"): 1})

			// A late call is harmless.
			c.Start()
			c.Add(key(1, "bot"))

			if err := c.Stop(t.Context()); err != nil {
				t.Error(err)
			}

			m.want(t, map[ingest.RejectionKey]int64{key(1, "bot"): 2})
		})
	}
}

// TestStopTriesAgain: a last flush that fails is repeated twice, and what none of them could store
// is there for another Stop.
func TestStopTriesAgain(t *testing.T) {
	for name, test := range map[string]struct {
		failures, attempts int
		err                error
	}{
		"one failure":   {1, 2, nil},
		"two failures":  {2, 3, nil},
		"four failures": {4, 3, errAway},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var m memory
				attempts := 0
				c := counter.New(func(ctx context.Context, counts map[ingest.RejectionKey]int64) error {
					if attempts++; attempts <= test.failures {
						return errAway
					}
					return m.store(ctx, counts)
				}, counter.Options{})
				c.Start()
				c.Add(key(1, "bot"))

				testkit.ErrorIs(t, c.Stop(t.Context()), test.err, "stop")
				testkit.Equal(t, attempts, test.attempts, "attempts")
				testkit.NoError(t, c.Stop(t.Context()))
				m.want(t, map[ingest.RejectionKey]int64{key(1, "bot"): 1})
			})
		})
	}
}

func TestStopGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := counter.New(func(ctx context.Context, _ map[ingest.RejectionKey]int64) error {
			<-ctx.Done()
			return ctx.Err()
		}, counter.Options{})

		c.Start()
		c.Add(key(1, "bot"))
		time.Sleep(time.Second)

		// Now the store does not return.
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()

		if err := c.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want context.DeadlineExceeded", err)
		}
	})
}

// TestFailedFlushIsTriedAgain: nothing is lost or counted twice while the database is away, and the
// log hears of it once.
func TestFailedFlushIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := memory{away: errAway}
		c := counter.New(m.store, counter.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		c.Start()

		for range 10 {
			c.Add(key(1, "bot"))
			time.Sleep(time.Second)
		}

		m.setAway(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		m.want(t, map[ingest.RejectionKey]int64{key(1, "bot"): 10})

		if n := m.attempts(); n < 10 {
			t.Errorf("%d attempts in 11 s, want one each second", n)
		}
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 2 {
			t.Errorf("%d lines in the log, want one when it fails and one when it works:\n%s", lines, &log)
		}
	})
}

// TestHangingStoreIsGivenUp: an attempt has a limit of its own.
func TestHangingStoreIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		hangs.Store(true)
		var m memory
		c := counter.New(func(ctx context.Context, counts map[ingest.RejectionKey]int64) error {
			if hangs.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			return m.store(ctx, counts)
		}, counter.Options{})

		c.Start()
		c.Add(key(1, "bot"))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		hangs.Store(false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		m.want(t, map[ingest.RejectionKey]int64{key(1, "bot"): 1})

		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestBound: beyond MaxKeys, known keys count on, new ones are dropped, and the drops are known.
func TestBound(t *testing.T) {
	var m memory
	c := counter.New(m.store, counter.Options{MaxKeys: 3})

	for range 2 {
		for site := range model.SiteID(5) {
			c.Add(key(site, "bot"))
		}
	}

	testkit.Equal(t, c.Dropped(), 4, "dropped")
	testkit.NoError(t, c.Stop(t.Context()))

	m.want(t, map[ingest.RejectionKey]int64{key(0, "bot"): 2, key(1, "bot"): 2, key(2, "bot"): 2})

	// There is room again.
	c.Add(key(4, "bot"))

	testkit.NoError(t, c.Stop(t.Context()))

	m.want(t, map[ingest.RejectionKey]int64{key(0, "bot"): 2, key(1, "bot"): 2, key(2, "bot"): 2, key(4, "bot"): 1})
}

// TestBoundWhileFailing: what comes back from a failed flush stays within the bound too, together
// with what came since.
func TestBoundWhileFailing(t *testing.T) {
	m := memory{}
	var c *counter.Counter[ingest.RejectionKey]
	first := true
	c = counter.New(func(ctx context.Context, counts map[ingest.RejectionKey]int64) error {
		// Two other keys and one of the same arrive during the flush.
		if first {
			first = false

			for site := model.SiteID(2); site < 5; site++ {
				c.Add(key(site, "bot"))
			}

			return errAway
		}

		return m.store(ctx, counts)
	}, counter.Options{MaxKeys: 3})
	for site := range model.SiteID(3) {
		c.Add(key(site, "bot"))
	}

	testkit.NoError(t, c.Stop(t.Context()))
	testkit.Equal(t, c.Dropped(), 2, "dropped")

	m.want(t, map[ingest.RejectionKey]int64{key(2, "bot"): 2, key(3, "bot"): 1, key(4, "bot"): 1})
}

// TestExactInParallel: many requests count while flushes run, every third of which fails.
func TestExactInParallel(t *testing.T) {
	const requests, each, sites = 8, 5_000, 7
	var m memory

	// Used by the flushing goroutine only, and by Stop after it.
	attempt := 0
	c := counter.New(func(ctx context.Context, counts map[ingest.RejectionKey]int64) error {
		if attempt++; attempt%3 == 0 {
			return errAway
		}
		return m.store(ctx, counts)
	}, counter.Options{Interval: 100 * time.Microsecond})

	c.Start()
	var wg sync.WaitGroup
	for range requests {
		wg.Go(func() {
			for i := range model.SiteID(each) {
				c.Add(key(i%sites, "bot"))
			}
		})
	}

	wg.Wait()

	if err := c.Stop(t.Context()); err != nil {
		testkit.NoError(t, c.Stop(t.Context()))
	}

	want := make(map[ingest.RejectionKey]int64)
	for i := range model.SiteID(each) {
		want[key(i%sites, "bot")] += requests
	}

	m.want(t, want)

	testkit.Equal(t, c.Dropped(), 0, "dropped")
}

// BenchmarkAdd measures what counting adds to a refused call.
func BenchmarkAdd(b *testing.B) {
	// The last keys do not fit.
	for _, sites := range []model.SiteID{1, 1_000, 20_000} {
		b.Run(fmt.Sprintf("sites=%d", sites), func(b *testing.B) {
			c := counter.New(func(context.Context, map[ingest.RejectionKey]int64) error { return nil }, counter.Options{})
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for i := model.SiteID(0); p.Next(); i++ {
					c.Add(key(i%sites, "domain_not_allowed"))
				}
			})
		})
	}
}

// TestGroupsAreBounded: one group fills its own room only, and again after a flush.
func TestGroupsAreBounded(t *testing.T) {
	var m memory
	c := counter.NewGrouped(m.store, func(k ingest.RejectionKey) int64 { return int64(k.SiteID) }, 2, counter.Options{})
	for range 2 {
		for i := range 100 {
			c.Add(key(1, fmt.Sprint("name", i)))
		}
		c.Add(key(2, "other"))

		testkit.NoError(t, c.Stop(t.Context()))
	}

	m.want(t, map[ingest.RejectionKey]int64{key(1, "name0"): 2, key(1, "name1"): 2, key(2, "other"): 2})

	testkit.Equal(t, c.Dropped(), 196, "dropped")
}
