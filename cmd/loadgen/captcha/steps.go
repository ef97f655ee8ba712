package captcha

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

	"github.com/tallygate/tallygate/cmd/loadgen/load"
	"github.com/tallygate/tallygate/cmd/loadgen/target"
	"github.com/tallygate/tallygate/cmd/loadgen/traffic"
	"github.com/tallygate/tallygate/dataplane/captcha/pow"
)

// The steps of a ticket's life, in their order.
const (
	Asking = iota
	solving
	exchanging
	Redeeming
	stepCount
)

var StepNames = [stepCount]string{"config", "solve", "verify", "siteverify"}

// Ticket is one challenge and what becomes of it. While a step runs, it belongs to the step.
type Ticket struct {
	network   int
	Challenge pow.Challenge
	nonce     uint64
	Token     string

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

// Run drives the captcha's endpoints, step by step.
type Run struct {
	Sitekey, Secret string
	Load            load.Load // what all steps have in common
	network         int       // of the next ticket

	Results    [stepCount]load.Result
	Verdict    Verdict
	Unexpected load.Unexpected
}

func NewRun(addr, sitekey, secret string, l load.Load) *Run {
	l.Addr = addr
	// Networks are told apart by the server for minutes, also from one run to the next.
	return &Run{Sitekey: sitekey, Secret: secret, Load: l, network: rand.IntN(networkCount)}
}

// networkCount is how many networks 10.0.0.0/8 has, as the server tells them apart.
const networkCount = 1 << 16

// Obtain asks for n challenges, solves them and exchanges them for tokens. It returns the tickets
// that have one.
func (r *Run) Obtain(ctx context.Context, n int) []*Ticket {
	tickets := make([]*Ticket, n)
	for i := range tickets {
		tickets[i] = &Ticket{network: r.network}
		r.network = (r.network + 1) % networkCount
	}

	r.run(ctx, Asking, Once(tickets))
	tickets = having(tickets, func(t *Ticket) bool { return t.Challenge.Challenge != "" })
	r.Verdict.Challenges += int64(len(tickets))
	tickets = r.Solve(ctx, tickets)
	r.run(ctx, exchanging, withRepeats(tickets))
	tickets = having(tickets, func(t *Ticket) bool { return t.Token != "" })
	r.Verdict.Tokens += int64(len(tickets))

	return tickets
}

// Redeem has the tokens verified, and returns what was measured. Also what is refused for now is
// answered with 200, so the attempts tell what failed, and not when: all of it is taken off what
// was measured.
func (r *Run) Redeem(ctx context.Context, attempts []attempt) *load.Result {
	measured := r.run(ctx, Redeeming, attempts)
	failed := int64(0)
	for _, a := range attempts {
		o := &a.outcomes[Redeeming]

		if a.again {
			continue
		}

		failed += int64(o[later] + o[unknown])

		if o[taken] > 0 {
			r.Verdict.Accepted++
		} else if o[unknown] > 0 {
			r.Verdict.Unknown++
		}
	}

	r.Results[Redeeming].Failed += failed - measured.Failed
	r.Results[Redeeming].Others += measured.Outside
	r.Results[Redeeming].Outside -= measured.Outside
	measured.Failed, measured.Others, measured.Outside = failed, measured.Others+measured.Outside, 0

	return measured
}

func having(tickets []*Ticket, has func(*Ticket) bool) (kept []*Ticket) {
	for _, t := range tickets {
		if has(t) {
			kept = append(kept, t)
		}
	}
	return kept
}

// attempt is one request for a ticket.
type attempt struct {
	*Ticket
	again bool // there is one before it
}

func Once(tickets []*Ticket) []attempt {
	attempts := make([]attempt, len(tickets))
	for i, t := range tickets {
		attempts[i].Ticket = t
	}
	return attempts
}

// withRepeats makes two attempts of each fourth ticket: half of these at the same moment, half much
// later.
func withRepeats(tickets []*Ticket) (attempts []attempt) {
	var late []attempt

	for i, t := range tickets {
		attempts = append(attempts, attempt{Ticket: t})

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

// Solve finds the nonces, and returns the tickets that have one.
func (r *Run) Solve(ctx context.Context, tickets []*Ticket) []*Ticket {
	began := time.Now()
	results := make([]load.Result, solvers())
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
				t.nonce, err = pow.Solve(t.Challenge)
				solved[n] = err == nil
				results[i].Latency.Add(time.Since(since))
			}
		})
	}

	wg.Wait()
	var kept []*Ticket
	for i, ok := range solved {
		if ok {
			kept = append(kept, tickets[i])
		}
	}

	if failed := len(tickets) - len(kept); failed > 0 && ctx.Err() == nil {
		r.Unexpected.Add(fmt.Sprintf("%d challenges that have no solution", failed))
	}

	for i := range results {
		r.Results[solving].Merge(&results[i])
	}

	r.Results[solving].Merge(&load.Result{Answers: map[string]int64{"solved": int64(len(kept))}})
	r.Results[solving].AddSince(began)
	return kept
}

