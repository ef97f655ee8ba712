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

	"github.com/tallygate/tallygate/dataplane/captcha/pow"
	"github.com/tallygate/tallygate/tools/loadgen/load"
	"github.com/tallygate/tallygate/tools/loadgen/target"
	"github.com/tallygate/tallygate/tools/loadgen/traffic"
)

// The steps of a ticket, in order.
const (
	Asking = iota
	Solving
	exchanging
	Redeeming
	stepCount
)

// StepNames are the names of the steps in reports.
var StepNames = [stepCount]string{"config", "solve", "verify", "siteverify"}

// Ticket is one challenge and the results of its steps. While a step runs, only that step uses it.
type Ticket struct {
	network   int
	Challenge pow.Challenge
	nonce     uint64
	Token     string

	outcomes [stepCount][outcomeCount]uint16 // attempts of each step by outcome
}

// outcome is the meaning of a response for its ticket.
type outcome int

const (
	taken    outcome = iota // success
	repeated                // refused because of an earlier success
	later                   // refused temporarily, nothing is consumed
	unknown                 // not known: no conclusive response
	absurd                  // a response that violates the contract
	outcomeCount
)

// Run drives the captcha's endpoints, step by step.
type Run struct {
	Sitekey, Secret string
	Load            load.Load // options of all steps
	Proxied         bool      // through a load balancer, which answers 502 or 504 for a server that ends during a call
	network         int       // of the next ticket

	Results    [stepCount]load.Result
	Verdict    Verdict
	Unexpected load.Counter
}

// NewRun returns a run against the data plane at addr with a sitekey and its secret.
func NewRun(addr, sitekey, secret string, l load.Load) *Run {
	l.Addr = addr
	// The server limits networks for minutes, across runs: start with a random one.
	return &Run{Sitekey: sitekey, Secret: secret, Load: l, network: rand.IntN(networkCount)}
}

// networkCount is the number of networks in 10.0.0.0/8, as the server groups addresses.
const networkCount = 1 << 16

// Obtain requests n challenges, solves them and exchanges them for tokens. It returns the tickets
// that have a token.
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
	r.run(ctx, exchanging, WithRepeats(tickets))
	tickets = having(tickets, func(t *Ticket) bool { return t.Token != "" })
	r.Verdict.Tokens += int64(len(tickets))

	return tickets
}

// Redeem verifies the tokens and returns the measurement. Temporary refusals have status 200 too,
// so failures are counted from the outcomes. The outcomes do not show when a call failed, so all
// failures count as measured.
func (r *Run) Redeem(ctx context.Context, attempts []Attempt) *load.Result {
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

// Attempt is one request for a ticket.
type Attempt struct {
	*Ticket
	again bool // repeats an earlier attempt
}

// Once returns one attempt for each ticket.
func Once(tickets []*Ticket) []Attempt {
	attempts := make([]Attempt, len(tickets))
	for i, t := range tickets {
		attempts[i].Ticket = t
	}
	return attempts
}

// WithRepeats returns two attempts for every fourth ticket and one for the others. Half of the
// repetitions follow immediately, half come at the end.
func WithRepeats(tickets []*Ticket) (attempts []Attempt) {
	var late []Attempt

	for i, t := range tickets {
		attempts = append(attempts, Attempt{Ticket: t})

		switch i % 8 {
		case 0:
			attempts = append(attempts, Attempt{t, true})
		case 4:
			late = append(late, Attempt{t, true})
		}
	}

	return append(attempts, late...)
}

// Solvers is the number of challenges that are solved concurrently.
func Solvers() int { return runtime.GOMAXPROCS(0) }

// Solve finds the nonces, and returns the tickets that have one.
func (r *Run) Solve(ctx context.Context, tickets []*Ticket) []*Ticket {
	began := time.Now()
	results := make([]load.Result, Solvers())
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
		r.Unexpected.Add(fmt.Sprintf("%d challenges without a solution", failed))
	}

	for i := range results {
		r.Results[Solving].Merge(&results[i])
	}

	r.Results[Solving].Merge(&load.Result{Answers: map[string]int64{"solved": int64(len(kept))}})
	r.Results[Solving].AddSince(began)
	return kept
}

