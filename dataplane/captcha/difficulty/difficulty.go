// Package difficulty sets the difficulty of challenges by the recent load, and limits the rate at
// which a network gets them (captcha contract, section 6; docs/owner/captcha.md). The captcha's browser
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

	"github.com/tallygate/tallygate/dataplane/captcha/pow"
	"github.com/tallygate/tallygate/dataplane/ratelimit"
	"github.com/tallygate/tallygate/db/model"
	"github.com/tallygate/tallygate/web"
)

// Bounds of the base difficulty that an operator sets, in expected hashes.
const (
	Min     = 1 << 10
	Max     = model.UsualMostHashes // also of the difficulty under load, without a policy
	Default = model.DefaultDifficulty
)

const (
	window = 10 * time.Minute // in which challenges are counted

	challengeUnits = 32 // units of a challenge that is not solved
	solvedUnits    = 8  // units of a solved challenge: a quarter
	renewalUnits   = 1  // units of a solved challenge that renews an earlier one

	rateBurst = 300 // challenges of a network at once, for all sitekeys
	rateEvery = 200 * time.Millisecond

	counterLimit = 1 << 16 // counters of each kind; the least recently used one is evicted

	// Automation: a browser that says that it is automated begins at so many times the base. All of
	// them together have so many times the free challenges of a network, without refunds, and their
	// work rises to the highest of all. So an attacker with four times the machines gets twice the
	// tokens. Where automation is limited, a sitekey gives it so many challenges at once.
	automationFactor = 4
	automationFree   = 4
	automationBurst  = 5
	automationEvery  = 2 * time.Minute
)

// Control sets the difficulty of challenges and limits their rate. It is safe for concurrent use.
type Control struct {
	base     uint32
	seed     maphash.Seed
	networks *ratelimit.Limiter // for all sitekeys
	robots   *ratelimit.Limiter // by sitekey: challenges of automation, where that is limited

	mu       sync.Mutex
	clients  *simplelru.LRU[uint64, *counter] // by hash of sitekey and network
	sitekeys *simplelru.LRU[model.SitekeyID, *load]
}

