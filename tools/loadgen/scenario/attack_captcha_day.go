package scenario

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/tallygate/tallygate/dataplane/captcha/difficulty"
	"github.com/tallygate/tallygate/dataplane/captcha/pow"
	"github.com/tallygate/tallygate/db/model"
)

// Rates of machines, in hashes a second (docs/owner/captcha.md, "What the work costs").
const (
	coreRate    = 68_000_000 // the attacker's
	desktopRate = 13_000_000
	phoneRate   = model.PhoneRate * 1000
	oldRate     = 600_000
)

// The day of a sitekey. The attack begins in the middle of a window of the difficulty control, as
// most attacks do.
const (
	attackBegins = 14*time.Hour + 5*time.Minute
	attackLasts  = time.Hour
	busiest      = 14 * time.Hour

	officeOpens  = 9 * time.Hour
	officeCloses = 17 * time.Hour
	officePeople = 50
	officeForms  = 4 // that each person of the office opens in a day

	renewAfter = 210 * time.Second // the widget renews a token of this age, and looks at it every 10 s
	renewEvery = 10 * time.Second

	attackStored = time.Minute // an attack is not stored again earlier, unless it grew
)

// midnight is the beginning of the simulated day.
var midnight = time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)

// captchaDay is a simulated day of one sitekey: the actors and what they met.
type captchaDay struct {
	control   *difficulty.Control
	treatment captchaTreatment
	attack    captchaAttack
	stored    model.CaptchaAttack // on the sitekey, as all processes share it
	begin     time.Time           // of the attack
	end       time.Time
	queue     eventQueue
	random    *rand.Rand // of the attacker

	asked  int     // challenges that the attacker requested
	tokens int     // that the attacker got during the attack
	hashes float64 // that they took

	people, office []float64     // milliseconds that forms waited, which were opened during the attack
	back           time.Duration // after the attack: the last challenge of a person above the base
}

// actor is a person or a machine of the attacker.
type actor interface {
	// act takes the actor's next step and returns the time of the one after it, or the zero time.
	act(d *captchaDay, now time.Time) time.Time
}

// event is the next step of an actor.
type event struct {
	at    time.Time
	actor actor
}

type eventQueue []event

