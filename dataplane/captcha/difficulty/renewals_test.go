package difficulty

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/tallygate/tallygate/tools/testkit"
)

// visit is the next step of a form in an office: it requests a challenge, or solves the one that it
// got.
type visit struct {
	at      time.Time
	answers bool
	issued  time.Time
}

type visits []visit

func (v visits) Len() int           { return len(v) }
func (v visits) Less(i, j int) bool { return v[i].at.Before(v[j].at) }
func (v visits) Swap(i, j int)      { v[i], v[j] = v[j], v[i] }
func (v *visits) Push(x any)        { *v = append(*v, x.(visit)) }
func (v *visits) Pop() any {
	last := (*v)[len(*v)-1]
	*v = (*v)[:len(*v)-1]
	return last
}

// TestOffice checks that 50 forms in one network, opened within some minutes and then renewed every
// 3.5 minutes, stay near the base difficulty: at most twice while they are opened, or 2.8 times if
// all are opened within a minute, and 1.4 times after that.
func TestOffice(t *testing.T) {
	const base = 1_000
	addr := netip.MustParseAddr("203.0.113.1")
	for opened, limit := range map[time.Duration]uint32{
		time.Minute: 2_828, 5 * time.Minute: 2_000, 10 * time.Minute: 2_000, 30 * time.Minute: 2_000,
	} {
		t.Run(fmt.Sprint(opened), func(t *testing.T) {
			for seed := range uint64(5) {
				random := rand.New(rand.NewPCG(seed, 5))
				var queue visits
				for range 50 {
					heap.Push(&queue, visit{at: start.Add(time.Duration(random.Int64N(int64(opened))))})
				}

				c, most, steady, asked := New(base), uint32(0), uint32(0), 0

				for end := start.Add(2 * time.Hour); queue[0].at.Before(end); {
					v := heap.Pop(&queue).(visit)
					if v.answers {
						c.Solved(1, addr, v.issued, v.at)

						// The widget looks at the token's age every 10 seconds.
						heap.Push(&queue, visit{at: v.at.Add(210*time.Second + time.Duration(random.Int64N(int64(10*time.Second))))})
						continue
					}

					difficulty, wait := challenge(c, 1, addr, v.at)
					if wait > 0 {
						t.Fatalf("a form waits %v", wait)
					}

					asked++
					most = max(most, difficulty)

					if v.at.After(start.Add(opened + 20*time.Minute)) {
						steady = max(steady, difficulty)
					}

					// Slow devices take two seconds at the base difficulty.
					work := time.Duration(random.Int64N(int64(2*time.Second))) * time.Duration(difficulty) / base
					heap.Push(&queue, visit{at: v.at.Add(work), answers: true, issued: v.at})
				}

				if most > limit || steady > 1_414 || asked < 1_000 {
					t.Errorf("seed %d: %d challenges, difficulty up to %d, later %d; want at most %d and 1414", seed, asked, most, steady, limit)
				}
			}
		})
	}
}

// solveAll requests and solves n challenges and returns the difficulty of the last one.
func solveAll(c *Control, addr string, at time.Time, n int) (difficulty uint32) {
	for range n {
		difficulty = ask(c, 1, addr, at, 1)
		c.Solved(1, netip.MustParseAddr(addr), at, at)
	}
	return difficulty
}

// TestSolvedChallengesStillCount checks that the difficulty rises for a client that solves all its
// challenges: to a quarter of that without solutions. It also rises for a client that times its
// requests like renewals, beyond the needs of an office.
func TestSolvedChallengesStillCount(t *testing.T) {
	const addr = "203.0.113.1"
	for _, test := range []struct {
		solved int
		want   uint32
	}{{16, 1_000}, {45, 1_414}, {64, 2_000}, {128, 4_000}, {256, 8_000}} {
		if got := solveAll(New(1_000), addr, start, test.solved); got != test.want {
			t.Errorf("challenge number %d, all before solved: difficulty %d, want %d", test.solved, got, test.want)
		}
	}

	c := New(1_000)
	var difficulty uint32
	for round := range 20 {
		difficulty = solveAll(c, addr, start.Add(time.Duration(round)*4*time.Minute), 250)
	}

	if difficulty < 8_000 {
		t.Errorf("250 every 4 minutes: difficulty %d, want at least 8000", difficulty)
	}
}

