package ratelimit_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/tallygate/tallygate/dataplane/ratelimit"
	"github.com/tallygate/tallygate/tools/testkit"
)

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// network returns the n-th of many networks.
func network(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(n >> 16), byte(n >> 8), byte(n), 0}), 24)
}

func key(n int) ratelimit.Key { return ratelimit.Key{Network: network(n)} }

// TestTake checks that a bucket grants its capacity at once and then its refill, for each key
// separately.
func TestTake(t *testing.T) {
	l := ratelimit.New(10 * time.Second)
	granted := func(key ratelimit.Key, cost time.Duration, at time.Time, calls int) (n int, wait time.Duration) {
		for range calls {
			if wait = l.Take(at, key, cost); wait == 0 {
				n++
			}
		}
		return n, wait
	}
	for _, step := range []struct {
		name  string
		key   ratelimit.Key
		cost  time.Duration
		after time.Duration
		want  int
		wait  time.Duration
	}{
		{"full", key(1), time.Second, 0, 10, time.Second},
		{"another network", key(2), time.Second, 0, 10, time.Second},
		{"another id", ratelimit.Key{ID: 7, Network: network(1)}, time.Second, 0, 10, time.Second},
		{"no network", ratelimit.Key{}, time.Second, 0, 10, time.Second},
		{"3.5 s later", key(1), time.Second, 3500 * time.Millisecond, 3, 500 * time.Millisecond},
		{"half the cost", key(1), 500 * time.Millisecond, 3500 * time.Millisecond, 1, 500 * time.Millisecond},
		{"an hour later", key(1), time.Second, time.Hour, 10, time.Second},
		{"a tenth of the cost", key(2), 100 * time.Millisecond, time.Hour, 100, 100 * time.Millisecond},
	} {
		if n, wait := granted(step.key, step.cost, start.Add(step.after), 150); n != step.want || wait != step.wait {
			t.Errorf("%s: %d granted, then a wait of %v; want %d and %v", step.name, n, wait, step.want, step.wait)
		}
	}
}

// TestClockSteps checks that a wait never exceeds the cost, and that the call is granted after it,
// whatever the clock does. A network is not refused until a wrong time is reached again.
func TestClockSteps(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 7))
		l := ratelimit.New(time.Minute)

		now := start
		for i := range 20_000 {
			switch random.IntN(200) {
			case 0:
				now = now.Add(time.Duration(random.Int64N(int64(4*365*24*time.Hour))) - 2*365*24*time.Hour)
			case 1:
				now = now.Add(time.Duration(random.Int64N(int64(4*time.Minute))) - 2*time.Minute)
			case 2:
				now = start
			default:
				now = now.Add(time.Duration(random.Int64N(int64(50 * time.Millisecond))))
			}

			cost := time.Duration(1 + random.Int64N(int64(200*time.Millisecond)))
			wait := l.Take(now, key(0), cost)
			if wait > cost {
				t.Fatalf("seed %d, call %d at %v: to wait %v, more than the cost of %v", seed, i, now, wait, cost)
			}
			if wait == 0 {
				continue
			}
			if again := l.Take(now.Add(wait), key(0), cost); again != 0 {
				t.Fatalf("seed %d, call %d at %v: after a wait of %v, %v more", seed, i, now, wait, again)
			}
		}
	}
}

// TestOtherNetworksRefillNothing checks that a client cannot refill its empty bucket by using many
// other networks.
func TestOtherNetworksRefillNothing(t *testing.T) {
	l := ratelimit.New(100 * time.Second)
	const cost = 100 * time.Millisecond
	for range 1_000 {
		testkit.Require(t, l.Take(start, key(0), cost), 0, "the bucket holds less than 1,000 calls")
	}

	for n := range 4 * ratelimit.Limit {
		l.Take(start, key(1+n), cost)
	}

	testkit.Equal(t, l.Take(start, key(0), cost), cost, "after calls from %d other networks: to wait", 4*ratelimit.Limit)
}

// TestManyNetworks checks that nearly Limit buckets are stored at once, and that a new network is
// granted when the limiter is full.
func TestManyNetworks(t *testing.T) {
	l := ratelimit.New(time.Second)
	for n := range ratelimit.Limit / 2 {
		if wait := l.Take(start, key(n), time.Second); wait != 0 {
			t.Fatalf("network %d waits %v at its first call", n, wait)
		}
	}

	kept := 0
	for n := range ratelimit.Limit / 2 {
		if l.Take(start, key(n), time.Second) > 0 {
			kept++
		}
	}

	if least := ratelimit.Limit / 2 * 9 / 10; kept < least {
		t.Errorf("%d of %d empty buckets are kept, want at least %d", kept, ratelimit.Limit/2, least)
	}
}

func TestTakeDoesNotAllocate(t *testing.T) {
	l, n := ratelimit.New(time.Second), 0
	testkit.Equal(t, testing.AllocsPerRun(1_000, func() { n++; l.Take(start, key(n), time.Millisecond) }), 0, "allocations in a call")
}

func BenchmarkTake(b *testing.B) {
	for _, networks := range []int{1, 1_000, 1_000_000} {
		b.Run(fmt.Sprintf("networks=%d", networks), func(b *testing.B) {
			l, now := ratelimit.New(100*time.Second), time.Now()
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for i := rand.IntN(networks); p.Next(); i++ {
					l.Take(now, key(i%networks), time.Microsecond)
				}
			})
		})
	}
}
