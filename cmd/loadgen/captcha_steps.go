package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tallygate/tallygate/dataplane/captcha/pow"
)

// The steps of a ticket's life, in their order.
const (
	asking = iota
	solving
	exchanging
	redeeming
	stepCount
)

var stepNames = [stepCount]string{"config", "solve", "verify", "siteverify"}

// ticket is one challenge and what becomes of it. While a step runs, it belongs to the step.
type ticket struct {
	network   int
	challenge pow.Challenge
	nonce     uint64
	token     string

	outcomes [stepCount][outcomeCount]uint16 // of the attempts of each step
}

// outcome is what an answer means for its ticket.
type outcome int

const (
	taken    outcome = iota // success
	repeated                // refused because of an earlier success
	later                   // refused for now, nothing is used up
	unknown                 // nobody can tell
	absurd                  // nothing that the server may answer
	outcomeCount
)

// captchaRun drives the captcha's endpoints, step by step.
type captchaRun struct {
	sitekey, secret string
	load            load // what all steps have in common
	network         int  // of the next ticket

	results   [stepCount]result
	verdict   captchaVerdict
	surprises surprises
}

func newCaptchaRun(addr, sitekey, secret string, l load) *captchaRun {
	l.addr = addr
	// Networks are told apart by the server for minutes, also from one run to the next.
	return &captchaRun{sitekey: sitekey, secret: secret, load: l, network: rand.IntN(networkCount)}
}

// networkCount is how many networks 10.0.0.0/8 has, as the server tells them apart.
const networkCount = 1 << 16

// obtain asks for n challenges, solves them and exchanges them for tokens. It returns the tickets
// that have one.
func (r *captchaRun) obtain(ctx context.Context, n int) []*ticket {
	tickets := make([]*ticket, n)
	for i := range tickets {
		tickets[i] = &ticket{network: r.network}
		r.network = (r.network + 1) % networkCount
	}

	r.run(ctx, asking, once(tickets))
	tickets = having(tickets, func(t *ticket) bool { return t.challenge.Challenge != "" })
	r.verdict.Challenges += int64(len(tickets))
	tickets = r.solve(ctx, tickets)
	r.run(ctx, exchanging, withRepeats(tickets))
	tickets = having(tickets, func(t *ticket) bool { return t.token != "" })
	r.verdict.Tokens += int64(len(tickets))

	return tickets
}

// redeem has the tokens verified, and returns what was measured. Also what is refused for now is
// answered with 200, so the attempts tell what failed, and not when: all of it is taken off what
// was measured.
func (r *captchaRun) redeem(ctx context.Context, attempts []attempt) *result {
	measured := r.run(ctx, redeeming, attempts)
	failed := int64(0)
	for _, a := range attempts {
		o := &a.outcomes[redeeming]

		if a.again {
			continue
		}

		failed += int64(o[later] + o[unknown])

		if o[taken] > 0 {
			r.verdict.Accepted++
		} else if o[unknown] > 0 {
			r.verdict.Unknown++
		}
	}

	r.results[redeeming].failed += failed - measured.failed
	r.results[redeeming].others += measured.outside
	r.results[redeeming].outside -= measured.outside
	measured.failed, measured.others, measured.outside = failed, measured.others+measured.outside, 0

	return measured
}

func having(tickets []*ticket, has func(*ticket) bool) (kept []*ticket) {
	for _, t := range tickets {
		if has(t) {
			kept = append(kept, t)
		}
	}
	return kept
}

// attempt is one request for a ticket.
type attempt struct {
	*ticket
	again bool // there is one before it
}

func once(tickets []*ticket) []attempt {
	attempts := make([]attempt, len(tickets))
	for i, t := range tickets {
		attempts[i].ticket = t
	}
	return attempts
}

// withRepeats makes two attempts of each fourth ticket: half of these at the same moment, half much
// later.
func withRepeats(tickets []*ticket) (attempts []attempt) {
	var late []attempt

	for i, t := range tickets {
		attempts = append(attempts, attempt{ticket: t})

		switch i % 8 {
		case 0:
			attempts = append(attempts, attempt{t, true})
		case 4:
			late = append(late, attempt{t, true})
		}
	}

	return append(attempts, late...)
}

// solvers is how many challenges are solved at once.
func solvers() int { return runtime.GOMAXPROCS(0) }

// solve finds the nonces, and returns the tickets that have one.
func (r *captchaRun) solve(ctx context.Context, tickets []*ticket) []*ticket {
	began := time.Now()
	results := make([]result, solvers())
	solved := make([]bool, len(tickets))
	var next atomic.Int64

	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1)) - 1
				if n >= len(tickets) {
					return
				}

				t, since := tickets[n], time.Now()
				var err error
				t.nonce, err = pow.Solve(t.challenge)
				solved[n] = err == nil
				results[i].latency.add(time.Since(since))
			}
		})
	}

	wg.Wait()
	var kept []*ticket
	for i, ok := range solved {
		if ok {
			kept = append(kept, tickets[i])
		}
	}

	if failed := len(tickets) - len(kept); failed > 0 && ctx.Err() == nil {
		r.surprises.add(fmt.Sprintf("%d challenges that have no solution", failed))
	}

	for i := range results {
		r.results[solving].merge(&results[i])
	}

	r.results[solving].merge(&result{answers: map[string]int64{"solved": int64(len(kept))}})
	r.results[solving].since(began)
	return kept
}

