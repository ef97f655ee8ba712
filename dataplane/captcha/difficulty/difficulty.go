// Package difficulty sets the difficulty of challenges by the recent load, and limits the rate at
// which a network gets them (captcha contract, section 6; docs/captcha.md). The captcha's browser
// endpoints call it. It counts in the memory of this process only. It stores no address, but a hash
// of the address's network under a key that each start replaces.
package difficulty

import (
	"hash/maphash"
	"math"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tallygate/tallygate/dataplane/ratelimit"
	"github.com/tallygate/tallygate/web"
)

// Bounds of the base difficulty that an operator sets, in expected hashes.
const (
	Min     = 1 << 10
	Max     = 1 << 24 // also of the difficulty under load
	Default = 1 << 19
)

const (
	window = 10 * time.Minute // in which challenges are counted
	free   = 8                // challenges of a network for one sitekey and window at the base difficulty

	challengeUnits = 32 // units of a challenge that is not solved
	solvedUnits    = 8  // units of a solved challenge: a quarter
	renewalUnits   = 1  // units of a solved challenge that renews an earlier one

	rateBurst = 300 // challenges of a network at once, for all sitekeys
	rateEvery = 200 * time.Millisecond

	counterLimit = 1 << 16 // counters of each kind; the least recently used one is evicted

	baselineShare = 16  // a window changes a sitekey's baseline by 1/baselineShare of the difference
	baselineFloor = 100 // challenges in a window that are usual for every sitekey
)

// Control sets the difficulty of challenges and limits their rate. It is safe for concurrent use.
type Control struct {
	base     uint32
	seed     maphash.Seed
	networks *ratelimit.Limiter // for all sitekeys

	mu       sync.Mutex
	clients  *simplelru.LRU[uint64, *counter] // by hash of sitekey and network
	sitekeys *simplelru.LRU[int64, *baseline] // by id
}

// New returns a Control with the base difficulty in expected hashes.
func New(base uint32) *Control {
	return &Control{
		base:     base,
		seed:     maphash.MakeSeed(),
		networks: ratelimit.New(rateBurst * rateEvery),
		clients:  newCounters[uint64, *counter](),
		sitekeys: newCounters[int64, *baseline](),
	}
}

func newCounters[Key comparable, Value any]() *simplelru.LRU[Key, Value] {
	lru, err := simplelru.NewLRU[Key, Value](counterLimit, nil)
	if err != nil {
		// Only a limit below one fails.
		panic(err)
	}
	return lru
}

// client is a network that requests challenges of a sitekey.
type client struct {
	sitekeyID int64
	network   netip.Prefix
}

// Challenge counts a request for a challenge. It returns the challenge's difficulty in expected
// hashes, or how long the network must wait for one.
func (c *Control) Challenge(sitekeyID int64, addr netip.Addr, now time.Time) (difficulty uint32, wait time.Duration) {
	network := networkOf(addr)
	if wait := c.networks.Take(now, ratelimit.Key{Network: network}, rateEvery); wait > 0 {
		return 0, wait
	}

	clientHash := maphash.Comparable(c.seed, client{sitekeyID, network})

	c.mu.Lock()
	defer c.mu.Unlock()

	requested := get(c.clients, clientHash).add(now)
	factor := get(c.sitekeys, sitekeyID).add(now)
	return raise(c.base, requested, factor), 0
}

// SharedChallenge is Challenge for an address that many clients share. It counts for the sitekey,
// and not for the network.
func (c *Control) SharedChallenge(sitekeyID int64, now time.Time) (difficulty uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return raise(c.base, 0, get(c.sitekeys, sitekeyID).add(now))
}

// Solved refunds most of what a challenge counted, after its solution was verified and the
// challenge consumed. It refunds the network that sent the solution, up to the challenges that this
// network requested in the same window.
func (c *Control) Solved(sitekeyID int64, addr netip.Addr, issued, now time.Time) {
	clientHash := maphash.Comparable(c.seed, client{sitekeyID, networkOf(addr)})

	c.mu.Lock()
	defer c.mu.Unlock()
	if count, ok := c.clients.Get(clientHash); ok {
		count.solve(issued, now)
	}
}