// TestRenewalNeedsAnEarlierSolution checks that each challenge solved 3 to 5 minutes before allows
// one renewal.
func TestRenewalNeedsAnEarlierSolution(t *testing.T) {
	at := time.Unix(1_795_262_400, 0)
	for _, test := range []struct {
		after time.Duration
		want  bool
	}{
		{0, false}, {time.Minute, false}, {2 * time.Minute, false}, {3 * time.Minute, true}, {210 * time.Second, true},
		{5*time.Minute + 59*time.Second, true}, {6 * time.Minute, false}, {time.Hour, false}, {-time.Minute, false}, {-time.Hour, false},
	} {
		var r renewals
		if r.solve(at) {
			t.Error("the first one is a renewal")
		}
		testkit.Equal(t, r.solve(at.Add(test.after)), test.want, "%v later: renewal", test.after)
		if test.want && r.solve(at.Add(test.after)) {
			t.Errorf("%v later: one solution allows two renewals", test.after)
		}
	}

	var r renewals
	for range 500 {
		r.solve(at)
	}

	n := 0
	for range 500 {
		if r.solve(at.Add(4 * time.Minute)) {
			n++
		}
	}

	testkit.Equal(t, n, maxRenewals, "renewals at most")
}

// TestNoRefundWithoutRequest checks that a network gets no refund for solutions of challenges that
// it did not request, or not recently.
func TestNoRefundWithoutRequest(t *testing.T) {
	c, addr := New(1_000), netip.MustParseAddr("203.0.113.1")
	for range 1_000 {
		c.Solved(1, addr, start, start)
	}

	testkit.Equal(t, c.clients.Len(), 0, "counters for a network without requests")
	testkit.Equal(t, ask(c, 1, "203.0.113.1", start, 32), 4_000, "32 challenges after 1,000 foreign answers: difficulty")

	for range 1_000 {
		c.Solved(1, addr, start.Add(-window), start)
		c.Solved(1, addr, start.Add(window), start)
		c.Solved(2, addr, start, start)
		c.Solved(1, netip.MustParseAddr("203.0.112.1"), start, start)
	}

	testkit.Equal(t, ask(c, 1, "203.0.113.1", start, 1), 4_000, "after answers of other times, sitekeys and networks: difficulty")

	for range 1_000 {
		c.Solved(1, addr, start, start)
	}

	// 33 solved challenges count 8.25, and 31 more are not solved.
	testkit.Equal(t, ask(c, 1, "203.0.113.1", start, 31), 4_000, "33 asked and 1,000 answered, then 31: difficulty")
}

// TestCounterNeverBelowItsSolved checks that a window counts at least the least units of its
// challenges and at most all units, for any requests, solutions and clock.
func TestCounterNeverBelowItsSolved(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 9))
		var c counter

		now, window, inWindow := start, int64(0), uint32(0)
		for i := range 5_000 {
			switch random.IntN(200) {
			case 0:
				now = now.Add(time.Duration(random.Int64N(int64(100*365*24*time.Hour))) - 50*365*24*time.Hour)
			case 1:
				now = now.Add(time.Duration(random.Int64N(int64(20*time.Minute))) - 10*time.Minute)
			default:
				now = now.Add(time.Duration(random.Int64N(int64(3 * time.Second))))
			}

			added := uint32(0)

			if random.IntN(2) == 0 {
				c.solve(now.Add(-time.Duration(random.Int64N(int64(15*time.Minute)))), now)
			} else {
				c.add(now)
				added = 1
			}

			if c.window != window {
				window, inWindow = c.window, 0
			}

			inWindow += added
			if w := c.current; w.units < inWindow*renewalUnits || w.units > inWindow*challengeUnits || w.units < w.unsolved*challengeUnits {
				t.Fatalf("seed %d, step %d: %d challenges count as %+v", seed, i, inWindow, w)
			}
			if w := c.previous; w.units < w.unsolved*challengeUnits {
				t.Fatalf("seed %d, step %d: the window before counts as %+v", seed, i, w)
			}
		}
	}
}

func TestRenewalsDoNotAllocate(t *testing.T) {
	c, addr := New(1_000), netip.MustParseAddr("203.0.113.1")
	ask(c, 1, "203.0.113.1", start, 1)
	testkit.Equal(t, testing.AllocsPerRun(1_000, func() { c.Solved(1, addr, start, start) }), 0, "allocations for an answer")
}
