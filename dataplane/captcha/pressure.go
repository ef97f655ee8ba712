package captcha

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

// Bounds of the difficulty that an operator sets, in expected hashes.
const (
	MinDifficulty     = 1 << 10
	MaxDifficulty     = 1 << 24 // also of what pressure makes of it
	DefaultDifficulty = 1 << 19
)

const (
	window = 10 * time.Minute // in which challenges are counted
	free   = 8                // challenges of a network for one sitekey in a window that cost nothing more

	challengeUnits = 32 // what a challenge counts while it is not solved
	solvedUnits    = 8  // what it counts once it is solved: a quarter
	renewalUnits   = 1  // what it counts once it is solved and renews an earlier one

	rateBurst = 300 // challenges of a network at once, for all sitekeys
	rateEvery = 200 * time.Millisecond

	counterLimit = 1 << 16 // counters of each kind; the least recently used one is forgotten

	baselineShare = 16  // how slowly a sitekey's baseline follows: one part of so many in each window
	baselineFloor = 100 // challenges in a window that are usual for every sitekey
)

// pressure sets the difficulty of challenges by what was asked for lately, and refuses a network
// that asks for far too many. It counts in this process only. Of addresses it keeps nothing but a
// hash of their network, under a key that is made anew at each start.
type pressure struct {
	base     uint32
	seed     maphash.Seed
	networks *ratelimit.Limiter // for all sitekeys

	mu       sync.Mutex
	clients  *simplelru.LRU[uint64, *counter] // by hash of sitekey and network
	sitekeys *simplelru.LRU[int64, *baseline] // by id
}

func newPressure(base uint32) *pressure {
	return &pressure{
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
		// only a limit below one fails
		panic(err)
	}
	return lru
}

// client is a network that asks for challenges of a sitekey.
type client struct {
	sitekeyID int64
	network   netip.Prefix
}

// challenge counts a request for a challenge and returns its difficulty, or how long the network
// has to wait.
func (p *pressure) challenge(sitekeyID int64, addr netip.Addr, now time.Time) (difficulty uint32, wait time.Duration) {
	network := networkOf(addr)
	if wait := p.networks.Take(now, ratelimit.Key{Network: network}, rateEvery); wait > 0 {
		return 0, wait
	}

	clientHash := maphash.Comparable(p.seed, client{sitekeyID, network})

	p.mu.Lock()
	defer p.mu.Unlock()

	asked := get(p.clients, clientHash).add(now)
	crowd := get(p.sitekeys, sitekeyID).add(now)
	return raise(p.base, asked, crowd), 0
}

// solved gives back most of what a challenge counted, after its answer was verified and the
// challenge used up. The network is that of the answer: one that never asked for a challenge of
// that time has nothing to get back.
func (p *pressure) solved(sitekeyID int64, addr netip.Addr, issued, now time.Time) {
	clientHash := maphash.Comparable(p.seed, client{sitekeyID, networkOf(addr)})

	p.mu.Lock()
	defer p.mu.Unlock()
	if c, ok := p.clients.Get(clientHash); ok {
		c.solve(issued, now)
	}
}

// sharedChallenge is challenge for an address that many clients share: its network counts for
// nothing.
func (p *pressure) sharedChallenge(sitekeyID int64, now time.Time) (difficulty uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return raise(p.base, 0, get(p.sitekeys, sitekeyID).add(now))
}

// networkOf returns the network that counts a client's challenges (docs/captcha.md).
func networkOf(addr netip.Addr) netip.Prefix { return web.Network(addr, 24, 48) }

func get[Key comparable, Value any](lru *simplelru.LRU[Key, *Value], key Key) *Value {
	value, ok := lru.Get(key)
	if !ok {
		value = new(Value)
		lru.Add(key, value)
	}
	return value
}

// raise returns the difficulty for a client whose network asked for so many challenges of the
// sitekey in a window, solved ones counted for less. It grows in proportion to them, in steps of
// the square root of two: 16 challenges are twice as hard as 8, 32 four times. crowd is a further
// factor.
func raise(base uint32, asked float64, crowd uint32) uint32 {
	difficulty := float64(base) * float64(crowd)
	if steps := math.Floor(2 * math.Log2(asked/free)); steps > 0 {
		difficulty *= math.Pow(2, steps/2)
	}
	return uint32(max(float64(base), min(difficulty, MaxDifficulty)))
}

// counter counts a network's challenges of a sitekey within the last window: of the window before,
// the share counts that the last one still covers.
type counter struct {
	window            int64
	current, previous windowCount
	renewals          renewals
}

// windowCount is a window's challenges.
type windowCount struct {
	units    uint32 // see challengeUnits
	unsolved uint32 // challenges that may still give back units
}

// add counts one and returns how many challenges there were, this one included.
func (c *counter) add(now time.Time) float64 {
	passed := c.moveTo(now)
	c.current.units += challengeUnits
	c.current.unsolved++
	return (float64(c.current.units) + float64(c.previous.units)*(1-passed)) / challengeUnits
}

// solve makes a challenge count for less, that of a renewal least. Each challenge of the network
// gives back units once at most.
func (c *counter) solve(issued, now time.Time) {
	c.moveTo(now)
	from := &c.current

	if number, _ := windowOf(issued); number != c.window {
		from = &c.previous

		if number != c.window-1 {
			return
		}
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

// moveTo makes the window of a time the current one, and returns which part of it has passed.
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

// windowOf numbers windows, and tells which part of this one has passed.
func windowOf(now time.Time) (number int64, passed float64) {
	ns := now.UnixNano()
	number = ns / int64(window)
	return number, float64(ns-number*int64(window)) / float64(window)
}

// baseline is what is usual for a sitekey: a slowly moving mean of its challenges in a window.
type baseline struct {
	window  int64
	current uint32
	mean    float64
	known   bool // mean has a value
	partial bool // the window was not seen from its beginning, so that its count says nothing
}

// add counts one and returns by how much the sitekey's challenges are to be harder now: 1, 2 or 4
// times.
func (b *baseline) add(now time.Time) uint32 {
	number, _ := windowOf(now)
	switch {
	case number == b.window:
	case b.window == 0, number < b.window:
		// the first one, or the clock was set back
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

// close adds a window that has ended to the mean. Windows without a challenge are left out: what
// matters is what is usual while there are any.
func (b *baseline) close() {
	switch {
	case b.partial:
	case !b.known:
		b.known, b.mean = true, float64(b.current)
	default:
		b.mean += (float64(b.current) - b.mean) / baselineShare
	}
}