// run makes the attempts of one step over all connections, as fast as the answers come, and judges
// the ticket of each that was made.
func (r *Run) run(ctx context.Context, number int, attempts []attempt) *load.Result {
	s := &step{run: r, number: number, attempts: attempts}
	l := r.Load
	measured := l.Run(ctx, func(int) load.Source { return &stepSource{step: s} })
	r.Results[number].Merge(measured)

	for _, a := range attempts[:min(int(s.given.Load()), len(attempts))] {
		o := &a.outcomes[number]

		if a.again {
			continue
		}

		r.Verdict.Repeats += int64(o[repeated])
		r.Verdict.Later += int64(o[later])

		switch {
		case o[taken] > 1:
			r.Verdict.fault(&r.Verdict.Doubled, "%d of %d attempts to %s succeed", o[taken], o[taken]+o[repeated]+o[later]+o[unknown], StepNames[number])
		case o[taken] == 0 && o[later] == 0 && o[unknown] == 0 && ctx.Err() == nil:
			r.Verdict.fault(&r.Verdict.Lost, "no attempt to %s succeeds, nor did one before", StepNames[number])
		}
	}

	return measured
}

// Rehearse makes the same requests of another server, which answers as it likes: nothing is learned
// from it.
func (r *Run) Rehearse(ctx context.Context, addr string, pid int, number int, attempts []attempt) *load.Result {
	s := &step{run: r, number: number, attempts: attempts}
	l := r.Load
	l.Addr, l.Watched = addr, []int{pid}
	return l.Run(ctx, func(int) load.Source { return rehearsal{&stepSource{step: s}} })
}

// rehearsal is one connection's part of a step whose answers do not matter.
type rehearsal struct{ *stepSource }

func (rehearsal) Done(load.Answer, error) {}

// step hands the attempts of one step to the connections, in their order.
type step struct {
	run      *Run
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

func (s *stepSource) Next() []byte {
	n := int(s.given.Add(1)) - 1
	if n >= len(s.attempts) {
		return nil
	}

	s.current = s.attempts[n]
	t, b := s.current.Ticket, s.body[:0]
	path, header := "", "Content-Type: application/json"
	fromBrowser := true

	switch s.number {
	case Asking:
		path, b = "/api/v1/pow/config", fmt.Appendf(b, `{"sitekey":"%s"}`, s.run.Sitekey)
	case exchanging:
		path, b = "/api/v1/pow/verify", fmt.Appendf(b, `{"sitekey":"%s","challenge":"%s","nonce":%d}`, s.run.Sitekey, t.Challenge.Challenge, t.nonce)
	default:
		fromBrowser = false
		path, b = "/api/v1/pow/siteverify", fmt.Appendf(b, `{"sitekey":"%s","secret":"%s","token":"%s"}`, s.run.Sitekey, s.run.Secret, t.Token)

		// by the other door
		if s.current.again {
			path, header = "/siteverify", "Content-Type: application/x-www-form-urlencoded"
			b = fmt.Appendf(b[:0], "secret=%s&response=%s", s.run.Secret, t.Token)
		}
	}

	s.body = b
	s.request = fmt.Appendf(s.request[:0], "POST %s HTTP/1.1\r\nHost: %s\r\n%s\r\nAccept: */*\r\n", path, s.run.Load.Addr, header)

	if fromBrowser {
		s.request = fmt.Appendf(s.request, "Origin: https://www.%s\r\nUser-Agent: %s\r\nX-Forwarded-For: 10.%d.%d.1\r\n",
			target.CaptchaDomain, traffic.Agents[t.network%len(traffic.Agents)], t.network>>8, t.network&255)
	}

	s.request = append(fmt.Appendf(s.request, "Content-Length: %d\r\n\r\n", len(b)), b...)
	return s.request
}

func (s *stepSource) Done(a load.Answer, err error) {
	o := s.judge(a, err)
	s.mu.Lock()
	defer s.mu.Unlock()

	t := s.current.Ticket
	if o == taken && !s.keep(t, a.Body) {
		o = absurd
	}

	t.outcomes[s.number][o]++
	if o == absurd {
		s.run.Unexpected.Add(fmt.Sprintf("%s: %d %.80s", StepNames[s.number], a.Status, a.Body))
	}
}

// judge reads an answer.
func (s *stepSource) judge(a load.Answer, err error) outcome {
	says := func(text string) bool { return bytes.Contains(a.Body, []byte(text)) }
	switch {
	case err != nil || a.Status == 503 || s.number == Redeeming && says(`"internal-error"`):
		return unknown
	case a.Status == 429:
		return later
	case s.number == exchanging && a.Status == 400:
		return repeated
	case a.Status != 200:
		return absurd
	case s.number != Redeeming:
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
func (s *stepSource) keep(t *Ticket, body []byte) bool {
	switch s.number {
	case Asking:
		return json.Unmarshal(body, &t.Challenge) == nil && t.Challenge.Challenge != ""
	case exchanging:
		var reply struct{ Token string }
		if json.Unmarshal(body, &reply) != nil || reply.Token == "" {
			return false
		}

		t.Token = reply.Token
	}

	return true
}
