package difficulty

import (
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/tools/testkit"
)

var start = time.Unix(1_795_262_400, 0) // the beginning of a window of 10 minutes

// challenge requests a challenge for a sitekey without a policy.
func challenge(c *Control, sitekey model.SitekeyID, addr netip.Addr, at time.Time) (difficulty uint32, wait time.Duration) {
	answer := c.Challenge(Request{SitekeyID: sitekey, Policy: &model.CaptchaPolicy{}, Addr: addr}, at)
	return answer.Difficulty, answer.Wait
}

// ask requests n challenges at once and returns the difficulty of the last one.
func ask(c *Control, sitekey model.SitekeyID, addr string, at time.Time, n int) (difficulty uint32) {
	for range n {
		difficulty, _ = challenge(c, sitekey, netip.MustParseAddr(addr), at)
	}
	return difficulty
}

// TestDifficultyOfANetwork checks that the difficulty is the base up to 8 challenges in 10 minutes,
// and then grows in proportion to their number.
func TestDifficultyOfANetwork(t *testing.T) {
	const base = 1_000
	for _, test := range []struct {
		asked int
		want  uint32
	}{
		{1, 1_000}, {8, 1_000}, {11, 1_000}, {12, 1_414}, {15, 1_414}, {16, 2_000}, {22, 2_000}, {23, 2_828}, {32, 4_000}, {128, 16_000}, {256, 32_000},
	} {
		testkit.Equal(t, ask(New(base), 1, "203.0.113.1", start, test.asked), test.want, "challenge number %d: difficulty", test.asked)
	}

	testkit.Equal(t, ask(New(Default), 1, "203.0.113.1", start, rateBurst), Max, "after %d challenges: difficulty", rateBurst)
	testkit.Equal(t, ask(New(Max), 1, "203.0.113.1", start, 1), Max, "the highest base: difficulty")
}

// TestNetworks checks that IPv4 addresses count by /24, IPv6 addresses by /48, and requests without
// an address as one network, for each sitekey separately.
func TestNetworks(t *testing.T) {
	for _, test := range []struct {
		first, second string
		same          bool
	}{
		{"203.0.113.1", "203.0.113.255", true}, {"203.0.113.1", "203.0.114.1", false},
		{"2001:db8:1:2::3", "2001:db8:1:ffff::1", true}, {"2001:db8:1::1", "2001:db8:2::1", false},
		{"203.0.113.1", "::ffff:203.0.113.1", true},
	} {
		c := New(1_000)
		ask(c, 1, test.first, start, 31)

		if got := ask(c, 1, test.second, start, 1); (got == 4_000) != test.same {
			t.Errorf("%s, then %s: difficulty %d, same network %v", test.first, test.second, got, test.same)
		}
		testkit.Equal(t, ask(c, 2, test.first, start, 1), 1_000, "%s for another sitekey: difficulty", test.first)
	}

	c := New(1_000)
	for range 31 {
		challenge(c, 1, netip.Addr{}, start)
	}

	if got, wait := challenge(c, 1, netip.Addr{}, start); got != 4_000 || wait != 0 {
		t.Errorf("no address: difficulty %d, wait %v", got, wait)
	}
}

// TestLoadPasses checks that requests stop counting within two windows.
func TestLoadPasses(t *testing.T) {
	c := New(1_000)
	ask(c, 1, "203.0.113.1", start, 128)

	for _, test := range []struct {
		after time.Duration
		want  uint32
	}{
		{5 * time.Minute, 16_000},  // 129 in this window
		{10 * time.Minute, 16_000}, // 1 and all of the 129 before
		{15 * time.Minute, 8_000},  // 2 and half of them
		{19 * time.Minute, 1_414},  // 3 and a tenth of them
		{20 * time.Minute, 1_000},  // 1 and the 3 before
		{60 * time.Minute, 1_000},
	} {
		testkit.Equal(t, ask(c, 1, "203.0.113.1", start.Add(test.after), 1), test.want, "after %v: difficulty", test.after)
	}
}