// run makes the attempts of one step over all connections without pauses, and counts the outcomes
// of each ticket.
func (r *Run) run(ctx context.Context, number int, attempts []Attempt) *load.Result {
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
			r.Verdict.fault(&r.Verdict.Doubled, "%d of %d attempts of step %s succeeded", o[taken],
				o[taken]+o[repeated]+o[later]+o[unknown], StepNames[number])
		case o[taken] == 0 && o[later] == 0 && o[unknown] == 0 && ctx.Err() == nil:
			r.Verdict.fault(&r.Verdict.Lost, "no attempt of step %s succeeded", StepNames[number])
		}
	}

	return measured
}

// Rehearse sends the same requests to another server and ignores its responses.
func (r *Run) Rehearse(ctx context.Context, addr string, pid int, number int, attempts []Attempt) *load.Result {
	s := &step{run: r, number: number, attempts: attempts}
	l := r.Load
	l.Addr, l.Watched = addr, []int{pid}
	return l.Run(ctx, func(int) load.Source { return load.Requests((&stepSource{step: s}).Next) })
}

// step distributes the attempts of one step over the connections, in order.
type step struct {
	run      *Run
	number   int
	attempts []Attempt
	given    atomic.Int64
	mu       sync.Mutex // guards the tickets: two attempts may be in flight
}

// stepSource is the source of one connection in a step.
type stepSource struct {
	*step
	current       Attempt
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
		path, b = "/api/v1/pow/verify", fmt.Appendf(b, `{"sitekey":"%s","challenge":"%s","nonce":%d}`, s.run.Sitekey,
			t.Challenge.Challenge, t.nonce)
	default:
		fromBrowser = false
		path, b = "/api/v1/pow/siteverify",
			fmt.Appendf(b, `{"sitekey":"%s","secret":"%s","token":"%s"}`, s.run.Sitekey, s.run.Secret, t.Token)

		// The repetition uses the compatible endpoint.
		if s.current.again {
			path, header = "/siteverify", "Content-Type: application/x-www-form-urlencoded"
			b = fmt.Appendf(b[:0], "secret=%s&response=%s", s.run.Secret, t.Token)
		}
	}

	s.body = b
	headers := []string{header, "Accept: */*"}
	if fromBrowser {
		headers = append(headers, "Origin: https://www."+target.CaptchaDomain,
			"User-Agent: "+traffic.Agents[t.network%len(traffic.Agents)],
			fmt.Sprintf("X-Forwarded-For: 10.%d.%d.1", t.network>>8, t.network&255))
	}
	s.request = load.Post(s.request[:0], s.run.Load.Addr, path, b, headers...)
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

// judge returns the meaning of a response.
func (s *stepSource) judge(a load.Answer, err error) outcome {
	contains := func(text string) bool { return bytes.Contains(a.Body, []byte(text)) }
	switch {
	case s.run.Proxied && (a.Status == 502 || a.Status == 504):
		return unknown
	case err != nil || a.Status == 503 || s.number == Redeeming && contains(`"internal-error"`):
		return unknown
	case a.Status == 429:
		return later
	case s.number == exchanging && a.Status == 400:
		return repeated
	case a.Status != 200:
		return absurd
	case s.number != Redeeming:
		return taken
	case contains(`"valid":true`), contains(`"success":true`):
		return taken
	case contains(`"quota_exceeded":true`), contains(`"quota-exceeded"`):
		return later
	case contains(`"valid":false`), contains(`"timeout-or-duplicate"`):
		return repeated
	}

	return absurd
}

// keep stores the result of a success in the ticket, and reports whether the response was complete.
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