// run makes the attempts of one step over all connections, as fast as the answers come, and judges
// the ticket of each that was made.
func (r *captchaRun) run(ctx context.Context, number int, attempts []attempt) *result {
	s := &step{run: r, number: number, attempts: attempts}
	l := r.load
	measured := l.run(ctx, func(int) source { return &stepSource{step: s} })
	r.results[number].merge(measured)

	for _, a := range attempts[:min(int(s.given.Load()), len(attempts))] {
		o := &a.outcomes[number]

		if a.again {
			continue
		}

		r.verdict.Repeats += int64(o[repeated])
		r.verdict.Later += int64(o[later])

		switch {
		case o[taken] > 1:
			r.verdict.fault(&r.verdict.Doubled, "%d of %d attempts to %s succeed", o[taken], o[taken]+o[repeated]+o[later]+o[unknown], stepNames[number])
		case o[taken] == 0 && o[later] == 0 && o[unknown] == 0 && ctx.Err() == nil:
			r.verdict.fault(&r.verdict.Lost, "no attempt to %s succeeds, nor did one before", stepNames[number])
		}
	}

	return measured
}

// rehearse makes the same requests of another server, which answers as it likes: nothing is learned
// from it.
func (r *captchaRun) rehearse(ctx context.Context, other *server, number int, attempts []attempt) *result {
	s := &step{run: r, number: number, attempts: attempts}
	l := r.load
	l.addr, l.watched = other.data, []int{other.pid()}
	return l.run(ctx, func(int) source { return rehearsal{&stepSource{step: s}} })
}

// rehearsal is one connection's part of a step whose answers do not matter.
type rehearsal struct{ *stepSource }

func (rehearsal) done(answer, error) {}

// step hands the attempts of one step to the connections, in their order.
type step struct {
	run      *captchaRun
	number   int
	attempts []attempt
	given    atomic.Int64
	mu       sync.Mutex // guards the tickets: two attempts may be under way at once
}

// stepSource is one connection's part of a step.
type stepSource struct {
	*step
	current       attempt
	request, body []byte
}

func (s *stepSource) next() []byte {
	n := int(s.given.Add(1)) - 1
	if n >= len(s.attempts) {
		return nil
	}

	s.current = s.attempts[n]
	t, b := s.current.ticket, s.body[:0]
	path, header := "", "Content-Type: application/json"
	fromBrowser := true

	switch s.number {
	case asking:
		path, b = "/api/v1/pow/config", fmt.Appendf(b, `{"sitekey":"%s"}`, s.run.sitekey)
	case exchanging:
		path, b = "/api/v1/pow/verify", fmt.Appendf(b, `{"sitekey":"%s","challenge":"%s","nonce":%d}`, s.run.sitekey, t.challenge.Challenge, t.nonce)
	default:
		fromBrowser = false
		path, b = "/api/v1/pow/siteverify", fmt.Appendf(b, `{"sitekey":"%s","secret":"%s","token":"%s"}`, s.run.sitekey, s.run.secret, t.token)

		// by the other door
		if s.current.again {
			path, header = "/siteverify", "Content-Type: application/x-www-form-urlencoded"
			b = fmt.Appendf(b[:0], "secret=%s&response=%s", s.run.secret, t.token)
		}
	}

	s.body = b
	s.request = fmt.Appendf(s.request[:0], "POST %s HTTP/1.1\r\nHost: %s\r\n%s\r\nAccept: */*\r\n", path, s.run.load.addr, header)

	if fromBrowser {
		s.request = fmt.Appendf(s.request, "Origin: https://www.%s\r\nUser-Agent: %s\r\nX-Forwarded-For: 10.%d.%d.1\r\n",
			captchaDomain, agents[t.network%len(agents)], t.network>>8, t.network&255)
	}

	s.request = append(fmt.Appendf(s.request, "Content-Length: %d\r\n\r\n", len(b)), b...)
	return s.request
}

func (s *stepSource) done(a answer, err error) {
	o := s.judge(a, err)
	s.mu.Lock()
	defer s.mu.Unlock()

	t := s.current.ticket
	if o == taken && !s.keep(t, a.body) {
		o = absurd
	}

	t.outcomes[s.number][o]++
	if o == absurd {
		s.run.surprises.add(fmt.Sprintf("%s: %d %.80s", stepNames[s.number], a.status, a.body))
	}
}

// judge reads an answer.
func (s *stepSource) judge(a answer, err error) outcome {
	says := func(text string) bool { return bytes.Contains(a.body, []byte(text)) }
	switch {
	case err != nil || a.status == 503 || s.number == redeeming && says(`"internal-error"`):
		return unknown
	case a.status == 429:
		return later
	case s.number == exchanging && a.status == 400:
		return repeated
	case a.status != 200:
		return absurd
	case s.number != redeeming:
		return taken
	case says(`"valid":true`), says(`"success":true`):
		return taken
	case says(`"quota_exceeded":true`), says(`"quota-exceeded"`):
		return later
	case says(`"valid":false`), says(`"timeout-or-duplicate"`):
		return repeated
	}

	return absurd
}

// keep keeps what a success brings, and reports whether it is what it should be.
func (s *stepSource) keep(t *ticket, body []byte) bool {
	switch s.number {
	case asking:
		return json.Unmarshal(body, &t.challenge) == nil && t.challenge.Challenge != ""
	case exchanging:
		var reply struct{ Token string }
		if json.Unmarshal(body, &reply) != nil || reply.Token == "" {
			return false
		}

		t.token = reply.Token
	}

	return true
}