// New returns a Control with the base difficulty in expected hashes.
func New(base uint32) *Control {
	return &Control{
		base:     base,
		seed:     maphash.MakeSeed(),
		networks: ratelimit.New(rateBurst * rateEvery),
		robots:   ratelimit.New(automationBurst * automationEvery),
		clients:  newCounters[uint64, *counter](),
		sitekeys: newCounters[model.SitekeyID, *load](),
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

// client is a network that requests challenges of a sitekey, or all its automation.
type client struct {
	sitekeyID   model.SitekeyID
	network     netip.Prefix
	isAutomated bool // network is empty
}

// Request is a request for a challenge.
type Request struct {
	SitekeyID   model.SitekeyID
	Policy      *model.CaptchaPolicy // of the sitekey
	Attack      model.CaptchaAttack  // the last one on the sitekey that any process saw
	Addr        netip.Addr
	IsShared    bool // many clients share Addr, so that nothing may depend on its network
	IsAutomated bool // the browser says so
}

// Answer is the answer to a Request.
type Answer struct {
	Difficulty uint32              // in expected hashes
	Wait       time.Duration       // until the client gets a challenge; 0 if it gets this one
	Attack     model.CaptchaAttack // that this process sees now; Level 0 without one
}

// Challenge counts a request for a challenge. It returns the challenge's difficulty, or how long
// the client must wait for one.
func (c *Control) Challenge(r Request, now time.Time) Answer {
	base := r.Policy.Base(c.base)
	if !r.IsShared && r.Policy.Exempts(r.Addr) {
		return Answer{Difficulty: base}
	}

	treatment := model.AutomationAllow
	if r.IsAutomated {
		treatment = r.Policy.AutomationOrDefault()
	}
	if wait := c.wait(r, treatment, now); wait > 0 {
		return Answer{Wait: wait}
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	requested, isNewNetwork := 0.0, true
	if !r.IsShared {
		requested, isNewNetwork = get(c.clients, c.hash(client{r.SitekeyID, networkOf(r.Addr), false})).add(now)
	}

	// Automation that meets more work by itself does not make it harder for people.
	isNewNetwork = isNewNetwork && treatment == model.AutomationAllow
	attack := get(c.sitekeys, r.SitekeyID).add(now, isNewNetwork, r.Attack)
	level := r.Policy.AttackLevel(max(attack.Level, r.Attack.LevelAt(model.At(now))))

	rise := rise{base: base, free: float64(r.Policy.FreeChallenges()), most: r.Policy.Most(base)}
	difficulty := rise.to(requested, 1<<level)

	if treatment == model.AutomationHarder {
		requested, _ := get(c.clients, c.hash(client{r.SitekeyID, netip.Prefix{}, true})).add(now)
		rise.free, rise.most = rise.free*automationFree, pow.MaxDifficulty
		difficulty = max(difficulty, rise.to(requested, automationFactor<<level))
	}

	return Answer{Difficulty: difficulty, Attack: attack}
}

// wait returns how long the client must wait because of a limited rate.
func (c *Control) wait(r Request, treatment model.CaptchaAutomation, now time.Time) time.Duration {
	if !r.IsShared {
		if wait := c.networks.Take(now, ratelimit.Key{Network: networkOf(r.Addr)}, rateEvery); wait > 0 {
			return wait
		}
	}
	if treatment == model.AutomationLimit {
		return c.robots.Take(now, ratelimit.Key{ID: int64(r.SitekeyID)}, automationEvery)
	}
	return 0
}

func (c *Control) hash(of client) uint64 { return maphash.Comparable(c.seed, of) }

// Solved refunds most of what a challenge counted, after its solution was verified and the
// challenge consumed. It refunds the network that sent the solution, up to the challenges that this
// network requested in the same window. It reports whether the solution renews an earlier one.
func (c *Control) Solved(sitekeyID model.SitekeyID, addr netip.Addr, issued, now time.Time) (isRenewal bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if count, ok := c.clients.Get(c.hash(client{sitekeyID, networkOf(addr), false})); ok {
		return count.solve(issued, now)
	}
	return false
}

// Refused counts a token of the sitekey that was refused.
func (c *Control) Refused(sitekeyID model.SitekeyID, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	get(c.sitekeys, sitekeyID).refuse(now)
}

// networkOf returns the network that counts a client's challenges (docs/owner/captcha.md).
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

// rise is how the difficulty rises with the challenges of a network.
type rise struct {
	base, most uint32
	free       float64 // challenges in a window at the base
}

// to returns the difficulty after a network has requested that many challenges of the sitekey in a
// window, where solved ones count for less. The difficulty grows in proportion to the challenges,
// in steps of the square root of two: with twice the free ones it is twice the base, with four
// times as many four times. factor multiplies it further.
func (r rise) to(requested float64, factor int) uint32 {
	difficulty := float64(r.base) * float64(factor)
	if steps := math.Floor(2 * math.Log2(requested/r.free)); steps > 0 {
		difficulty *= math.Pow(2, steps/2)
	}
	return uint32(max(float64(r.base), min(difficulty, float64(r.most))))
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

// add counts one challenge, and returns the number of challenges including it. isFirst reports
// whether it is the first one of its window.
func (c *counter) add(now time.Time) (challenges float64, isFirst bool) {
	passed := c.moveTo(now)
	isFirst = c.current == windowCount{}
	c.current.units += challengeUnits
	c.current.unsolved++
	return (float64(c.current.units) + float64(c.previous.units)*(1-passed)) / challengeUnits, isFirst
}

// solve reduces the units of a challenge, most for a renewal. Each challenge of the network is
// refunded at most once. It reports whether this is a renewal.
func (c *counter) solve(issued, now time.Time) (isRenewal bool) {
	c.moveTo(now)
	number, _ := windowOf(issued)
	from := &c.current
	switch number {
	case c.window:
	case c.window - 1:
		from = &c.previous
	default:
		return false
	}

	if from.unsolved == 0 {
		return false
	}

	remaining := uint32(solvedUnits)
	if isRenewal = c.renewals.solve(now); isRenewal {
		remaining = renewalUnits
	}

	from.unsolved--
	from.units -= challengeUnits - remaining
	return isRenewal
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