// TestRate checks that a network gets 300 challenges at once and then 5 per second, for all
// sitekeys together, and that other networks are not affected.
func TestRate(t *testing.T) {
	c := New(1_000)
	addr := netip.MustParseAddr("203.0.113.1")
	granted := func(at time.Time, n int) (granted int, wait time.Duration) {
		for i := range n {
			if _, wait = challenge(c, model.SitekeyID(i), addr, at); wait == 0 {
				granted++
			}
		}
		return granted, wait
	}
	if n, wait := granted(start, 500); n != 300 || wait != 200*time.Millisecond {
		t.Errorf("%d at once, then to wait %v; want 300 and 200 ms", n, wait)
	}
	if n, wait := granted(start.Add(time.Second), 100); n != 5 || wait != 200*time.Millisecond {
		t.Errorf("%d a second later, then to wait %v; want 5 and 200 ms", n, wait)
	}
	if _, wait := challenge(c, 1, netip.MustParseAddr("203.0.112.1"), start); wait != 0 {
		t.Errorf("another network waits %v", wait)
	}
	if n, _ := granted(start.Add(time.Hour), 500); n != 300 {
		t.Errorf("%d an hour later, want 300", n)
	}
}

// TestCountersAreBounded checks that a flood of networks and sitekeys keeps the counters at their
// limit.
func TestCountersAreBounded(t *testing.T) {
	c := New(1_000)
	for i := range counterLimit + 1_000 {
		challenge(c, model.SitekeyID(i), netip.AddrFrom4([4]byte{byte(i >> 16), byte(i >> 8), byte(i), 1}), start)
	}
	if c, s := c.clients.Len(), c.sitekeys.Len(); c != counterLimit || s != counterLimit {
		t.Errorf("%d and %d counters, want %d of each", c, s, counterLimit)
	}
}

// TestClockSetBack checks that a network that requested challenges while the clock was ahead is not
// refused until that time is reached again.
func TestClockSetBack(t *testing.T) {
	addr := netip.MustParseAddr("203.0.113.1")
	for _, ahead := range []time.Duration{time.Second, time.Minute, time.Hour, 365 * 24 * time.Hour} {
		c := New(1_000)
		challenge(c, 1, addr, start.Add(ahead))

		for i := range rateBurst / 2 {
			if _, wait := challenge(c, 1, addr, start); wait > 0 {
				t.Fatalf("asked %v ahead, then challenge %d after the clock was set back: wait %v", ahead, i+1, wait)
			}
		}
	}
}

// TestClockSteps checks that a network never waits longer than one challenge takes to refill,
// whatever the clock does.
func TestClockSteps(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 3))
		c, now := New(1_000), start
		for i := range 20_000 {
			switch random.IntN(500) {
			case 0:
				now = now.Add(time.Duration(random.Int64N(int64(2*365*24*time.Hour))) - 365*24*time.Hour)
			case 1:
				now = now.Add(time.Duration(random.Int64N(int64(4*time.Hour))) - 2*time.Hour)
			default:
				now = now.Add(time.Duration(random.Int64N(int64(100 * time.Millisecond))))
			}

			if _, wait := challenge(c, model.SitekeyID(random.IntN(3)), netip.AddrFrom4([4]byte{10, 0, byte(random.IntN(3)), 1}), now); wait > rateEvery {
				t.Fatalf("seed %d, challenge %d at %v: wait %v, more than %v", seed, i, now, wait, rateEvery)
			}
		}
	}
}

func BenchmarkChallenge(b *testing.B) {
	now := time.Now()
	before := heapInUse()
	c := New(Default)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		fromMillion(c, i, now)
	}
	b.ReportMetric(float64(heapInUse()-before)/1e6, "MB")
	runtime.KeepAlive(c)
}

// TestMemoryIsBounded checks the memory of all counters after challenges of a million networks for
// each of two sitekeys, which are solved.
func TestMemoryIsBounded(t *testing.T) {
	testkit.SkipLong(t, "two million challenges")
	const most = 30e6
	before := heapInUse()
	c := New(1_000)
	for i := range 2_000_000 {
		addr := fromMillion(c, i, start)
		c.Solved(model.SitekeyID(i%2), addr, start, start)
	}

	used := float64(heapInUse() - before)
	runtime.KeepAlive(c)
	t.Logf("%.1f MB for a million networks and two sitekeys", used/1e6)
	if used > most {
		t.Errorf("%.1f MB, want at most %.0f", used/1e6, most/1e6)
	}
}

// fromMillion requests the i-th challenge. Challenges alternate between two sitekeys, and come from
// a million networks in turn.
func fromMillion(c *Control, i int, at time.Time) netip.Addr {
	network := i / 2 % 1_000_000
	addr := netip.AddrFrom4([4]byte{byte(network >> 16), byte(network >> 8), byte(network), 1})
	challenge(c, model.SitekeyID(i%2), addr, at)
	return addr
}

// heapInUse returns the bytes of live objects.
func heapInUse() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