// networkOf returns the network that counts a client's challenges (docs/captcha.md).
func networkOf(addr netip.Addr) netip.Prefix { return web.Network(addr, 24, 48) }

// get returns the value of a key, and adds a zero value for an unknown key.
func get[Key comparable, Value any](lru *simplelru.LRU[Key, *Value], key Key) *Value {
	value, ok := lru.Get(key)
	if !ok {
		value = new(Value)
		lru.Add(key, value)
	}
	return value
}

// raise returns the difficulty for a client whose network requested that many challenges of the
// sitekey in a window, where solved ones count for less. The difficulty grows in proportion to
// them, in steps of the square root of two: with 16 challenges it is twice the base, with 32 four
// times. factor multiplies it further.
func raise(base uint32, requested float64, factor uint32) uint32 {
	difficulty := float64(base) * float64(factor)
	if steps := math.Floor(2 * math.Log2(requested/free)); steps > 0 {
		difficulty *= math.Pow(2, steps/2)
	}
	return uint32(max(float64(base), min(difficulty, Max)))
}

// counter counts a network's challenges of a sitekey within the last window. Of the window before
// the current one, it counts the share that the last window still covers.
type counter struct {
	window            int64
	current, previous windowCount
	renewals          renewals
}

// windowCount counts the challenges of a window.
type windowCount struct {
	units    uint32 // see challengeUnits
	unsolved uint32 // challenges that can still be refunded
}

// add counts one challenge, and returns the number of challenges including it.
func (c *counter) add(now time.Time) float64 {
	passed := c.moveTo(now)
	c.current.units += challengeUnits
	c.current.unsolved++
	return (float64(c.current.units) + float64(c.previous.units)*(1-passed)) / challengeUnits
}

// solve reduces the units of a challenge, most for a renewal. Each challenge of the network is
// refunded at most once.
func (c *counter) solve(issued, now time.Time) {
	c.moveTo(now)
	number, _ := windowOf(issued)
	from := &c.current
	switch number {
	case c.window:
	case c.window - 1:
		from = &c.previous
	default:
		return
	}

	if from.unsolved == 0 {
		return
	}

	remaining := uint32(solvedUnits)
	if c.renewals.solve(now) {
		remaining = renewalUnits
	}

	from.unsolved--
	from.units -= challengeUnits - remaining
}

// moveTo makes the window of a time the current one, and returns the share of it that has passed.
func (c *counter) moveTo(now time.Time) (passed float64) {
	number, passed := windowOf(now)
	switch number {
	case c.window:
	case c.window + 1:
		c.window, c.previous, c.current = number, c.current, windowCount{}
	default:
		*c = counter{window: number}
	}

	return passed
}

// windowOf returns the number of the window of a time, and the share of it that has passed.
func windowOf(now time.Time) (number int64, passed float64) {
	ns := now.UnixNano()
	number = ns / int64(window)
	return number, float64(ns-number*int64(window)) / float64(window)
}

// baseline is the usual load of a sitekey: a moving average of its challenges in a window.
type baseline struct {
	window  int64
	current uint32
	mean    float64
	known   bool // mean has a value
	partial bool // the start of the window was missed, so that its count is not comparable
}

// add counts one challenge. It returns the factor by which the sitekey's challenges are harder now:
// 1, 2 or 4.
func (b *baseline) add(now time.Time) uint32 {
	number, _ := windowOf(now)
	switch {
	case number == b.window:
	case b.window == 0, number < b.window:
		// This is the first window, or the clock was set back.
		b.window, b.current, b.partial = number, 0, true
	default:
		b.close()
		b.window, b.current, b.partial = number, 0, false
	}

	b.current++
	if !b.known {
		return 1
	}

	switch usual := max(b.mean, baselineFloor); {
	case float64(b.current) >= 16*usual:
		return 4
	case float64(b.current) >= 4*usual:
		return 2
	}

	return 1
}

// close adds a window that has ended to the mean. Windows without a challenge are left out: the
// baseline is the usual load while there is any.
func (b *baseline) close() {
	switch {
	case b.partial:
	case !b.known:
		b.known, b.mean = true, float64(b.current)
	default:
		b.mean += (float64(b.current) - b.mean) / baselineShare
	}
}