func (q eventQueue) Len() int           { return len(q) }
func (q eventQueue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q eventQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)        { *q = append(*q, x.(event)) }
func (q *eventQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// newCaptchaDay returns the day of a seed. The same seed has the same people, with the same luck,
// whatever the attack.
func newCaptchaDay(seed uint64, people int, attack captchaAttack, treatment captchaTreatment) *captchaDay {
	begin := midnight.Add(attackBegins)
	d := &captchaDay{
		control: difficulty.New(difficulty.Default), treatment: treatment, attack: attack, begin: begin, end: begin.Add(attackLasts),
		random: rand.New(rand.NewPCG(seed, math.MaxUint64)),
	}

	for i := range people {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		form := &form{addr: address(10, i), rate: machine(random), random: random}
		d.add(midnight.Add(arrival(random)), form)
	}

	for person := range officePeople {
		random := rand.New(rand.NewPCG(seed, uint64(people+person)))
		for range officeForms {
			at := midnight.Add(officeOpens + between(random, 0, officeCloses-officeOpens))
			open := between(random, 30*time.Minute, 2*time.Hour)
			form := &form{addr: netip.AddrFrom4([4]byte{203, 0, 113, 1}), rate: desktopRate, isOffice: true, closes: at.Add(open)}
			form.random = rand.New(rand.NewPCG(random.Uint64(), 0))
			d.add(at, form)
		}
	}

	if attack.networks == 0 {
		return d
	}
	for i := range attack.cores {
		d.add(begin.Add(attack.pace*time.Duration(i)/time.Duration(attack.cores)), new(core))
	}
	return d
}

func (d *captchaDay) add(at time.Time, a actor) { heap.Push(&d.queue, event{at, a}) }

// run runs the day until its last event.
func (d *captchaDay) run() {
	for d.queue.Len() > 0 {
		first := &d.queue[0]
		if next := first.actor.act(d, first.at); next.IsZero() {
			heap.Pop(&d.queue)
		} else {
			first.at = next
			heap.Fix(&d.queue, 0)
		}
	}
}

// ask requests a challenge, and stores an attack under the conditions of the service.
func (d *captchaDay) ask(addr netip.Addr, isAutomated bool, now time.Time) difficulty.Answer {
	answer := d.control.Challenge(difficulty.Request{
		SitekeyID: 1, Policy: &d.treatment.settings, Attack: d.stored, Addr: addr, IsAutomated: isAutomated,
	}, now)

	seen := answer.Attack
	if seen.Level > d.stored.LevelAt(seen.Seen) || seen.Level > 0 && seen.Seen >= d.stored.Seen.Add(attackStored) {
		d.stored.Merge(seen)
	}
	return answer
}

// form is a form in a person's browser. It solves a challenge when it is opened, and renews its
// token until it is closed.
type form struct {
	addr     netip.Addr
	rate     float64
	isOffice bool
	closes   time.Time // zero: before the first renewal
	random   *rand.Rand

	waited    time.Duration // for a challenge
	issued    time.Time
	isSolving bool
	isRenewal bool // the first token was fetched
}

func (f *form) act(d *captchaDay, now time.Time) time.Time {
	if f.isSolving {
		d.control.Solved(1, f.addr, f.issued, now)
		f.isSolving, f.isRenewal = false, true
		if next := now.Add(renewAfter + between(f.random, 0, renewEvery)); next.Before(f.closes) {
			return next
		}
		return time.Time{}
	}

	answer := d.ask(f.addr, false, now)
	if answer.Wait > 0 {
		f.waited += answer.Wait
		return now.Add(answer.Wait)
	}

	work := seconds(hashes(f.random, answer.Difficulty) / f.rate)
	f.issued, f.isSolving = now, true
	d.note(f, answer.Difficulty, f.waited+work, now)
	return now.Add(work)
}

// note records what a form met. A renewal happens in the background, so its work is no wait.
func (d *captchaDay) note(f *form, asked uint32, waited time.Duration, now time.Time) {
	ms := float64(waited) / float64(time.Millisecond)
	switch {
	case !f.isOffice && asked > difficulty.Default && !now.Before(d.end):
		d.back = max(d.back, now.Sub(d.end))
	case f.isRenewal || now.Before(d.begin) || !now.Before(d.end):
	case f.isOffice:
		d.office = append(d.office, ms)
	default:
		d.people = append(d.people, ms)
	}
}

// core is a core of the attacker. It solves challenges of all networks in turn. After a refusal it
// waits for the time of the answer, and then takes the next network.
type core struct {
	addr      netip.Addr
	issued    time.Time
	work      float64 // hashes
	isSolving bool
}

func (c *core) act(d *captchaDay, now time.Time) time.Time {
	if !now.Before(d.end) {
		return time.Time{}
	}

	if c.isSolving {
		d.control.Solved(1, c.addr, c.issued, now)
		c.isSolving = false
		d.tokens++
		d.hashes += c.work
		if next := c.issued.Add(d.attack.pace); next.After(now) {
			return next
		}
	}

	c.addr = address(100, d.asked%d.attack.networks)
	d.asked++
	answer := d.ask(c.addr, d.treatment.isDeclared, now)
	if answer.Wait > 0 {
		return now.Add(answer.Wait)
	}

	c.issued, c.isSolving, c.work = now, true, hashes(d.random, answer.Difficulty)
	return now.Add(seconds(c.work / coreRate))
}

// hashes returns how many hashes a challenge takes: as many in each of its searches as its
// uniformly distributed secret says (package pow).
func hashes(random *rand.Rand, difficulty uint32) (sum float64) {
	for range pow.K {
		sum += random.Float64()
	}
	return sum * 2 * float64(difficulty) / pow.K
}

// arrival returns a time of the day. Most people come at the busiest time, and a twentieth as many
// twelve hours earlier.
func arrival(random *rand.Rand) time.Duration {
	for {
		at := between(random, 0, 24*time.Hour)
		if share := 0.525 + 0.475*math.Cos(2*math.Pi*(at-busiest).Hours()/24); random.Float64() < share {
			return at
		}
	}
}

// machine returns the rate of a person's machine: half of them are phones, a tenth old phones.
func machine(random *rand.Rand) float64 {
	switch n := random.IntN(10); {
	case n < 5:
		return phoneRate
	case n < 9:
		return desktopRate
	}
	return oldRate
}

// address returns the address of a network, of 65,536 in a range.
func address(first byte, network int) netip.Addr {
	return netip.AddrFrom4([4]byte{first, byte(network >> 8), byte(network), 1})
}

func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
